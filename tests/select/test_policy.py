"""What is worth what: each rule at the border where it changes its answer."""

from __future__ import annotations

from atonc.compiler.plan import policy
from atonc.compiler.plan.policy import CHEAP, CLOSER, ERROR_CODE_CYCLES, FEW_CYCLES, HUGE_SHARES, SPILLING, NpuRamBudget
from atonc.machine.hw.machine import stm32n6

LARGE, SMALL = 100 * FEW_CYCLES, FEW_CYCLES // 4


def test_a_better_form_may_take_a_share_longer_or_a_few_cycles_whichever_is_more() -> None:
    assert policy.affordable(CHEAP * LARGE, LARGE) and not policy.affordable(1.01 * CHEAP * LARGE, LARGE)
    assert policy.affordable(SMALL + FEW_CYCLES, SMALL) and not policy.affordable(SMALL + 1.01 * FEW_CYCLES, SMALL)


def test_a_form_is_closer_where_a_good_part_of_the_error_is_gone() -> None:
    assert policy.closer(0.99 * CLOSER, 1.0) and not policy.closer(1.01 * CLOSER, 1.0) and not policy.closer(0.0, 0.0)


def test_cycles_and_error_are_weighed_together() -> None:
    assert policy.worth(90, 1.0, 100, 1.0), "faster and no worse"
    assert not policy.worth(90, 1.1, 100, 1.0), "faster and worse"
    assert not policy.worth(100, 1.0, 100, 1.0), "the same"
    assert policy.worth(110, 0.5, 100, 1.0), "a little slower and much closer"
    assert not policy.worth(2 * LARGE, 0.5, LARGE, 1.0), "much slower"


def test_error_and_memory_are_paid_in_cycles() -> None:
    machine = stm32n6()
    plain = policy.objective(1000, 0.0, 0, machine)
    assert plain == 1000
    assert policy.objective(1000, 0.5, 0, machine) - plain == 0.5 * ERROR_CODE_CYCLES
    out_and_back = 2 * machine.hyperram_byte_cycles
    assert policy.objective(1000, 0.0, 100, machine) - plain == 100 * SPILLING * out_and_back


def test_room_is_all_of_the_npu_ram_and_shrinks_in_turn() -> None:
    machine = stm32n6()
    room = policy.whole_room(machine)
    assert room.npu_ram_bytes == sum(bank.size_bytes for bank in machine.npu_ram)
    tighter = list(room.tighter())
    assert [one.huge_share for one in tighter] == list(HUGE_SHARES)
    assert all(one.large_bytes <= one.huge_bytes <= one.half_bytes for one in tighter)
    assert tighter[-1].large_bytes == tighter[-1].huge_bytes < NpuRamBudget(room.npu_ram_bytes).large_bytes
