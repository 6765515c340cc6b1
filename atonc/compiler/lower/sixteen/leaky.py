"""Leaky ReLU of 16 bits: the slope of the negative side for all numbers, and the rest of the positive part.

    y = slope * g * x + (1 - slope) * g * max(x, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import Ints, ints
from atonc.compiler.lower.sixteen.inner import require_centred
from atonc.compiler.lower.sixteen.joining import WideSum
from atonc.compiler.lower.sixteen.streams import Scaling, scaled_first, two_through
from atonc.compiler.plan.task import TaskGroup
from atonc.machine.base.frozen import dataclass

POSITIVE = WideSum(1, 0, low=0)


@dataclass(frozen=True)
class LeakySum:
    """What the tasks compute."""

    all: Scaling
    positive: Scaling

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        x = ints(values[0])
        return [WideSum()(self.all(x), self.positive(POSITIVE(x, 0 * x)))]


@recipe("leaky_relu", wide=True)
def lower_leaky_relu(op: Op, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    slope, gain = float(op.attrs.get("alpha", 0.01)), x.scale / y.scale
    if not 0.0 < slope < 1.0 or "clip" in op.attrs:
        raise Refusal("wide leaky relu", f"a slope of {slope:g}", "between 0 and 1, no clip", "use another slope")
    if gain > 1.0:
        raise Refusal("wide leaky relu", f"a gain of {gain:g}", "1", "give the output at least the scale of the input")
    gains = slope * gain, (1.0 - slope) * gain
    meaning = LeakySum(*map(Scaling.of, gains))
    error = meaning.all.error(gains[0]) + meaning.positive.error(gains[1])
    context.explain(op, meaning, error)
    origin = op.origin or (op.name,)
    source = context.buffer(x.name)
    units = [*POSITIVE.moves(), meaning.positive.unit()]
    positive, first = scaled_first(context, source, x.elements, units, origin)
    names, named = (positive, source), (origin, f"leaky_relu {op.name}")
    target = context.buffer(y.name)
    last = two_through(names, target, y.elements, [meaning.all.unit()], WideSum().units(), named)
    return [first, last]
