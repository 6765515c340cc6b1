"""Operators that move codes of 16 bits: byte by byte, as long as nothing changes on the way."""

from __future__ import annotations

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal, recipe, recipe_for
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import MOVE_TYPES

MOVES = (
    "concat", "pack", "split", "unpack", "slice", "transpose", "reverse", "tile", "expand", "gather", "space_to_depth",
    "depth_to_space", "batch_to_space", "space_to_batch", "pad", "resize_nearest",
)  # fmt: skip


@recipe(*MOVES, wide=True)
def lower_move(op: Op, context: Context) -> list[TaskGroup]:
    tensors = [context.tensor(name) for name in (*op.inputs, *op.outputs) if name]
    moved = [tensor for tensor in tensors if tensor.dtype == "int16"]
    first = moved[0].quant
    same = all(t.quant is first or (t.quant is not None and t.quant.same_as(first)) for t in moved)
    if not same or "clip" in op.attrs or any(t.is_constant for t in moved):
        seen = f"{op.kind} that changes codes of 16 bits, or takes constants"
        raise Refusal(MOVE_TYPES, seen, "one format on both sides", "give inputs and outputs one scale")
    plain = recipe_for(op.kind)
    assert plain is not None
    return plain(op, context)
