"""One convolution on several chains of units: the same bits, sooner, in forms that published programs have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.safety.evidence import Grade
from tests.compiler.golden_graphs import Sketch

ON = Options(verify=False, schedule_without=("pack",))
MANY = Options(verify=False, schedule_without=("pack",), schedule_with=("many-writers",))


def layer(shape: tuple[int, int, int], outputs: int, kernel: int = 1, stride: int = 1, zero: int = -5) -> Graph:
    sketch = Sketch().start(1, *shape, zero=zero)
    sketch.conv(outputs, (kernel, kernel), stride)
    return sketch.graph()


def chains(compiled: Compiled) -> list[list[int]]:
    """CONVACCs of every task of every epoch."""
    steps = compiled.scheduled.schedule.steps
    return [[task.kinds().count("CONVACC") for task in step.tasks] for step in steps if hasattr(step, "tasks")]


def cycles(compiled: Compiled) -> int:
    return compiled.cost.cycles


def both(graph: Graph, on: Options = ON) -> tuple[Compiled, Compiled]:
    """Without lanes and with them: equal outputs, nothing unseen."""
    found = compile_graph(graph, replace(on, schedule_without=("lanes", "pack"))), compile_graph(graph, on)
    inputs = make_inputs(graph, 3)
    before, after = (Emulation(one.program, one.graph).run(inputs) for one in found)
    assert all(np.array_equal(before[name], after[name]) for name in graph.outputs)
    assert all(grade.grade.rank <= Grade.COMPOSED.rank for one in found for grade in one.grades)
    assert not any(one.choices.reasons for one in found)
    return found


LANES: dict[str, tuple[Callable[[], Graph], list[list[int]]]] = {
    "groups of kernels": (lambda: layer((28, 28, 16), 96), [[1, 1, 1]]),
    "rows of every second line, two units a lane": (lambda: layer((64, 64, 8), 8, 3, 2), [[2, 2]]),
    "other units in a lane than in one chain": (lambda: layer((28, 28, 96), 144, zero=0), [[1, 1, 1]]),
}


@pytest.mark.parametrize("name", LANES)
def test_lanes_are_faster_and_give_the_same_bits(name: str) -> None:
    make, expected = LANES[name]
    before, after = both(make(), MANY)
    assert all(len(epoch) == 1 for epoch in chains(before))
    assert chains(after) == expected
    assert cycles(after) < cycles(before)


def test_two_lanes_of_kernels_or_three_of_rows_unless_more_are_asked_for() -> None:
    before, after = both(LANES["other units in a lane than in one chain"][0]())
    assert max(map(len, chains(after))) == 2 and cycles(after) < cycles(before)
    assert chains(both(LANES["groups of kernels"][0]())[1]) == [[1, 1, 1]]  # of rows


def test_no_rows_that_are_padded_on_one_side_with_stride_1() -> None:
    before, after = both(layer((32, 32, 3), 8, 3))
    assert chains(before) == chains(after) == [[1]]


def test_lanes_do_not_help_where_the_flash_is_the_limit() -> None:
    before, after = both(layer((4, 4, 64), 256))
    assert chains(before) == chains(after)


def test_only_seen_sets_of_chains_with_silicon_seen() -> None:
    graph = layer((28, 28, 16), 96)
    strict = compile_graph(graph, Options(verify=False, silicon="seen"))
    assert not strict.choices.reasons and any(len(epoch) > 1 for epoch in chains(strict))
    assert all(one.grade.rank <= Grade.WITHIN.rank for one in strict.grades)
