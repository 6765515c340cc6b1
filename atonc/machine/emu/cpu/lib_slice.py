"""Slices and splits of the hybrid library, published in full."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.lib_buffers import KernelBuffer, buffers, first_buffer, require
from atonc.machine.emu.cpu.registry import library
from atonc.machine.emu.cpu.struct_view import argument, as_int, as_ints
from atonc.machine.emu.cpu.tensors import MAX_ELEMENTS, Array, strided
from atonc.machine.emu.files.types import CValue

_SPLIT_LIKE, _SLICE, _SPLIT = "LL_ATON_LIB_DMA_Outputs_Slice_SplitLike", "LL_ATON_LIB_Slice", "LL_ATON_LIB_Split"
_BYTE = np.dtype(np.uint8)
_STORED_AXIS = {0: 0, 1: 3, 2: 1, 3: 2}

# numbers of the ways to split, as the code generator counts them
_PURE, _CHANNEL, _BATCHED, _FLAT = (0,), (1, 2), (3, 4), (5, 6, 7, 8, 9, 10, 11, 12)
DMA_SPLITS = (1, 3, 5, 7, 9, 11)  # the others are done by the CPU


@library(_SPLIT_LIKE)
def slice_split_like(args: Sequence[CValue], memory: AddressSpace) -> None:
    """Takes `width` bytes out of every `line` bytes."""
    source, target = (first_buffer(argument(args, k, _SPLIT_LIKE), _SPLIT_LIKE) for k in (0, 1))
    total, width, height, line = (as_int(argument(args, k, _SPLIT_LIKE), _SPLIT_LIKE) for k in (2, 3, 4, 5))
    require(0 < width <= total <= MAX_ELEMENTS and total % width == 0 and line > 0, "impossible sizes", _SPLIT_LIKE)
    require(height * width == total, f"{height} lines of {width} bytes are not {total}", _SPLIT_LIKE)
    taken = strided(memory, source.address, (height, width), (line, 1), _BYTE)
    memory.write(target.address, taken.reshape(-1).copy())


@library(_SLICE)
def slice_by_axes(args: Sequence[CValue], memory: AddressSpace) -> None:
    source, target = (first_buffer(argument(args, k, _SLICE), _SLICE) for k in (0, 2))
    rank = as_int(argument(args, 4, _SLICE), _SLICE)
    require(rank == len(source.shape) == len(target.shape), "buffers of different rank", _SLICE)
    require(source.nbits == target.nbits >= 8, "elements of different size", _SLICE)
    in_offsets, out_offsets, starts, ends, steps = (
        as_ints(argument(args, k, _SLICE), _SLICE, rank) for k in (1, 3, 5, 6, 7)
    )
    require(0 not in steps and max(map(abs, starts + ends)) < 1 << 32, "impossible bounds", _SLICE)
    picks = [range(*bounds) for bounds in zip(starts, ends, steps, strict=True)]
    sane = all(0 < len(p) <= MAX_ELEMENTS and min(p[0], p[-1]) >= 0 for p in picks)
    require(sane, "an empty, negative or huge range", _SLICE)
    shape = tuple(len(p) for p in picks)
    covered = tuple(max(p[0], p[-1]) + 1 for p in picks)
    whole = strided(memory, source.address, covered, in_offsets, source.block)
    taken = whole[tuple(np.ix_(*[np.array(p) for p in picks]))]
    strided(memory, target.address, shape, out_offsets, target.block)[...] = taken


@library(_SPLIT)
def split(args: Sequence[CValue], memory: AddressSpace) -> None:
    source, stored_hwc, outputs, axis, case = read_split(args)
    raw = source.bytes(memory).copy()
    if case in _FLAT:
        _flat(raw, outputs, memory)
    elif case in _BATCHED:
        _batched(raw, source, outputs, axis, memory)
    else:
        _by_axis(raw, source, outputs, axis, stored_hwc or case in _CHANNEL, memory)


def read_split(args: Sequence[CValue]) -> tuple[KernelBuffer, bool, list[KernelBuffer], int, int]:
    source = first_buffer(argument(args, 0, _SPLIT), _SPLIT)
    stored_hwc, count, rank, axis, case = (as_int(argument(args, k, _SPLIT), _SPLIT) for k in (1, 3, 4, 5, 7))
    outputs = buffers(argument(args, 2, _SPLIT), count, f"{_SPLIT} output")
    require(0 <= axis < rank == len(source.shape), f"axis {axis} of {rank} dimensions", _SPLIT)
    require(all(len(b.shape) == rank and b.nbits == source.nbits for b in outputs), "buffers do not match", _SPLIT)
    require(source.nbits >= 8 and case in _PURE + _CHANNEL + _BATCHED + _FLAT, f"split case {case}", _SPLIT)
    require(case not in _CHANNEL + _BATCHED or bool(stored_hwc), "channels are not stored together", _SPLIT)
    return source, bool(stored_hwc), outputs, axis, case


def _flat(raw: Array, outputs: list[KernelBuffer], memory: AddressSpace) -> None:
    first = 0
    for part in outputs:
        require(first + part.size_bytes <= raw.size, "the parts are larger than the input", _SPLIT)
        memory.write(part.address, raw[first : first + part.size_bytes])
        first += part.size_bytes


def _by_axis(
    raw: Array, source: KernelBuffer, outputs: list[KernelBuffer], axis: int, stored_hwc: bool, memory: AddressSpace
) -> None:
    """Shapes are given as N, C, H, W here, whatever the order in memory."""
    rank = len(source.shape)
    order = list(range(rank))
    if stored_hwc and rank > 2:
        require(rank >= 4, f"{rank} dimensions", _SPLIT)
        order[-4:] = [rank - 4 + k for k in (0, 2, 3, 1)]
        axis = rank - 4 + _STORED_AXIS[axis - (rank - 4)] if axis >= rank - 4 else axis
    shape = [source.shape[k] for k in order]
    sizes = [part.shape[order[axis]] for part in outputs]
    require(raw.size == source.elements * source.nbytes, "the input is not packed", _SPLIT)
    require(sum(sizes) <= shape[axis], "the parts are larger than the input", _SPLIT)
    values = raw.view(source.block).reshape(shape)
    first = 0
    for part, size in zip(outputs, sizes, strict=True):
        taken = np.ascontiguousarray(values.take(range(first, first + size), axis))
        memory.write(part.address, taken.reshape(-1).view(np.uint8))
        first += size


def _batched(raw: Array, source: KernelBuffer, outputs: list[KernelBuffer], axis: int, memory: AddressSpace) -> None:
    """Pixels of all channels to outputs stored [C/b][H][W][b]."""
    rank = len(source.shape)
    require(rank >= 3 and axis == rank - 3, f"axis {axis} is not the channel", _SPLIT)
    channels, height, width = source.shape[-3:]
    require(raw.size == channels * height * width * source.nbytes, "only one image at a time", _SPLIT)
    pixels = raw.view(source.block).reshape(height * width, channels)
    first = 0
    for part in outputs:
        depth = part.shape[axis]
        require(part.batch > 0 and depth % part.batch == 0, f"{depth} channels in groups of {part.batch}", part.where)
        require(first + depth <= channels, "the parts are larger than the input", _SPLIT)
        groups = pixels[:, first : first + depth].reshape(height * width, depth // part.batch, part.batch)
        memory.write(part.address, np.ascontiguousarray(groups.transpose(1, 0, 2)).reshape(-1).view(np.uint8))
        first += depth
