"""Bytes that live at each place of a schedule, and whether a move raises their peak."""

from __future__ import annotations

from atonc.plan.types import Buffer, BufferKind
from atonc.schedule.lives import Lives

SIZES = {"in": (10, BufferKind.INPUT), "a": (40, BufferKind.ACTIVATION), "b": (30, BufferKind.ACTIVATION),
         "out": (5, BufferKind.OUTPUT), "w": (1000, BufferKind.CONSTANT)}  # fmt: skip


def lives(*touched: set[str], aliases: dict[str, str] | None = None) -> Lives:
    buffers = {name: Buffer(name, size, kind) for name, (size, kind) in SIZES.items()}
    return Lives(touched, buffers, aliases or {})


def test_inputs_live_from_the_start_outputs_to_the_end_and_constants_elsewhere() -> None:
    found = lives({"a", "w"}, {"a", "out"}, {"in", "b"}, {"b"})
    assert found.bytes.tolist() == [10 + 40, 10 + 40 + 5, 10 + 30 + 5, 30 + 5]
    assert found.size_bytes("w") == 0


def test_other_names_of_a_memory_are_the_memory() -> None:
    found = lives({"a"}, {"b"}, {"b"}, aliases={"b": "a"})
    assert found.bytes.tolist() == [40, 40, 40] and found.size_bytes("b") == 40


def test_a_move_may_reach_the_peak_and_not_more() -> None:
    found = lives({"in", "a"}, {"b"}, {"b"})
    assert found.bytes.tolist() == [50, 30, 30]
    assert not found.grows(20, 1, 2) and found.grows(21, 1, 2)
    found.begin(20, 1, 2)
    assert found.bytes.tolist() == [50, 50, 30] and found.grows(1, 1, 2) and not found.grows(1, 2, 2)
