"""A layer as the operator and its tensors say it."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.bias import bias_of
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.steep_channels import tame
from atonc.compiler.lower.conv.typical_sums import Codes
from atonc.compiler.lower.conv.weight_sums import Weights, magnitudes
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.sizes import item_bytes
from atonc.compiler.ops.rounding import lift, rounding_of
from atonc.compiler.plan.coarse import CoarseCodes
from atonc.compiler.plan.policy import USUAL_PLACE
from atonc.compiler.plan.streams import Area
from atonc.compiler.select.rules import CONV_SHAPE, CONV_WEIGHTS, INT8_CODES
from atonc.machine.base.frozen import dataclass

Real = NDArray[np.float64]


@dataclass(frozen=True)
class WideFeatures:
    """Features of two bytes: the buffer that holds them, how they are stored in it, and what they are multiplied by."""

    source: str
    coarse: CoarseCodes
    weights: Tensor
    never_negative: bool


def layer_of(
    op: Op,
    context: Context,
    shape: tuple[int, int, int] | None = None,
    out_shape: tuple[int, int, int] | None = None,
    given: WideFeatures | None = None,
) -> ConvLayer:
    """`shape` and `out_shape`: height, width, channels, where the tensors are no pictures. `given`: features of two
    bytes."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    weights = given.weights if given else context.tensor(op.inputs[1])
    if not (weights.is_constant and weights.dtype in ("int8", "uint8", "int4") and weights.quant is not None):
        seen = f"weights of type {weights.dtype}{'' if weights.is_constant else ', not constant'}"
        raise Refusal(CONV_WEIGHTS, seen, "constant 8-bit weights", "quantise the weights")
    if given is None and x.dtype not in ("int8", "uint8"):
        raise Refusal(INT8_CODES, f"{x.name} of type {x.dtype}", "features of one byte", "lower its bytes one by one")
    data = np.asarray(weights.data).astype(np.int16)
    data = data.reshape(data.shape[0], 1, 1, -1) if data.ndim == 2 else data
    data = data - weights.quant.zero_points.astype(np.int16).reshape(-1, 1, 1, 1)
    scale = x.scale * np.broadcast_to(weights.quant.scales, (data.shape[0],)) / y.scale
    attrs = op.attrs
    offset = bias_of(op, context, scale * y.scale, data.shape[0]) / y.scale + y.zero_point
    if context.numerics != "2.x" and y.dtype == "int8":
        offset = offset + lift(rounding_of(op, [x, weights], y), y, attrs.get("clip"))
        scale, offset = tame(scale, offset, _largest_sums(data, x))
    source, target = given.source if given else context.buffer(x.name), context.buffer(y.name)
    coarse = given.coarse if given else None
    scale = scale * coarse.step if coarse else scale
    features_shifted = context.buffers[source].offset == 128
    return ConvLayer(
        op=op,
        source=source,
        target=target,
        area=Area.whole(*(shape or _picture(x)), 2 if coarse else 1),
        out=Area.whole(*(out_shape or _picture(y)), item_bytes(y)),
        weights=data,
        zero=coarse.zero if coarse else 0 if features_shifted else x.zero_point,
        scale=scale,
        offset=offset,
        stride=tuple(attrs.get("stride", (1, 1))),
        dilation=tuple(attrs.get("dilation", (1, 1))),
        padding=tuple(attrs.get("padding", (0, 0, 0, 0))),
        clip=attrs.get("clip"),
        out_scale=y.scale,
        out_zero=y.zero_point,
        numerics=context.numerics,
        typical=partial(_typical, x, context, shape or _picture(x), features_shifted, coarse),
        features_shifted=features_shifted,
        codes_shifted=context.buffers[target].offset == 128,
        stored=coarse.stored if coarse else (lambda codes: codes + 128) if features_shifted else (lambda codes: codes),
        usual=USUAL_PLACE * y.zero_point,
        room=context.room,
        made_for=context.facts.target,
        out_bytes=item_bytes(y),
        coarse=coarse,
        never_negative=given is not None and given.never_negative,
        coarse_out=context.buffers[target].coarse,
    )


def _largest_sums(weights: Weights, x: Tensor) -> Real:
    """Per output channel, of features without their zero point."""
    reach = max(127 - x.zero_point, x.zero_point + 128)
    return magnitudes(weights).astype(np.float64) * reach


def _typical(
    x: Tensor, context: Context, shape: tuple[int, int, int], shifted: bool, coarse: CoarseCodes | None
) -> tuple[Codes, ...]:
    """Asked for only where several passes are needed: the runs cost more than everything else here."""
    if coarse is not None:  # with room for what is subtracted
        stored = (coarse.stored(codes).astype(np.int32) for codes in context.facts.typical_codes(x.name))
        return tuple(codes.reshape(shape) for codes in stored)
    pictures = [codes.astype(np.int16).reshape(shape) for codes in context.facts.typical_codes(x.name)]
    return tuple(codes + 128 for codes in pictures) if shifted else tuple(pictures)


def _picture(tensor: Tensor) -> tuple[int, int, int]:
    if len(tensor.shape) != 4 or tensor.shape[0] != 1:
        raise Refusal(CONV_SHAPE, f"shape {tensor.shape}", "1 x height x width x channels", "use batch 1")
    _, height, width, channels = tensor.shape
    return height, width, channels
