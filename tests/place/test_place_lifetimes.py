"""Lifetimes: from the first to the last use, edges of the network, shared memory."""

from __future__ import annotations

import pytest

from atonc.compiler.place.lifetimes import Lifetime, lifetimes
from atonc.compiler.plan.types import Buffer, BufferKind, EpochPlan
from atonc.machine.base.errors import ModelError
from tests.place.plans import Steps, chain


def lives(steps: Steps, exclude: tuple[str, ...] = ()) -> dict[str, Lifetime]:
    found = lifetimes(steps.planned, exclude)
    return {life.buffer.name: life for life in found}


def test_a_buffer_lives_from_its_first_to_its_last_use() -> None:
    found = lives(chain(100, 200, 300, 400))
    assert {name: (life.first, life.last) for name, life in found.items()} == {
        "t0": (0, 0),
        "t1": (0, 1),
        "t2": (1, 2),
        "t3": (2, 2),
    }
    assert found["t1"].traffic_bytes == 400 and found["t1"].padded_bytes == 208
    assert found["t0"].alignment == 32 and found["t1"].alignment == 16


def test_inputs_wait_from_the_start_and_outputs_stay_to_the_end() -> None:
    steps = chain(100, 200, 300)
    steps.buffer("late", 50, BufferKind.INPUT)
    steps.buffer("early", 50, BufferKind.OUTPUT)
    steps.epoch(["late"], ["early"])
    steps.epoch(["t1"], ["t2"])
    found = lives(steps)
    assert (found["late"].first, found["late"].last) == (0, 2)
    assert (found["early"].first, found["early"].last) == (2, 3)
    assert (found["t1"].first, found["t1"].last) == (0, 3)


@pytest.mark.parametrize("where", ["read", "written", "by the CPU"])
def test_a_buffer_that_nobody_declared_is_named(where: str) -> None:
    steps = chain(100, 200)
    if where == "by the CPU":
        steps.cpu(["t1", "ghost"], ["t0"])
    else:
        steps.buffer("ghost", 100)
        steps.epoch(*((["ghost"], ["t1"]) if where == "read" else (["t1"], ["ghost"])))
        del steps.buffers["ghost"]
    with pytest.raises(ModelError, match=r"ghost.*undeclared buffer"):
        lives(steps)


def test_names_that_share_memory_are_one_buffer() -> None:
    steps = chain(100, 200, 300, 400)
    steps.buffers["view"] = Buffer("view", 250, BufferKind.ACTIVATION)
    steps.aliases["view"] = "t1"
    steps.cpu(["view"], ["t3"])
    found = lives(steps)
    assert "view" not in found
    assert found["t1"].members == ("t1", "view") and found["t1"].buffer.size_bytes == 250
    assert (found["t1"].first, found["t1"].last, found["t1"].alignment) == (0, 3, 32)


def test_buffers_of_the_user_and_unused_ones_are_left_out() -> None:
    steps = chain(100, 200, 300)
    steps.buffer("unused", 10)
    assert set(lives(steps)) == {"t0", "t1", "t2"}
    assert set(lives(steps, exclude=("t0", "t2"))) == {"t1"}


def test_an_engine_that_starts_in_between_keeps_its_buffer_in_the_npu_ram() -> None:
    steps = chain(100, 200, 300)
    steps.buffer("odd", 64)
    steps.epoch(["t1"], ["odd"], offset=8)  # a read may start at 8, a write may not
    found = lives(steps)
    assert found["odd"].npu_ram_only and not found["t1"].npu_ram_only


def test_constants_live_always_and_scratch_of_an_epoch_in_it() -> None:
    steps = chain(100, 200, 300)
    steps.buffer("weights", 33, BufferKind.CONSTANT)
    steps.epoch(["t1", "weights"], ["t2"])
    last = steps.plans[-1]
    assert isinstance(last, EpochPlan)
    scratch = Buffer("sums", 64, BufferKind.SCRATCH)
    engines = {**last.engines, "STRENG7": type(last.engines["STRENG0"])("sums", last.engines["STRENG2"].config)}
    steps.plans[-1] = EpochPlan(last.origin, last.title, {}, engines, (), (scratch,))
    found = lives(steps)
    assert (found["weights"].first, found["weights"].last) == (0, 2)
    assert (found["sums"].first, found["sums"].last) == (2, 2)


def test_broken_plans_are_named() -> None:
    steps = chain(100, 200, 300)
    steps.aliases |= {"t1": "t2", "t2": "t1"}
    with pytest.raises(ModelError, match="circle"):
        lives(steps)
    steps = chain(100, 200, 300)
    del steps.buffers["t1"]
    with pytest.raises(ModelError, match="t1"):
        lives(steps)
