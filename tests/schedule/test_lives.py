"""Bytes that live at each place of a schedule, and whether a move raises their peak."""

from __future__ import annotations

from atonc.compiler.plan.types import Buffer, BufferKind, CpuPlan
from atonc.compiler.schedule.lives import Lives
from atonc.compiler.schedule.pack_ops import TaskNetwork, _Moves, _Slot

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


def test_what_moved_lives_where_it_went() -> None:
    """First z begins to live beside x; then there is no room for y there any more."""
    sizes = {"x": 30, "z": 60, "y": 20, "p": 100}
    buffers = {name: Buffer(name, size, BufferKind.ACTIVATION) for name, size in sizes.items()}
    touched = ((), ("x",)), ((), ("z",)), ((), ("y",)), (("z", "y"), ()), ((), ("p",))
    steps = [CpuPlan(("c",), f"{k}", f"{k}", reads, writes) for k, (reads, writes) in enumerate(touched)]
    network = TaskNetwork(buffers, {}, len)
    moves, slots = _Moves(steps, network), [_Slot.of(number, step, network) for number, step in enumerate(steps)]
    assert moves.lives.bytes.tolist() == [30, 60, 80, 80, 100]
    assert not moves.grow(slots[1], slots[0]) and not moves.grow(slots[2], slots[0])
    moves.move(slots[1], slots[0])
    assert moves.lives.bytes.tolist() == [90, 60, 80, 80, 100] and moves.grow(slots[2], slots[0])
