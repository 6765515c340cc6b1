"""Convolutions and dense layers: which of the ways to compute them applies."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from atonc.ir import Op
from atonc.lower import conv_dense, conv_depthwise
from atonc.lower.context import Context
from atonc.lower.layer import Layer, layer_of
from atonc.lower.registry import recipe
from atonc.plan.types import StepPlan


@recipe("conv")
def lower_conv(op: Op, context: Context) -> list[StepPlan]:
    layer = layer_of(op, context)
    groups = int(op.attrs.get("groups", 1))
    if groups == 1:
        return conv_dense.lower(layer, context)
    if layer.weights.shape[3] == 1:
        return conv_depthwise.lower(layer, context)
    return [plan for part in _groups(layer, groups) for plan in conv_dense.lower(part, context)]


@recipe("transpose_conv")
def lower_transpose_conv(op: Op, context: Context) -> list[StepPlan]:
    layer = layer_of(op, context)
    groups = int(op.attrs.get("groups", 1))
    parts = [layer] if groups == 1 else _groups(layer, groups)
    return [plan for part in parts for plan in conv_dense.lower(part, context)]


@recipe("dense")
def lower_dense(op: Op, context: Context) -> list[StepPlan]:
    """A 1x1 convolution over as many pixels as there are rows."""
    x, weights = context.tensor(op.inputs[0]), context.tensor(op.inputs[1])
    outputs, inputs = weights.shape[0], int(np.prod(weights.shape[1:]))
    rows = x.elements // inputs
    return conv_dense.lower(layer_of(op, context, (1, rows, inputs), (1, rows, outputs)), context)


def _groups(layer: Layer, groups: int) -> list[Layer]:
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


def _channels(layer: Layer, first: int, count: int) -> tuple[NDArray[np.int64], ...]:
    """What is typical of some of the channels."""
    return tuple(codes[..., first : first + count] for codes in layer.typical())
