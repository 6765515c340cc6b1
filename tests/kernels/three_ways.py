"""One operator three ways: exact arithmetic, the C kernels compiled for this machine, and their twins in the emulator.

All three must leave the same bytes, and must not touch the bytes around their output.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from atonc.compiler.emit.c.calls import Argument, ConstantTable, CpuCall, Pointer, Struct
from atonc.compiler.emit.c.cpu_calls import cpu_calls
from atonc.compiler.emit.c.kernels import SOURCE, kernel_files
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops import run_op
from atonc.compiler.ops.curves import curve_of
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu import run_call

Array = NDArray[Any]
KERNELS = Path(__file__).resolve().parents[2] / "atonc" / "machine" / "runtime" / "kernels"
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-O2", "-ffp-contract=off")
BASE, GUARD, GUARD_BYTE = 0x3420_0000, 64, 0xA5
NUMPY = {
    "int8_t": "i1", "uint8_t": "u1", "int16_t": "i2", "uint16_t": "u2", "int32_t": "i4", "uint32_t": "u4",
    "int64_t": "i8", "uint64_t": "u8", "float": "f4", "double": "f8",
}  # fmt: skip


@cache
def library() -> ctypes.CDLL:
    gcc = shutil.which("gcc") or shutil.which("cc")
    if gcc is None:
        pytest.skip("no C compiler for this machine")
    folder = kernels_folder()
    target = folder / "kernels.so"
    source = folder / SOURCE
    subprocess.run([gcc, *FLAGS, "-shared", "-fPIC", str(source), "-o", str(target), "-lm"], check=True)
    return ctypes.CDLL(str(target))


@cache
def kernels_folder() -> Path:
    """Header and C file as a network brings them."""
    folder = Path(tempfile.mkdtemp(prefix="atonc_kernels_"))
    for name, content in kernel_files().items():
        (folder / name).write_bytes(content)
    return folder


class _Format(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("type", "flags")),
        *((name, ctypes.c_double) for name in ("scale", "zero", "low", "high", "least", "most")),
        ("first_bits", ctypes.c_void_p),
        ("middle", ctypes.c_int32),
    )


class _Window(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_int32)
        for name in (
            "batch", "in_h", "in_w", "in_c", "out_h", "out_w", "out_c", "k_h", "k_w", "stride_y", "stride_x",
            "dilate_y", "dilate_x", "top", "left", "groups",
        )
    )  # fmt: skip


STRUCTS: dict[str, type[ctypes.Structure]] = {"atonc_format": _Format, "atonc_window": _Window}


class Memories:
    """Every tensor that is not constant in a buffer of its own, between guards; the same layout for C and emulator."""

    def __init__(self, sizes: Mapping[str, int], values: Mapping[str, Array]) -> None:
        self.offsets: dict[str, int] = {}
        total = GUARD
        for name, size in sizes.items():
            self.offsets[name] = total
            total += (size + 15) // 16 * 16 + GUARD
        self.bytes = np.full(total, GUARD_BYTE, np.uint8)
        for name, value in values.items():
            raw = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            self.bytes[self.offsets[name] :][: raw.size] = raw


def run_c(calls: Sequence[CpuCall], memories: Memories) -> Array:
    data = memories.bytes.copy()
    for call in calls:
        kept: list[Any] = []
        arguments = [_c_argument(argument, memories, data, kept) for argument in call.arguments]
        getattr(library(), call.function)(*arguments)
    return data


def _c_argument(value: Argument, memories: Memories, data: Array, kept: list[Any]) -> Any:
    if isinstance(value, Pointer):
        return ctypes.c_void_p(data.ctypes.data + memories.offsets[value.buffer] + value.offset_bytes)
    if isinstance(value, ConstantTable):
        array = np.array(value.values, NUMPY[value.ctype])
        kept.append(array)
        return ctypes.c_void_p(array.ctypes.data)
    if isinstance(value, Struct):
        members = {name: _c_member(member, memories, data, kept) for name, member in value.members}
        struct = STRUCTS[value.ctype](**members)
        kept.append(struct)
        return ctypes.byref(struct)
    if isinstance(value, float):
        return ctypes.c_double(value)
    return ctypes.c_int64(value)  # wide, so that 0 is a null pointer on the stack too


def _c_member(value: int | float | ConstantTable, memories: Memories, data: Array, kept: list[Any]) -> Any:
    return _c_argument(value, memories, data, kept) if isinstance(value, ConstantTable) else value


def run_twin(calls: Sequence[CpuCall], memories: Memories) -> Array:
    memory = AddressSpace()
    memory.add("ram", BASE, memories.bytes.size)
    memory.write(BASE, memories.bytes)
    for call in calls:
        run_call(call.function, [c_value(argument, memories) for argument in call.arguments], memory)
    return memory.read(BASE, memories.bytes.size)


def c_value(value: Argument, memories: Memories) -> Any:
    """What the reader of network.c makes of an argument."""
    if isinstance(value, Pointer):
        return BASE + memories.offsets[value.buffer] + value.offset_bytes
    if isinstance(value, ConstantTable):
        return list(np.array(value.values, NUMPY[value.ctype]).tolist())
    if isinstance(value, Struct):
        return {name: c_value(member, memories) for name, member in value.members}
    return value


def stored(tensor: Tensor) -> np.dtype[Any]:
    return np.dtype(np.uint8 if tensor.dtype == "bool" else tensor.dtype)


def same_three_ways(
    graph: Graph, op: Op, values: Mapping[str, Array], offsets: Mapping[str, int] | None = None
) -> tuple[CpuCall, ...]:
    """Runs an operator on values of its inputs in memory and compares; `offsets` of tensors stored as code + 128."""
    offsets = offsets or {}
    inside = {n: np.asarray(v).astype(stored(graph.tensors[n])) for n, v in values.items()}
    known = inside | {n: t.data for n, t in graph.tensors.items() if t.data is not None}
    with np.errstate(over="ignore"):
        expected = {
            name: np.ascontiguousarray(result.codes).astype(stored(graph.tensors[name]))
            for name, result in zip(op.outputs, run_op(graph, op, known), strict=True)
        }
    curve = curve_of(op, graph)  # near exact arithmetic, and the same bytes in C and in the emulator
    if curve is not None:
        (name,), lines = op.outputs, curve(inside[op.inputs[0]])
        assert np.abs(lines - expected[name]).max(initial=0) <= curve.error
        expected[name] = lines.astype(expected[name].dtype)

    def in_memory(name: str, value: Array) -> Array:
        return (value.view(np.uint8) + np.uint8(offsets[name])) if offsets.get(name) else value

    sizes = {n: v.nbytes for n, v in {**inside, **expected}.items()}
    before = Memories(sizes, {n: in_memory(n, v) for n, v in inside.items()})
    after = Memories(sizes, {n: in_memory(n, v) for n, v in {**inside, **expected}.items()})
    calls = cpu_calls(op, graph, offsets)
    by_twin, by_c = run_twin(calls, before), run_c(calls, before)
    for way, found in (("the emulator", by_twin), ("C", by_c)):
        _compare(way, found, after, graph, op, expected)
    return calls


def _compare(way: str, found: Array, after: Memories, graph: Graph, op: Op, expected: Mapping[str, Array]) -> None:
    if np.array_equal(found, after.bytes):
        return
    for name, value in expected.items():
        start = after.offsets[name]
        got = found[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
        wanted = after.bytes[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
        both_nan = np.isnan(got) & np.isnan(wanted) if value.dtype.kind == "f" else np.zeros(value.shape, bool)
        apart = (got.view(f"u{value.itemsize}") != wanted.view(f"u{value.itemsize}")) & ~both_nan
        where = np.argwhere(apart)[:4].tolist()
        assert not apart.any(), f"{way}: {op.kind} {name} {where}: {got[apart][:4]} for {wanted[apart][:4]}"
        after.bytes[start : start + value.nbytes] = found[start : start + value.nbytes]  # NaNs have many codes
    assert np.array_equal(found, after.bytes), f"{way}: {op.kind} writes outside its output"


# --- small graphs --------------------------------------------------------------------------------------------------


def tensor(
    name: str, shape: Sequence[int], dtype: str = "int8", scale: float | None = None, zero: int = 0, data: Any = None
) -> Tensor:
    quant = None if scale is None else Quantisation.per_tensor(scale, zero)
    return Tensor(name, tuple(shape), dtype, quant, None if data is None else np.asarray(data))


def one_op(kind: str, inputs: Sequence[Tensor | None], outputs: Sequence[Tensor], **attrs: Any) -> tuple[Graph, Op]:
    op = Op(kind, kind, tuple(t.name if t else "" for t in inputs), tuple(t.name for t in outputs), attrs)
    tensors = {t.name: t for t in (*inputs, *outputs) if t is not None}
    names = tuple(t.name for t in inputs if t is not None and t.data is None)
    return Graph(tensors, (op,), names, tuple(t.name for t in outputs)), op


def random_values(rng: np.random.Generator, tensor: Tensor, hostile: bool = False) -> Array:
    kind = stored(tensor)
    if tensor.dtype == "bool":
        return rng.integers(0, 2, tensor.shape).astype(np.uint8)
    if kind.kind != "f":
        limits = np.iinfo(kind)
        wide = min(int(limits.max), 1 << 40)
        return rng.integers(max(int(limits.min), -wide), wide, tensor.shape, endpoint=True).astype(kind)
    values = (rng.normal(size=tensor.shape) * 10.0 ** rng.integers(-3, 3, tensor.shape)).astype(kind)
    if hostile and values.size:
        special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 3.4e38, -3.4e38, 1e-45, 0.5, -0.5], kind)
        spots = rng.random(values.shape) < 0.3
        values = np.where(spots, rng.choice(special, values.shape), values).astype(kind)
    return values
