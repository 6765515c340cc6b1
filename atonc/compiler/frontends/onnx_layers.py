"""ONNX nodes with windows or matrices, and everything that quantises, onnxruntime's own quantised operators too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from atonc.compiler.frontends.onnx_builder import Node, translates
from atonc.compiler.frontends.onnx_elements import ELEMENT_TYPES, exponentials, number, powers, root
from atonc.compiler.frontends.onnx_moves import padded
from atonc.compiler.ir import Quantisation, Tensor
from atonc.compiler.ops.shapes import infer_shape
from atonc.machine.base.errors import ModelError, UnsupportedError

Pair = tuple[int, int]
SAME_SCALE = 1e-5  # scales that differ by less were meant to be equal


@translates("QuantizeLinear", "com.microsoft.QuantizeLinear")
def quantize(node: Node) -> None:
    x = node.stored(0)
    quant = node.quantisation(1, 2, node.integer("axis", 1), len(x.shape))
    dtype = node.input(2).dtype if node.has(2) else ELEMENT_TYPES.get(node.integer("output_dtype", 0), "uint8")
    if node.integer("block_size", 0):
        raise UnsupportedError("blocked quantisation", where=node.name)
    if node.has(2) and node.inputs[2] in node.builder.half_bytes:
        raise UnsupportedError(
            "codes of 4 bits that are computed",
            where=node.name,
            rule="activations have 8 or 16 bits, weights 4 or 8",
            remedy="quantise activations to int8",
        )
    node.builder.quantise(node.inputs[0], node.outputs[0], dtype, quant, node.name)


@translates("DequantizeLinear", "com.microsoft.DequantizeLinear")
def dequantize(node: Node) -> None:
    quant = node.quantisation(1, 2, node.integer("axis", 1), len(node.stored(0).shape))
    codes = node.builder.give_quantisation(node.inputs[0], quant, node.name, node.type_at(2))
    node.builder.bind(node.outputs[0], codes)


def as_pair(values: tuple[int, ...], node: Node) -> Pair:
    if len(values) == 1:
        return 1, values[0]
    if len(values) != 2:
        raise UnsupportedError(f"{node.kind} in {len(values)} spatial dimensions", where=node.name)
    return values[0], values[1]


def window_attrs(node: Node, x: Tensor, kernel: tuple[int, ...]) -> dict[str, Any]:
    """Stride, dilation and explicit padding of a window over the spatial axes (2 and up)."""
    spatial = len(x.shape) - 2
    if spatial > 2 and len(kernel) == spatial:
        raise UnsupportedError(f"{node.kind} in {spatial} spatial dimensions", where=node.name)
    if spatial < 1 or len(kernel) != spatial or min(kernel) < 1:
        raise ModelError(f"{node.kind} with kernel {kernel} over shape {x.shape}", where=node.name)
    stride = as_pair(node.ints("strides", (1,) * spatial), node)
    dilation = as_pair(node.ints("dilations", (1,) * spatial), node)
    if min(*stride, *dilation) < 1 or max(*stride, *dilation) > 1 << 16:
        raise ModelError(f"stride {stride}, dilation {dilation}", where=node.name)
    size = (1, x.shape[2]) if spatial == 1 else (x.shape[2], x.shape[3])
    reach = tuple((k - 1) * d + 1 for k, d in zip(as_pair(kernel, node), dilation, strict=True))
    padding = _padding(node, size, (reach[0], reach[1]), stride, spatial)
    return {"stride": stride, "dilation": dilation, "padding": padding, "layout": "NCHW"}


def _padding(node: Node, size: Pair, reach: Pair, stride: Pair, spatial: int) -> tuple[int, int, int, int]:
    """(top, left, bottom, right)"""
    mode = node.text("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        total = [max(0, (-(-n // s) - 1) * s + r - n) for n, r, s in zip(size, reach, stride, strict=True)]
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        first, last = (small, large) if mode == "SAME_UPPER" else (large, small)
        return first[0], first[1], last[0], last[1]
    pads = node.ints("pads", (0,) * (2 * spatial)) if mode == "NOTSET" else (0,) * (2 * spatial)
    if len(pads) != 2 * spatial or min(pads) < 0:
        raise ModelError(f"{pads} are no paddings for {spatial} dimensions", where=node.name)
    return (0, pads[0], 0, pads[1]) if spatial == 1 else (pads[0], pads[1], pads[2], pads[3])


def ceil_mode(node: Node, x: Tensor, attrs: dict[str, Any], kernel: Pair) -> None:
    """Rounding up the number of windows means padding the end; windows that start in that padding do not count."""
    if not node.integer("ceil_mode", 0):
        return
    top, left, bottom, right = attrs["padding"]
    size = (1, x.shape[2]) if len(x.shape) == 3 else (x.shape[2], x.shape[3])
    ends = []
    for n, k, s, d, before, after in zip(
        size, kernel, attrs["stride"], attrs["dilation"], (top, left), (bottom, right), strict=True
    ):
        reach = (k - 1) * d + 1
        count = -(-(n + before + after - reach) // s) + 1
        if (count - 1) * s >= n + before:
            count -= 1
        ends.append(max(after, (count - 1) * s + reach - n - before))
    attrs["padding"] = (top, left, ends[0], ends[1])


# --- convolutions ----------------------------------------------------------------------------------------------


def conv_weights(node: Node, weights: Tensor) -> Tensor:
    """[out, in/groups, height, width] -> [out, height, width, in/groups]; sequences get height 1."""
    if weights.data is None:
        raise node.late(1, "weights")
    data = weights.data[:, :, None] if weights.data.ndim == 3 else weights.data
    if data.ndim != 4:
        raise UnsupportedError(f"{node.kind} with weights {weights.shape}", where=node.name)
    quant = weights.quant
    if quant is not None and not quant.is_per_tensor and quant.axis != 0:
        raise UnsupportedError("weights with scales along another axis than the outputs", where=node.name)
    return node.builder.constant(f"{weights.name}:ohwi", np.ascontiguousarray(data.transpose(0, 2, 3, 1)), quant)


def conv_attrs(node: Node, x: Tensor, weights: Tensor) -> dict[str, Any]:
    attrs = window_attrs(node, x, weights.shape[2:])
    attrs["groups"] = node.integer("group", 1)
    return attrs


def plain_bias(node: Node, x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor | None:
    """A bias whose scale is the product of the other scales, up to float rounding, counts in accumulator units."""
    if bias is None or bias.data is None or bias.quant is None or x.quant is None or weights.quant is None:
        return bias
    units = x.scale * weights.quant.scales
    if bias.dtype != "int32" or bias.quant.scales.size != units.size or np.any(bias.quant.zero_points):
        return bias
    if not np.allclose(bias.quant.scales, units, rtol=SAME_SCALE, atol=0):
        return bias
    return node.builder.constant(f"{bias.name}:bias", bias.data)


@translates("Conv")
def conv(node: Node) -> Tensor:
    x, weights = node.input(0), node.input(1)
    attrs = conv_attrs(node, x, weights)
    return biased(node, x, conv_weights(node, weights), node.optional(2), attrs)


def biased(node: Node, x: Tensor, kernel: Tensor, bias: Tensor | None, attrs: dict[str, Any]) -> Tensor:
    """A bias that the network computes is added behind the convolution."""
    if bias is None or bias.is_constant:
        return node.step("conv", x, kernel, plain_bias(node, x, kernel, bias), **attrs)
    return node.step("add", node.step("conv", x, kernel, **attrs), _upright(node, bias, len(x.shape)))


def _upright(node: Node, bias: Tensor, rank: int) -> Tensor:
    return node.reshaped(bias, (bias.elements, *(1 for _ in range(rank - 2))))


@translates("QLinearConv")
def qlinear_conv(node: Node) -> Tensor:
    """The bias counts in accumulator units, as a bias without quantisation does here."""
    x, weights = node.codes(0), node.codes(3, 0, len(node.stored(3).shape))
    attrs = conv_attrs(node, x, weights)
    inputs = [x, conv_weights(node, weights), node.optional(8)]
    return node.step("conv", *inputs, dtype=node.input(7).dtype, quant=node.quantisation(6, 7), **attrs)


@translates("ConvTranspose")
def conv_transpose(node: Node) -> Tensor:
    """Weights [in, out/groups, height, width] -> [out, height, width, in/groups]."""
    x, weights = node.input(0), node.input(1)
    if weights.data is None:
        raise node.late(1, "weights")
    groups = node.integer("group", 1)
    attrs = window_attrs(node, x, weights.shape[2:]) | {"groups": groups}
    data = weights.data[:, :, None] if weights.data.ndim == 3 else weights.data
    if groups < 1 or data.shape[0] % groups or data.shape[0] != x.shape[1]:
        raise ModelError(f"weights {weights.shape} in {groups} groups for shape {x.shape}", where=node.name)
    sizes = _transposed_sizes(node, x, attrs, (data.shape[2], data.shape[3]))
    made = np.concatenate([part.transpose(1, 2, 3, 0) for part in np.split(data, groups, axis=0)], axis=0)
    quant = weights.quant
    if quant is not None and not quant.is_per_tensor:
        if quant.axis != 1:
            raise UnsupportedError("ConvTranspose with scales along another axis than the outputs", where=node.name)
        quant = Quantisation(np.tile(quant.scales, groups), np.tile(quant.zero_points, groups), 0)  # groups share them
    kernel = node.builder.constant(f"{weights.name}:ohwi", np.ascontiguousarray(made), quant)
    shape = (x.shape[0], kernel.shape[0], *sizes)
    return node.step("transpose_conv", x, kernel, node.optional(2), shape=shape, **attrs)


def _transposed_sizes(node: Node, x: Tensor, attrs: dict[str, Any], kernel: Pair) -> tuple[int, ...]:
    """Spatial sizes of the result, and the padding that is cut off: where the size is given, it follows from that."""
    spatial = len(x.shape) - 2
    size = (1, x.shape[2]) if spatial == 1 else (x.shape[2], x.shape[3])
    extra = (0,) * (2 - spatial) + node.ints("output_padding", (0,) * spatial)
    wanted = (1,) * (2 - spatial) + node.ints("output_shape", ()) if "output_shape" in node.attrs else None
    mode = node.text("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER") and wanted is None:
        wanted = tuple(n * s for n, s in zip(size, attrs["stride"], strict=True))
    if len(extra) != 2 or (wanted is not None and len(wanted) != 2):
        raise ModelError("output_shape or output_padding of another rank than the kernel", where=node.name)
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(size, attrs["stride"], kernel, attrs["dilation"], extra, strict=True)
    ]
    if wanted is None:
        top, left, bottom, right = attrs["padding"]
        wanted = (full[0] - top - bottom, full[1] - left - right)
    else:
        if any(f < w for f, w in zip(full, wanted, strict=True)):
            raise UnsupportedError(
                f"ConvTranspose to {wanted} values where kernel and stride give {tuple(full)}",
                where=node.name,
                rule="onnxruntime does not fill up results",
            )
        total = [f - w for f, w in zip(full, wanted, strict=True)]
        before = [t // 2 if mode == "SAME_UPPER" else t - t // 2 for t in total]
        attrs["padding"] = (*before, *(t - b for t, b in zip(total, before, strict=True)))
    if min(wanted) < 1:
        raise ModelError(f"ConvTranspose gives a result of {wanted}", where=node.name)
    return wanted[2 - spatial :]


# --- pooling ---------------------------------------------------------------------------------------------------


@translates("MaxPool", "AveragePool")
def pool(node: Node) -> Tensor:
    x = node.stored(0) if node.kind == "MaxPool" else node.input(0)
    kernel = node.ints("kernel_shape", ())
    attrs = window_attrs(node, x, kernel) | {"window": as_pair(kernel, node)}
    if node.kind == "MaxPool":
        _require_padding(node, x, attrs)
        ceil_mode(node, x, attrs, as_pair(kernel, node))
        if len([name for name in node.outputs if name]) > 1:
            raise UnsupportedError("MaxPool with indices", where=node.name)
        keep = x.quant is None or x.quant.is_per_tensor  # the largest code is the largest value
        shape = infer_shape("max_pool", attrs, [x.shape])
        return node.step(
            "max_pool", x, shape=shape, dtype=x.dtype if keep else "float32", quant=x.quant if keep else None, **attrs
        )
    return node.step("average_pool", averaged(node, x, attrs), **attrs)


def _require_padding(node: Node, x: Tensor, attrs: dict[str, Any]) -> None:
    """onnxruntime does not run what would remove values; other kernels take it as no padding."""
    size = (1, x.shape[2]) if len(x.shape) == 3 else x.shape[2:]
    gaps = zip(size, attrs["window"], attrs["dilation"], attrs["stride"], strict=True)
    removes = any((-n) % s + (k - 1) * d + 1 < s for n, k, d, s in gaps)
    if removes and node.text("auto_pad", "NOTSET").startswith("SAME"):
        raise UnsupportedError("MaxPool with auto_pad whose windows leave out values at the end", where=node.name)


def averaged(node: Node, x: Tensor, attrs: dict[str, Any]) -> Tensor:
    """The input of an average pool, whose attributes are completed. Padding may count as values, but never what only
    rounding up the number of windows adds: where there is both, values are padded by an operator of their own."""
    counted = bool(node.integer("count_include_pad", 0))
    top, left, bottom, right = attrs["padding"]
    ceil_mode(node, x, attrs, attrs["window"])
    if counted and attrs["padding"] != (top, left, bottom, right):
        attrs["padding"] = (0, 0, attrs["padding"][2] - bottom, attrs["padding"][3] - right)
        counted = False
        pads = [(0, 0), (0, 0), (top, bottom), (left, right)]
        x = padded(node, x, pads if len(x.shape) == 4 else [*pads[:2], pads[3]], 0.0)
    attrs["count_include_pad"] = counted
    return x


@translates("GlobalAveragePool", "GlobalMaxPool")
def global_pool(node: Node) -> Tensor:
    x = node.input(0)
    kind = "mean" if node.kind == "GlobalAveragePool" else "reduce_max"
    return node.step(kind, x, axes=tuple(range(2, len(x.shape))), keepdims=True)


@translates("LpPool")
def lp_pool(node: Node) -> Tensor:
    """A mean of powers times the number of values in a window; padding is zero."""
    x, power, kernel = node.input(0), node.integer("p", 2), node.ints("kernel_shape", ())
    if power < 1:
        raise ModelError(f"LpPool with p = {power}", where=node.name)
    attrs = window_attrs(node, x, kernel) | {"window": as_pair(kernel, node), "count_include_pad": True}
    ceil_mode(node, x, attrs, as_pair(kernel, node))
    mean = node.step("average_pool", powers(node, x, power), **attrs)
    return root(node, node.step("mul", mean, number(node, math.prod(kernel), mean)), power)


def dense_weights(node: Node, weights: Tensor, transposed: bool) -> Tensor:
    """[in, out] (or [out, in] if `transposed`) -> [out, in]."""
    quant = weights.quant
    outputs_axis = 0 if transposed else 1
    if weights.data is None or weights.data.ndim != 2:
        raise UnsupportedError(f"{node.kind} with weights {weights.shape}", where=node.name)
    if quant is not None and not quant.is_per_tensor:
        if quant.axis != outputs_axis:
            raise UnsupportedError("weights with scales along another axis than the outputs", where=node.name)
        quant = Quantisation(quant.scales, quant.zero_points, 0)
    data = weights.data if transposed else weights.data.T
    return node.builder.constant(f"{weights.name}:dense", np.ascontiguousarray(data), quant)


def dense(node: Node, x: Tensor, weights: Tensor, transposed: bool, bias: Tensor | None, **type_of: Any) -> Tensor:
    made = dense_weights(node, weights, transposed)
    bias = plain_bias(node, x, made, bias)
    if not x.shape or x.shape[-1] != made.shape[1]:
        raise ModelError(f"{x.shape} cannot be multiplied by weights {weights.shape}", where=node.name)
    return node.step("dense", x, made, bias, shape=(*x.shape[:-1], made.shape[0]), **type_of)


@translates("Gemm")
def gemm(node: Node) -> Tensor:
    """alpha * a @ b + beta * c; one operator where the matrix is constant and nothing is scaled."""
    alpha, beta, bias = node.number("alpha", 1.0), node.number("beta", 1.0), node.optional(2)
    a, b, transposed = node.input(0), node.input(1), bool(node.integer("transB", 0))
    if node.integer("transA", 0):
        a = node.step("transpose", a, perm=(1, 0))
    if beta == 0.0:
        beta, bias = 1.0, None
    if alpha == beta == 1.0 and _is_layer(a, b, transposed):
        outputs = b.shape[0 if transposed else 1]
        fits = bias is None or (bias.elements in (1, outputs) and bias.shape[-1:] in ((), (outputs,)))
        if fits and (bias is None or bias.is_constant):
            return dense(node, a, b, transposed, bias)
    made = _scaled(node, product(node, a, b, transposed), alpha)
    return made if bias is None else node.step("add", made, _scaled(node, bias, beta))


def _is_layer(x: Tensor, weights: Tensor, transposed: bool) -> bool:
    """Whether it is a constant matrix with one scale, or one for each output."""
    quant, outputs_axis = weights.quant, 0 if transposed else 1
    plain = quant is None or quant.is_per_tensor or quant.axis == outputs_axis
    return weights.is_constant and len(weights.shape) == 2 and len(x.shape) > 1 and plain


def product(node: Node, a: Tensor, b: Tensor, transposed: bool = False) -> Tensor:
    """Multiplies two tensors with at least two axes; the scales of the second may run along its last axis only."""
    last = len(b.shape) - (2 if transposed else 1)
    if a.quant is not None and not a.quant.is_per_tensor:
        a = node.builder.unquantised(a)
    if b.quant is not None and not b.quant.is_per_tensor and b.quant.axis != last:
        b = node.builder.unquantised(b)
    return node.step("matmul", a, b, transpose_b=True) if transposed else node.step("matmul", a, b)


def _scaled(node: Node, x: Tensor, factor: float) -> Tensor:
    if factor == 1.0:
        return x
    dtype = x.dtype if x.is_float else "float32"
    return node.step("mul", x, node.builder.constant(f"{node.name}:factor", np.array(factor, dtype)))


@translates("MatMul")
def matmul(node: Node) -> Tensor:
    a, b = node.input(0), node.input(1)
    if _is_layer(a, b, False):
        return dense(node, a, b, False, None)
    rows, columns = len(a.shape) > 1, len(b.shape) > 1  # a vector counts as one row, or as one column
    left = a if rows else node.step("reshape", a, shape=(1, *a.shape))
    right = b if columns else node.step("reshape", b, shape=(*b.shape, 1))
    made = product(node, left, right)
    shape = made.shape[:-2] + made.shape[-2:-1] * rows + made.shape[-1:] * columns
    return made if rows and columns else node.step("reshape", made, shape=shape)


@translates("com.microsoft.FusedMatMul")
def fused_matmul(node: Node) -> Tensor:
    """With a factor, and with matrices that lie the other way."""
    a, b = node.input(0), node.input(1)
    if node.integer("transBatchA", 0) or node.integer("transBatchB", 0) or min(len(a.shape), len(b.shape)) < 2:
        raise UnsupportedError(f"{node.kind} of {a.shape} and {b.shape} with batches between", where=node.name)
    if node.integer("transA", 0):
        a = node.step("transpose", a, perm=(*range(len(a.shape) - 2), len(a.shape) - 1, len(a.shape) - 2))
    return _scaled(node, product(node, a, b, bool(node.integer("transB", 0))), node.number("alpha", 1.0))


@translates("QLinearMatMul")
def qlinear_matmul(node: Node) -> Tensor:
    a, rank = node.codes(0), len(node.stored(3).shape)
    b = node.codes(3, rank - 1, rank)
    kind = {"dtype": node.input(7).dtype, "quant": node.quantisation(6, 7)}
    if b.is_constant and rank == 2:
        return dense(node, a, b, False, None, **kind)
    return node.step("matmul", a, b, **kind)  # type: ignore[arg-type]


@translates("com.microsoft.QGemm")
def qgemm(node: Node) -> Tensor:
    if node.integer("transA", 0) or node.number("alpha", 1.0) != 1.0 or not node.has(8):
        raise UnsupportedError("QGemm with transA, alpha or float output", where=node.name)
    transposed = bool(node.integer("transB", 0))
    a, b = node.codes(0), node.codes(3, 0 if transposed else 1, 2)
    kind = {"dtype": node.input(8).dtype, "quant": node.quantisation(7, 8)}
    return dense(node, a, b, transposed, node.optional(6), **kind)


@translates("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def qlinear_binary(node: Node) -> Tensor:
    a, b = node.codes(0), node.codes(3)
    kind = "add" if node.kind.endswith("Add") else "mul"
    return node.step(kind, a, b, dtype=a.dtype, quant=node.quantisation(6, 7))


@translates("com.microsoft.QLinearSigmoid", "com.microsoft.QLinearLeakyRelu", "com.microsoft.QLinearGlobalAveragePool")
def qlinear_unary(node: Node) -> Tensor:
    x = node.codes(0)
    kind, attrs = "logistic", dict[str, Any]()
    if node.kind.endswith("LeakyRelu"):
        kind, attrs = "leaky_relu", {"alpha": node.number("alpha", 0.01)}
    if node.kind.endswith("Pool"):
        if node.integer("channels_last", 0):
            raise UnsupportedError("QLinearGlobalAveragePool with channels last", where=node.name)
        kind, attrs = "mean", {"axes": tuple(range(2, len(x.shape))), "keepdims": True}
    return node.step(kind, x, dtype=x.dtype, quant=node.quantisation(3, 4), **attrs)


@translates("com.microsoft.QLinearSoftmax")
def qlinear_softmax(node: Node) -> Tensor:
    """Its attribute `opset` says which Softmax it was made of; before 13 that goes over all axes from the given one."""
    x = node.codes(0)
    axis = node.axis(node.integer("axis", -1), len(x.shape))
    quant = node.quantisation(3, 4)
    return exponentials(node, "softmax", x, axis, node.integer("opset", 13), dtype=x.dtype, quant=quant)


@translates("com.microsoft.QLinearAveragePool")
def qlinear_average_pool(node: Node) -> Tensor:
    if node.integer("channels_last", 0):
        raise UnsupportedError("QLinearAveragePool with channels last", where=node.name)
    x = node.codes(0)
    kernel = node.ints("kernel_shape", ())
    attrs = window_attrs(node, x, kernel) | {"window": as_pair(kernel, node)}
    source = averaged(node, x, attrs)
    return node.step("average_pool", source, dtype=x.dtype, quant=node.quantisation(3, 4), **attrs)


@translates("com.microsoft.QLinearConcat")
def qlinear_concat(node: Node) -> Tensor:
    parts = [node.codes(first) for first in range(2, len(node.inputs), 3)]
    if not parts:
        raise ModelError("QLinearConcat joins nothing", where=node.name)
    axis = node.axis(node.integer("axis", 0), len(parts[0].shape))
    return node.step("concat", *parts, dtype=parts[0].dtype, quant=node.quantisation(0, 1), axis=axis)


MOST_SUMMED = 2048


@translates("CumSum")
def running_sum(node: Node) -> Tensor:
    """A product with a triangle of ones along the axis."""
    x = node.input(0)
    axis = node.axis(node.integers(1, "axis")[0], len(x.shape))
    size = x.shape[axis]
    if size > MOST_SUMMED:
        raise UnsupportedError(f"CumSum of {size} values", where=node.name, rule=f"at most {MOST_SUMMED} in a row")
    dtype = "float32" if x.quant is not None else x.dtype
    ones = np.triu(np.ones((size, size), dtype), node.integer("exclusive", 0))
    ones = ones.T if node.integer("reverse", 0) else ones
    perm = (*(k for k in range(len(x.shape)) if k != axis), axis)
    rows = node.step("reshape", _turned(node, x, perm), shape=(x.elements // max(1, size), size))
    made = product(node, rows, node.builder.constant(f"{node.name}:ones", np.ascontiguousarray(ones)))
    back = node.step("reshape", made, shape=tuple(x.shape[k] for k in perm))
    return _turned(node, back, tuple(perm.index(k) for k in range(len(perm))))


def _turned(node: Node, x: Tensor, perm: tuple[int, ...]) -> Tensor:
    return x if perm == tuple(range(len(perm))) else node.step("transpose", x, perm=perm)


@translates("Einsum")
def einsum(node: Node) -> Tensor:
    """Sums of one tensor, and products of two, one after the other."""
    names, target = _letters(node)
    left, first = node.input(0), names[0]
    for k, second in enumerate(names[1:], start=1):
        wanted = {letter for later in (target, *names[k + 1 :]) for letter in later}
        left, first = _product_of(node, (left, first), (node.input(k), second), wanted)
    return _turned(node, *_summed(node, left, first, target))


def _letters(node: Node) -> tuple[list[str], str]:
    """Names the axes of every input and of the result; those behind `...` are Greek."""
    inputs, arrow, target = "".join(node.text("equation", "").split()).partition("->")
    names = inputs.split(",")
    if len(names) != len(node.inputs):
        raise ModelError(f"Einsum {inputs!r} of {len(node.inputs)} inputs", where=node.name)
    spare = [chr(code) for code in range(0x3B1, 0x3B1 + 16)]
    for k, name in enumerate(names):
        missing = len(node.input(k).shape) - len(name.replace("...", ""))
        names[k] = name.replace("...", "".join(spare[16 - missing :]) if missing else "")
    rest = sorted({letter for name in names for letter in name if letter in spare})
    counts = "".join(names)
    target = (
        target.replace("...", "".join(rest))
        if arrow
        else "".join([*rest, *sorted(letter for letter in set(counts) - set(rest) if counts.count(letter) == 1)])
    )
    shapes = [node.input(k).shape for k in range(len(names))]
    known = set(counts) >= set(target) and all(letter.isalpha() for letter in counts)
    if not known or len(set(target)) != len(target) or [len(name) for name in names] != [len(x) for x in shapes]:
        what = f"Einsum {node.text('equation', '')[:80]!r} of shapes {', '.join(map(str, shapes))}"
        rule = "one letter for each axis of an input; the result names letters of inputs, each once"
        raise ModelError(what, where=node.name, rule=rule)
    if any(len(set(name)) != len(name) for name in names):
        raise UnsupportedError(f"Einsum {inputs!r}, which takes a diagonal", where=node.name)
    return names, target


def _summed(node: Node, x: Tensor, name: str, target: str) -> tuple[Tensor, tuple[int, ...]]:
    """Without the axes that the target does not have; and the order that it asks for."""
    gone = tuple(k for k, letter in enumerate(name) if letter not in target)
    kept = [letter for letter in name if letter in target]
    made = node.step("sum", x, axes=gone, keepdims=False) if gone else x
    return made, tuple(kept.index(letter) for letter in target)


def _product_of(
    node: Node, left: tuple[Tensor, str], right: tuple[Tensor, str], wanted: set[str]
) -> tuple[Tensor, str]:
    (a, of_a), (b, of_b) = left, right
    sizes = dict(zip(of_b + of_a, b.shape + a.shape, strict=True))
    alone = [set(of_a) - set(of_b) - wanted, set(of_b) - set(of_a) - wanted]  # summed before
    keep_a, keep_b = ("".join(c for c in name if c not in gone) for name, gone in zip((of_a, of_b), alone, strict=True))
    shared = [c for c in keep_a if c in keep_b and c in wanted]
    inner = [c for c in keep_a if c in keep_b and c not in wanted]
    rows, columns = ([c for c in keep if c not in shared + inner] for keep in (keep_a, keep_b))
    parts = []
    for (x, name), order in (((a, of_a), (shared, rows, inner)), ((b, of_b), (shared, inner, columns))):
        turned = _turned(node, *_summed(node, x, name, "".join(c for group in order for c in group)))
        shape = (*(sizes[c] for c in shared), *(math.prod(sizes[c] for c in group) for group in order[1:]))
        parts.append(node.reshaped(turned, shape))
    whole = "".join([*shared, *rows, *columns])
    return node.reshaped(product(node, parts[0], parts[1]), tuple(sizes[c] for c in whole)), whole
