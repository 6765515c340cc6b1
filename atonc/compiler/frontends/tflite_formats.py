"""TFLite kernels that look at codes only: what they do where a file gives their tensors different scales.

A kernel that moves or compares values copies codes, whatever scale its result has: the numbers change their meaning.
Some kernels refuse such files, and so do we: there is nothing that such a file means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from atonc.compiler.ir import Op, Tensor
from atonc.machine.base.errors import UnsupportedError

REFUSING = (
    "EXPAND_DIMS", "PACK", "UNPACK", "MIRROR_PAD", "REDUCE_MAX", "REDUCE_MIN", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND",
)  # fmt: skip
BLIND = (
    "RESHAPE", "SQUEEZE", "TRANSPOSE", "SPLIT", "SPLIT_V", "PAD", "PADV2", "SLICE", "STRIDED_SLICE", "TILE",
    "BROADCAST_TO", "GATHER", "GATHER_ND", "REVERSE_V2", "MAX_POOL_2D", "AVERAGE_POOL_2D", "RESIZE_BILINEAR",
    "RESIZE_NEAREST_NEIGHBOR", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SELECT", "SELECT_V2", "MINIMUM", "MAXIMUM",
)  # fmt: skip
_DATA = {"minimum": slice(0, 2), "maximum": slice(0, 2), "select": slice(1, 3), "concat": slice(None),
         "pack": slice(None)}  # fmt: skip
BYTES = ("int8", "uint8")
CODES = (*BYTES, "int16")

Named = Callable[[str], Tensor]
Add = Callable[[Tensor], None]


def on_codes(code: str, op: Op, tensor: Named, add: Add) -> list[Op]:
    """The operator in one format, between operators that give codes another one; by itself where nothing differs."""
    data = op.inputs[_DATA.get(op.kind, slice(0, 1))]
    tensors = [tensor(name) for name in (*data, *op.outputs)]
    if code not in (*BLIND, *REFUSING, "CONCATENATION") or not _differ(tensors):
        return [op]
    if code == "CONCATENATION" and tensors[0].dtype == "uint8":
        return [op]  # this one kernel converts
    if code not in BLIND or not _can_change(tensors):
        raise UnsupportedError(
            f"{code} between tensors of different formats ({_formats(tensors)})",
            where=op.name,
            rule="TFLite's kernel wants the same scale and zero point everywhere",
            remedy="quantise the model again, or put a QUANTIZE in front of the operator",
        )
    first = tensors[0]
    before = [_recoded(name, first, op, tensor, add) for name in data[1:]]
    renamed = dict(zip(data[1:], (change.outputs[0] for change in before), strict=True))
    inputs = tuple(renamed.get(name, name) for name in op.inputs)
    moved = [replace(tensor(name), name=f"{name}:codes", quant=first.quant) for name in op.outputs]
    for made in moved:
        add(made)
    outputs = tuple(made.name for made in moved)
    plain = replace(op, inputs=inputs, outputs=outputs, attrs=_plain(op, first, tensor(op.outputs[0])))
    activation = {"activation": op.attrs["activation"]} if "activation" in op.attrs else {}
    after = [
        Op("recode", f"{op.name}:format{k}", (a,), (b,), activation, op.origin)
        for k, (a, b) in enumerate(zip(outputs, op.outputs, strict=True))
    ]
    return [*before, plain, *after]


def _differ(tensors: Sequence[Tensor]) -> bool:
    """Whether formats of codes differ; plain integers and per-channel scales do not concern these kernels."""
    if any(t.dtype not in CODES or (t.quant is not None and not t.quant.is_per_tensor) for t in tensors):
        return False
    first = tensors[0].quant
    return any(not first.same_as(t.quant) if first is not None else t.quant is not None for t in tensors[1:])


def _can_change(tensors: Sequence[Tensor]) -> bool:
    return all(t.dtype in BYTES and t.dtype == tensors[0].dtype and t.quant is not None for t in tensors)


def _formats(tensors: Sequence[Tensor]) -> str:
    return ", ".join(dict.fromkeys(_format(t) for t in tensors))


def _format(tensor: Tensor) -> str:
    if tensor.quant is None:
        return f"{tensor.dtype} without a scale"
    return f"{tensor.dtype} scale {tensor.scale:.6g} zero {tensor.zero_point}"


def _recoded(name: str, first: Tensor, op: Op, tensor: Named, add: Add) -> Op:
    made = replace(tensor(name), name=f"{name}:as {op.name}", quant=first.quant, data=None)
    add(made)
    return Op("recode", f"{op.name}:{name}", (name,), (made.name,), {}, op.origin)


def _plain(op: Op, x: Tensor, y: Tensor) -> dict[str, object]:
    """Without its activation, which counts in codes of the result; borders are zeros of the result."""
    attrs = {**op.attrs, "activation": "none"} if "activation" in op.attrs else dict(op.attrs)
    if op.kind == "pad" and "value" not in attrs and attrs["mode"] == "constant":
        attrs["value"] = (y.zero_point - x.zero_point) * x.scale
    return attrs
