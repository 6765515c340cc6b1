"""What the call of a kernel needs to know about its operator: pointers, number formats, constants, sizes, and nested
loops over tensors as rows of counts and steps, merged where memory is in one piece."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from atonc.compiler.emit.c.calls import Argument, ConstantTable, CpuCall, Pointer, Struct
from atonc.compiler.ir import Array, Graph, Op, Quantisation, Tensor, layer_name
from atonc.compiler.lower.sizes import item_bytes
from atonc.compiler.ops.elementwise import activation_bounds
from atonc.compiler.ops.rounding import Rounding, rounding_of
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass

# element type -> (number in atonc_kernels.h, C type)
TYPES: dict[str, tuple[int, str]] = {
    "int8": (0, "int8_t"), "uint8": (1, "uint8_t"), "int16": (2, "int16_t"), "uint16": (3, "uint16_t"),
    "int32": (4, "int32_t"), "uint32": (5, "uint32_t"), "int64": (6, "int64_t"), "uint64": (7, "uint64_t"),
    "float32": (8, "float"), "float64": (9, "double"), "bool": (10, "uint8_t"),
}  # fmt: skip
HAS_LEAST, HAS_MOST, CLIP_FLOAT, IN_SINGLE, TO_EVEN = 1, 2, 4, 8, 16
MAX_RANK = 8  # of nested loops in the kernels
PER_CHANNEL = ("conv", "transpose_conv", "dense")  # whose kernels take one number of bits for each output channel
SHIFT = 128  # an int8 tensor may be stored as code + 128

Maker = Callable[["Site"], tuple[CpuCall, ...]]
MAKERS: dict[str, Maker] = {}


def kernel_for(*kinds: str) -> Callable[[Maker], Maker]:
    """Registers what makes the calls of an operator."""

    def register(maker: Maker) -> Maker:
        MAKERS.update(dict.fromkeys(kinds, maker))
        return maker

    return register


@dataclass(frozen=True, eq=False)
class Site:
    """An operator in its graph. Tensors are as they lie in memory: with an offset of 128 int8 codes are uint8 ones."""

    op: Op
    graph: Graph
    offsets: Mapping[str, int] = field(default_factory=dict)

    def refuse(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"{self.op.kind}: {what}",
            where=layer_name(self.op),
            rule="what runs on the CPU needs a kernel in atonc_kernels.c",
            remedy="change or remove the node, or keep it outside the network",
        )

    @property
    def attrs(self) -> Mapping[str, Any]:
        return self.op.attrs

    def tensor(self, name: str) -> Tensor:
        tensor = self.graph.tensors[name]
        if not self.offsets.get(name):
            return in_double(tensor) if tensor.is_float and tensor.data is not None else tensor
        if tensor.dtype != "int8" or self.offsets[name] != SHIFT:
            raise self.refuse(f"{name} is stored with an offset of {self.offsets[name]}")
        quant = tensor.quant or Quantisation.per_tensor(1.0)
        return replace(tensor, dtype="uint8", quant=replace(quant, zero_points=quant.zero_points + SHIFT))

    def has(self, index: int) -> bool:
        return index < len(self.op.inputs) and bool(self.op.inputs[index])

    def input(self, index: int = 0) -> Tensor:
        if not self.has(index):
            raise self.refuse(f"input {index} is missing")
        return self.tensor(self.op.inputs[index])

    def output(self, index: int = 0) -> Tensor:
        return self.tensor(self.op.outputs[index])

    @property
    def clip(self) -> tuple[int, int] | None:
        """The clip of a fused activation, in codes as stored."""
        if "clip" not in self.attrs:
            return None
        low, high = self.attrs["clip"]
        shift = self.offsets.get(self.op.outputs[0], 0)
        return low + shift, high + shift

    # --- pointers

    def type_of(self, tensor: Tensor) -> int:
        if tensor.dtype not in TYPES:
            raise self.refuse(f"{tensor.name} has elements of type {tensor.dtype}")
        return TYPES[tensor.dtype][0]

    def source(self, tensor: Tensor, ctype: str = "", offset_bytes: int = 0) -> Pointer | ConstantTable:
        """Where a kernel reads a tensor; a constant lies in the code, as bytes if the kernel moves bytes."""
        self.type_of(tensor)
        if tensor.data is None:
            return Pointer(tensor.name, ctype or TYPES[tensor.dtype][1], True, offset_bytes)
        data = np.ascontiguousarray(tensor.data.astype(stored_type(tensor)))
        if ctype == "uint8_t":
            return table("uint8_t", data.view(np.uint8).reshape(-1)[offset_bytes:])
        return self.reals(data, TYPES[tensor.dtype][1])

    def target(self, tensor: Tensor, ctype: str = "", offset_bytes: int = 0) -> Pointer:
        self.type_of(tensor)
        return Pointer(tensor.name, ctype or TYPES[tensor.dtype][1], False, offset_bytes)

    def reals(self, values: Array, ctype: str = "double") -> ConstantTable:
        return table(ctype, values)

    # --- number formats

    def scale_zero(self, tensor: Tensor) -> tuple[float, int]:
        if tensor.quant is not None and not tensor.quant.is_per_tensor:
            raise self.refuse(f"{tensor.name} has a scale per channel")
        return tensor.scale, tensor.zero_point

    def format(self, tensor: Tensor) -> Struct:
        """How an input lies in memory."""
        scale, zero = self.scale_zero(tensor)
        return Struct("atonc_format", (("type", self.type_of(tensor)), ("scale", float(scale)), ("zero", float(zero))))

    def plain_format(self, tensor: Tensor) -> Struct:
        """The codes themselves as numbers."""
        return Struct("atonc_format", (("type", self.type_of(tensor)), ("scale", 1.0), ("zero", 0.0)))

    def out_format(self, least: float = -math.inf, most: float = math.inf, index: int = 0) -> Struct:
        """How the output lies in memory, with the limits that a fused activation sets."""
        tensor = self.output(index)
        scale, zero = self.scale_zero(tensor)
        low, high, flags = self._code_limits(tensor)
        how = self._how()
        flags |= IN_SINGLE * how.single | TO_EVEN * how.to_even
        members: list[tuple[str, int | float | ConstantTable]] = []
        if math.isfinite(least):
            flags, members = flags | HAS_LEAST, [*members, ("least", float(least))]
        if math.isfinite(most):
            flags, members = flags | HAS_MOST, [*members, ("most", float(most))]
        wide = tensor.dtype in ("int64", "uint64")  # the zero point of 64-bit integers is no part of exact arithmetic
        first = (("type", self.type_of(tensor)), ("flags", flags), ("scale", float(scale)))
        limits = (("zero", 0.0 if wide else float(zero)), ("low", low), ("high", high))
        return Struct("atonc_format", (*first, *limits, *members, *self._rounding(tensor)))

    def _how(self) -> Rounding:
        operands = [self.graph.tensors[name] for name in self.op.inputs if name]
        return rounding_of(self.op, operands, self.graph.tensors[self.op.outputs[0]])

    def _rounding(self, tensor: Tensor) -> Iterable[tuple[str, int | ConstantTable]]:
        """What is said about results that are not rounded once to the nearest."""
        rounding = self._how()
        if rounding.first_bits is not None:
            channels = tensor.shape[-1] if self.op.kind in PER_CHANNEL else 1
            yield "first_bits", table("uint8_t", np.broadcast_to(rounding.first_bits.astype(np.int64), (channels,)))
        if rounding.zero:
            yield "middle", rounding.zero

    def activated_format(self) -> Struct:
        """The output behind the `activation` attribute."""
        return self.out_format(*(activation_bounds(self.attrs, self.output()) or (-math.inf, math.inf)))

    def _code_limits(self, tensor: Tensor) -> tuple[float, float, int]:
        if tensor.is_float or tensor.dtype == "bool":
            clip = self.clip if tensor.is_float else None
            return (float(clip[0]), float(clip[1]), CLIP_FLOAT) if clip else (0.0, 1.0, 0)
        low, high = map(float, tensor.code_range)  # 2^63 - 1 becomes 2^63: the kernel knows
        if self.clip:
            low, high = (min(max(bound, self.clip[0]), self.clip[1]) for bound in (low, high))
        return float(low), float(high), 0

    def call(self, function: str, *arguments: Argument) -> tuple[CpuCall, ...]:
        return (CpuCall(function, arguments),)


def in_double(tensor: Tensor) -> Tensor:
    """A constant that passes computed in double precision stays there; all others keep their type."""
    if tensor.data is None or np.array_equal(tensor.data.astype(tensor.dtype), tensor.data, equal_nan=True):
        return tensor
    return replace(tensor, dtype="float64")


def stored_type(tensor: Tensor) -> np.dtype[Any]:
    return np.dtype(np.uint8) if tensor.dtype in ("bool", "int4") else np.dtype(tensor.dtype)


def table(ctype: str, values: Array | Sequence[int | float]) -> ConstantTable:
    return ConstantTable(ctype, tuple(np.asarray(values).reshape(-1).tolist()) or (0,))  # C has no empty arrays


def changed(struct: Struct, **members: int | float | ConstantTable) -> Struct:
    return replace(struct, members=tuple({**dict(struct.members), **members}.items()))


def rows(loops: Iterable[Sequence[int]]) -> tuple[int, ConstantTable]:
    """Nested loops for a kernel: how many, and their numbers. A single pass has one loop."""
    found = list(loops)
    if not found:
        raise ValueError("at least one loop")
    return len(found), table("int32_t", [number for loop in found for number in loop])


def size_bytes(tensor: Tensor) -> int:
    return tensor.elements * item_bytes(tensor)


def around(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """(elements before, along, behind) an axis."""
    axis %= len(shape)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def packed(shape: Sequence[int]) -> list[int]:
    """Steps of a tensor without gaps, in elements."""
    steps = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        steps[k] = steps[k + 1] * shape[k + 1]
    return steps


def broadcast_steps(shape: Sequence[int], target: Sequence[int], unit: int = 1) -> list[int]:
    """Steps of a tensor that is read as if it had the target's shape: 0 along repeated axes."""
    missing = len(target) - len(shape)
    steps = [unit * step if n > 1 else 0 for n, step in zip(shape, packed(shape), strict=True)]
    return [0] * missing + steps


def merged(shape: Sequence[int], *steps: Sequence[int]) -> list[tuple[int, ...]]:
    """Rows (count, step, ...), outermost first: loops of one pass are gone, neighbours that continue each other are
    one."""
    found: list[tuple[int, ...]] = []
    for count, *each in zip(shape, *steps, strict=True):
        if count == 1:
            continue
        if found and all(outer == step * count for outer, step in zip(found[-1][1:], each, strict=True)):
            found[-1] = (found[-1][0] * count, *each)
        else:
            found.append((count, *each))
    return found


def nested(site: Site, shape: Sequence[int], *steps: Sequence[int]) -> tuple[int, ConstantTable]:
    """Loops for a kernel; a single value is a loop of one pass."""
    return limited(site, merged(shape, *steps), len(steps))


def limited(site: Site, found: list[tuple[int, ...]], width: int) -> tuple[int, ConstantTable]:
    found = found or [(1, *([0] * width))]
    if len(found) > MAX_RANK:
        raise site.refuse(f"{len(found)} nested loops, the kernels have {MAX_RANK}")
    return rows(found)
