"""Means of 16 bits: over windows a convolution with equal weights, over whole pictures POOLs on both halves.

    y = g * mean(high) * 256 + g * mean(low),   each mean with 8 fractional bits
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log2, prod
from typing import Any

import numpy as np

from atonc.compiler.ir import Op, Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited, shifted
from atonc.compiler.lower.sixteen.halves import halves_of, high_codes, low_codes, wide_row
from atonc.compiler.lower.sixteen.inner import require_centred, scratch_tensor
from atonc.compiler.lower.sixteen.joining import HIGHEST, WideSum, wide_clip
from atonc.compiler.lower.sixteen.streams import Scaling, two_through
from atonc.compiler.lower.sixteen.sums import lower_layer
from atonc.compiler.lower.units.access_patterns import walk
from atonc.compiler.lower.units.pool import MOST_PIXELS, channel_groups, division, frame_of, global_unit
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.task import Purpose, Task, TaskGroup
from atonc.compiler.select.rules import MEAN, WIDE_POOLS
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import POOL_CHANNELS

FRACTION = 256  # steps of a mean in a code of its half
_MIDDLE = 128  # what signed low bytes lack


@dataclass(frozen=True)
class MeanOfHalves:
    """What the tasks compute, over all but the last axis."""

    pixels: int
    high: Scaling
    low: Scaling
    total: WideSum
    shape: tuple[int, ...]

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        codes = ints(values[0]).reshape(self.pixels, -1)
        high, low = (self._mean(half(codes)) for half in (high_codes, low_codes))
        return [self.total(self.high(high), self.low(low)).reshape(self.shape)]

    def _mean(self, codes: Ints) -> Ints:
        multiplier, shift = division(self.pixels)
        return limited(shifted(codes.sum(axis=0) * multiplier, shift), 16)


@recipe("mean", wide=True)
def lower_mean(op: Op, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    rank = len(x.shape)
    gone = {axis % rank for axis in op.attrs["axes"]}
    kept = [size for axis, size in enumerate(x.shape[:-1]) if axis not in gone]
    if rank - 1 in gone or prod(kept) != 1:
        seen = f"axes {sorted(gone)} of {x.shape}"
        raise Refusal(MEAN, seen, "height and width of one picture", "reshape it before")
    return _over_pictures(op, context, x, y)


@recipe("average_pool", wide=True)
def lower_average_pool(op: Op, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    kernel, padding = tuple(op.attrs["window"]), tuple(op.attrs.get("padding", (0, 0, 0, 0)))
    if not any(padding) and kernel == x.shape[1:3] and prod(y.shape[:3]) == 1:
        return _over_pictures(op, context, x, y)
    if any(padding) and not op.attrs.get("count_include_pad", False):
        seen = "windows that see fewer pixels at the border"
        raise Refusal(WIDE_POOLS, seen, "no padding", "pad before, with zeros")
    ones = np.ones((x.shape[-1], *kernel, 1), np.int8)
    weights = Tensor(f"{op.name} ones", ones.shape, "int8", Quantisation.per_tensor(1.0 / prod(kernel)), ones)
    attrs = {**op.attrs, "groups": x.shape[-1], "padding": padding}
    return lower_layer(replace(op, kind="conv", inputs=(x.name, weights.name), attrs=attrs), context, weights)


def _over_pictures(op: Op, context: Context, x: Tensor, y: Tensor) -> list[TaskGroup]:
    channels = x.shape[-1]
    pixels, gain = x.elements // channels, x.scale / y.scale
    if pixels > MOST_PIXELS:
        raise Refusal(MEAN, f"{pixels} pixels", f"{MOST_PIXELS}", "use smaller windows")
    unit = 1 << max(0, ceil(log2(gain * (HIGHEST + 1) / HIGHEST)))
    high, low = Scaling.of(gain / unit), Scaling.of(gain / FRACTION)
    limits = wide_clip(op.attrs.get("clip"))
    total = WideSum(unit, 1, *limits, offset=round(_MIDDLE * gain))
    divided = 1.5 * gain  # codes: the multiplier is good to 15 bits, both means are rounded
    error = unit * high.error(gain / unit) + low.error(gain / FRACTION) + divided + 0.5
    context.explain(op, MeanOfHalves(pixels, high, low, total, y.shape), error)
    origin = op.origin or (op.name,)
    halves = halves_of(x, context, origin)
    sums = [scratch_tensor(context, y, "int16", y.scale).name for _ in range(2)]
    tasks = [
        task
        for half, scaling, target in zip((halves.high, halves.low), (high, low), sums, strict=True)
        for task in _pooled(half.name, target, (pixels, channels), scaling, origin)
    ]
    named = origin, f"halves of {op.name}"
    last = two_through((sums[0], sums[1]), context.buffer(y.name), y.elements, [], total.units(), named)
    return [*halves.groups, TaskGroup(tuple(tasks)), last]


def _pooled(
    source: str, target: str, size: tuple[int, int], scaling: Scaling, origin: tuple[str, ...]
) -> list[Task]:
    """IN > POOL > ARITH > OUT for groups of channels."""
    (pixels, channels), tasks = size, []
    for first, batch, count in channel_groups(channels, POOL_CHANNELS):
        frame = frame_of(pixels, batch)
        reader = walk([(count, batch), (pixels, channels), (batch, 1)], first, write=False)
        if frame is None or reader is None:
            raise Refusal(MEAN, f"{pixels} pixels of {channels} channels", "two loops", "use the CPU")
        b = TaskBuilder(origin, f"means of {source}", Purpose.PART)
        stream = b.unit(global_unit(*frame, batch, pixels), b.read(source, reader))
        if scaling.changes:
            stream = b.unit(scaling.unit(), stream)
        b.write(stream, target, wide_row(count * batch, first, write=True))
        tasks.append(b.done(pixels * batch * count))
    return tasks
