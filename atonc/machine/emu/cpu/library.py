"""`LL_ATON_LIB_*`, the hybrid library, published in full: buffers are moved, cast, padded; and there is a softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.bus import AddressSpace, Bytes
from atonc.machine.emu.cpu.struct_view import (
    KERNELS,
    MAX_RANK,
    StructView,
    argument,
    as_address,
    as_int,
    as_ints,
    fail,
    struct_list,
)
from atonc.machine.emu.cpu.tensors import F32, I8, MAX_ELEMENTS, Array, packed_strides, strided
from atonc.machine.emu.files.types import CValue

MIN_DMA_BYTES = 40  # smaller transfers are done by the CPU
# elements of three bytes have no NumPy type: all moves work on blocks of bytes
_BLOCKS = {n: np.dtype((np.void, n)) for n in (1, 2, 3, 4)}
_BYTE = np.dtype(np.uint8)
_NO_MEMORY = AddressSpace()
# axes are counted ..., N, C, H, W; most buffers are stored ..., N, H, W, C
_STORED_AXIS = {0: 0, 1: 3, 2: 1, 3: 2}


@dataclass(frozen=True)
class KernelBuffer:
    """`LL_Buffer_InfoTypeDef`: an address range with a shape."""

    address: int
    size_bytes: int
    shape: tuple[int, ...]  # as stored: ..., H, W, C in most functions
    batch: int  # channels that lie together
    nbits: int
    where: str

    @property
    def nbytes(self) -> int:
        """Bytes of one element."""
        return (self.nbits + 7) >> 3

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def block(self) -> np.dtype[Any]:
        return _BLOCKS[self.nbytes]

    def bytes(self, memory: AddressSpace) -> Bytes:
        return memory.view(self.address, self.size_bytes)


def buffer(info: StructView) -> KernelBuffer:
    start, end = info.integer("offset_start"), info.integer("offset_end")
    rank, nbits = info.integer("ndims"), info.integer("nbits")
    if not 0 <= start < end < 1 << 32 or not 0 <= rank <= MAX_RANK:
        raise fail(f"impossible buffer: offsets {start} to {end}, {rank} dimensions", info.where)
    if not 1 <= nbits <= 32:
        raise fail(f"elements of {nbits} bits", info.where)
    shape = info.integers("shape", rank) if rank else ()
    address = info.address("addr_base") + start
    result = KernelBuffer(address, end - start, shape, info.integer("batch"), nbits, info.where)
    if not shape or min(shape) < 1 or result.elements > MAX_ELEMENTS:
        raise fail(f"impossible shape {shape}", info.where)
    return result


class LibraryCall:
    """One call; arguments by position. Who only asks what it does has no memory."""

    def __init__(self, name: str, args: Sequence[CValue], memory: AddressSpace = _NO_MEMORY) -> None:
        self.name, self.args, self.memory = name, args, memory

    def place(self, index: int) -> str:
        """How messages name an argument."""
        return self.name

    def value(self, index: int) -> CValue:
        return argument(self.args, index, self.name)

    def integer(self, index: int) -> int:
        return as_int(self.value(index), self.place(index))

    def ints(self, index: int, count: int) -> tuple[int, ...]:
        return as_ints(self.value(index), self.place(index), count)

    def address(self, index: int) -> int:
        return as_address(self.value(index), self.place(index))

    def struct(self, index: int, what: str = "") -> StructView:
        return StructView.of(self.value(index), f"{self.place(index)} {what}".strip())

    def buffer(self, index: int, what: str = "") -> KernelBuffer:
        return buffer(self.struct(index, what))

    def buffers(self, index: int, count: int, what: str = "") -> list[KernelBuffer]:
        where = f"{self.name} {what}".strip()
        if not 0 < count <= 256:
            raise fail(f"{count} buffers", where)
        return [buffer(item) for item in struct_list(self.value(index), count, where)]

    def fail(self, what: str) -> InputError:
        return fail(what, self.name)

    def require(self, condition: bool, what: str, where: str = "") -> None:
        """What the published library refuses with an error code and no effect is an error of the network here."""
        if not condition:
            raise fail(what, where or self.name)


def library(name: str, *others: str) -> Callable[[Callable[[LibraryCall], None]], Callable[[LibraryCall], None]]:
    """Registers a `LL_ATON_LIB_*` function; later releases pass a network instance last, which changes nothing here."""

    def register(function: Callable[[LibraryCall], None]) -> Callable[[LibraryCall], None]:
        for one in (name, *others):
            KERNELS[one] = lambda args, memory: function(LibraryCall(name, args, memory))
        return function

    return register


# ---------------------------------------------------------------------------------------------------------------- casts
# Float, Qm.n fixed point and scale/offset codes into each other. Kept as published: a negative n is not rounded when
# numbers become fixed point; fixed point to fixed point always shifts left.

_CAST = "LL_ATON_LIB_Cast"
_INTEGER = ("DataType_UINT8", "DataType_INT8", "DataType_UINT16", "DataType_INT16", "DataType_BOOL")
_FIXED, _FLOAT = "DataType_FXP", "DataType_FLOAT"


@dataclass(frozen=True)
class CastSide:
    buffer: KernelBuffer
    kind: str
    qm: int
    qn: int
    unsigned: bool
    scale: np.float32 | None
    offset: int

    @property
    def stored(self) -> np.dtype[np.int8] | np.dtype[np.int16]:
        if self.buffer.nbits not in (8, 16):
            raise NotModelledError(f"a cast of {self.buffer.nbits}-bit fixed point", where=_CAST)
        return np.dtype("<i2") if self.buffer.nbits == 16 else np.dtype(np.int8)

    @classmethod
    def of(cls, call: LibraryCall, index: int, what: str) -> CastSide:
        info = call.struct(index, what)
        part, kind = buffer(info), info.enum("type")
        qm, qn = info.integer("Qm"), info.integer("Qn")
        call.require(not info.integer("per_channel"), "quantised per channel", info.where)
        if kind in _INTEGER:  # integers count as fixed point without fraction, whatever their Qm says
            kind, qm, qn = _FIXED, part.nbits, 0
        call.require(-32 < qn < 32 and -1 < qm + qn < 63, f"fixed point Q{qm}.{qn}", info.where)
        scales, offsets = info.numbers("scale"), info.numbers("offset")
        offset = ((int(offsets[0]) + 128) % 256 - 128) if scales and offsets else 0
        scale = np.float32(scales[0]) if scales else None
        return cls(part, kind, qm, qn, bool(info.integer("Qunsigned")), scale, offset)

    def view(self, call: LibraryCall, dtype: np.dtype[Any], from_end: bool = False) -> Array:
        """Widening casts walk backwards from the buffers' ends, so that they can work in place."""
        size = self.buffer.elements * dtype.itemsize
        call.require(size <= self.buffer.size_bytes, "the buffer is smaller than its shape", self.buffer.where)
        start = self.buffer.address + (self.buffer.size_bytes - size if from_end else 0)
        return call.memory.view(start, size).view(dtype)

    def to_float(self, codes: Array) -> Array:
        factor = np.float32(2.0 ** abs(self.qn))
        values: Array = codes.astype(F32) / factor if self.qn >= 0 else codes.astype(F32) * factor
        return values if self.scale is None else (values - np.float32(self.offset)) * self.scale

    def to_fixed(self, values: Array) -> Array:
        values = values if self.scale is None else values / self.scale + np.float32(self.offset)
        if self.qn >= 0:
            scaled: Array = values * np.float32(2.0**self.qn) + np.where(values > 0, np.float32(0.5), np.float32(-0.5))
        else:
            scaled = values / np.float32(2.0**-self.qn)
        limit = 2.0 ** (self.qm + self.qn)
        clipped = np.clip(np.nan_to_num(scaled), np.float32(-limit), np.float32(limit - 1))
        result: Array = clipped.astype(np.int64)  # towards zero
        return result


@library(_CAST)
def cast(call: LibraryCall) -> None:
    source, target = CastSide.of(call, 0, "input"), CastSide.of(call, 1, "output")
    call.require(source.buffer.elements == target.buffer.elements, "input and output differ in size")
    same_fixed = (source.qm, source.qn, source.unsigned) == (target.qm, target.qn, target.unsigned)
    if source.kind == target.kind and (source.kind != _FIXED or same_fixed):
        size = (source.buffer.nbits * source.buffer.elements + 7) >> 3
        call.memory.write(target.buffer.address, call.memory.read(source.buffer.address, size))
    elif source.kind == _FIXED and target.kind == _FLOAT:
        codes = source.view(call, source.stored, from_end=True).copy()
        target.view(call, F32, from_end=True)[:] = source.to_float(codes)
    elif source.kind == _FLOAT and target.kind == _FIXED:
        values = source.view(call, F32).copy()
        target.view(call, target.stored)[:] = target.to_fixed(values).astype(target.stored)
    elif source.kind == target.kind == _FIXED:
        codes = source.view(call, source.stored).copy().astype(np.int64)
        plain = source.scale is None and target.scale is None
        fixed = codes << abs(target.qn - source.qn) if plain else target.to_fixed(source.to_float(codes))
        target.view(call, target.stored)[:] = fixed.astype(target.stored)
    else:
        raise NotModelledError(f"a cast from {source.kind} to {target.kind}", where=_CAST)


# ------------------------------------------------------------------------------------------------------- concatenations
# Flat copies, channel interleaving by DMA, or copies by the CPU.


@library("LL_ATON_LIB_Concat")
def concat(call: LibraryCall) -> None:
    inputs, output, axis = read_concat(call)
    parts = [part.bytes(call.memory).copy() for part in inputs]
    place = _concat_case(call, inputs, output, axis)
    if place == "flat":
        call.memory.write(output.address, np.concatenate(parts))
    elif place == "channels":
        _interleave(parts, inputs, output, call.memory)
    else:
        shaped = []
        for raw, part in zip(parts, inputs, strict=True):
            size = part.elements * part.nbytes
            call.require(raw.size >= size, "a buffer is smaller than its shape", part.where)
            shaped.append(raw[:size].view(output.block).reshape(part.shape))
        joined = np.concatenate(shaped, stored_axis(axis, len(output.shape)))
        call.memory.write(output.address, joined.reshape(-1).view(np.uint8))


def read_concat(call: LibraryCall) -> tuple[list[KernelBuffer], KernelBuffer, int]:
    count, axis = call.integer(1), call.integer(3)
    inputs, output = call.buffers(0, count, "input"), call.buffer(2, "output")
    rank = len(inputs[0].shape)
    call.require(rank >= 4 and 0 <= axis < rank, f"axis {axis} of {rank} dimensions")
    call.require(all(len(b.shape) == rank for b in [*inputs, output]), "buffers of different rank")
    call.require(all(b.nbits == output.nbits for b in inputs), "elements of different size")
    call.require(output.nbits % 8 == 0, f"elements of {output.nbits} bits")
    along = stored_axis(axis, rank)
    for part in inputs:
        others = [k for k in range(rank) if k != along and part.shape[k] != output.shape[k]]
        call.require(not others, f"shapes {part.shape} and {output.shape} differ")
    call.require(sum(b.shape[along] for b in inputs) == output.shape[along], "the parts do not add up")
    call.require(sum(b.size_bytes for b in inputs) <= output.size_bytes, "the output is too small")
    canonical = _is_canonical(inputs[0])
    alike = all((canonical and _is_canonical(b)) or b.batch == inputs[0].batch for b in inputs)
    call.require(alike, "inputs of different layout")
    return inputs, output, axis


def stored_axis(axis: int, rank: int) -> int:
    return rank - 4 + _STORED_AXIS[axis - (rank - 4)] if axis >= rank - 4 else axis


def _is_canonical(part: KernelBuffer) -> bool:
    """All channels of a pixel lie together."""
    return part.batch == part.shape[-1]


def _concat_case(call: LibraryCall, inputs: list[KernelBuffer], output: KernelBuffer, axis: int) -> str:
    """Which of the published ways applies: "flat" and "channels" use the DMA, "axis" the CPU."""
    rank, batches_alike = len(output.shape), inputs[0].batch == output.batch
    # published as such: the sizes before the axis are taken in stored order
    leftmost = all(n == 1 for n in output.shape[:axis]) and output.nbits <= 24
    if leftmost and rank - 1 - axis == 2:
        return "flat" if batches_alike else "channels"
    if leftmost:
        call.require(batches_alike, "input and output of different layout")
        return "axis" if rank - 1 - axis == 0 else "flat"
    call.require(_is_canonical(inputs[0]) and _is_canonical(output), "channels are not stored together")
    return "axis"


def _interleave(parts: list[Bytes], inputs: list[KernelBuffer], output: KernelBuffer, memory: AddressSpace) -> None:
    """Inputs stored [C/b][H][W][b] go side by side into pixels of all channels."""
    height, width, channels = output.shape[-3:]
    pixels = height * width
    target = memory.view(output.address, pixels * channels * output.nbytes).view(output.block).reshape(pixels, channels)
    first = 0
    for raw, part in zip(parts, inputs, strict=True):
        depth = part.shape[-1]
        if part.batch < 1 or depth % part.batch or raw.size < pixels * depth * part.nbytes:
            raise NotModelledError(f"{depth} channels in groups of {part.batch}", where=part.where)
        groups = raw[: pixels * depth * part.nbytes].view(output.block).reshape(depth // part.batch, pixels, part.batch)
        target[:, first : first + depth] = groups.transpose(1, 0, 2).reshape(pixels, depth)
        first += depth


# ------------------------------------------------------------------------------------------------------------- paddings
# LL_ATON_LIB_Pad (Pad_Standard from 4.0.0) and Pad_4Loop. All paddings come as byte distances. The output is filled,
# then the input is copied row by row: two pointers walk through both tensors, positive paddings skip output bytes,
# negative ones skip input bytes.

PAD = "LL_ATON_LIB_Pad"
_LOOP_WORDS = (
    "initial_cumulative_start_offset_in_bytes",
    "inner_bytes_to_copy",
    "nr_of_stream_eng_loops",
    "total_bytes_to_copy",
)


@dataclass(frozen=True)
class Pad:
    source: int
    target: int
    min_shape: tuple[int, ...]
    mode: int
    nbytes: int
    out_elements: int
    constant: int
    last_axis: int  # from here on everything is one run of bytes
    run_elements: int
    in_start: tuple[int, ...]
    in_end: tuple[int, ...]
    out_start: tuple[int, ...]
    out_end: tuple[int, ...]
    out_shape: tuple[int, ...]
    out_offsets: tuple[int, ...]

    @property
    def run_bytes(self) -> int:
        return self.run_elements * self.nbytes

    @property
    def out_bytes(self) -> int:
        return self.out_elements * self.nbytes

    def runs(self, memory: AddressSpace, output: bool) -> Array:
        """The runs of bytes of one side; positive paddings skip bytes of the output, negative ones of the input."""
        axes, sign = self.last_axis + 1, 1 if output else -1
        base, *ends = (
            (self.target, self.out_start, self.out_end) if output else (self.source, self.in_start, self.in_end)
        )
        start, end = ([max(0, sign * n) for n in amounts[:axes]] for amounts in ends)
        size, steps = start[-1] + self.run_bytes + end[-1], list[int]()  # a pointer skips both around each axis
        for axis in reversed(range(axes - 1)):
            steps.insert(0, size)
            size = start[axis] + self.min_shape[axis] * size + end[axis]
        shape = (*self.min_shape[: axes - 1], self.run_bytes)
        return strided(memory, base + sum(start), shape, (*steps, 1), _BYTE)


def read_pad(call: LibraryCall) -> Pad:
    rank = call.integer(17)
    call.require(0 < rank <= MAX_RANK, f"{rank} dimensions")
    pad = Pad(
        source=call.address(0),
        target=call.address(1),
        min_shape=call.ints(4, rank),
        mode=call.integer(5),
        nbytes=call.integer(6),
        out_elements=call.integer(7),
        constant=call.integer(8),
        last_axis=call.integer(9),
        run_elements=call.integer(10),
        in_start=call.ints(11, rank),
        in_end=call.ints(12, rank),
        out_start=call.ints(13, rank),
        out_end=call.ints(14, rank),
        out_shape=call.ints(15, rank),
        out_offsets=call.ints(16, rank),
    )
    call.require(pad.nbytes in (1, 2, 3, 4), f"elements of {pad.nbytes} bytes")
    call.require(0 <= pad.last_axis < rank and 0 <= pad.run_elements <= MAX_ELEMENTS, "impossible run of bytes")
    call.require(0 < pad.out_elements <= MAX_ELEMENTS and min(pad.min_shape) >= 0, "impossible sizes")
    return pad


@library(PAD, "LL_ATON_LIB_Pad_Standard")
def pad(call: LibraryCall) -> None:
    request = read_pad(call)
    if request.mode == 0:
        nothing_to_copy = request.run_bytes == 0 or 0 in request.min_shape[: request.last_axis]
        content = None if nothing_to_copy else request.runs(call.memory, output=False).copy()
        constant = 0 if request.run_bytes == 0 else request.constant
        _fill(request.target, request.out_bytes, constant, request.nbytes, call.memory)
        if content is not None:
            request.runs(call.memory, output=True)[...] = content
    elif request.mode in (1, 2):
        _repeat(request, call)
    else:
        raise call.fail(f"padding mode {request.mode}")


def _fill(target: int, size_bytes: int, constant: int, nbytes: int, memory: AddressSpace) -> None:
    pattern = np.frombuffer((constant & 0xFFFFFFFF).to_bytes(4, "little"), np.uint8)[:nbytes]
    memory.view(target, size_bytes)[:] = np.resize(pattern, size_bytes)


def _repeat(request: Pad, call: LibraryCall) -> None:
    """Reflect or edge: the input (cut where paddings are negative) surrounded by itself."""
    call.require(min(request.out_offsets) > 0 and min(request.min_shape) > 0, "impossible sizes")
    if request.mode == 1:
        call.require(min(request.in_start + request.in_end) >= 0, "reflection with negative padding")
    whole = replace(request, last_axis=len(request.min_shape) - 1, run_elements=request.min_shape[-1])
    content = whole.runs(call.memory, output=False).copy().reshape(*request.min_shape, request.nbytes)
    widths = [
        (max(0, before) // step, max(0, after) // step)
        for before, after, step in zip(request.out_start, request.out_end, request.out_offsets, strict=True)
    ]
    shape = [n + before + after for n, (before, after) in zip(request.min_shape, widths, strict=True)]
    call.require(int(np.prod(shape)) == request.out_elements, f"paddings {widths} do not make the output")
    padded = np.pad(content, [*widths, (0, 0)], mode="reflect" if request.mode == 1 else "edge")
    call.memory.write(request.target, padded.reshape(-1))


@library("LL_ATON_LIB_Pad_4Loop")
def pad_4loop(call: LibraryCall) -> None:
    """Release 4.0.0: one DMA transfer whose reader and writer have up to four loops each."""
    source, target, end = (call.address(k) for k in (0, 3, 4))
    constant, nbytes = call.integer(6), call.integer(7)
    call.require(0 < end - target <= MAX_ELEMENTS and nbytes in (1, 2, 3, 4), "impossible sizes")
    content = _loops(call, 8, source).copy()
    _fill(target, end - target, constant, nbytes, call.memory)
    places = _loops(call, 9, target)
    call.require(places.size == content.size, "reader and writer move different amounts")
    places[...] = content.reshape(places.shape)


def _loops(call: LibraryCall, index: int, base: int) -> Array:
    """`struct four_axes`: start, bytes per step, number of loops, all bytes, then (offset, count) innermost first."""
    value = call.value(index)
    if isinstance(value, list):
        words = as_ints(value, call.name, 4)
        pairs = as_ints(value[4:], call.name, 2 * words[2])
    else:
        info = call.struct(index)
        words = tuple(info.integer(name) for name in _LOOP_WORDS)
        items = info.value("four_items_array")
        if not isinstance(items, list) or len(items) < words[2]:
            raise fail(f"{words[2]} loops are promised", info.where)
        views = [StructView.of(item, info.where) for item in items[: words[2]]]
        pairs = tuple(n for view in views for n in (view.integer("offset_in_bytes"), view.integer("nr_of_loops")))
    start, inner, loops, total = words
    call.require(0 <= loops <= 4, f"{loops} loops")
    if loops == 0:
        return strided(call.memory, base + start, (total,), (1,), _BYTE)
    shape, steps = (*reversed(pairs[1::2]), inner), (*reversed(pairs[0::2]), 1)
    return strided(call.memory, base + start, shape, steps, _BYTE)


# ---------------------------------------------------------------------------------------------------- slices and splits

# numbers of the ways to split, as the code generator counts them
_PURE, _CHANNEL, _BATCHED, _FLAT = (0,), (1, 2), (3, 4), (5, 6, 7, 8, 9, 10, 11, 12)
DMA_SPLITS = (1, 3, 5, 7, 9, 11)  # the others are done by the CPU


@library("LL_ATON_LIB_DMA_Outputs_Slice_SplitLike")
def slice_split_like(call: LibraryCall) -> None:
    """Takes `width` bytes out of every `line` bytes."""
    source, target = call.buffer(0), call.buffer(1)
    total, width, height, line = (call.integer(k) for k in (2, 3, 4, 5))
    call.require(0 < width <= total <= MAX_ELEMENTS and total % width == 0 and line > 0, "impossible sizes")
    call.require(height * width == total, f"{height} lines of {width} bytes are not {total}")
    taken = strided(call.memory, source.address, (height, width), (line, 1), _BYTE)
    call.memory.write(target.address, taken.reshape(-1).copy())


@library("LL_ATON_LIB_Slice")
def slice_by_axes(call: LibraryCall) -> None:
    source, target, rank = call.buffer(0), call.buffer(2), call.integer(4)
    call.require(rank == len(source.shape) == len(target.shape), "buffers of different rank")
    call.require(source.nbits == target.nbits >= 8, "elements of different size")
    in_offsets, out_offsets, starts, ends, steps = (call.ints(k, rank) for k in (1, 3, 5, 6, 7))
    call.require(0 not in steps and max(map(abs, starts + ends)) < 1 << 32, "impossible bounds")
    picks = [range(*bounds) for bounds in zip(starts, ends, steps, strict=True)]
    sane = all(0 < len(p) <= MAX_ELEMENTS and min(p[0], p[-1]) >= 0 for p in picks)
    call.require(sane, "an empty, negative or huge range")
    shape = tuple(len(p) for p in picks)
    covered = tuple(max(p[0], p[-1]) + 1 for p in picks)
    whole = strided(call.memory, source.address, covered, in_offsets, source.block)
    taken = whole[tuple(np.ix_(*[np.array(p) for p in picks]))]
    strided(call.memory, target.address, shape, out_offsets, target.block)[...] = taken


@library("LL_ATON_LIB_Split")
def split(call: LibraryCall) -> None:
    source, stored_hwc, outputs, axis, case = read_split(call)
    raw = source.bytes(call.memory).copy()
    if case in _FLAT:
        first = 0
        for part in outputs:
            call.require(first + part.size_bytes <= raw.size, "the parts are larger than the input")
            call.memory.write(part.address, raw[first : first + part.size_bytes])
            first += part.size_bytes
    elif case in _BATCHED:
        _split_batched(call, raw, source, outputs, axis)
    else:
        _split_by_axis(call, raw, source, outputs, axis, stored_hwc or case in _CHANNEL)


def read_split(call: LibraryCall) -> tuple[KernelBuffer, bool, list[KernelBuffer], int, int]:
    source = call.buffer(0)
    stored_hwc, count, rank, axis, case = (call.integer(k) for k in (1, 3, 4, 5, 7))
    outputs = call.buffers(2, count, "output")
    call.require(0 <= axis < rank == len(source.shape), f"axis {axis} of {rank} dimensions")
    call.require(all(len(b.shape) == rank and b.nbits == source.nbits for b in outputs), "buffers do not match")
    call.require(source.nbits >= 8 and case in _PURE + _CHANNEL + _BATCHED + _FLAT, f"split case {case}")
    call.require(case not in _CHANNEL + _BATCHED or bool(stored_hwc), "channels are not stored together")
    return source, bool(stored_hwc), outputs, axis, case


def _split_by_axis(
    call: LibraryCall, raw: Array, source: KernelBuffer, outputs: list[KernelBuffer], axis: int, stored_hwc: bool
) -> None:
    """Shapes are given as N, C, H, W here, whatever the order in memory."""
    rank = len(source.shape)
    order = list(range(rank))
    if stored_hwc and rank > 2:
        call.require(rank >= 4, f"{rank} dimensions")
        order[-4:] = [rank - 4 + k for k in (0, 2, 3, 1)]
        axis = stored_axis(axis, rank)
    shape = [source.shape[k] for k in order]
    sizes = [part.shape[order[axis]] for part in outputs]
    call.require(raw.size == source.elements * source.nbytes, "the input is not packed")
    call.require(sum(sizes) <= shape[axis], "the parts are larger than the input")
    values = raw.view(source.block).reshape(shape)
    first = 0
    for part, size in zip(outputs, sizes, strict=True):
        taken = np.ascontiguousarray(values.take(range(first, first + size), axis))
        call.memory.write(part.address, taken.reshape(-1).view(np.uint8))
        first += size


def _split_batched(call: LibraryCall, raw: Array, source: KernelBuffer, outputs: list[KernelBuffer], axis: int) -> None:
    """Pixels of all channels to outputs stored [C/b][H][W][b]."""
    rank = len(source.shape)
    call.require(rank >= 3 and axis == rank - 3, f"axis {axis} is not the channel")
    channels, height, width = source.shape[-3:]
    call.require(raw.size == channels * height * width * source.nbytes, "only one image at a time")
    pixels = raw.view(source.block).reshape(height * width, channels)
    first = 0
    for part in outputs:
        depth, groups_fit = part.shape[axis], part.batch > 0 and part.shape[axis] % part.batch == 0
        call.require(groups_fit, f"{depth} channels in groups of {part.batch}", part.where)
        call.require(first + depth <= channels, "the parts are larger than the input")
        groups = pixels[:, first : first + depth].reshape(height * width, depth // part.batch, part.batch)
        call.memory.write(part.address, np.ascontiguousarray(groups.transpose(1, 0, 2)).reshape(-1).view(np.uint8))
        first += depth


# -------------------------------------------------------------------------------------------------------------- softmax


@library("LL_ATON_LIB_Softmax")
def softmax(call: LibraryCall) -> None:
    """Only the form for recent ONNX operator sets is modelled, not the legacy one."""
    before, after = call.struct(0), call.struct(1)
    source, target = buffer(before), buffer(after)
    axis, legacy = call.integer(2), call.integer(3)
    if legacy:
        raise NotModelledError("the legacy softmax", where=call.name)
    kind = before.enum("type")
    call.require(kind == after.enum("type") and source.elements == target.elements, "input and output differ")
    call.require(len(source.shape) >= 4 and 0 <= axis < len(source.shape), f"axis {axis} of {source.shape}")
    if kind not in ("DataType_FLOAT", "DataType_INT8"):
        raise NotModelledError(f"a softmax of {kind}", where=call.name)
    dtype = F32 if kind == "DataType_FLOAT" else I8
    values = call.memory.read(source.address, source.elements * dtype.itemsize).view(dtype).reshape(source.shape)
    if kind == "DataType_FLOAT":
        exps = np.exp(values - values.max(axis, keepdims=True))
        result: Array = exps * (F32.type(1) / exps.sum(axis, keepdims=True, dtype=F32))
    else:
        result = _softmax_int8(call, values, axis, before, after)
    call.memory.write(target.address, result.astype(dtype).reshape(-1).view(np.uint8))


def _softmax_int8(call: LibraryCall, codes: Array, axis: int, before: StructView, after: StructView) -> Array:
    """A table of exponentials of all differences, then one rounding away from zero."""
    in_scales, out_scales, offsets = before.numbers("scale"), after.numbers("scale"), after.numbers("offset")
    call.require(bool(in_scales and out_scales and offsets), "scale or offset is missing")
    table = np.exp(np.arange(-255, 1) * np.float64(np.float32(in_scales[0]))).astype(F32)
    wide = codes.astype(np.int64)
    exps = table[wide - wide.max(axis, keepdims=True) + 255]
    inverse = F32.type(1) / (exps.sum(axis, keepdims=True, dtype=F32) * F32.type(out_scales[0]))
    scaled = exps * inverse + F32.type(offsets[0])
    rounded = np.trunc(np.where(scaled > 0, scaled + F32.type(0.5), scaled - F32.type(0.5)))
    result: Array = np.clip(rounded, -128, 127)
    return result


# ----------------------------------------------------- space to depth, depth to space and their sliding-window forms

Pair = tuple[int, int]


@library("LL_ATON_LIB_DMA_SpaceToDepth")
def space_to_depth(call: LibraryCall) -> None:
    _image_to_row(call, _pair(call, 3), _pair(call, 3))


@library("LL_ATON_LIB_DMA_ImageToRow")
def image_to_row(call: LibraryCall) -> None:
    _image_to_row(call, _pair(call, 3), _pair(call, 5))


@library("LL_ATON_LIB_DMA_DepthToSpace")
def depth_to_space(call: LibraryCall) -> None:
    _row_to_image(call, _pair(call, 3), _pair(call, 3))


@library("LL_ATON_LIB_DMA_RowToImage")
def row_to_image(call: LibraryCall) -> None:
    _row_to_image(call, _pair(call, 3), _pair(call, 5))


def _pair(call: LibraryCall, index: int) -> Pair:
    height, width = call.integer(index), call.integer(index + 1)
    call.require(0 < height < 1 << 16 and 0 < width < 1 << 16, f"a block of {height} x {width}")
    return height, width


def _image_and_rows(call: LibraryCall) -> tuple[KernelBuffer, KernelBuffer]:
    call.require(call.integer(1) == 1, "more than one input")
    source, target = call.buffer(0), call.buffer(2)
    call.require(source.nbits == target.nbits, "elements of different size")
    call.require(len(source.shape) == len(target.shape) == 4, "not an image")
    return source, target


def _blocks(call: LibraryCall, image: KernelBuffer, rows: KernelBuffer, block: Pair, strides: Pair) -> Array:
    """The image as [N][row of blocks][column of blocks][block height][block width][C], overlapping or not."""
    (batches, height, width, depth), nbytes = image.shape, image.nbytes
    counts = ((height - block[0]) // strides[0] + 1, (width - block[1]) // strides[1] + 1)
    fits = height >= block[0] and width >= block[1] and not (height - block[0]) % strides[0]
    fits = fits and not (width - block[1]) % strides[1]
    expected = (batches, *counts, depth * block[0] * block[1])
    call.require(fits and rows.shape == expected, f"{image.shape} and {rows.shape}")
    pixel, line = depth * nbytes, width * depth * nbytes
    steps = (height * line, strides[0] * line, strides[1] * pixel, line, pixel, nbytes)
    return strided(call.memory, image.address, (batches, *counts, *block, depth), steps, image.block)


def _packed(part: KernelBuffer, memory: AddressSpace) -> Array:
    return memory.view(part.address, part.elements * part.nbytes).view(part.block)


def _image_to_row(call: LibraryCall, block: Pair, strides: Pair) -> None:
    source, target = _image_and_rows(call)
    rows = _blocks(call, source, target, block, strides)
    _packed(target, call.memory)[:] = rows.reshape(-1).copy()


def _row_to_image(call: LibraryCall, block: Pair, strides: Pair) -> None:
    """Where blocks overlap the later one wins, as in the order of the DMA."""
    source, target = _image_and_rows(call)
    blocks = _blocks(call, target, source, block, strides)
    values = _packed(source, call.memory).copy().reshape(blocks.shape)
    if strides == block:
        blocks[...] = values
        return
    for row, column in np.ndindex(blocks.shape[1], blocks.shape[2]):
        blocks[:, row, column] = values[:, row, column]


@library("LL_ATON_LIB_SW_SpaceToDepth")
def sw_space_to_depth(call: LibraryCall) -> None:
    source, target, block = _read_sw(call)
    image, deep = _planes(call, source, target)
    n, c, h, w = source.shape
    expected = (n, c * block[0] * block[1], h // block[0], w // block[1])
    whole = h % block[0] == 0 and w % block[1] == 0
    call.require(whole and target.shape == expected, f"{target.shape}, not {expected}")
    blocks = image.reshape(n, c, h // block[0], block[0], w // block[1], block[1])
    deep[...] = blocks.transpose(0, 3, 5, 1, 2, 4).reshape(deep.shape)


@library("LL_ATON_LIB_SW_DepthToSpace")
def sw_depth_to_space(call: LibraryCall) -> None:
    source, target, block = _read_sw(call)
    deep, image = _planes(call, source, target)
    n, c, h, w = source.shape
    depth = c // (block[0] * block[1])
    expected = (n, depth, h * block[0], w * block[1])
    call.require(c % (block[0] * block[1]) == 0 and target.shape == expected, f"{target.shape}, not {expected}")
    if call.integer(6) == 0:  # depth last in the channel number: block row, block column, depth
        blocks = deep.reshape(n, *block, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = deep.reshape(n, depth, *block, h, w).transpose(0, 1, 4, 2, 5, 3)
    image[...] = blocks.reshape(image.shape)


def _read_sw(call: LibraryCall) -> tuple[KernelBuffer, KernelBuffer, Pair]:
    source, target = call.buffer(0), call.buffer(2)
    call.require(len(source.shape) == len(target.shape) == 4, "not an image")
    call.require(source.nbits == target.nbits >= 8, "elements of different size")
    call.require(source.elements == target.elements, f"{source.shape} and {target.shape}")
    return source, target, _pair(call, 4)


def _planes(call: LibraryCall, source: KernelBuffer, target: KernelBuffer) -> tuple[Array, Array]:
    """Both as N, C, H, W by their own offsets; the input as a copy."""
    offsets = [call.ints(k, 4) for k in (1, 3)]
    read = strided(call.memory, source.address, source.shape, offsets[0], source.block).copy()
    return read, strided(call.memory, target.address, target.shape, offsets[1], target.block)


# ----------------------------------------------------------------------------------------------------------- transposes


@library("LL_ATON_LIB_DMA_Transpose")
def dma_transpose(call: LibraryCall) -> None:
    """The input is read front to back; the writer's four loops put each element in its place."""
    source, target, in_offsets, out_offsets = _read_transpose(call)
    rank = len(source.shape)
    if target.size_bytes < MIN_DMA_BYTES:
        _by_permutation(call, 5, source, target, in_offsets, out_offsets)
        return
    call.require(rank in (3, 4), f"{rank} dimensions")
    where_to = call.ints(4, rank)
    call.require(sorted(where_to) == list(range(rank)), f"{where_to} is not a permutation")
    call.require(source.elements * source.nbytes == source.size_bytes, "the input is not packed", source.where)
    out_strides = tuple(out_offsets[k] for k in where_to)
    _move(source, target, packed_strides(source.shape, source.nbytes), out_strides, call.memory)


@library("LL_ATON_LIB_Transpose")
def transpose(call: LibraryCall) -> None:
    source, target, in_offsets, out_offsets = _read_transpose(call)
    call.require(len(source.shape) > 2, f"{len(source.shape)} dimensions")
    _by_permutation(call, 4, source, target, in_offsets, out_offsets)


def _read_transpose(call: LibraryCall) -> tuple[KernelBuffer, KernelBuffer, tuple[int, ...], tuple[int, ...]]:
    source, target = call.buffer(0), call.buffer(2)
    call.require(len(source.shape) == len(target.shape), "buffers of different rank")
    call.require(source.nbits == target.nbits >= 8, "elements of different size")
    return source, target, call.ints(1, len(source.shape)), call.ints(3, len(source.shape))


def _by_permutation(
    call: LibraryCall,
    permutation: int,
    source: KernelBuffer,
    target: KernelBuffer,
    in_offsets: tuple[int, ...],
    out_offsets: tuple[int, ...],
) -> None:
    """Output axis k is input axis permutation[k]; the innermost input axis is always packed."""
    rank = len(source.shape)
    perm = call.ints(permutation, rank)
    call.require(sorted(perm) == list(range(rank)), f"{perm} is not a permutation")
    out_strides = tuple(out_offsets[perm.index(axis)] for axis in range(rank))
    _move(source, target, (*in_offsets[:-1], source.nbytes), out_strides, call.memory)


def _move(
    source: KernelBuffer,
    target: KernelBuffer,
    in_strides: tuple[int, ...],
    out_strides: tuple[int, ...],
    memory: AddressSpace,
) -> None:
    read = strided(memory, source.address, source.shape, in_strides, source.block)
    strided(memory, target.address, source.shape, out_strides, source.block)[...] = read.copy()
