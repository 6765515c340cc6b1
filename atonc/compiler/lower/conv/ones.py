"""Along the channels: their mean, and one value for all of them, as convolutions whose weights are all one value.

A POOL averages a byte a cycle and an engine takes a turn for every frame of one element; a convolution takes three
bytes a cycle and gives one result a cycle. Units of 1x1 were never seen with one channel, windows were: those of 3x3
that look at their middle only, on the values as a picture of any height.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isqrt

import numpy as np

from atonc.compiler.ir import Op, Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.layer import ConvLayer, layer_of
from atonc.compiler.lower.conv.recipe import lower_layer
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.arithmetic import CODES, shifted
from atonc.compiler.lower.semantics.sums import Layered, requantised
from atonc.compiler.ops.rounding import lift, rounding_of
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import BROADCAST

MIDDLE = (1, 1, 1, 1)  # padding of a window of 3x3 that keeps the size of the picture
LEAST_SIDE = 2  # of a picture under a window
MOST_REST = 64  # values behind the first picture


def mean_of_channels(op: Op, context: Context) -> list[TaskGroup]:
    """Over the last axis, or the sum."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    ones = np.ones((1, x.shape[-1]), np.int8)
    scale = 1.0 if op.kind == "sum" else 1.0 / x.shape[-1]
    weights = Tensor(f"{op.name} ones", ones.shape, "int8", Quantisation.per_tensor(scale), ones)
    clip = {key: op.attrs[key] for key in ("clip",) if key in op.attrs}
    layer = layer_of(replace(op, kind="dense", attrs=clip), context, weights)
    more = lift(rounding_of(op, [x], y), y, op.attrs.get("clip"))
    return lower_layer(replace(layer, offset=layer.offset + more, coarse=None), context)


def spread(op: Op, context: Context, source: str, values: int, channels: int) -> tuple[list[TaskGroup], str]:
    """Writes every value of a buffer of bytes so many times in a row; the buffer that has them."""
    target = context.scratch(values * channels, f"{op.name}:spread")
    layers = [_of_middles(op, context, (source, target), picture, channels) for picture in pictures(values)]
    groups = [group for layer in layers for group in lower_layer(layer, context)]
    meaning = context.semantics.pop(layers[0].op.name).codes
    assert isinstance(meaning, Layered)
    for rule in (piece.rule for piece in meaning.pieces):
        made = requantised(rule, np.repeat(shifted(CODES, rule.out_shift)[:, None], channels, axis=1))
        assert (made == CODES[:, None]).all(), "every code stays as it is"
    return groups, target


def pictures(values: int) -> Iterator[tuple[int, int, int]]:
    """First value, height and width of one picture that has them all, as square as it goes; or of two."""
    for rest in (0, *range(LEAST_SIDE**2, min(MOST_REST, values))):
        sizes = [n for n in (values - rest, rest) if n]
        heights = [next((h for h in range(isqrt(n), LEAST_SIDE - 1, -1) if n % h == 0), 0) for n in sizes]
        if all(heights):
            starts = (0, values - rest)
            yield from ((a, h, n // h) for a, h, n in zip(starts, heights, sizes, strict=False))
            return
    raise Refusal(BROADCAST, f"{values} values for all channels", "a rectangle of them", "use the CPU")


def _of_middles(
    op: Op, context: Context, names: tuple[str, str], picture: tuple[int, int, int], channels: int
) -> ConvLayer:
    """Codes as they are: what lies around the middle of a window meets no weight, so zero is as good as any."""
    first, height, width = picture
    weights = np.zeros((channels, 3, 3, 1), np.int16)
    weights[:, 1, 1] = 1
    return ConvLayer(
        op=replace(op, kind="conv", name=f"{op.name}:spread", attrs={}),
        source=names[0],
        target=names[1],
        area=replace(Area.whole(height, width, 1), offset=first),
        out=replace(Area.whole(height, width, channels), offset=first * channels),
        weights=weights,
        zero=0,
        scale=np.ones(channels),
        offset=np.zeros(channels),
        stride=(1, 1),
        dilation=(1, 1),
        padding=MIDDLE,
        clip=None,
        out_scale=1.0,
        out_zero=0,
        numerics=context.numerics,
        typical=tuple,
        features_shifted=False,
        codes_shifted=False,
        room=context.room,
        made_for=context.facts.target,
    )
