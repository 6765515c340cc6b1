"""Ways to compute a convolution with the numbers of ST's releases 2.x, tried one after the other.

All of them add up the same products before they round; they differ in what the units must be able to do: windows of
up to six columns or chains of narrower ones, padding by the unit or in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.kernel_parts import MAX_PADDING, WINDOW
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.pad_first import pad_first
from atonc.compiler.lower.conv.ringed import WITH_A_RING, windows
from atonc.compiler.lower.conv.wide_2x import lower_pairs
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.views import StridedView
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import Draw, choose, in_order
from atonc.compiler.select.preferences import LIKE_2X
from atonc.compiler.select.rules import CONV_PADDING

Lower = Callable[[ConvLayer, Context], list[TaskGroup]]


def lower_2x(layer: ConvLayer, context: Context, lower: Lower) -> list[TaskGroup]:
    """Lowers by the first form that was seen to work."""
    if (layer.out.height, layer.out.width) == (1, 1):
        layer = replace(layer, stride=(1, 1))  # there is no second window
    return choose(context, in_order(LIKE_2X, _draws(layer, lower)))


def _draws(layer: ConvLayer, lower: Lower) -> Iterator[Draw[Context]]:
    for cut in (WINDOW, 0):  # in the end what the units can do even if some sums are rounded once more
        some = replace(layer, cut=cut)
        yield partial(lower, some)
        if layer.op.kind == "transpose_conv":
            continue
        copied = partial(_padded, some, 0, lower)  # without padding, lines may still be too short
        if any(layer.padding):
            yield partial(_padded, some, MAX_PADDING, lower)
            yield copied
            yield partial(_padded, some, 0, partial(_one_more_row, lower))
        else:
            yield partial(_one_more_row, lower, some)
            yield copied
        if layer.op.kind == "conv":  # published windows of one byte are padded on all sides
            yield partial(windows, some, lower, WITH_A_RING, False)
            yield partial(lower_pairs, some, lower)


def _padded(layer: ConvLayer, rows: int, lower: Lower, context: Context) -> list[TaskGroup]:
    """Lowers on a padded copy, up to some rows of padding that units can add."""
    padding, padded = pad_first(layer, context, rows)
    return [*padding, *lower(padded, context)]


def _one_more_row(lower: Lower, layer: ConvLayer, context: Context) -> list[TaskGroup]:
    """Windows without any padding were hardly seen: one row of it, and of results that nobody wants."""
    height, width, channels = layer.out.height, layer.out.width, layer.out.channels
    reach = (layer.weights.shape[1] - 1) * layer.dilation[0] + 1
    more = layer.stride[0] - (layer.area.height - reach) % layer.stride[0]
    if not layer.out.contiguous or layer.codes_shifted or more > MAX_PADDING:
        raise Refusal(CONV_PADDING, "a window without padding", "padding", "pad the input")
    target = context.scratch((height + 1) * width * channels, "one more row")
    taller = replace(layer, target=target, out=Area.whole(height + 1, width, channels), padding=(0, 0, more, 0))
    source = StridedView.whole(target, (height + 1, width, channels)).cut(0, 0, height)
    moves = [Move(source, StridedView.whole(layer.target, (height, width, channels)))]
    return [*lower(taller, context), *copy(context, moves, layer.origin, f"rows of {layer.op.name}")]
