"""A vector that repeats along the output, such as the gates of squeeze and excite: short frames at one address cost an
engine a turn-round each, so the vector is written several times in a row first, and read in longer frames."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.elementwise.operands import Operand, Repeats
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.units.strided_views import StridedView
from atonc.compiler.plan.task import TaskGroup

AS_STORED, IN_A_ROW = "the vector as it is stored", "the vector several times in a row"


def turns_in_a_row(operand: Operand, context: Context) -> int:
    """How often the vector must stand in a row so that a frame takes as long as its elements; 1: it does already."""
    timing, shape = context.facts.target.machine.timing, operand.repeats
    if shape.plain or shape.outer > 1 or operand.element_bytes > 1:
        return 1
    least = -(-(timing.frame_turn + timing.frame_turn_words) // shape.run)
    return next((k for k in range(int(least), shape.times) if shape.times % k == 0), 1)


def in_a_row(op: Op, context: Context, operand: Operand, turns: int) -> tuple[list[TaskGroup], Operand]:
    """Epochs that write the vector so often, and the operand that reads it there."""
    run, times = operand.repeats.run, operand.repeats.times
    longer = context.scratch(turns * run, f"{op.name}:repeated")
    source = StridedView.whole(operand.buffer, (run,)).repeat(0, turns)
    title = f"repeated operand of {op.name}"
    groups = copy(context, [Move(source, StridedView.whole(longer, (turns, run)))], op.origin or (op.name,), title)
    source_name = operand.source or operand.buffer
    return groups, replace(operand, buffer=longer, repeats=Repeats(1, times // turns, turns * run), source=source_name)
