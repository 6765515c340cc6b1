"""`prefer="speed"`: banks are kept apart without more memory, and slow memory is for what moves least."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.compiler.place import Layout, board, packing, place, solve
from atonc.compiler.place.check import check
from atonc.compiler.place.cost import Meter, Traffic, traffic_of
from atonc.compiler.place.greedy import PackItem, Problem, extent_of, pack
from atonc.compiler.place.lifetimes import lifetimes
from atonc.compiler.place.pools import PoolWindow
from atonc.compiler.plan import streams
from atonc.compiler.plan.task import EngineUse
from atonc.compiler.plan.types import BufferKind, EpochPlan
from tests.place.plans import Steps, chain, random_steps

DK = board("stm32n6570-dk")


def wide(*sizes: int, engines: int = 4) -> Steps:
    """A chain in which several engines share every read and every write: one bank cannot keep up."""
    steps = chain(*sizes)
    for number, plan in enumerate(steps.plans):
        assert isinstance(plan, EpochPlan)
        uses: dict[str, EngineUse] = {}
        for use in plan.engines.values():
            part = steps.buffers[use.buffer].size_bytes // engines // 16 * 16
            for k in range(engines):
                config = streams.contiguous(part, write=bool(use.config.to_memory), offset=k * part)
                uses[f"STRENG{len(uses)}"] = EngineUse(use.buffer, config)
        steps.plans[number] = EpochPlan(plan.origin, plan.title, {}, uses, ())
    return steps


def placed(steps: Steps, prefer: str) -> Layout:
    layout = place(steps.planned, DK, prefer)
    assert not check(layout.placed, steps.plans, DK, steps.aliases, steps.inputs, steps.outputs)
    return layout


def cycles(steps: Steps, layout: Layout) -> tuple[float, float]:
    found = lifetimes(steps.planned)
    ram = [life for life in found if life.buffer.kind != BufferKind.CONSTANT]
    traffic = traffic_of(steps.plans, steps.buffers, steps.aliases, ram, DK)
    addresses = [layout.placed[life.buffer.name].address for life in ram]
    meter = Meter(traffic, DK, [life.padded_bytes for life in ram], addresses)
    return meter.cycles, sum(traffic.floor)


def test_a_buffer_lies_on_both_sides_of_a_border_in_the_same_space() -> None:
    steps = wide(64_000, 16_000, 64_000, 16_000, engines=8)
    small, fast = placed(steps, "memory"), placed(steps, "speed")
    assert fast.peak_bytes == small.peak_bytes == small.lower_bound_bytes == 80_000
    (slow_cycles, floor), (fast_cycles, _) = cycles(steps, small), cycles(steps, fast)
    assert slow_cycles == pytest.approx(1.17 * floor)  # 8 bytes per cycle of a bank that takes 1.17 for them
    assert fast_cycles == pytest.approx(floor)


def test_speed_never_costs_memory_nor_cycles() -> None:
    for seed in range(12):
        steps = random_steps(seed, 25, 90_000)
        small, fast = placed(steps, "memory"), placed(steps, "speed")
        assert fast.peak_bytes <= small.peak_bytes
        assert cycles(steps, fast)[0] <= cycles(steps, small)[0] + 1e-6


def test_what_stays_on_the_chip_beside_spills_is_spread_over_banks(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (64_000, 16_000, 64_000, 16_000), (900_000, 900_000)
    for sizes in ((3_000_000, 3_000_000, *small), (3_000_000, 3_000_000, *small, *large)):
        steps = wide(*sizes, engines=8)
        fast = placed(steps, "speed")
        with monkeypatch.context() as changed:
            changed.setattr(packing, "spread", lambda problem, addresses, *rest: addresses)
            packed = placed(steps, "speed")
        assert fast.spilled_bytes == packed.spilled_bytes > 0
        assert cycles(steps, fast)[0] < cycles(steps, packed)[0]
        assert fast.peak_bytes <= packed.peak_bytes


def test_the_meter_follows_moves() -> None:
    traffic = Traffic(({(0, False): 800, (1, False): 800}, {(1, True): 800}), (100.0, 100.0), {0: (0,), 1: (0, 1)})
    meter = Meter(traffic, DK, [800, 800], [0x3420_0000, 0x3421_0000])
    assert meter.cycles == 234 + 117
    assert meter.changes(0, [0x3427_0000, 0x3420_0000]).tolist() == [-117, 0]
    meter.move(0, 0x3427_0000)
    assert meter.cycles == 117 + 117 and meter.bound_items() == [0, 1]
    assert meter.changes(1, [0x3410_0000]).tolist() == [500 - 234]
    assert not meter.at_floor


def test_memories_are_as_fast_as_on_the_machine() -> None:
    slow = replace(DK, machine=DK.machine.with_clocks(npu_mhz=400, flash_mb_per_s=100))
    traffic = Traffic(({(0, False): 800}, {(0, False): 800}), (10.0, 10.0), {0: (0, 1)})
    cycles = [Meter(traffic, board, [800], [0x3420_0000]).cycles for board in (DK, slow)]
    assert cycles == pytest.approx([234, 0.9 * 234])  # of the NPU: its RAM is no slower than it at 400 MHz
    flash = [board.byte_cycles(board.read_only[0]) for board in (DK, slow)]
    assert flash == [2.5, 4.0]  # not the 6 cycles of ST's pool files


def test_buffers_of_the_application_take_no_memory() -> None:
    steps = chain(50_000, 20_000, 60_000)
    own = place(steps.planned, DK, user_allocated=("t0", "t2"))
    assert own.peak_bytes == 20_000
    assert own.placed["t0"].pool == own.placed["t2"].pool == "user"
    assert own.placed["t0"].end <= own.placed["t2"].address
    assert not check(own.placed, steps.plans, DK, {}, steps.inputs, steps.outputs)


SCRIPT = """
from atonc.compiler.place import board, place
from tests.place.plans import random_steps
s = random_steps(11, 60, 60_000)
layout = place(s.planned, board("dk"))
import hashlib
print(hashlib.sha256(repr([(n, p.address) for n, p in layout.placed.items()]).encode()).hexdigest())
"""


def test_hash_seeds_do_not_matter() -> None:
    root = Path(__file__).parents[2]
    digests = set()
    for seed in ("0", "1", "77"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True, cwd=root
        )
        digests.add(done.stdout)
    assert len(digests) == 1


def skip_blocks() -> Problem:
    items = [PackItem(41120, 0, 0), PackItem(10288, 0, 4)]
    for step in range(0, 20, 4):
        items += [
            PackItem(20480, step + 1, step + 2),
            PackItem(20480, step + 2, step + 3),
            PackItem(10288, step + 3, step + 4),
        ]
        items.append(PackItem(10288, step + 4, step + 8))
    return Problem((*items, PackItem(32, 0, 27, 32)))


@pytest.mark.parametrize("downward", [False, True])
def test_the_solver_proves_the_smallest_extent(downward: bool) -> None:
    pytest.importorskip("ortools")
    problem, window = skip_blocks(), PoolWindow(0x3420_0000, 0x3430_0000, downward)
    found = pack(problem, [window])
    assert found is not None and found[1] > problem.lower_bound
    results = [solve.smallest_peak(problem, window, found[0]) for _ in range(2)]
    assert results[0] == results[1] and results[0] is not None and results[0].optimal
    assert extent_of(problem, results[0].addresses, window) < found[1]
    assert all(a % item.alignment == 0 for a, item in zip(results[0].addresses, problem.items, strict=True))


def test_without_the_solver_the_rules_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve, "available", lambda: False)
    assert placed(random_steps(2, 30, 50_000), "speed").solver == "greedy"
