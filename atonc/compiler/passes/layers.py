"""What goes into layers with weights: gains, offsets, biases, clamps, leaky slopes, channels that never move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Array, Op, Quantisation, Tensor
from atonc.compiler.ops import rounding
from atonc.compiler.ops.functions import RANGES
from atonc.compiler.ops.rounding import round_half_away
from atonc.compiler.ops.values import Real
from atonc.compiler.passes.edit import Editor, real_data, real_value, rewrites, same_format, with_attrs
from atonc.machine.base.errors import ModelError
from atonc.machine.base.frozen import dataclass

WEIGHTED = ("conv", "dense", "transpose_conv")


@dataclass(frozen=True)
class GainOffset:
    """x * gain + offset: one value each, or one per channel."""

    gain: Real
    offset: Real


@rewrites
def fuse_affine(op: Op, editor: Editor) -> list[Op] | None:
    """Gains and offsets: batch norms and products and sums with constants, while nothing is rounded between them.

    They go into the weights before them if there are any (the scales of the weights take the gain, the bias the
    offset); what is left over becomes one `affine` operator. Gains below zero turn the sign of the weights.
    """
    found = affine_of(op, editor)
    if found is None:
        return None
    x_name, function = found
    producer = editor.producer(x_name)
    x = editor.tensor(x_name)
    if producer is not None and x.is_float and editor.read_once(x_name) and not is_clamped(producer):
        if producer.kind in WEIGHTED:
            joined = into_weights(producer, function, editor)
            if joined is not None:
                return _replace(producer, replace(joined, outputs=op.outputs), op, editor)
        if producer.kind == "matmul" and (codes := _scaled_codes(function, op, editor)) is not None:
            written = editor.like(x_name, "codes", dtype=editor.tensor(op.outputs[0]).dtype, quant=codes)
            editor.replace_op(producer, replace(producer, outputs=(written,)))
            return [replace(op, inputs=tuple(written if name == x_name else name for name in op.inputs))]
        before = affine_of(producer, editor)
        if before is not None:
            both = GainOffset(before[1].gain * function.gain, before[1].offset * function.gain + function.offset)
            return _replace(producer, _operator(producer, before[0], both, op.outputs, editor), op, editor)
    return [_operator(op, x_name, function, op.outputs, editor)] if op.kind == "batch_norm" else None


def _scaled_codes(function: GainOffset, op: Op, editor: Editor) -> Quantisation | None:
    """The format in which a product has the codes that its multiple will have: so it runs on the NPU."""
    quant = editor.tensor(op.outputs[0]).quant
    if quant is None or not quant.is_per_tensor or function.gain.size > 1 or np.any(function.offset):
        return None
    gain = float(function.gain[0])
    return Quantisation(quant.scales / gain, quant.zero_points) if gain > 0 else None


def is_clamped(op: Op) -> bool:
    return "clip" in op.attrs or op.attrs.get("activation", "none") != "none" or len(op.outputs) != 1


def _replace(producer: Op, joined: Op, op: Op, editor: Editor) -> list[Op]:
    """The clamp of the later operator stays."""
    clamp = {key: op.attrs[key] for key in ("clip", "activation") if key in op.attrs}
    origin = (*producer.origin, *op.origin)
    editor.replace_op(producer, replace(joined, origin=origin, attrs={**joined.attrs, **clamp}))
    return []


def _operator(op: Op, x: str, function: GainOffset, outputs: tuple[str, ...], editor: Editor) -> Op:
    size = max(function.gain.size, function.offset.size)
    gain, offset = (np.array(np.broadcast_to(v, (size,))) for v in (function.gain, function.offset))
    names = (editor.constant(f"{outputs[0]}:gain", gain), editor.constant(f"{outputs[0]}:offset", offset))
    attrs = {key: op.attrs[key] for key in ("clip", "activation") if key in op.attrs}
    return Op("affine", op.name, (x, *names), outputs, attrs, op.origin)


def affine_of(op: Op, editor: Editor) -> tuple[str, GainOffset] | None:
    """The input and the function of an operator that is x * gain + offset along the last axis."""
    if op.kind == "affine":
        return op.inputs[0], GainOffset(*(real_data(editor.tensor(name)) for name in op.inputs[1:3]))
    if op.kind == "batch_norm":
        return _batch_norm(op, editor)
    if op.kind not in ("mul", "div", "add", "sub") or len(op.inputs) != 2:
        return None
    first, second = (editor.tensor(name) for name in op.inputs)
    y = editor.tensor(op.outputs[0])
    if second.is_constant and not first.is_constant and first.shape == y.shape:
        value = _vector(second, first)
        if value is None or (op.kind == "div" and not np.all(value)):
            return None
        return first.name, _applied(op.kind, value)
    if first.is_constant and not second.is_constant and second.shape == y.shape and op.kind != "div":
        value = _vector(first, second)
        if value is None:
            return None
        return second.name, GainOffset(-np.ones(1), value) if op.kind == "sub" else _applied(op.kind, value)
    return None


def _applied(kind: str, value: Real) -> GainOffset:
    """x kind value."""
    if kind in ("mul", "div"):
        return GainOffset(value if kind == "mul" else 1.0 / value, np.zeros(1))
    return GainOffset(np.ones(1), value if kind == "add" else -value)


def _batch_norm(op: Op, editor: Editor) -> tuple[str, GainOffset] | None:
    x = editor.tensor(op.inputs[0])
    constants = [editor.tensor(name) for name in op.inputs[1:5]]
    if op.attrs["axis"] != len(x.shape) - 1 or any(not c.is_constant for c in constants):
        return None
    gain, offset, mean, variance = (real_data(c).reshape(-1) for c in constants)
    factor = gain / np.sqrt(variance + op.attrs["epsilon"])
    return x.name, GainOffset(factor, offset - mean * factor)


def _vector(constant: Tensor, x: Tensor) -> Real | None:
    """One value, or one per channel along the last axis of x."""
    if not constant.is_float and constant.quant is None:
        return None
    if constant.elements == 1:
        return real_data(constant).reshape(1)
    if constant.shape and x.shape and constant.elements == constant.shape[-1] == x.shape[-1]:
        return real_data(constant).reshape(-1)
    return None


def into_weights(op: Op, function: GainOffset, editor: Editor) -> Op | None:
    """The weighted operator with gain and offset inside; None if its weights cannot take them."""
    weights = editor.tensor(op.inputs[1])
    bias = editor.tensor(op.inputs[2]) if len(op.inputs) > 2 and op.inputs[2] else None
    x = editor.tensor(op.inputs[0])
    if weights.data is None or (bias is not None and bias.data is None):
        return None
    outputs = weights.shape[0]
    gain = np.broadcast_to(function.gain, (outputs,))
    _require_finite(gain, "a gain behind the layer", op)
    scaled = _scaled(weights, gain)
    if scaled is None:
        return None
    real_bias = bias_values(bias, x, weights) * gain + function.offset
    names = (
        op.inputs[0],
        editor.add(replace(scaled, name=f"{weights.name}:gain")),
        editor.constant(f"{op.outputs[0]}:bias", np.array(np.broadcast_to(real_bias, (outputs,)))),
    )
    return replace(op, inputs=names)


def _require_finite(values: Real, what: str, op: Op) -> None:
    if not np.isfinite(values).all():
        rule = "scales and biases of a quantised layer become whole numbers"
        remedy = "look for a division by zero in the training, or export the model again"
        raise ModelError(f"{what} is not a finite number", where=op.name, rule=rule, remedy=remedy)


def bias_values(bias: Tensor | None, x: Tensor, weights: Tensor) -> Real:
    """Biases in real numbers."""
    if bias is None or bias.data is None:
        return np.zeros(1)
    if bias.quant is None and not bias.is_float:
        return np.asarray(bias.data.astype(np.float64).reshape(-1) * accumulator_units(x, weights))
    return real_data(bias).reshape(-1)


def accumulator_units(x: Tensor, weights: Tensor) -> Real:
    scales = np.ones(1) if weights.quant is None else weights.quant.scales
    return np.asarray(x.scale * scales)


def _scaled(weights: Tensor, gain: Real) -> Tensor | None:
    quant, data = weights.quant, weights.data
    if data is None:
        return None
    along = (-1,) + (1,) * (data.ndim - 1)
    if quant is None:
        return replace(weights, data=data * gain.reshape(along)) if weights.is_float else None
    if not quant.is_per_tensor and quant.axis != 0:
        return None
    scales = np.broadcast_to(quant.scales, gain.shape) * np.abs(gain)
    zeros = np.broadcast_to(quant.zero_points, gain.shape)
    negative = gain < 0
    if np.any(negative):
        turned = 2 * zeros.reshape(along) - data.astype(np.int64)
        data = np.where(negative.reshape(along), turned, data)
        low, high = weights.code_range
        if data.min(initial=0) < low or data.max(initial=0) > high:
            return None
        data = data.astype(weights.data.dtype)  # type: ignore[union-attr]
    silent = scales == 0  # a channel that is switched off: weights at their zero point
    data = np.where(silent.reshape(along), zeros.reshape(along), data).astype(data.dtype)
    made = Quantisation(np.where(silent, 1.0, scales), np.array(zeros), 0 if gain.size > 1 else None)
    return replace(weights, quant=made, data=data)


CARRIERS = (
    "conv", "dense", "transpose_conv", "matmul", "add", "sub", "mul", "affine", "average_pool", "mean", "requantize",
)  # fmt: skip


@rewrites
def fuse_activations(op: Op, editor: Editor) -> list[Op] | None:
    """Clamps become `clip`, a range of output codes, on the operator before them. Exact: rounding is monotonic.

    Works for the fused activations of TFLite and for Relu, Relu6, Clip, Min and Max with a constant that stand alone,
    if nothing is rounded between the operator and its clamp, or if both write the same format.
    """
    op = _own_activation(op, editor)
    bounds = clamp_of(op, editor)
    if bounds is None:
        return [op]
    merged = _into_producer(op, bounds, editor)
    return [_standing_alone(op, bounds, editor)] if merged is None else merged


def _own_activation(op: Op, editor: Editor) -> Op:
    """`activation` in words -> `clip` in codes; float results keep the words."""
    if "activation" not in op.attrs:
        return op
    if op.attrs["activation"] == "none":
        return with_attrs(op, ["activation"])
    y = editor.tensor(op.outputs[0])
    if y.quant is None or op.attrs["activation"] not in RANGES:
        return op
    return with_clip(with_attrs(op, ["activation"]), RANGES[op.attrs["activation"]], y)


def codes_of(bounds: tuple[float, float], tensor: Tensor) -> tuple[int, int]:
    """Real bounds in codes; infinite ones end at the limits of the type."""
    low, high = tensor.code_range
    ends = round_half_away(np.array(bounds) / tensor.scale) + tensor.zero_point
    return int(np.clip(ends[0], low, high)), int(np.clip(ends[1], low, high))


def with_clip(op: Op, bounds: tuple[float, float], tensor: Tensor) -> Op:
    """Adds a clamp of real values that comes after whatever clamp is there."""
    low, high = codes_of(bounds, tensor)
    old_low, old_high = op.attrs.get("clip", tensor.code_range)
    both = (min(max(old_low, low), high), min(max(old_high, low), high))
    if both == tensor.code_range:
        return with_attrs(op, ["clip"])
    return with_attrs(op, clip=both)


def clamp_of(op: Op, editor: Editor) -> tuple[float, float] | None:
    """The real range that a pure clamp leaves of its first input."""
    if op.kind in RANGES:
        return RANGES[op.kind]
    if op.kind == "clip":
        return float(op.attrs["low"]), float(op.attrs["high"])
    if op.kind in ("minimum", "maximum") and len(op.inputs) == 2:
        values = [real_value(editor.tensor(name)) for name in op.inputs]
        if values[0] is None and values[1] is not None:
            return (-np.inf, values[1]) if op.kind == "minimum" else (values[1], np.inf)
    return None


def _into_producer(op: Op, bounds: tuple[float, float], editor: Editor) -> list[Op] | None:
    producer = editor.producer(op.inputs[0])
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    if producer is None or producer.kind not in CARRIERS or not editor.read_once(x.name):
        return None
    unrounded = x.is_float and x.quant is None and producer.attrs.get("activation", "none") == "none"
    if y.quant is None or x.shape != y.shape or not (unrounded or (same_format(x, y))):
        return None
    joined = replace(producer, outputs=op.outputs, origin=(*producer.origin, *op.origin))
    editor.replace_op(producer, with_clip(joined, bounds, y))
    return []


def _standing_alone(op: Op, bounds: tuple[float, float], editor: Editor) -> Op:
    """A clamp between two int8 formats is a requantisation with a clip."""
    x, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    if x.quant is None or y.quant is None or x.shape != y.shape:
        return op
    attrs = rounding.attribute("requantize") if rounding.ATTRIBUTE in op.attrs else {}
    return with_clip(Op("requantize", op.name, op.inputs[:1], op.outputs, attrs, op.origin), bounds, y)


LIMIT = (1 << 31) - 1


MOST_CODE, NEARLY_WHOLE = 127, 1e-3


def grid_scales(rows: Array) -> Array | None:
    """The scale of each row of which all its values are whole multiples, up to 127; None where some row has none. Such
    are weights that went through fake quantisation, also where gains of channels were folded into them since."""
    rows = rows.reshape(len(rows), -1).astype(np.float64)
    tops = np.abs(rows).max(axis=1, initial=0)
    found: Array = np.where(tops > 0, 0.0, 1.0)
    for most in range(MOST_CODE, 0, -1):
        left = np.flatnonzero(found == 0)
        for part in (slice(0, 64), slice(None)):  # a few weights tell most of the others apart
            steps = rows[left, part] * (most / tops[left, None])
            left = left[(np.abs(steps - np.rint(steps)) < NEARLY_WHOLE).all(axis=1)]
        found[left] = tops[left] / most
    return found if (found > 0).all() else None


@rewrites
def code_weights(op: Op, editor: Editor) -> list[Op] | None:
    """Real weights of a layer between codes that are multiples of a scale become those codes: nothing is rounded."""
    if op.kind not in ("conv", "dense"):
        return None
    x, weights, y = (editor.tensor(name) for name in (*op.inputs[:2], op.outputs[0]))
    if x.quant is None or y.quant is None or not weights.is_float or weights.data is None:
        return None
    scales = grid_scales(weights.data)
    if scales is None:
        return None
    quant = Quantisation(scales, np.zeros(len(scales), np.int64), 0)
    codes = np.rint(weights.data / quant.along(scales, weights.data.ndim)).astype(np.int8)
    name = editor.constant(f"{weights.name}:codes {op.outputs[0]}", codes, quant)
    return [replace(op, inputs=(op.inputs[0], name, *op.inputs[2:]))]


@rewrites
def make_integer_biases(op: Op, editor: Editor) -> list[Op] | None:
    """Biases of quantised layers as int32 in units of the accumulator (input scale x weight scale), without a scale.

    A bias that was float is rounded to half a unit of the accumulator, far below a code of the output.
    """
    if op.kind not in WEIGHTED or len(op.inputs) < 3 or not op.inputs[2]:
        return None
    x, weights, bias = (editor.tensor(name) for name in op.inputs[:3])
    if x.quant is None or weights.quant is None or bias.data is None:
        return None
    if bias.quant is None and bias.dtype == "int32" and len(bias.shape) == 1:
        return None
    steps = np.rint(bias_values(bias, x, weights) / accumulator_units(x, weights))
    _require_finite(steps, "a bias", op)
    if np.any(np.abs(steps) > LIMIT):
        return None
    steps = np.array(np.broadcast_to(steps, (weights.shape[0],)))
    name = editor.constant(f"{bias.name}:{op.outputs[0]}", steps.astype(np.int32))
    return [Op(op.kind, op.name, (*op.inputs[:2], name), op.outputs, op.attrs, op.origin)]


@rewrites
def split_leaky(op: Op, editor: Editor) -> list[Op] | None:
    """Layers whose real results go through a leaky ReLU before they are quantised: two layers and a maximum, all on
    codes.

    max(x, a * x) is the leaky ReLU for a slope a below 1, and rounding keeps the order: the larger of both rounded
    results is the rounded result. The second layer differs in the scale of its weights only.
    """
    alpha = float(op.attrs.get("alpha", 1.0)) if op.kind == "leaky_relu" else 1.0
    layer = editor.producer(op.inputs[0]) if 0.0 < alpha < 1.0 else None
    if layer is None or layer.kind not in WEIGHTED or "clip" in layer.attrs or not _fits(layer, op, editor):
        return None
    weights = editor.tensor(layer.inputs[1])
    quant = weights.quant
    assert quant is not None
    slower = editor.add(
        replace(
            weights,
            name=f"{weights.name}:leak",
            quant=Quantisation(alpha * quant.scales, quant.zero_points, quant.axis),
        )
    )
    plain, leak = (editor.like(op.outputs[0], part) for part in ("plain", "leak"))
    editor.replace_op(layer, replace(layer, outputs=(plain,), origin=(*layer.origin, *op.origin)))
    other = replace(
        layer, name=f"{layer.name}:leak", inputs=(layer.inputs[0], slower, *layer.inputs[2:]), outputs=(leak,)
    )
    return [other, Op("maximum", op.name, (plain, leak), op.outputs, {}, op.origin)]


def _fits(layer: Op, op: Op, editor: Editor) -> bool:
    x, weights = (editor.tensor(name) for name in layer.inputs[:2])
    bias = editor.tensor(layer.inputs[2]) if len(layer.inputs) > 2 and layer.inputs[2] else None
    middle, y = editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0])
    codes = all(t.quant is not None and t.dtype == "int8" for t in (x, weights, y))
    counted = bias is None or (bias.dtype == "int32" and bias.quant is None and bias.is_constant)
    return codes and counted and weights.is_constant and middle.is_float and editor.read_once(middle.name)


# Of a code: rounding of the sums in floating point is far below it, and a value so near the middle between two codes
# is not taken for certain
DOUBT = 1e-3
MOST_BIAS = 2.0**30  # of its 32 bits, in units of what is multiplied: the other half is for the products
MOST_UNIT = 0.25  # of a code, that a step of the accumulator may be: the new bias meets its code with room to spare


@rewrites
def still_channels(op: Op, editor: Editor) -> list[Op] | None:
    """Channels whose result is one code whatever comes in: weights of zero, and a bias that gives the code.

    Pruned and trained networks have them: a scale of 1e-8 beside one of 0.05, so that all products together never move
    the result by a code. Left as they are, such a scale would take a shift of its own, or send the layer to the
    processor.
    """
    if op.kind not in ("conv", "dense") or len(op.inputs) < 3 or not op.inputs[2]:
        return None
    x, weights, bias = (editor.tensor(name) for name in op.inputs[:3])
    y = editor.tensor(op.outputs[0])
    if weights.data is None or weights.quant is None or bias.data is None or not _may_be_still(x, weights, bias, y):
        return None
    units = accumulator_units(x, weights) / y.scale
    codes = _codes(x, weights.data, bias.data, units)
    moving = units[np.isnan(codes)]
    if not 0 < moving.size < units.size:
        return None
    unit = min(float(np.median(moving)), MOST_UNIT)
    still = np.isfinite(codes) & (np.abs(codes) < MOST_BIAS * unit)
    scales = np.where(still, unit * y.scale / x.scale, weights.quant.scales)
    rows = (-1,) + (1,) * (len(weights.shape) - 1)
    data = np.where(still.reshape(rows), 0, weights.data).astype(weights.dtype)
    biases = np.where(still, np.rint(codes / unit), bias.data).astype(np.int32)
    kept = Quantisation(scales, np.zeros(scales.size, np.int64), 0)
    names = (
        editor.constant(f"{weights.name}:{op.outputs[0]}", data, kept),
        editor.constant(f"{bias.name}:{op.outputs[0]}", biases),
    )
    return [replace(op, inputs=(op.inputs[0], *names, *op.inputs[3:]))]


def _may_be_still(x: Tensor, weights: Tensor, bias: Tensor, y: Tensor) -> bool:
    """Codes with one scale for the tensor, weights with one for each channel, biases in units of the accumulator."""
    edges = all(one.quant is not None and one.quant.is_per_tensor and one.dtype == "int8" for one in (x, y))
    return (
        edges
        and weights.quant is not None
        and weights.quant.axis == 0
        and weights.quant.scales.size == weights.shape[0] > 1
        and not weights.quant.zero_points.any()
        and bias.quant is None
        and bias.dtype == "int32"
        and bias.shape == (weights.shape[0],)
    )


def _codes(x: Tensor, weights: Array, bias: Array, units: Real) -> Real:
    """The code above the zero point that a channel always gives; nan where inputs move it."""
    low, high = -128 - x.zero_point, 127 - x.zero_point  # of an input; borders are zero, which lies between
    flat = weights.reshape(weights.shape[0], -1).astype(np.int64)
    up, down = np.maximum(flat, 0).sum(axis=1), np.minimum(flat, 0).sum(axis=1)
    least, most = low * up + high * down, high * up + low * down
    ends = [(bias.astype(np.float64) + end) * units for end in (least, most)]
    below, above = np.rint(ends[0] - DOUBT), np.rint(ends[1] + DOUBT)
    return np.where(below == above, below, np.nan)
