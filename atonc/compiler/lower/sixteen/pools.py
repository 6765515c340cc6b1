"""Pooling of 16 bits. Means over windows are a convolution with equal weights, over whole pictures POOLs on halves:

    y = g * mean(high) * 256 + g * mean(low),   each mean with 8 fractional bits

Maxima: every place of the windows as a tensor of its own, and the larger of two at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from atonc.compiler.ir import Op, Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.pool.means import most_multiplier
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited, shifted
from atonc.compiler.lower.sixteen.elementwise import larger_of
from atonc.compiler.lower.sixteen.streams import (
    Scaling,
    WideSum,
    bytes_of,
    high_codes,
    least_unit,
    low_codes,
    require_centred,
    through,
)
from atonc.compiler.lower.sixteen.sums import lower_layer
from atonc.compiler.lower.units.pool import MOST_PIXELS, channel_groups, division, frame_of, global_unit, quotient
from atonc.compiler.lower.units.views import StridedView, row, walk
from atonc.compiler.lower.units.wiring import End, Wiring, origin_of, pack
from atonc.compiler.ops.registry import evaluate
from atonc.compiler.plan.task import Purpose, Task, TaskGroup, tasks_of
from atonc.compiler.select.rules import MEAN, WIDE_POOLS
from atonc.machine.hw.limits import POOL_CHANNELS

FRACTION = 256  # steps of a mean in a code of its half
MOST_PLACES = 9  # of a window: each is a copy and a maximum
_MIDDLE = 128  # what signed low bytes lack


@recipe("mean", wide=True)
def lower_mean(op: Op, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    rank = len(x.shape)
    gone = {axis % rank for axis in op.attrs["axes"]}
    kept = [size for axis, size in enumerate(x.shape[:-1]) if axis not in gone]
    if rank - 1 in gone or prod(kept) != 1:
        seen = f"axes {sorted(gone)} of {x.shape}"
        raise Refusal(MEAN, seen, "height and width of one image", "reshape it before")
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
    """Over all but the last axis."""
    channels = x.shape[-1]
    pixels, gain = x.elements // channels, x.scale / y.scale
    if pixels > MOST_PIXELS:
        raise Refusal(MEAN, f"{pixels} pixels", f"{MOST_PIXELS}", "use smaller windows")
    most = most_multiplier(context.facts.target.trust)
    steep = gain / quotient(pixels, most)  # codes for one of what comes out of the POOLs
    unit = least_unit(steep)
    gains, parts = (steep / unit, steep / FRACTION), (high_codes, low_codes)
    scalings = [Scaling.of(one) for one in gains]
    total = WideSum.clipped(op.attrs.get("clip"), unit, 1, round(_MIDDLE * gain))
    divided = 1.5 * steep  # codes: the multiplier is good to 15 bits, both means are rounded
    error = unit * scalings[0].error(gains[0]) + scalings[1].error(gains[1]) + divided + 0.5
    multiplier, shift = division(pixels, most)

    def codes(values: Sequence[Any]) -> list[Ints]:
        given = ints(values[0]).reshape(pixels, -1)
        sums = (part(given).sum(axis=0) * multiplier for part in parts)
        high, low = (one(limited(shifted(some, shift), 16)) for one, some in zip(scalings, sums, strict=True))
        return [total(high, low).reshape(y.shape)]

    context.explain(op, codes, error)
    origin = origin_of(op)
    *halves, split = bytes_of(x, context, origin)
    means = [context.scratch(2 * y.elements, "inside 16 bits") for _ in scalings]
    tasks = list[Task]()
    for half, scaling, target in zip(halves, scalings, means, strict=True):
        wirings = _pooled(half, target, (pixels, channels), scaling, most)
        tasks += tasks_of(pack(wirings, origin, f"means of {half}", Purpose.PART))
    last = through(means, context.buffer(y.name), y.elements, total.units(), (origin, f"halves of {op.name}"))
    return [*split, TaskGroup(tuple(tasks)), last]


def _pooled(source: str, target: str, size: tuple[int, int], scaling: Scaling, most: int) -> Iterator[Wiring]:
    """IN > POOL > ARITH > OUT for groups of channels."""
    pixels, channels = size
    for first, batch, count in channel_groups(channels, POOL_CHANNELS):
        frame = frame_of(pixels, batch)
        reader = walk([(count, batch), (pixels, channels), (batch, 1)], first, write=False)
        if frame is None or reader is None:
            raise Refusal(MEAN, f"{pixels} pixels of {channels} channels", "two loops", "use the CPU")
        units = [global_unit(*frame, batch, pixels, most), *([scaling.unit()] if scaling.changes else [])]
        far = End(target, row(count * batch, first, 2, write=True))
        yield Wiring.chain([End(source, reader)], units, far, pixels * batch * count)


@recipe("max_pool", wide=True)
def lower_max_pool(op: Op, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    kernel, stride = tuple(op.attrs["window"]), tuple(op.attrs.get("stride", (1, 1)))
    top, left, *_ = padding = tuple(op.attrs.get("padding", (0, 0, 0, 0)))
    plain = tuple(op.attrs.get("dilation", (1, 1))) == (1, 1) and max(padding) < min(kernel)
    if not plain or not 1 < prod(kernel) <= MOST_PLACES or x.scale != y.scale or "clip" in op.attrs or x.shape[0] != 1:
        seen = f"windows of {kernel}, dilated, clipped or of another scale"
        raise Refusal(WIDE_POOLS, seen, f"2 to {MOST_PLACES} places, one scale", "use 8 bits")
    graph = context.graph
    context.explain(op, lambda given: [ints(evaluate(graph, op, given)[0].codes)])
    origin, (_, height, width, channels) = origin_of(op), y.shape
    whole = StridedView.whole(context.buffer(x.name), x.shape[1:], 2)
    places, moves = list[str](), list[Move]()
    for down, right in product(*map(range, kernel)):
        places.append(context.scratch(2 * y.elements, "one place of all windows"))
        far = StridedView.whole(places[-1], (height, width, channels), 2)
        for (i, rows, y_from), (k, columns, x_from) in product(
            _inside(down - top, height, stride[0], x.shape[1]), _inside(right - left, width, stride[1], x.shape[2])
        ):
            near = whole.cut(0, y_from, rows, stride[0]).cut(1, x_from, columns, stride[1])
            moves.append(Move(near, far.cut(0, i, rows, 1).cut(1, k, columns, 1)))
    groups = copy(context, moves, origin, f"places of {op.name}")
    while len(places) > 1:
        last, pairs = len(places) == 2, list(zip(places[::2], places[1::2], strict=False))
        tasks, rest = list[Task](), places[-1:] if len(places) % 2 else []
        places = []
        for one, other in pairs:
            target = context.buffer(y.name) if last else context.scratch(2 * y.elements, "the larger of two")
            tasks += larger_of((one, other, target), y.elements, origin, "maximum").tasks
            places.append(target)
        groups.append(TaskGroup(tuple(tasks)))
        places += rest
    return groups


def _inside(first: int, count: int, stride: int, size: int) -> Iterator[tuple[int, int, int]]:
    """Where so many windows have one of their places: from which window on, how many, and where in the picture. What is
    beyond its border counts as the pixel there, which the same window sees as well."""
    start = min(count, max(0, -(first // stride)))
    end = max(start, min(count, (size - 1 - first) // stride + 1))
    yield from ((k, 1, 0) for k in range(start))
    if end > start:
        yield start, end - start, first + start * stride
    yield from ((k, 1, size - 1) for k in range(end, count))
