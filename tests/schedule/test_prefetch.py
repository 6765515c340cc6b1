"""Weights fetched ahead: the same results, every copy whole before it is read; planted faults are found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.types import Buffer, BufferKind, EpochPlan, Ride
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import check_copies
from atonc.compiler.schedule.prefetch import with_copies
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.base.errors import InputError
from tests.compiler.random_graphs import random_graph, random_inputs
from tests.place.plans import Steps

PLAIN = Options(verify=False)
AHEAD = replace(PLAIN, schedule_with=("prefetch",))
COPY = "weights (prefetched)"
Rides = dict[int, list[Ride]]


def test_the_same_results_and_never_slower() -> None:
    graph = random_graph(24)
    before, after = compile_graph(graph, PLAIN), compile_graph(graph, AHEAD)
    assert after.layout.memory.prefetched_bytes > 0 and after.layout.peak_bytes == before.layout.peak_bytes
    copies = [home for home in after.layout.placed.values() if home.buffer.kind == BufferKind.PREFETCHED]
    assert copies and all(home.first < home.last and not home.buffer.data for home in copies)
    costs = [one.cost.cycles for one in (before, after)]
    assert costs[1] < costs[0]
    values = random_inputs(before.graph, 1)
    results = [Emulation(one.program, one.graph).run(values) for one in (before, after)]
    assert all(np.array_equal(results[0][name], results[1][name]) for name in graph.outputs)


def test_beside_weights_that_stay() -> None:
    graph = random_graph(24)
    before, after = compile_graph(graph, PLAIN), compile_graph(graph, replace(AHEAD, resident="2k"))
    assert after.layout.memory.prefetched_bytes > 0 and 0 < after.layout.memory.resident_bytes <= 2048
    values = random_inputs(before.graph, 2)
    results = [Emulation(one.program, one.graph).run(values) for one in (before, after)]
    assert all(np.array_equal(results[0][name], results[1][name]) for name in graph.outputs)


def steps() -> tuple[Steps, Buffer]:
    """Three epochs; the last one reads weights."""
    found = Steps()
    found.buffer("in", 256, BufferKind.INPUT)
    found.buffer("weights", 128, BufferKind.CONSTANT)
    for name in ("a", "b"):
        found.buffer(name, 256)
    found.buffer("out", 256, BufferKind.OUTPUT)
    found.epoch(["in"], ["a"])
    found.epoch(["a"], ["b"])
    found.epoch(["b", "weights"], ["out"])
    return found, found.buffers["weights"]


def ride(offset: int, size: int) -> Ride:
    return Ride("weights", COPY, offset, size)


def rules(rides: Rides, change: Callable[[EpochPlan], EpochPlan] | None = None) -> set[str]:
    made, weights = steps()
    plans = list(with_copies(made.plans, rides))
    if change is not None:
        first = plans[0]
        assert isinstance(first, EpochPlan)
        plans[0] = change(first)
    return {finding.rule for finding in check_copies.check(made.plans, plans, {COPY: weights})}


def test_copies_in_parts_are_sound() -> None:
    assert not rules({0: [ride(64, 64)], 1: [ride(0, 64)]})
    assert not rules({0: [ride(0, 64), ride(64, 64)]})
    plans = with_copies(steps()[0].plans, {1: [ride(0, 128)]})
    assert COPY in plans[2].reads() and "weights" not in plans[2].reads()


@pytest.mark.parametrize(
    ("rides", "rule"),
    [
        ({0: [ride(0, 64)]}, check_copies.WHOLE),  # a part is missing
        ({1: [ride(0, 64)], 2: [ride(64, 64)]}, check_copies.WHOLE),  # copied while it is read
        ({0: [ride(0, 128)], 1: [ride(64, 64)]}, check_copies.ONCE),
    ],
)
def test_copies_at_the_wrong_time(rides: Rides, rule: str) -> None:
    assert rule in rules(rides)


def test_copies_of_other_bytes_and_changed_work() -> None:
    def elsewhere(plan: EpochPlan) -> EpochPlan:
        name = list(plan.engines)[-1]
        moved = replace(plan.engines[name], config=contiguous(64, write=True, offset=64))
        return replace(plan, engines={**plan.engines, name: moved})

    def lost(plan: EpochPlan) -> EpochPlan:
        return replace(plan, engines=dict(list(plan.engines.items())[1:]))

    def crowded(plan: EpochPlan) -> EpochPlan:
        more = {f"STRENG{k}": replace(plan.engines["STRENG0"], buffer="in") for k in range(2, 11)}
        return replace(plan, engines={**plan.engines, **more})

    assert check_copies.COUNTS in rules({1: [ride(0, 128)]}, crowded)
    assert check_copies.COPY in rules({0: [ride(0, 64)], 1: [ride(64, 64)]}, elsewhere)
    assert check_copies.SAME in rules({0: [ride(0, 128)]}, lost)


def test_options_say_what_is_unproven() -> None:
    with pytest.raises(InputError, match="no pass"):
        Options(schedule_with=("pack",))
    with pytest.raises(InputError, match="not in ST programs"):
        Options(schedule_with=("prefetch",), silicon="seen")
