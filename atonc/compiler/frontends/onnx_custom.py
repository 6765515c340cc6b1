"""Nodes of an ONNX file that are C functions of the user (`--custom`).

A declared type is what the function gets: `float32` real numbers, integers the codes; also the codes behind a
DequantizeLinear. Where an input is read so, outputs of integers are real values in the file, which a QuantizeLinear
makes codes of: the function gives these.
"""

from __future__ import annotations

from atonc.compiler.frontends.custom_file import require_count, unlike, values_of
from atonc.compiler.frontends.onnx_builder import Node
from atonc.compiler.ir import Quantisation, Tensor
from atonc.compiler.ops.custom import OPERATOR, VALUES
from atonc.machine.base.user_c import CustomOperator, CustomOutput


def translate(node: Node, operator: CustomOperator) -> None:
    require_count(node.name, operator, len(node.inputs), len(node.outputs))
    inputs = [_input(node, index, kind) for index, kind in enumerate(operator.inputs)]
    between = any(one.quant is not None and name not in node.builder.codes
                  for one, name in zip(inputs, node.inputs, strict=True))  # fmt: skip
    pairs = zip(node.outputs, operator.outputs, strict=True)
    outputs = [_output(node, name, one, inputs[0], between) for name, one in pairs]
    attrs = {OPERATOR: operator, VALUES: values_of(node.name, operator, lambda one: node.attrs.get(one.name))}
    for name, made in zip(node.outputs, node.builder.emit("custom", node.name, inputs, outputs, attrs), strict=True):
        node.builder.bind(name, made)
        if made.quant is not None and not between:
            node.builder.codes.add(name)


def _input(node: Node, index: int, kind: str) -> Tensor:
    tensor, name = node.stored(index), node.inputs[index]
    real = tensor.quant is not None and name not in node.builder.codes
    if kind == "float32" and real:
        return node.builder.unquantised(tensor)
    if tensor.dtype != kind:
        raise unlike(node.name, f"input {index + 1}, {name!r}, holds {tensor.dtype}, not {kind}")
    return tensor


def _output(node: Node, name: str, one: CustomOutput, first: Tensor, between: bool) -> Tensor:
    quant = Quantisation.per_tensor(one.scale, one.zero_point) if one.scale else None
    kind = "float32" if between and quant is None else one.type
    stated = node.builder.stated.get(name, one.shape or first.shape)
    if one.shape not in (None, stated):
        raise unlike(node.name, f"{name!r} has shape {stated}, its declaration {one.shape}")
    return Tensor(name, stated, kind, quant)
