"""Operators of onnxruntime that are quantised by themselves."""

from __future__ import annotations

from typing import Any

from atonc.errors import ModelError, UnsupportedError
from atonc.frontends.onnx_layers import as_pair, averaged, window_attrs
from atonc.frontends.onnx_node import Node, translates


@translates("com.microsoft.QLinearAdd", "com.microsoft.QLinearMul")
def qlinear_binary(node: Node) -> None:
    builder = node.builder
    a = builder.give_quantisation(node.inputs[0], node.quantisation(1, 2), node.name)
    b = builder.give_quantisation(node.inputs[3], node.quantisation(4, 5), node.name)
    kind = "add" if node.kind.endswith("Add") else "mul"
    node.result(kind, [a, b], {}, dtype=a.dtype, quant=node.quantisation(6, 7))


@translates("com.microsoft.QLinearSigmoid", "com.microsoft.QLinearLeakyRelu", "com.microsoft.QLinearGlobalAveragePool")
def qlinear_unary(node: Node) -> None:
    x = node.builder.give_quantisation(node.inputs[0], node.quantisation(1, 2), node.name)
    kind, attrs = "logistic", dict[str, Any]()
    if node.kind.endswith("LeakyRelu"):
        kind, attrs = "leaky_relu", {"alpha": node.number("alpha", 0.01)}
    if node.kind.endswith("Pool"):
        if node.integer("channels_last", 0):
            raise UnsupportedError("QLinearGlobalAveragePool with channels last", where=node.name)
        kind, attrs = "mean", {"axes": tuple(range(2, len(x.shape))), "keepdims": True}
    node.result(kind, [x], attrs, dtype=x.dtype, quant=node.quantisation(3, 4))


@translates("com.microsoft.QLinearAveragePool")
def qlinear_average_pool(node: Node) -> None:
    if node.integer("channels_last", 0):
        raise UnsupportedError("QLinearAveragePool with channels last", where=node.name)
    x = node.builder.give_quantisation(node.inputs[0], node.quantisation(1, 2), node.name)
    kernel = node.ints("kernel_shape", ())
    attrs = window_attrs(node, x, kernel) | {"window": as_pair(kernel, node)}
    source = averaged(node, x, attrs)
    node.result("average_pool", [source], attrs, dtype=x.dtype, quant=node.quantisation(3, 4))


@translates("com.microsoft.QLinearConcat")
def qlinear_concat(node: Node) -> None:
    parts = []
    for first in range(2, len(node.inputs), 3):
        quant = node.quantisation(first + 1, first + 2)
        parts.append(node.builder.give_quantisation(node.inputs[first], quant, node.name))
    if not parts:
        raise ModelError("QLinearConcat joins nothing", where=node.name)
    axis = node.axis(node.integer("axis", 0), len(parts[0].shape))
    node.result("concat", parts, {"axis": axis}, dtype=parts[0].dtype, quant=node.quantisation(0, 1))
