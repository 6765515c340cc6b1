"""ONNX nodes that multiply matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from atonc.compiler.frontends.onnx_layers import plain_bias
from atonc.compiler.frontends.onnx_node import Node, translates
from atonc.compiler.ir import Quantisation, Tensor
from atonc.machine.base.errors import ModelError, UnsupportedError


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


def dense(node: Node, x: Tensor, weights: Tensor, transposed: bool, bias: Tensor | None, **type_of: Any) -> None:
    made = dense_weights(node, weights, transposed)
    bias = plain_bias(node, x, made, bias)
    if not x.shape or x.shape[-1] != made.shape[1]:
        raise ModelError(f"{x.shape} cannot be multiplied by weights {weights.shape}", where=node.name)
    node.result("dense", [x, made, bias], {}, shape=(*x.shape[:-1], made.shape[0]), **type_of)


@translates("Gemm")
def gemm(node: Node) -> None:
    """alpha * a @ b + beta * c; one operator where the matrix is constant and nothing is scaled."""
    alpha, beta, bias = node.number("alpha", 1.0), node.number("beta", 1.0), node.optional(2)
    a, b, transposed = node.input(0), node.input(1), bool(node.integer("transB", 0))
    if node.integer("transA", 0):
        a = node.step("transpose", [a], {"perm": (1, 0)})
    if beta == 0.0:
        beta, bias = 1.0, None
    if alpha == beta == 1.0 and _is_layer(a, b, transposed) and _is_per_output(bias, b.shape[0 if transposed else 1]):
        dense(node, a, b, transposed, bias)
        return
    made = _scaled(node, product(node, a, b, transposed), alpha)
    node.bind(node.outputs[0], made if bias is None else node.step("add", [made, _scaled(node, bias, beta)], {}))


def _is_layer(x: Tensor, weights: Tensor, transposed: bool) -> bool:
    """Whether it is a constant matrix with one scale, or one for each output."""
    quant, outputs_axis = weights.quant, 0 if transposed else 1
    plain = quant is None or quant.is_per_tensor or quant.axis == outputs_axis
    return weights.is_constant and len(weights.shape) == 2 and len(x.shape) > 1 and plain


def _is_per_output(bias: Tensor | None, outputs: int) -> bool:
    return bias is None or (bias.is_constant and bias.elements in (1, outputs) and bias.shape[-1:] in ((), (outputs,)))


def product(node: Node, a: Tensor, b: Tensor, transposed: bool = False) -> Tensor:
    """Multiplies two tensors with at least two axes; the scales of the second may run along its last axis only."""
    last = len(b.shape) - (2 if transposed else 1)
    if a.quant is not None and not a.quant.is_per_tensor:
        a = node.builder.unquantised(a)
    if b.quant is not None and not b.quant.is_per_tensor and b.quant.axis != last:
        b = node.builder.unquantised(b)
    return node.step("matmul", [a, b], {"transpose_b": True} if transposed else {})


def _scaled(node: Node, x: Tensor, factor: float) -> Tensor:
    if factor == 1.0:
        return x
    dtype = x.dtype if x.is_float else "float32"
    return node.step("mul", [x, node.builder.constant(f"{node.name}:factor", np.array(factor, dtype))], {})


@translates("MatMul")
def matmul(node: Node) -> None:
    a, b = node.input(0), node.input(1)
    if _is_layer(a, b, False):
        dense(node, a, b, False, None)
        return
    rows, columns = len(a.shape) > 1, len(b.shape) > 1  # a vector counts as one row, or as one column
    left = a if rows else node.step("reshape", [a], {}, (1, *a.shape))
    right = b if columns else node.step("reshape", [b], {}, (*b.shape, 1))
    made = product(node, left, right)
    shape = made.shape[:-2] + made.shape[-2:-1] * rows + made.shape[-1:] * columns
    node.bind(node.outputs[0], made if rows and columns else node.step("reshape", [made], {}, shape))


@translates("QLinearMatMul")
def qlinear_matmul(node: Node) -> None:
    builder = node.builder
    a = builder.give_quantisation(node.inputs[0], node.quantisation(1, 2), node.name)
    rank = len(node.stored(3).shape)
    b = builder.give_quantisation(node.inputs[3], node.quantisation(4, 5, rank - 1, rank), node.name)
    kind = {"dtype": node.input(7).dtype, "quant": node.quantisation(6, 7)}
    if b.is_constant and rank == 2:
        dense(node, a, b, False, None, **kind)
    else:
        node.result("matmul", [a, b], {}, **kind)  # type: ignore[arg-type]


@translates("com.microsoft.QGemm")
def qgemm(node: Node) -> None:
    if node.integer("transA", 0) or node.number("alpha", 1.0) != 1.0 or not node.has(8):
        raise UnsupportedError("QGemm with transA, alpha or float output", where=node.name)
    builder, transposed = node.builder, bool(node.integer("transB", 0))
    a = builder.give_quantisation(node.inputs[0], node.quantisation(1, 2), node.name)
    b = builder.give_quantisation(node.inputs[3], node.quantisation(4, 5, 0 if transposed else 1, 2), node.name)
    kind = {"dtype": node.input(8).dtype, "quant": node.quantisation(7, 8)}
    dense(node, a, b, transposed, node.optional(6), **kind)
