"""Small models, compiled and written as C."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest

from atonc.compiler.compile import pipeline
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.ir import Graph
from atonc.compiler.place import BoardMemory, board
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
GCC = "arm-none-eabi-gcc"
needs_compiler = pytest.mark.skipif(shutil.which(GCC) is None, reason=f"{GCC} is not installed")


def view_of(
    graph: Graph, name: str = "network", options: Options | None = None, memory: BoardMemory | None = None
) -> CompileView:
    """A graph all the way to what is written."""
    options = options or Options(verify=False)
    compiled = pipeline.compile_graph(graph, options)
    return CompileView("model.tflite", name, memory or compiled.memory, compiled, compiled.cost, 0, options)


def digits(name: str = "network", **options: object) -> CompileView:
    return generating.analyze(DIGITS, Options(verify=False, **options), name)  # type: ignore[arg-type]


@cache
def steps_of_digits() -> int:
    """Epochs, and the softmax on the processor behind them: how many changes with the schedule."""
    return len(digits().compiled.program.steps)


def network_of(view: CompileView) -> CNetwork:
    return generating.c_network(view)


def default_board() -> BoardMemory:
    return board("stm32n6570-dk")
