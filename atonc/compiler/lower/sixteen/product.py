"""Products of two tensors of 16 bits: published units multiply them and cut 5 to 14 bits off, then one scales the rest.

    p = sat16((scaled(x) * y) >> S),   z = clip(scaled(p))

S keeps the finest product that does not saturate before the result does; where even 14 bits are too few, x loses some
before.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2
from typing import Any

import numpy as np

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited, shifted
from atonc.compiler.lower.sixteen.elementwise import expanded
from atonc.compiler.lower.sixteen.inner import require_centred
from atonc.compiler.lower.sixteen.joining import HIGHEST, WideSum, wide_clip
from atonc.compiler.lower.sixteen.streams import Scaling, scaled_first, through, two_through
from atonc.compiler.lower.units.arith import multiply_unit
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import WIDE_SHAPES
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.units.arith import ArithConfig

LEAST, MOST = 5, 14  # bits that published products of 16 bits lose
_REACH = 2 * 15  # bits of the largest product


@dataclass(frozen=True)
class WideProduct:
    """What the tasks compute."""

    before: int  # bits that x loses first
    cut: int
    last: Scaling
    limits: WideSum

    @property
    def first(self) -> Scaling:
        return Scaling(1 << MOST, MOST + self.before)

    @property
    def unit(self) -> ArithConfig:
        wide = {"bytes_x": 2, "out_bytes_x": 2, "bytes_y": 2, "out_bytes_y": 2}
        return changed(multiply_unit(), shift_out=self.cut, **wide)

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        x, y = (ints(value) for value in values[:2])
        product = limited(shifted(self.first(x) * y, self.cut), 16)
        return [self.limits(self.last(product), np.zeros(1, np.int64))]


@recipe("mul", wide=True)
def lower_product(op: Op, context: Context) -> list[TaskGroup]:
    x, y, out = context.tensor(op.inputs[0]), context.tensor(op.inputs[1]), context.tensor(op.outputs[0])
    require_centred(x, y, out)
    if x.is_constant or y.is_constant:
        raise Refusal(WIDE_SHAPES, "a constant factor", "two activations", "fold it into the layer before")
    gain = x.scale * y.scale / out.scale
    lost = min(max(ceil(-log2(gain)), LEAST), _REACH - 15)  # products of codes inside the range fit 16 bits then
    meaning = WideProduct(max(0, lost - MOST), min(lost, MOST), Scaling.of(gain * 2.0**lost), _limits(op))
    early = 2.0**meaning.before / 2 * (HIGHEST + 1) * gain if meaning.before else 0.0
    error = early + 0.5 * gain * 2.0**lost + meaning.last.error(gain * 2.0**lost)
    context.explain(op, meaning, error)
    origin = op.origin or (op.name,)
    (one, first), (two, second) = (expanded(context, tensor, out, origin) for tensor in (x, y))
    groups = [*first, *second]
    if meaning.before:
        one, group = scaled_first(context, one, out.elements, [meaning.first.unit()], origin)
        groups.append(group)
    units, moves = [meaning.unit, meaning.last.unit()], meaning.limits.moves()
    target = context.buffer(out.name)
    product = context.scratch(2 * out.elements, "product before its clip") if moves else target
    named = origin, f"mul {op.name}"
    groups.append(two_through((one, two), product, out.elements, [], units, named))
    return [*groups, through(product, target, out.elements, moves, *named)] if moves else groups


def _limits(op: Op) -> WideSum:
    return WideSum(1, 0, *wide_clip(op.attrs.get("clip")))
