"""A window as large as the picture: one pixel with all values as channels."""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.typical_sums import Codes
from atonc.compiler.plan.streams import Area

MOST_STRIDE = 2  # of units; how ST's releases 2.x sum with smaller ones nobody knows


def one_patch(layer: ConvLayer) -> ConvLayer:
    """The same layer as a 1x1 convolution, if it has one output pixel that sees everything."""
    outputs, rows, columns, channels = layer.weights.shape
    whole = (rows, columns, channels) == (layer.area.height, layer.area.width, layer.area.channels)
    if not whole or rows * columns == 1 or any(layer.padding) or layer.op.kind != "conv" or layer.ring:
        return layer
    if not layer.area.contiguous or (layer.numerics == "2.x" and min(layer.stride) <= MOST_STRIDE):
        return layer
    values = rows * columns * channels

    def typical() -> tuple[Codes, ...]:
        return tuple(codes.reshape(1, 1, values) for codes in layer.typical())

    weights = layer.weights.reshape(outputs, 1, 1, values)
    area = Area.whole(1, 1, values, layer.area.element_bytes)
    return replace(layer, area=area, weights=weights, stride=(1, 1), dilation=(1, 1), typical=typical)
