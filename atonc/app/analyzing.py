"""A model compiled and weighed: everything that files, reports and sweeps are made of."""

from __future__ import annotations

from pathlib import Path

from atonc import progress
from atonc.compile_view import CompileView
from atonc.cost.macs import graph_macs
from atonc.emit import write
from atonc.errors import plain
from atonc.insight import reproduce
from atonc.options import Options
from atonc.pipeline import Watch, compile_file, no_watch


def analyze(model: Path, options: Options, name: str = "network", watch: Watch = no_watch) -> CompileView:
    write.check_name(name)
    compiled = compile_file(model, options, watch)
    progress.stage("counting cycles")
    cost = compiled.cost
    reproduced = reproduce.block(model, options, name, cost)
    macs = graph_macs(compiled.graph)
    return CompileView(plain(model.name), name, compiled.memory, compiled, cost, macs, options, reproduced)
