"""Inputs of elementwise operators: where they lie, what their codes mean, and how they repeat against the output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from math import gcd

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.arithmetic import looked_up
from atonc.compiler.lower.units.affine import Array
from atonc.compiler.ops.values import Arg
from atonc.compiler.plan.streams import Area, Frames, contiguous, engine
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.select.rules import BROADCAST
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import READ_ALIGNMENT
from atonc.machine.hw.units.stream_engine import StrengConfig


@dataclass(frozen=True)
class Repeats:
    """`outer` blocks, each `times` over, of `run` elements: how an input covers the output."""

    outer: int
    times: int
    run: int

    @property
    def plain(self) -> bool:
        return self.times == 1

    @property
    def block(self) -> int:
        """Elements of the output between which the input may be cut."""
        if self.plain:
            return 1
        if self.outer == 1:
            return self.run
        return self.times * self.run * (READ_ALIGNMENT // gcd(READ_ALIGNMENT, self.run))


@dataclass(frozen=True)
class Operand:
    buffer: str
    scale: float
    zero_point: int
    repeats: Repeats
    element_bytes: int = 1
    source: str = ""  # the tensor whose codes `table` turns into those of the buffer
    table: Array | None = field(default=None, compare=False)

    def reader(self, start: int, count: int) -> StrengConfig:
        """The engine for a part of the output."""
        if self.repeats.plain:
            size = self.element_bytes
            return contiguous(count * size, offset=start * size, word_bytes=size)
        run, times = self.repeats.run, self.repeats.times
        if self.repeats.outer == 1:
            return engine(_run(run, 0), Frames(count // run, 0, 1, run), looped=True)
        block = times * run
        return engine(_run(run, start // block * run), Frames(times, 0, count // block, run), looped=True)


def _run(elements: int, offset: int) -> Area:
    return Area(1, 1, elements, elements, elements, offset)


def repeats(shape: tuple[int, ...], out: tuple[int, ...]) -> Repeats | None:
    """How a tensor repeats along the output; None when it takes more loops than an engine has."""
    dims = (1,) * (len(out) - len(shape)) + shape
    groups: list[tuple[bool, int]] = []  # (varies, size)
    for own, whole in zip(dims, out, strict=True):
        if whole == 1:
            continue
        varies = own == whole
        if groups and groups[-1][0] == varies:
            groups[-1] = (varies, groups[-1][1] * whole)
        else:
            groups.append((varies, whole))
    sizes = [size for _, size in groups]
    match [varies for varies, _ in groups]:
        case [] | [True]:
            return Repeats(1, 1, sizes[0] if sizes else 1)
        case [False]:
            return Repeats(1, sizes[0], 1)
        case [False, True]:
            return Repeats(1, sizes[0], sizes[1])
        case [True, False]:
            return Repeats(sizes[0], sizes[1], 1)
        case [True, False, True]:
            return Repeats(sizes[0], sizes[1], sizes[2])
    return None


def operand_of(op: Op, context: Context, name: str, bytes_only: bool = False) -> Operand:
    """An activation as it is; a constant in full, as bytes if it is int8, else in 16 bits."""
    tensor, out = context.tensor(name), context.tensor(op.outputs[0])
    if tensor.data is not None:
        return _constant(op, context, tensor, out.shape, bytes_only)
    found = repeats(tensor.shape, out.shape)
    if found is None:
        raise Refusal(
            BROADCAST,
            f"{op.kind} repeats {tensor.shape} to {out.shape}",
            "one repeated group of dimensions",
            "expand the smaller tensor before",
        )
    return Operand(context.buffer(name), tensor.scale, tensor.zero_point, found)


def is_of_bytes(tensor: Tensor) -> bool:
    """int8 with one scale and one zero point, written down once or for every channel."""
    if tensor.dtype != "int8" or tensor.quant is None:
        return False
    return all(np.ptp(values) == 0 for values in (tensor.quant.scales, tensor.quant.zero_points))


def _constant(op: Op, context: Context, tensor: Tensor, out: tuple[int, ...], bytes_only: bool) -> Operand:
    assert tensor.data is not None
    whole = Repeats(1, 1, int(np.prod(out)))
    if is_of_bytes(tensor):
        data = np.ascontiguousarray(np.broadcast_to(tensor.data, out))
        return Operand(context.constant(data.tobytes(), tensor.name), tensor.scale, tensor.zero_point, whole)
    real = np.broadcast_to(Arg(tensor, tensor.data).real, out)
    limit = 127 if bytes_only else 32767
    scale = float(np.abs(real).max(initial=0.0)) / limit or 1.0
    codes: Array = np.rint(real / scale).astype(np.int8 if bytes_only else "<i2")
    name = context.constant(np.ascontiguousarray(codes).tobytes(), tensor.name)
    return Operand(name, scale, 0, whole, codes.dtype.itemsize)


def code_operand(context: Context, codes: Array, like: Tensor, label: str) -> Operand:
    """A constant that already has codes of the output."""
    whole = Repeats(1, 1, codes.size)
    return Operand(context.constant(codes.tobytes(), label), like.scale, like.zero_point, whole)


def swapped(op: Op, x: Operand, y: Operand) -> bool:
    """Whether the operands must change places: only port Y takes a repeating one."""
    if x.repeats.plain:
        return y.element_bytes > x.element_bytes
    if not y.repeats.plain:
        raise Refusal(
            BROADCAST,
            f"both inputs of {op.kind} repeat",
            "one input covers the output",
            "expand one of the two before",
        )
    return True


def requantised(operand: Operand, buffer: str, tensor: Tensor, source: str, table: Array) -> Operand:
    return replace(
        operand, buffer=buffer, scale=tensor.scale, zero_point=tensor.zero_point, source=source, table=table
    )


def operand_codes(operand: Operand, op: Op, context: Context, values: Mapping[str, Array]) -> Array:
    """The numbers of an operand, one for every element of the output, given the values of the inputs."""
    shape = context.tensor(op.outputs[0]).shape
    buffer = context.buffers[operand.buffer]
    if buffer.kind == BufferKind.CONSTANT:
        return np.frombuffer(buffer.data, "<i2" if operand.element_bytes == 2 else np.int8).reshape(shape)
    found = values[operand.source or operand.buffer]
    return np.broadcast_to(found if operand.table is None else looked_up(operand.table, found), shape)
