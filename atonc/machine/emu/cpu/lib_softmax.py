"""LL_ATON_LIB_Softmax, published in full. Only the form for recent ONNX operator sets is modelled, not the legacy
one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.machine.base.errors import NotModelledError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.lib_buffers import buffer, require
from atonc.machine.emu.cpu.registry import library
from atonc.machine.emu.cpu.struct_view import StructView, argument, as_int
from atonc.machine.emu.cpu.tensors import F32, I8, Array
from atonc.machine.emu.files.types import CValue

_NAME = "LL_ATON_LIB_Softmax"


@library(_NAME)
def softmax(args: Sequence[CValue], memory: AddressSpace) -> None:
    before, after = (StructView.of(argument(args, k, _NAME), _NAME) for k in (0, 1))
    source, target = buffer(before), buffer(after)
    axis, legacy = (as_int(argument(args, k, _NAME), _NAME) for k in (2, 3))
    if legacy:
        raise NotModelledError("the legacy softmax", where=_NAME)
    kind = before.enum("type")
    require(kind == after.enum("type") and source.elements == target.elements, "input and output differ", _NAME)
    require(len(source.shape) >= 4 and 0 <= axis < len(source.shape), f"axis {axis} of {source.shape}", _NAME)
    if kind not in ("DataType_FLOAT", "DataType_INT8"):
        raise NotModelledError(f"a softmax of {kind}", where=_NAME)
    dtype = F32 if kind == "DataType_FLOAT" else I8
    values = memory.read(source.address, source.elements * dtype.itemsize).view(dtype).reshape(source.shape)
    result = _float(values, axis) if kind == "DataType_FLOAT" else _int8(values, axis, before, after)
    memory.write(target.address, result.astype(dtype).reshape(-1).view(np.uint8))


def _float(values: Array, axis: int) -> Array:
    exps = np.exp(values - values.max(axis, keepdims=True))
    result: Array = exps * (F32.type(1) / exps.sum(axis, keepdims=True, dtype=F32))
    return result


def _int8(codes: Array, axis: int, before: StructView, after: StructView) -> Array:
    """A table of exponentials of all differences, then one rounding away from zero."""
    in_scales, out_scales, offsets = before.numbers("scale"), after.numbers("scale"), after.numbers("offset")
    require(bool(in_scales and out_scales and offsets), "scale or offset is missing", _NAME)
    table = np.exp(np.arange(-255, 1) * np.float64(np.float32(in_scales[0]))).astype(F32)
    wide = codes.astype(np.int64)
    exps = table[wide - wide.max(axis, keepdims=True) + 255]
    inverse = F32.type(1) / (exps.sum(axis, keepdims=True, dtype=F32) * F32.type(out_scales[0]))
    scaled = exps * inverse + F32.type(offsets[0])
    rounded = np.trunc(np.where(scaled > 0, scaled + F32.type(0.5), scaled - F32.type(0.5)))
    result: Array = np.clip(rounded, -128, 127)
    return result
