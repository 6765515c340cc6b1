"""Operators of onnxruntime that are quantised by themselves."""

from __future__ import annotations

from math import prod
from typing import Any

from atonc.compiler.frontends.onnx_layers import as_pair, averaged, window_attrs
from atonc.compiler.frontends.onnx_node import Node, translates
from atonc.machine.base.errors import ModelError, UnsupportedError


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


@translates("com.microsoft.QLinearSoftmax")
def qlinear_softmax(node: Node) -> None:
    """Its attribute `opset` says which Softmax it was made of; before 13 that goes over all axes from the given one."""
    x = node.builder.give_quantisation(node.inputs[0], node.quantisation(1, 2), node.name)
    axis = node.axis(node.integer("axis", -1), len(x.shape))
    quant = node.quantisation(3, 4)
    if node.integer("opset", 13) >= 13 or all(dim == 1 for dim in x.shape[axis + 1 :]):
        node.result("softmax", [x], {"axis": axis, "beta": 1.0}, dtype=x.dtype, quant=quant)
        return
    rows = prod(x.shape[:axis])
    flat = node.step("reshape", [x], {}, (rows, x.elements // max(1, rows)))
    made = node.step("softmax", [flat], {"axis": 1, "beta": 1.0}, dtype=x.dtype, quant=quant)
    node.bind(node.outputs[0], node.step("reshape", [made], {}, x.shape))


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
