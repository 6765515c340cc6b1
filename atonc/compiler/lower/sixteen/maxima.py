"""Maximum pooling of 16 bits: every place of the windows as a tensor of its own, and the larger of two at a time."""

from __future__ import annotations

from math import prod

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import ints
from atonc.compiler.lower.sixteen.elementwise import larger_of
from atonc.compiler.lower.sixteen.inner import require_centred
from atonc.compiler.lower.units.strided_views import StridedView
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.select.rules import WIDE_POOLS

MOST_PLACES = 9  # of a window: each is a copy and a maximum


@recipe("max_pool", wide=True)
def lower_max_pool(op: Op, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    kernel, stride = tuple(op.attrs["window"]), tuple(op.attrs.get("stride", (1, 1)))
    plain = not any(op.attrs.get("padding", ())) and tuple(op.attrs.get("dilation", (1, 1))) == (1, 1)
    if not plain or not 1 < prod(kernel) <= MOST_PLACES or x.scale != y.scale or "clip" in op.attrs or x.shape[0] != 1:
        seen = f"windows of {kernel}, padded, dilated, clipped or of another scale"
        limit = f"2 to {MOST_PLACES} places without padding, one scale"
        raise Refusal(WIDE_POOLS, seen, limit, "pad before, or use 8 bits")
    graph = context.graph
    context.explain(op, lambda given: [ints(evaluate(graph, op, given)[0].codes)])
    origin, (_, height, width, channels) = op.origin or (op.name,), y.shape
    whole = StridedView.whole(context.buffer(x.name), x.shape[1:], 2)
    places, moves = list[str](), list[Move]()
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            near = whole.cut(0, row, height, stride[0]).cut(1, column, width, stride[1])
            places.append(context.scratch(2 * y.elements, "one place of all windows"))
            moves.append(Move(near, StridedView.whole(places[-1], (height, width, channels), 2)))
    groups = copy(context, moves, origin, f"places of {op.name}")
    while len(places) > 1:
        last, pairs = len(places) == 2, list(zip(places[::2], places[1::2], strict=False))
        tasks = list[Task]()
        rest = places[-1:] if len(places) % 2 else []
        places = []
        for one, other in pairs:
            target = context.buffer(y.name) if last else context.scratch(2 * y.elements, "the larger of two")
            tasks += larger_of((one, other, target), y.elements, origin, "maximum").tasks
            places.append(target)
        groups.append(TaskGroup(tuple(tasks)))
        places += rest
    return groups
