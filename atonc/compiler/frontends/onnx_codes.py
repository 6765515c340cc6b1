"""What an integer of an ONNX file means: a code with a scale, or a number.

Codes are known by their QuantizeLinear, or only later by the DequantizeLinear that reads them; between the two they may
be moved (Transpose, Reshape, Pad, MaxPool). Whatever else reads them computes with the integers themselves.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from atonc.compiler.ir import Array, Op, Quantisation, Tensor
from atonc.compiler.ops import is_move, moved_inputs

if TYPE_CHECKING:
    from atonc.compiler.frontends.onnx_builder import Builder


def passes_codes(op: Op) -> bool:
    """True if the result holds codes of the input, whatever their scale."""
    return is_move(op.kind) or op.kind == "max_pool"


def unformatted(builder: Builder, tensor: Tensor) -> set[str] | None:
    """All integers that moves connect with these, so that one format is for all of them; None if any of them is read
    or written as a number, or is a constant that others may read."""
    found, waiting = {tensor.name}, [tensor.name]
    while waiting:
        name = waiting.pop()
        if builder.tensors[name].is_constant or builder.tensors[name].quant is not None:
            return None
        for index in builder.touching(name):
            op = builder.ops[index]
            if not passes_codes(op) or name in op.inputs[moved_inputs(op.kind) or len(op.inputs) :]:
                return None
            near = {*op.inputs[: moved_inputs(op.kind)], *op.outputs} - found - {""}
            found |= near
            waiting += sorted(near)
    return found


def give_format(builder: Builder, names: set[str], quant: Quantisation) -> None:
    for name in sorted(names):
        builder.tensors[name] = replace(builder.tensors[name], quant=quant)
        builder.codes.update(builder.held.get(name, ()))
        index = builder.writer.get(name)
        if index is not None and builder.ops[index].kind == "pad":
            builder.ops[index] = _padded_with_codes(builder.ops[index], builder.tensors[name])


def _padded_with_codes(op: Op, tensor: Tensor) -> Op:
    """The padding was given as an integer, its attribute is a real value."""
    value = (op.attrs.get("value", 0.0) - tensor.zero_point) * tensor.scale
    return replace(op, attrs={**op.attrs, "value": value})


def numbers(builder: Builder, tensor: Tensor) -> Tensor:
    """The codes of a tensor as plain integers."""
    if tensor.name not in builder.plain:
        plain = Tensor(f"{tensor.name}:codes", tensor.shape, tensor.dtype)
        builder.plain[tensor.name] = builder.emit("cast", f"codes of {tensor.name}", [tensor], [plain], {})[0]
    return builder.plain[tensor.name]


def as_codes(builder: Builder, tensor: Tensor, quant: Quantisation, node: str) -> Tensor:
    """Integers that were computed, or that have another format, taken as codes of this format."""
    plain = tensor if tensor.quant is None else numbers(builder, tensor)
    rank = len(plain.shape)
    zero, scale = (_constant(builder, node, quant.along(values, rank)) for values in (quant.zero_points, quant.scales))
    centred = builder.emit("sub", node, [plain, zero], [Tensor(f"{node}:centred", plain.shape, "float32")], {})[0]
    kept = (plain.dtype, quant) if quant.is_per_tensor and plain.dtype in ("int8", "uint8") else ("float32", None)
    return builder.emit("mul", node, [centred, scale], [Tensor(f"{node}:codes", plain.shape, *kept)], {})[0]


def _constant(builder: Builder, node: str, values: Array) -> Tensor:
    return builder.constant(f"{node}:format", values.astype(np.float32))
