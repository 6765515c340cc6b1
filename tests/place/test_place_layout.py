"""Whole layouts: sound by the independent check, in the right memories, and explained when they do not fit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.compiler.place import BoardMemory, Layout, board, place
from atonc.compiler.place.check import check
from atonc.compiler.place.explain import PlacementError
from atonc.compiler.plan.types import BufferKind
from tests.place.plans import Steps, chain, random_steps

DK, NUCLEO = board("STM32N6570-DK"), board("nucleo-n657x0-q")


def layout_of(steps: Steps, where: BoardMemory = DK, **options: Any) -> Layout:
    layout = place(steps.planned, where, **options)
    assert check(layout.placed, steps.plans, where, steps.aliases, steps.inputs, steps.outputs) == []
    return layout


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 60), st.sampled_from([500, 40_000, 200_000]))
def test_random_networks_get_sound_layouts(seed: int, count: int, largest: int) -> None:
    layout = layout_of(random_steps(seed, count, largest))
    assert layout.lower_bound_bytes <= layout.peak_bytes


def test_a_network_that_fits_the_fast_memory_lies_there() -> None:
    steps = random_steps(1, 20, 100_000)
    layout = layout_of(steps)
    assert all(h.address >= 0x3420_0000 for h in layout.placed.values())
    assert layout.spilled_bytes == 0
    assert {h.pool for h in layout.placed.values() if h.buffer.kind == BufferKind.CONSTANT} == {"octoFlash"}


def test_neighbouring_memories_serve_as_one() -> None:
    steps = chain(1000, 1_400_000, 1_400_000, 1000)
    layout = layout_of(steps, NUCLEO)
    assert layout.spilled_bytes == 0
    assert any("cpuRAM2_npuRAM3" in h.pool for h in layout.placed.values())
    assert layout.memory.by_pool["cpuRAM2"] <= 1_400_000 * 2 - 1_792 * 1024 + 256


def test_what_the_chip_cannot_hold_goes_to_external_memory() -> None:
    layout = layout_of(chain(1000, 2_000_000, 2_000_000, 1000))
    assert layout.spilled_bytes == 2_000_000
    assert "hyperRAM" in layout.cached_pools


def test_a_board_that_is_too_small_says_why() -> None:
    with pytest.raises(PlacementError) as caught:
        layout_of(chain(1000, 2_000_000, 2_000_000, 1000), NUCLEO)
    shortage = caught.value.shortage
    assert shortage.demand_bytes == 4_000_000 and shortage.peak_step == 1
    assert [b.name for b in shortage.live] == ["t1", "t2"]
    assert shortage.live[0].written_by == "layer0" and shortage.live[0].read_by == ("layer1",)
    assert "4,000,000 bytes" in str(caught.value) and shortage.levers


def test_too_long_a_state_says_what_to_shorten() -> None:
    steps = chain(1000, 2_000_000, 2_000_000, 1000)
    steps.epoch([steps.buffer("kept", 9_000_000, BufferKind.STATE)], [steps.buffer("y", 10, BufferKind.OUTPUT)])
    with pytest.raises(PlacementError, match="keep shorter states"):
        layout_of(steps, NUCLEO)


@pytest.mark.parametrize(("source", "enough"), [(500_000, False), (3_000_000, True)])
def test_a_lever_is_enough_where_it_closes_the_gap(source: int, enough: bool) -> None:
    with pytest.raises(PlacementError) as caught:
        layout_of(chain(source, 5_000_000 - source, 1000), NUCLEO)
    shortage = caught.value.shortage
    (lever,) = [one for one in shortage.levers if "--no-inputs-allocation" in one.what]
    assert lever.gain_bytes == source and lever.enough == enough == (source >= shortage.gap_bytes)
    assert shortage.levers[0].enough, "those that are enough come first"
