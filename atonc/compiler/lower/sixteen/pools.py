"""Pooling of 16 bits. Means over windows are a convolution with equal weights, over whole pictures POOLs on halves:

    y = g * mean(high) * 256 + g * mean(low),   each mean with 8 fractional bits

Maxima: every place of the windows as a tensor of its own, and the larger of two at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log2, prod
from typing import Any

import numpy as np

from atonc.compiler.ir import Op, Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited, shifted
from atonc.compiler.lower.sixteen.elementwise import larger_of
from atonc.compiler.lower.sixteen.streams import (
    HIGHEST,
    Scaling,
    WideSum,
    halves_of,
    high_codes,
    low_codes,
    require_centred,
    scratch_tensor,
    two_through,
    wide_clip,
    wide_row,
)
from atonc.compiler.lower.sixteen.sums import lower_layer
from atonc.compiler.lower.units.pool import MOST_PIXELS, channel_groups, division, frame_of, global_unit
from atonc.compiler.lower.units.views import StridedView, walk
from atonc.compiler.ops.registry import evaluate
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


def _pooled(source: str, target: str, size: tuple[int, int], scaling: Scaling, origin: tuple[str, ...]) -> list[Task]:
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
