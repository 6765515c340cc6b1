"""Leaky ReLU and PReLU of 16 bits: the slope of the negative side for all numbers, and the rest of the positive part.

    y = slope[c] * g * x + (1 - slope[c]) * g * max(x, 0)

Where either part leaves 16 bits, so does the sum, on the same side.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.requantise import coefficient_unit
from atonc.compiler.lower.conv.wide_results import MOST_SHIFT, widened
from atonc.compiler.lower.elementwise.channels import is_per_channel
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited, shifted
from atonc.compiler.lower.sixteen.inner import require_centred
from atonc.compiler.lower.sixteen.joining import HIGHEST, WideSum
from atonc.compiler.lower.sixteen.streams import Scaling, scaled_first, two_through
from atonc.compiler.ops.values import Arg
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import PRELU_SLOPES, SCALES, WIDE_LEAKY
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.units.arith import ROWS, ArithConfig

Real = NDArray[np.float64]

POSITIVE = WideSum(1, 0, low=0)


@dataclass(frozen=True, eq=False)
class ChannelScaling:
    """sat16(round((a[c] * x) >> shift)), channels last."""

    a: Ints
    shift: int

    @staticmethod
    def of(gains: Real) -> ChannelScaling:
        shift = min(MOST_SHIFT, floor(log2((HIGHEST + 0.499) / max(float(gains.max()), 2.0**-30))))
        if shift < 1:
            seen = f"one code of the input is worth {gains.max():g} codes of the output"
            raise Refusal(SCALES, seen, f"{HIGHEST // 2}", "check the scales: they differ beyond all use")
        return ChannelScaling(np.rint(gains * 2.0**shift).astype(np.int64), shift)

    def unit(self, count: int) -> ArithConfig:
        """For so many numbers."""
        nothing, channels = np.zeros_like(self.a), self.a.size
        return widened(coefficient_unit(self.a, nothing, channels, count // channels, self.shift), nothing)

    def __call__(self, x: Ints) -> Ints:
        return limited(shifted(self.a * x, self.shift), 16)

    def error(self, gains: Real) -> float:
        """In codes, with the rounding at its end."""
        return 0.5 + (HIGHEST + 1) * float(np.abs(self.a * 2.0**-self.shift - gains).max())


@dataclass(frozen=True, eq=False)
class LeakySum:
    """What the tasks compute."""

    all: Scaling | ChannelScaling
    positive: Scaling | ChannelScaling

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        x = ints(values[0])
        return [WideSum()(self.all(x), self.positive(POSITIVE(x, 0 * x)))]


@recipe("leaky_relu", wide=True)
def lower_leaky_relu(op: Op, context: Context) -> list[TaskGroup]:
    return _lower(op, context, np.array([float(op.attrs.get("alpha", 0.01))]))


@recipe("prelu", wide=True)
def lower_prelu(op: Op, context: Context) -> list[TaskGroup]:
    slope, y = context.tensor(op.inputs[1]), context.tensor(op.outputs[0])
    if slope.data is None or not is_per_channel(slope, y) or slope.elements > ROWS:
        seen = f"slopes of shape {slope.shape} for {y.shape}" if slope.data is not None else "slopes that are computed"
        limit = f"one constant slope for all or for each of at most {ROWS} channels"
        raise Refusal(PRELU_SLOPES, seen, limit, "leave it to the CPU")
    return _lower(op, context, np.asarray(Arg(slope, slope.data).real.reshape(-1), np.float64))


def _lower(op: Op, context: Context, slopes: Real) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    if not (slopes.min() >= 0.0 and slopes.max() <= 1.0) or "clip" in op.attrs:
        seen = f"slopes of {slopes.min():g} to {slopes.max():g}{' and a clip' if 'clip' in op.attrs else ''}"
        raise Refusal(WIDE_LEAKY, seen, "0 to 1, no clip", "use other slopes")
    meaning, error = _meaning(slopes, x, y)
    context.explain(op, meaning, error)
    origin, source, block = op.origin or (op.name,), context.buffer(x.name), slopes.size
    units = [*POSITIVE.moves(), meaning.positive.unit]
    positive, first = scaled_first(context, source, x.elements, units, origin, block)
    names, named = (positive, source), (origin, f"{op.kind} {op.name}")
    target = context.buffer(y.name)
    last = two_through(names, target, y.elements, [meaning.all.unit], WideSum().units(), named, block)
    return [first, last]


def _meaning(slopes: Real, x: Tensor, y: Tensor) -> tuple[LeakySum, float]:
    """What is computed, and how far it may be from exact arithmetic."""
    gain = x.scale / y.scale
    gains = slopes * gain, (1.0 - slopes) * gain
    if slopes.size > 1:
        by_channel = [ChannelScaling.of(one) for one in gains]
        return LeakySum(*by_channel), sum(part.error(one) for part, one in zip(by_channel, gains, strict=True))
    parts = [Scaling.of(float(one[0])) for one in gains]
    return LeakySum(*parts), sum(part.error(float(one[0])) for part, one in zip(parts, gains, strict=True))
