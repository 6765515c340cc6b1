"""Warnings about where things lie."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.place import BoardMemory, board, place
from atonc.compiler.place.pools import placement_notes
from tests.place.plans import chain

DK = board("dk")
MIB = 1 << 20


def notes(size: int, target: BoardMemory) -> list[str]:
    steps = chain(size, size, size)
    layout = place(steps.planned, target)
    return list(placement_notes(layout, target))


def test_hyperram_that_applications_use_is_pointed_out() -> None:
    assert notes(1 * MIB, DK) == [] and notes(7 * MIB, DK) == []
    (note,) = notes(9 * MIB, DK)
    assert "hyperRAM" in note and "0x91000000" in note


def test_the_users_own_pools_are_the_users_business() -> None:
    assert notes(9 * MIB, BoardMemory("own", DK.pools, DK.machine)) == []


def test_relative_pools_are_taken_as_absolute() -> None:
    relative = tuple(replace(pool, absolute=pool.name != "hyperRAM") for pool in DK.pools)
    assert notes(1 * MIB, BoardMemory("own", relative, DK.machine)) == []
    (note,) = notes(7 * MIB, BoardMemory("own", relative, DK.machine))
    assert "relative mode" in note and "0x90000000" in note
