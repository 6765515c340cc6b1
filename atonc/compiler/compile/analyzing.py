"""A model compiled and weighed: everything that files, reports and sweeps are made of."""

from __future__ import annotations

from pathlib import Path

from atonc.compiler.compile import reproduce
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import Compiled, Watch, compile_file, no_watch
from atonc.compiler.emit import write
from atonc.compiler.ops.macs import graph_macs
from atonc.compiler.request.options import Options
from atonc.machine.base import progress
from atonc.machine.base.errors import plain


def analyze(model: Path, options: Options, name: str = "network", watch: Watch = no_watch) -> CompileView:
    write.check_name(name)
    return view_of(compile_file(model, options, watch), model, options, name)


def view_of(compiled: Compiled, model: Path, options: Options, name: str = "network") -> CompileView:
    progress.stage("counting cycles")
    cost = compiled.cost
    reproduced = reproduce.block(model, options, name, cost)
    macs = graph_macs(compiled.graph)
    return CompileView(plain(model.name), name, compiled.memory, compiled, cost, macs, options, reproduced, path=model)
