"""ONNX nodes that work element by element, reduce or normalise. Those that are a few operators in a row become one
table again where they are on codes (passes/make_tables.py)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from atonc.compiler.frontends.limits import EXTERNAL
from atonc.compiler.frontends.onnx_builder import Node, translates
from atonc.compiler.ir import Array, Tensor
from atonc.compiler.ir.types import check_shape
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.machine.base.errors import ModelError, UnsupportedError

UNARY = {row.onnx: row for row in FUNCTIONS.values() if row.onnx}

BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "PRelu": "prelu", "Less": "less",
    "LessOrEqual": "less_equal", "Greater": "greater", "GreaterOrEqual": "greater_equal", "Equal": "equal",
    "And": "logical_and", "Or": "logical_or", "Xor": "not_equal",
}  # fmt: skip

COMPARISONS = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or"}

ELEMENT_TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
                 10: "float16", 11: "float64", 12: "uint32", 13: "uint64"}  # fmt: skip
HALF_BYTES = {21: "uint8", 22: "int8"}  # constants of 4 bits are codes that use little of the element type

OTHER_TYPES = {8: "string", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz",
               19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0",
               25: "uint2", 26: "int2"}  # fmt: skip


def type_name(code: int) -> str:
    """Names an element type, as ONNX numbers them."""
    return ELEMENT_TYPES.get(code) or OTHER_TYPES.get(code) or f"number {code}"


def constant_data(proto: Any) -> Array:
    """The values of a TensorProto whose data lie in the file itself."""
    from onnx import numpy_helper

    if proto.data_location == EXTERNAL or proto.external_data:
        raise UnsupportedError(
            "constants in other files are read beside a file on disk only",
            where=proto.name[:200],
            remedy="save the model as one file: onnx.save(onnx.load(path), new_path)",
        )
    if proto.data_type not in ELEMENT_TYPES and proto.data_type not in HALF_BYTES:
        raise UnsupportedError(f"element type {type_name(proto.data_type)} is not supported", where=proto.name[:200])
    shape = check_shape(tuple(int(dim) for dim in proto.dims), proto.name[:200])
    elements = int(np.prod(shape, dtype=np.int64))
    _check_stored(proto, -(-elements // 2) if proto.data_type in HALF_BYTES else elements)
    try:
        data = np.asarray(numpy_helper.to_array(proto))
    except (ValueError, TypeError) as error:
        raise ModelError(f"constant cannot be read: {error}", where=proto.name[:200]) from error
    return data.astype(HALF_BYTES.get(proto.data_type, data.dtype)).reshape(shape)


def _check_stored(proto: Any, elements: int) -> None:
    """A few bytes must not claim to be millions of values."""
    stored = len(proto.raw_data) + sum(
        len(field)
        for field in (proto.float_data, proto.int32_data, proto.int64_data, proto.double_data, proto.uint64_data)
    )
    if elements > max(stored, 1):
        raise ModelError(f"constant of {elements} values stores {stored} bytes", where=proto.name[:200])


@translates(*UNARY)
def unary(node: Node) -> Tensor:
    row = UNARY[node.kind]
    attrs: dict[str, Any] = {key: node.number(key, default) for key, default in row.attrs.items()}
    return node.step(row.kind, node.input(0), dtype="bool" if row.boolean else None, **attrs)


translates("Identity")(lambda node: node.stored(0))
translates("IsNaN")(lambda node: node.step("not_equal", node.input(0), node.input(0), dtype="bool"))
translates("Gelu", "com.microsoft.Gelu")(
    lambda node: node.step("gelu", node.input(0), approximate=node.text("approximate", "none") == "tanh")
)
translates("Mod")(  # the remainder has the sign of the divisor, or with `fmod` that of the dividend
    lambda node: node.step("fmod" if node.integer("fmod", 0) else "floor_mod", node.input(0), node.input(1))
)


@translates(*BINARY)
def binary(node: Node) -> Tensor:
    kind = BINARY[node.kind]
    return node.step(kind, node.input(0), node.input(1), dtype="bool" if kind in COMPARISONS else None)


@translates("Min", "Max", "Sum", "Mean")
def variadic(node: Node) -> Tensor:
    """More than two inputs are taken one after the other; real numbers in between lose nothing."""
    kind = {"Min": "minimum", "Max": "maximum"}.get(node.kind, "add")
    total, *rest = node.all_inputs()
    for value in rest:
        total = node.step(kind, total, value)
    if node.kind == "Mean" and rest:
        count = node.builder.constant(f"{node.name}:count", np.array(len(node.inputs), total.dtype))
        total = node.step("div", total, count)
    return total


@translates("Dropout")
def dropout(node: Node) -> Tensor:
    """Nothing is dropped outside training."""
    if node.has(2) and bool(node.constant(2, "training_mode").any()):
        raise UnsupportedError("Dropout in training", where=node.name)
    x = node.stored(0)
    if len(node.outputs) > 1 and node.outputs[1]:
        kept = node.builder.constant(node.outputs[1], np.ones(x.shape, np.bool_))
        node.builder.bind(node.outputs[1], kept)
    return x


@translates("Clip")
def clip(node: Node) -> Tensor:
    """Bounds that are computed are taken one after the other."""
    x = node.input(0)
    bounds: dict[str, Any] = {"low": node.number("min", -np.inf), "high": node.number("max", np.inf)}
    for index, (key, kind) in enumerate((("low", "maximum"), ("high", "minimum")), start=1):
        if not node.has(index):
            continue
        if node.input(index).is_constant:
            bounds[key] = float(node.constant(index, "bounds").reshape(-1)[0])
        else:
            x = node.step(kind, x, node.input(index))
    if any(np.isfinite(bound) for bound in bounds.values()):
        x = node.step("clip", x, **bounds)
    return x


@translates("Softmax", "LogSoftmax")
def softmax(node: Node) -> Tensor:
    x = node.input(0)
    kind = "softmax" if node.kind == "Softmax" else "log_softmax"
    axis = node.axis(node.integer("axis", 1 if node.opset < 13 else -1), len(x.shape))
    return exponentials(node, kind, x, axis, node.opset)


def exponentials(node: Node, kind: str, x: Tensor, axis: int, opset: int, **type_of: Any) -> Tensor:
    """Softmax or its logarithm; before opset 13 over all axes from the given one on."""
    if opset >= 13 or all(dim == 1 for dim in x.shape[axis + 1 :]):
        return node.step(kind, x, axis=axis, beta=1.0, **type_of)
    rows = prod(x.shape[:axis])
    flat = node.step("reshape", x, shape=(rows, x.elements // max(1, rows)))
    return node.step("reshape", node.step(kind, flat, axis=1, beta=1.0, **type_of), shape=x.shape)


@translates("Where")
def where(node: Node) -> Tensor:
    inputs = [node.input(i) for i in range(3)]
    dtype, quant = node.type_of("select", inputs[1:])
    return node.step("select", *inputs, dtype=dtype, quant=quant)


@translates("Cast")
def cast(node: Node) -> Tensor:
    code = node.integer("to", 0)
    if code not in ELEMENT_TYPES:
        raise UnsupportedError(f"Cast to {type_name(code)}", where=node.name)
    return _cast(node, ELEMENT_TYPES[code])


@translates("CastLike")
def cast_like(node: Node) -> Tensor:
    like = node.stored(1)
    real = like.quant is not None and node.inputs[1] not in node.builder.codes
    return _cast(node, "float32" if real else like.dtype)


def _cast(node: Node, dtype: str) -> Tensor:
    x = node.stored(0)
    if x.quant is not None and dtype == x.dtype and node.reads_codes:
        return x  # PyTorch writes such casts of codes
    return node.step("cast", node.builder.unquantised(node.input(0)), dtype=dtype)


@translates("ArgMax", "ArgMin")
def arg_extreme(node: Node) -> Tensor:
    x = node.stored(0)
    axis = node.axis(node.integer("axis", 0), len(x.shape))
    kept = [1] if node.integer("keepdims", 1) else []
    shape = (*x.shape[:axis], *kept, *x.shape[axis + 1 :])
    kind = "arg_max" if node.kind == "ArgMax" else "arg_min"
    if not node.integer("select_last_index", 0):
        return node.step(kind, x, shape=shape, dtype="int64", axis=axis)
    turned = node.step("reverse", x, axes=(axis,))
    found = node.step(kind, turned, shape=shape, dtype="int64", axis=axis)
    last = node.builder.constant(f"{node.name}:last", np.array(x.shape[axis] - 1, np.int64))
    return node.step("sub", last, found, dtype="int64")


SELU = (1.67326319217681884765625, 1.05070102214813232421875)


def number(node: Node, value: float, like: Tensor) -> Tensor:
    """A constant of the type that the node computes with."""
    dtype = "float32" if like.quant is not None else like.dtype
    return node.builder.constant(f"{node.name}:number", np.array(value, dtype))


@translates("Selu")
def selu(node: Node) -> Tensor:
    alpha, gamma = node.number("alpha", SELU[0]), node.number("gamma", SELU[1])
    made = node.step("elu", node.input(0), alpha=alpha)
    return node.step("mul", made, number(node, gamma, made))


@translates("Celu")
def celu(node: Node) -> Tensor:
    """alpha * elu(x / alpha)"""
    x, alpha = node.input(0), node.number("alpha", 1.0)
    made = node.step("elu", node.step("div", x, number(node, alpha, x)), alpha=1.0)
    return node.step("mul", made, number(node, alpha, made))


@translates("ThresholdedRelu")
def thresholded_relu(node: Node) -> Tensor:
    x = node.input(0)
    above = node.step("greater", x, number(node, node.number("alpha", 1.0), x), dtype="bool")
    return choose(node, above, x, number(node, 0.0, x))


def choose(node: Node, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    dtype, quant = node.type_of("select", [a, b])
    return node.step("select", condition, a, b, dtype=dtype, quant=quant)


@translates("Shrink")
def shrink(node: Node) -> Tensor:
    x, bias, limit = node.input(0), node.number("bias", 0.0), node.number("lambd", 0.5)
    if not x.is_float and x.quant is None:
        raise UnsupportedError("Shrink of integers", where=node.name)
    high = node.step("greater", x, number(node, limit, x), dtype="bool")
    low = node.step("less", x, number(node, -limit, x), dtype="bool")
    lower, upper = (node.step("add", x, number(node, sign * bias, x)) for sign in (1, -1))
    inner = node.step("select", high, upper, number(node, 0.0, upper), dtype=upper.dtype)
    return choose(node, low, lower, inner)


@translates("Softsign")
def softsign(node: Node) -> Tensor:
    x = node.input(0)
    size = node.step("abs", x)
    return node.step("div", x, node.step("add", size, number(node, 1.0, size)))


@translates("IsInf")
def is_inf(node: Node) -> Tensor:
    """What is equal to itself but has no difference to itself."""
    x = node.input(0)
    rest = node.step("sub", x, x)
    parts = [node.step("not_equal", rest, rest, dtype="bool"), node.step("equal", x, x, dtype="bool")]
    for key, kind in (("detect_positive", "less"), ("detect_negative", "greater")):
        if not node.integer(key, 1):
            parts.append(node.step(kind, x, number(node, 0.0, x), dtype="bool"))
    made = parts[0]
    for part in parts[1:]:
        made = node.step("logical_and", made, part, dtype="bool")
    return made


@translates("Pow")
def power(node: Node) -> Tensor:
    a, b = node.input(0), node.input(1)
    whole = not a.is_float and a.quant is None
    if whole and (b.is_float or b.quant is not None):
        raise UnsupportedError("Pow of integers to a float power", where=node.name)
    exponent = float(b.data.reshape(-1)[0]) if b.data is not None and b.elements == 1 and b.quant is None else None
    kind = {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}.get(exponent or 0.0)
    if kind is not None and not whole and len(b.shape) <= len(a.shape):
        return node.step(kind, a)
    return node.step("pow", a, b, dtype=a.dtype if a.is_float or whole else "float32")


@translates("Hardmax")
def hardmax(node: Node) -> Tensor:
    """1 at the first largest value, else 0."""
    x = node.input(0)
    axis = node.axis(node.integer("axis", 1 if node.opset < 13 else -1), len(x.shape))
    if node.opset < 13 and any(dim != 1 for dim in x.shape[axis + 1 :]):
        raise UnsupportedError("Hardmax over several axes (opset below 13)", where=node.name)
    shape = tuple(1 if k == axis else dim for k, dim in enumerate(x.shape))
    found = node.step("arg_max", x, shape=shape, dtype="int64", axis=axis)
    places = np.arange(x.shape[axis]).reshape(tuple(-1 if k == axis else 1 for k in range(len(x.shape))))
    there = node.step("equal", found, node.builder.constant(f"{node.name}:places", places), dtype="bool")
    return node.step("cast", there, dtype=x.dtype if x.is_float else "float32")


REDUCTIONS = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "reduce_max", "ReduceMin": "reduce_min",
              "ReduceProd": "reduce_prod"}  # fmt: skip
BEFORE = {"ReduceL1": "abs", "ReduceL2": "square", "ReduceSumSquare": "square"}
BEHIND = {"ReduceL2": "sqrt", "ReduceLogSum": "log"}


# --- reductions ----------------------------------------------------------------------------------------------------


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    axes = node.integers_of("axes", 1) or list(range(rank))
    return tuple(sorted({node.axis(a, rank) for a in axes}))


def reduced(node: Node, kind: str, x: Tensor, axes: tuple[int, ...], keep: bool = True) -> Tensor:
    return node.step(kind, x, axes=axes, keepdims=keep)


@translates(*REDUCTIONS)
def reduce(node: Node) -> Tensor:
    x = node.input(0)
    if not node.integers_of("axes", 1) and node.integer("noop_with_empty_axes", 0):
        return node.stored(0)
    _require_values(node, x)
    keep = bool(node.integer("keepdims", 1))
    return reduced(node, REDUCTIONS[node.kind], x, _axes(node, len(x.shape)), keep)


def _require_values(node: Node, x: Tensor) -> None:
    if not x.elements:
        raise UnsupportedError(f"{node.kind} of no values", where=node.name)
    if node.integer("noop_with_empty_axes", 0) and not node.integers_of("axes", 1):
        raise UnsupportedError(f"{node.kind} without axes", where=node.name)


@translates("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum")
def reduce_norm(node: Node) -> Tensor:
    x = node.input(0)
    _require_values(node, x)
    if node.kind in BEHIND and not x.is_float and x.quant is None:
        raise UnsupportedError(f"{node.kind} of integers", where=node.name)
    made = node.step(BEFORE[node.kind], x) if node.kind in BEFORE else x
    made = reduced(node, "sum", made, _axes(node, len(x.shape)), bool(node.integer("keepdims", 1)))
    return node.step(BEHIND[node.kind], made) if node.kind in BEHIND else made


@translates("ReduceLogSumExp")
def reduce_log_sum_exp(node: Node) -> Tensor:
    """The largest value is taken out, so that no power is infinite."""
    x = node.input(0)
    _require_values(node, x)
    if not x.is_float and x.quant is None:
        raise UnsupportedError("ReduceLogSumExp of integers", where=node.name)
    axes, keep = _axes(node, len(x.shape)), bool(node.integer("keepdims", 1))
    largest = reduced(node, "reduce_max", x, axes)
    total = reduced(node, "sum", node.step("exp", node.step("sub", x, largest)), axes)
    made = node.step("add", node.step("log", total), largest)
    shape = tuple(dim for axis, dim in enumerate(made.shape) if axis not in axes)
    return made if keep else node.step("reshape", made, shape=shape)


# --- norms ---------------------------------------------------------------------------------------------------------


def _scaled(node: Node, x: Tensor, gain: Tensor | None, offset: Tensor | None) -> Tensor:
    if gain is not None:
        x = node.step("mul", x, gain)
    return x if offset is None else node.step("add", x, offset)


def _centred(node: Node, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The mean, and the differences to it."""
    mean = reduced(node, "mean", x, axes)
    return mean, node.step("sub", x, mean)


def _inverse_length(node: Node, x: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    """1 / sqrt(mean of squares + epsilon)"""
    mean = reduced(node, "mean", node.step("square", x), axes)
    return node.step("rsqrt", node.step("add", mean, number(node, epsilon, mean)))


def _normed(node: Node, x: Tensor, axis: int, gain: Tensor | None, offset: Tensor | None) -> Tensor:
    """`layer_norm`, or `rms_norm` by the node's name, over the axes from `axis` on, taken as one."""
    inner = x.shape[axis:]
    flat = x if len(inner) == 1 else node.step("reshape", x, shape=(*x.shape[:axis], prod(inner)))
    parts = [t if t is None or len(t.shape) == 1 == len(inner) or t.elements != prod(inner)
             else node.step("reshape", t, shape=(prod(inner),)) for t in (gain, offset)]  # fmt: skip
    fits = all(t is None or t.shape == flat.shape[-1:] for t in parts)
    kind = "rms_norm" if node.kind in RMS else "layer_norm"
    own = parts if fits else ()  # others are broadcast
    made = node.step(kind, flat, *own, axis=axis, epsilon=node.number("epsilon", 1e-5))
    made = node.reshaped(made, x.shape)
    return made if fits else _scaled(node, made, gain, offset)


RMS = ("RMSNormalization", "SimplifiedLayerNormalization", "com.microsoft.SimplifiedLayerNormalization",
       "com.microsoft.SkipSimplifiedLayerNormalization")  # fmt: skip


@translates("LayerNormalization", "com.microsoft.LayerNormalization", *RMS[:3])
def layer_norm(node: Node) -> None:
    x = node.input(0)
    axis = node.axis(node.integer("axis", -1), len(x.shape))
    _bind_norm(node, x, axis, node.optional(1), node.optional(2), node.outputs)


@translates("com.microsoft.SkipLayerNormalization", RMS[3])
def skip_layer_norm(node: Node) -> None:
    """The sum of two tensors and a bias is normalised, and is an output too."""
    x = node.step("add", node.input(0), node.input(1))
    rms = node.kind in RMS
    bias, offset = node.optional(3 if rms else 4), None if rms else node.optional(3)
    x = x if bias is None else node.step("add", x, bias)
    _bind_norm(node, x, len(x.shape) - 1, node.optional(2), offset, node.outputs[:3])
    if len(node.outputs) > 3 and node.outputs[3]:
        node.bind(node.outputs[3], x)


def _bind_norm(
    node: Node, x: Tensor, axis: int, gain: Tensor | None, offset: Tensor | None, outputs: Sequence[str]
) -> None:
    node.bind(outputs[0], _normed(node, x, axis, gain, offset))
    rest = outputs[1:] if node.kind not in RMS or len(outputs) > 2 else ("", *outputs[1:])
    if any(rest):  # what training reads: the mean and the factor
        axes = tuple(range(axis, len(x.shape)))
        mean, centred = _centred(node, x, axes)
        source = x if node.kind in RMS else centred
        inverse = _inverse_length(node, source, axes, node.number("epsilon", 1e-5))
        for name, tensor in zip(rest, (mean, inverse), strict=False):
            if name:
                node.bind(name, tensor)


@translates("InstanceNormalization")
def instance_norm(node: Node) -> Tensor:
    x = node.input(0)
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))
    flat = node.reshaped(x, (*x.shape[:2], prod(x.shape[2:])))
    made = node.reshaped(node.step("layer_norm", flat, axis=2, epsilon=node.number("epsilon", 1e-5)), x.shape)
    return _scaled(node, made, *(node.reshaped(node.input(k), shape) for k in (1, 2)))


@translates("GroupNormalization")
def group_norm(node: Node) -> Tensor:
    """Gains and offsets are for channels; before opset 21, for groups."""
    x, groups = node.input(0), node.integer("num_groups", 1)
    if len(x.shape) < 3 or groups < 1 or x.shape[1] % groups:
        raise ModelError(f"{groups} groups in shape {x.shape}", where=node.name)
    whole = (x.shape[0], groups, x.elements // (x.shape[0] * groups))
    flat = node.step("reshape", x, shape=whole)
    made = node.step("layer_norm", flat, axis=2, epsilon=node.number("epsilon", 1e-5))
    if node.opset < 21:
        made = _scaled(node, made, *(node.reshaped(node.input(k), (groups, 1)) for k in (1, 2)))
        return node.step("reshape", made, shape=x.shape)
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))
    made = node.step("reshape", made, shape=x.shape)
    return _scaled(node, made, *(node.reshaped(node.input(k), shape) for k in (1, 2)))


@translates("MeanVarianceNormalization")
def mean_variance_norm(node: Node) -> Tensor:
    x = node.input(0)
    axes = tuple(sorted(node.axis(a, len(x.shape)) for a in node.ints("axes", (0, 2, 3))))
    _, centred = _centred(node, x, axes)
    length = node.step("sqrt", reduced(node, "mean", node.step("square", centred), axes))
    return node.step("div", centred, node.step("add", length, number(node, 1e-9, length)))


@translates("LpNormalization")
def lp_norm(node: Node) -> Tensor:
    """Divided by its length; what has no length stays zero."""
    x, p = node.input(0), node.integer("p", 2)
    if p not in (1, 2):
        raise ModelError(f"LpNormalization with p = {p}", where=node.name)
    axes = (node.axis(node.integer("axis", -1), len(x.shape)),)
    length = reduced(node, "sum", node.step("abs" if p == 1 else "square", x), axes)
    length = length if p == 1 else node.step("sqrt", length)
    empty = node.step("equal", length, number(node, 0.0, length), dtype="bool")
    made = node.step("div", x, length)
    return node.step("select", empty, number(node, 0.0, made), made, dtype=made.dtype)


@translates("BatchNormalization")
def batch_norm(node: Node) -> Tensor:
    x, rest = node.input(0), [node.input(k) for k in range(1, 5)]
    if node.integer("training_mode", 0) or any(node.outputs[1:]) or node.integer("spatial", 1) != 1:
        raise UnsupportedError("BatchNormalization in training", where=node.name)
    epsilon = node.number("epsilon", 1e-5)
    if all(tensor.is_constant for tensor in rest):
        return node.step("batch_norm", x, *rest, axis=1, epsilon=epsilon)
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))
    gain, offset, mean, variance = (node.reshaped(tensor, shape) for tensor in rest)
    inverse = node.step("rsqrt", node.step("add", variance, number(node, epsilon, variance)))
    made = node.step("mul", node.step("sub", x, mean), inverse)
    return _scaled(node, made, gain, offset)


# --- windows -------------------------------------------------------------------------------------------------------


def root(node: Node, x: Tensor, power: int) -> Tensor:
    if power == 1:
        return x
    if power == 2:
        return node.step("sqrt", x)
    return node.step("pow", x, number(node, 1.0 / power, x))


@translates("GlobalLpPool")
def global_lp_pool(node: Node) -> Tensor:
    x, power = node.input(0), node.integer("p", 2)
    if power < 1:
        raise ModelError(f"GlobalLpPool with p = {power}", where=node.name)
    made = reduced(node, "sum", powers(node, x, power), tuple(range(2, len(x.shape))))
    return root(node, made, power)


def powers(node: Node, x: Tensor, power: int) -> Tensor:
    """Raises the magnitudes of values to a power."""
    size = node.step("abs", x)
    if power == 1:
        return size
    if power == 2:
        return node.step("square", x)
    return node.step("pow", size, node.builder.constant(f"{node.name}:p", np.array(power, np.float32)))
