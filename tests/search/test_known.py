"""A network that is compiled again begins with the forms that it had, and ends with the same bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.emit import write
from atonc.compiler.ir import Graph
from atonc.compiler.lower.map_ops import Mapped
from atonc.compiler.request.options import Options
from atonc.compiler.search import build, known
from tests.compiler.golden_graphs import Sketch

PLAIN = Options(verify=False)


def network(channels: int = 16) -> Graph:
    net = Sketch().start(1, 24, 24, 8)
    net.conv(channels, kernel=(3, 3))
    net.conv(channels)
    return net.graph()


def bytes_of(compiled: Compiled) -> str:
    return write.assembly(compiled.program, "network") + str(sorted(compiled.layout.placed))


def fresh(graph: Graph, options: Options, monkeypatch: pytest.MonkeyPatch) -> Compiled:
    monkeypatch.setattr(known, "_last", None)
    return compile_graph(graph, options)


@pytest.mark.parametrize(
    "options",
    [PLAIN, replace(PLAIN, prefer="memory"), replace(PLAIN, resident="all"), replace(PLAIN, epoch_controller=False)],
    ids=["the same", "memory", "resident", "driver"],
)
def test_the_same_bytes_as_the_first_time(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = bytes_of(fresh(network(), options, monkeypatch))
    fresh(network(), PLAIN, monkeypatch)
    fresh_again = compile_graph(network(), options)
    assert bytes_of(fresh_again) == expected
    assert bytes_of(compile_graph(network(), options)) == expected


def test_operators_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[str] = []
    original = build.map_ops

    def counted(*given: Any) -> Mapped:
        lowered.extend(["anew"] if len(given) < 4 else [])  # not from another candidate
        return original(*given)

    monkeypatch.setattr(build, "map_ops", counted)
    monkeypatch.setattr(known, "_last", None)
    for options in (PLAIN, replace(PLAIN, seed=1), PLAIN):
        compile_graph(network(), options)
        assert len(lowered) == 1
    compile_graph(network(), replace(PLAIN, epoch_controller=False))
    assert len(lowered) == 2, "cycles are others"
    for options in (replace(PLAIN, prefer="memory"), PLAIN):
        compile_graph(network(), options)
        assert len(lowered) == 3, "no form makes the peak higher"
    for options in (replace(PLAIN, resident="all"), replace(PLAIN, resident="64K"), PLAIN):
        compile_graph(network(), options)
        assert len(lowered) == 3, "what is lowered for kernels in RAM comes from what is known"
    compile_graph(network(24), PLAIN)
    compile_graph(network(), PLAIN)
    assert len(lowered) == 5, "one network is kept"
