"""LL_ATON_LIB_Concat, published in full: flat copies, channel interleaving by DMA, or copies by the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.machine.base.errors import NotModelledError
from atonc.machine.emu.bus import AddressSpace, Bytes
from atonc.machine.emu.cpu.lib_buffers import KernelBuffer, buffers, first_buffer, require
from atonc.machine.emu.cpu.registry import library
from atonc.machine.emu.cpu.struct_view import argument, as_int
from atonc.machine.emu.files.types import CValue

_NAME = "LL_ATON_LIB_Concat"
# the axis is counted ..., N, C, H, W; buffers are stored ..., N, H, W, C
_STORED_AXIS = {0: 0, 1: 3, 2: 1, 3: 2}


@library(_NAME)
def concat(args: Sequence[CValue], memory: AddressSpace) -> None:
    inputs, output, axis = read_concat(args)
    parts = [part.bytes(memory).copy() for part in inputs]
    place = concat_case(inputs, output, axis)
    if place == "flat":
        joined = np.concatenate(parts)
        memory.write(output.address, joined)
    elif place == "channels":
        _interleave(parts, inputs, output, memory)
    else:
        _by_axis(parts, inputs, output, stored_axis(axis, len(output.shape)), memory)


def read_concat(args: Sequence[CValue]) -> tuple[list[KernelBuffer], KernelBuffer, int]:
    count, axis = (as_int(argument(args, k, _NAME), _NAME) for k in (1, 3))
    inputs = buffers(argument(args, 0, _NAME), count, f"{_NAME} input")
    output = first_buffer(argument(args, 2, _NAME), f"{_NAME} output")
    _check(inputs, output, axis)
    return inputs, output, axis


def stored_axis(axis: int, rank: int) -> int:
    return rank - 4 + _STORED_AXIS[axis - (rank - 4)] if axis >= rank - 4 else axis


def _check(inputs: list[KernelBuffer], output: KernelBuffer, axis: int) -> None:
    rank = len(inputs[0].shape)
    require(rank >= 4 and 0 <= axis < rank, f"axis {axis} of {rank} dimensions", _NAME)
    require(all(len(b.shape) == rank for b in [*inputs, output]), "buffers of different rank", _NAME)
    require(all(b.nbits == output.nbits for b in inputs), "elements of different size", _NAME)
    require(output.nbits % 8 == 0, f"elements of {output.nbits} bits", _NAME)
    along = stored_axis(axis, rank)
    for part in inputs:
        others = [k for k in range(rank) if k != along and part.shape[k] != output.shape[k]]
        require(not others, f"shapes {part.shape} and {output.shape} differ", _NAME)
    require(sum(b.shape[along] for b in inputs) == output.shape[along], "the parts do not add up", _NAME)
    require(sum(b.size_bytes for b in inputs) <= output.size_bytes, "the output is too small", _NAME)
    canonical = _is_canonical(inputs[0])
    alike = all((canonical and _is_canonical(b)) or b.batch == inputs[0].batch for b in inputs)
    require(alike, "inputs of different layout", _NAME)


def _is_canonical(part: KernelBuffer) -> bool:
    """All channels of a pixel lie together."""
    return part.batch == part.shape[-1]


def concat_case(inputs: list[KernelBuffer], output: KernelBuffer, axis: int) -> str:
    """Which of the published ways applies: "flat" and "channels" use the DMA, "axis" the CPU."""
    rank, batches_alike = len(output.shape), inputs[0].batch == output.batch
    # published as such: the sizes before the axis are taken in stored order
    leftmost = all(n == 1 for n in output.shape[:axis]) and output.nbits <= 24
    if leftmost and rank - 1 - axis == 2:
        return "flat" if batches_alike else "channels"
    if leftmost:
        require(batches_alike, "input and output of different layout", _NAME)
        return "axis" if rank - 1 - axis == 0 else "flat"
    require(_is_canonical(inputs[0]) and _is_canonical(output), "channels are not stored together", _NAME)
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


def _by_axis(
    parts: list[Bytes], inputs: list[KernelBuffer], output: KernelBuffer, axis: int, memory: AddressSpace
) -> None:
    shaped = []
    for raw, part in zip(parts, inputs, strict=True):
        size = part.elements * part.nbytes
        require(raw.size >= size, "a buffer is smaller than its shape", part.where)
        shaped.append(raw[:size].view(output.block).reshape(part.shape))
    memory.write(output.address, np.concatenate(shaped, axis).reshape(-1).view(np.uint8))
