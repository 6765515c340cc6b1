"""Convolutions and dense layers: which of the ways to compute them applies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv import dense as conv_dense
from atonc.compiler.lower.conv import depthwise as conv_depthwise
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.layer_of import layer_of
from atonc.compiler.lower.conv.shift_first import unshift_first
from atonc.compiler.lower.conv.strips import lower_wide
from atonc.compiler.lower.conv.typical_sums import Codes
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.choose import choose, in_order
from atonc.compiler.select.preferences import AS_STORED, TYPICAL_ROOM
from atonc.compiler.select.rules import CONV_MODE


@recipe("conv")
def lower_conv(op: Op, context: Context) -> list[TaskGroup]:
    return lower_layer(layer_of(op, context), context)


def lower_layer(layer: ConvLayer, context: Context) -> list[TaskGroup]:
    """A convolution, or some rows of one."""
    return _with_room(layer, context, _lower)


@recipe("transpose_conv")
def lower_transpose_conv(op: Op, context: Context) -> list[TaskGroup]:
    layer = _as_plain(layer_of(op, context))
    if layer.op.kind == "transpose_conv" and layer.dilation != (1, 1):
        raise Refusal(CONV_MODE, f"stride {layer.stride} and dilation {layer.dilation}", "one of them", "use the CPU")
    return _with_room(layer, context, _lower_transposed)


def _lower_transposed(layer: ConvLayer, context: Context) -> list[TaskGroup]:
    """Strided columns of an odd width end in the next line: the last columns go by themselves."""
    whole = layer.out.width - layer.out.width % layer.stride[1]
    if layer.op.kind == "conv" or not 0 < whole < layer.out.width:
        return _lower(layer, context)
    top, left, bottom, right = layer.padding
    rest = replace(
        layer, out=layer.out.columns(whole, layer.out.width - whole), padding=(top, left + whole, bottom, right)
    )
    first = replace(layer, out=layer.out.columns(0, whole))
    return [*_lower(first, context), *_lower(rest, context)]


@recipe("dense")
def lower_dense(op: Op, context: Context) -> list[TaskGroup]:
    """A 1x1 convolution over as many pixels as there are rows."""
    x, weights = context.tensor(op.inputs[0]), context.tensor(op.inputs[1])
    outputs, inputs = weights.shape[0], int(np.prod(weights.shape[1:]))
    rows = x.elements // inputs
    layer = layer_of(op, context, (1, rows, inputs), (1, rows, outputs))
    return _with_room(layer, context, conv_dense.lower)


def _lower(layer: ConvLayer, context: Context) -> list[TaskGroup]:
    groups = int(layer.op.attrs.get("groups", 1))
    if layer.weights.shape[3] == 1 and layer.op.kind == "conv" and groups > 1:
        return lower_wide(layer, context, conv_depthwise.lower)
    parts = [layer] if groups == 1 else _groups(layer, groups)
    return [group for part in parts for group in lower_wide(part, context, conv_dense.lower)]


Lower = Callable[[ConvLayer, Context], list[TaskGroup]]


def _with_room(layer: ConvLayer, context: Context, lower: Lower) -> list[TaskGroup]:
    """Where typical inputs would take the sums of every form too far, sums get room for all inputs."""
    if layer.numerics == "2.x" or layer.rounds_as is not None:
        return _signed_if_need_be(layer, context, lower)

    def draw(layer: ConvLayer, context: Context) -> list[TaskGroup]:
        return _signed_if_need_be(layer, context, lower)

    draws = [partial(draw, one) for one in (layer, replace(layer, all_inputs=True))]
    return choose(context, in_order(TYPICAL_ROOM, draws), blame_last=True)


def _signed_if_need_be(layer: ConvLayer, context: Context, lower: Lower) -> list[TaskGroup]:
    """Where shifted features have no proven form, a copy with signed ones comes first."""
    if not layer.features_shifted:
        return lower(layer, context)

    def on_a_copy(context: Context) -> list[TaskGroup]:
        copies, signed = unshift_first(layer, context)
        return [*copies, *lower(signed, context)]

    return choose(context, in_order(AS_STORED, [partial(lower, layer), on_a_copy]), blame_last=True)


def _as_plain(layer: ConvLayer) -> ConvLayer:
    """Without stride a transposed convolution is a plain one with the kernel turned round; what is cut off from the
    full result is padding that it does not have."""
    reach = [(k - 1) * d for k, d in zip(layer.weights.shape[1:3], layer.dilation, strict=True)]
    top, left = (r - cut for r, cut in zip(reach, layer.padding[:2], strict=True))
    bottom, right = (
        out + r - size - before
        for out, r, size, before in zip(
            (layer.out.height, layer.out.width), reach, (layer.area.height, layer.area.width), (top, left), strict=True
        )
    )
    padding = (top, left, bottom, right)
    if layer.stride != (1, 1) or min(padding) < 0:
        return layer
    attrs = {**layer.op.attrs, "padding": padding}
    turned = np.ascontiguousarray(layer.weights[:, ::-1, ::-1])
    return replace(layer, op=replace(layer.op, kind="conv", attrs=attrs), weights=turned, padding=padding)


def _groups(layer: ConvLayer, groups: int) -> list[ConvLayer]:
    """Each group is a convolution of its own on a slice of the channels."""
    inputs, outputs = layer.area.channels // groups, layer.outputs // groups
    return [
        replace(
            layer,
            area=layer.area.channels_from(g * inputs, inputs),
            out=layer.out.channels_from(g * outputs, outputs),
            weights=layer.weights[g * outputs : (g + 1) * outputs],
            scale=layer.scale[g * outputs : (g + 1) * outputs],
            offset=layer.offset[g * outputs : (g + 1) * outputs],
            typical=partial(_channels, layer, g * inputs, inputs),
        )
        for g in range(groups)
    ]


def _channels(layer: ConvLayer, first: int, count: int) -> tuple[Codes, ...]:
    """What is typical of some of the channels."""
    return tuple(codes[..., first : first + count] for codes in layer.typical())
