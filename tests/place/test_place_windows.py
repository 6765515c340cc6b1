"""What buffers may fill of a memory: whole cache lines of it, and room for read-ahead behind the last one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atonc.compiler.place import board, place
from atonc.compiler.place.cost import Traffic
from atonc.compiler.place.greedy import PackItem, Problem
from atonc.compiler.place.packing import PackingProblem, pack
from atonc.compiler.place.pools import BoardMemory, usable
from atonc.compiler.plan.types import BufferKind
from atonc.machine.hw.limits import CPU_CACHE_LINE, PREFETCH_BYTES, XSPI_TAIL
from tests.place.plans import chain

DK = board("stm32n6570-dk")


def test_windows_are_whole_lines_inside_the_pool() -> None:
    pool = DK.on_chip[-1]
    odd = replace(pool, base=pool.base + 16, size_bytes=pool.size_bytes - 16)
    start, end = usable([odd])
    assert start == pool.base + CPU_CACHE_LINE and end % CPU_CACHE_LINE == 0
    assert 0 <= odd.base + odd.size_bytes - PREFETCH_BYTES - end < CPU_CACHE_LINE


def test_external_memory_leaves_room_for_its_controller_too() -> None:
    (outside,) = DK.external_ram
    _, end = usable([outside])
    left = outside.base + outside.size_bytes - end
    assert PREFETCH_BYTES + XSPI_TAIL <= left < PREFETCH_BYTES + XSPI_TAIL + CPU_CACHE_LINE


def _job(problem: Problem, where: BoardMemory) -> PackingProblem:
    return PackingProblem(problem, where, Traffic((), (), {}), {}, fast=False)


def test_a_layout_is_proven_where_it_meets_the_lower_bound_and_not_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atonc.compiler.place.solve.available", lambda: False)
    fitting = pack(_job(Problem((PackItem(64, 0, 1), PackItem(64, 1, 2))), DK))
    assert fitting is not None and fitting.proven
    holes = Problem((PackItem(32, 2, 2, 32), PackItem(48, 2, 2), PackItem(96, 1, 2, 32), PackItem(64, 0, 1, 32)))
    found = pack(_job(holes, DK))
    assert found is not None and not found.proven, "two alignments leave a hole, and nobody looked further"


def test_constants_lie_in_the_order_in_which_they_are_read() -> None:
    steps = chain(64, 64, 64)
    steps.epoch([steps.buffer("z", 100, BufferKind.CONSTANT), "t2"], [steps.buffer("u", 64)])
    steps.epoch([steps.buffer("a", 100, BufferKind.CONSTANT), "u"], [steps.buffer("v", 64)])
    placed = place(steps.planned, DK).placed
    assert placed["a"].address == placed["z"].address + 112, "read first, and then to the next address of an engine"
