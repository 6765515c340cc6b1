"""Nodes of an ONNX file that are C functions of the user (`--custom`).

A declared type is what the function gets: `float32` real numbers, integers the codes; also the codes behind a
DequantizeLinear. Where an input is read so, outputs of integers are real values in the file, which a QuantizeLinear
makes codes of: the function gives these.
"""

from __future__ import annotations

from atonc.compiler.frontends.custom_file import require_count, unlike, values_of
from atonc.compiler.frontends.onnx_builder import Builder, Node
from atonc.compiler.ir import Quantisation, Tensor
from atonc.compiler.ops.custom import OPERATOR, VALUES
from atonc.machine.base.user_c import ELEMENTS, CustomOperator, CustomOutput


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
    if (said := node.builder.output_types.get(name)) in ELEMENTS and said != "float32" and said != kind:
        raise unlike(node.name, f"the model says {name!r} is {said}, its declaration {one.type}")
    stated = node.builder.stated.get(name, one.shape or first.shape)
    if one.shape not in (None, stated):
        raise unlike(node.name, f"{name!r} has shape {stated}, its declaration {one.shape}")
    return Tensor(name, stated, kind, quant)


def require_stated(builder: Builder) -> None:
    """What depends on C of the user has the shapes that the file says of it."""
    behind = dict[str, str]()  # tensors, by the first such node that they come from
    for op in builder.ops:
        source = op.name if op.kind == "custom" else next((behind[n] for n in op.inputs if n in behind), "")
        behind |= dict.fromkeys(op.outputs, source) if source else {}
    for name, shape in builder.stated.items():
        held = builder.holder.get(name)
        if held in behind and (found := builder.tensors[held].shape) != shape:
            raise unlike(behind[held], f"with its declaration {name!r} has shape {found}, the model says {shape}")
