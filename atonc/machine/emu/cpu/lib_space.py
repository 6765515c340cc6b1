"""Space-to-depth, depth-to-space and their sliding-window forms, published in full."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.lib_buffers import KernelBuffer, first_buffer, require
from atonc.machine.emu.cpu.registry import library
from atonc.machine.emu.cpu.struct_view import argument, as_int, as_ints
from atonc.machine.emu.cpu.tensors import Array, strided
from atonc.machine.emu.files.types import CValue

Pair = tuple[int, int]


@library("LL_ATON_LIB_DMA_SpaceToDepth")
def space_to_depth(args: Sequence[CValue], memory: AddressSpace) -> None:
    name = "LL_ATON_LIB_DMA_SpaceToDepth"
    block = _pair(args, 3, name)
    _image_to_row(args, name, block, block, memory)


@library("LL_ATON_LIB_DMA_ImageToRow")
def image_to_row(args: Sequence[CValue], memory: AddressSpace) -> None:
    name = "LL_ATON_LIB_DMA_ImageToRow"
    _image_to_row(args, name, _pair(args, 3, name), _pair(args, 5, name), memory)


@library("LL_ATON_LIB_DMA_DepthToSpace")
def depth_to_space(args: Sequence[CValue], memory: AddressSpace) -> None:
    name = "LL_ATON_LIB_DMA_DepthToSpace"
    block = _pair(args, 3, name)
    _row_to_image(args, name, block, block, memory)


@library("LL_ATON_LIB_DMA_RowToImage")
def row_to_image(args: Sequence[CValue], memory: AddressSpace) -> None:
    name = "LL_ATON_LIB_DMA_RowToImage"
    _row_to_image(args, name, _pair(args, 3, name), _pair(args, 5, name), memory)


def _pair(args: Sequence[CValue], index: int, name: str) -> Pair:
    height, width = (as_int(argument(args, k, name), name) for k in (index, index + 1))
    require(0 < height < 1 << 16 and 0 < width < 1 << 16, f"a block of {height} x {width}", name)
    return height, width


def _read(args: Sequence[CValue], name: str) -> tuple[KernelBuffer, KernelBuffer]:
    require(as_int(argument(args, 1, name), name) == 1, "more than one input", name)
    source, target = (first_buffer(argument(args, k, name), name) for k in (0, 2))
    require(source.nbits == target.nbits, "elements of different size", name)
    require(len(source.shape) == len(target.shape) == 4, "not an image", name)
    return source, target


def _blocks(
    image: KernelBuffer, rows: KernelBuffer, block: Pair, strides: Pair, name: str, memory: AddressSpace
) -> Array:
    """The image as [N][row of blocks][column of blocks][block height][block width][C], overlapping or not."""
    (batches, height, width, depth), nbytes = image.shape, image.nbytes
    counts = ((height - block[0]) // strides[0] + 1, (width - block[1]) // strides[1] + 1)
    fits = height >= block[0] and width >= block[1] and not (height - block[0]) % strides[0]
    fits = fits and not (width - block[1]) % strides[1]
    require(
        fits and rows.shape == (batches, *counts, depth * block[0] * block[1]), f"{image.shape} and {rows.shape}", name
    )
    pixel, line = depth * nbytes, width * depth * nbytes
    steps = (height * line, strides[0] * line, strides[1] * pixel, line, pixel, nbytes)
    return strided(memory, image.address, (batches, *counts, *block, depth), steps, image.block)


def _packed(part: KernelBuffer, memory: AddressSpace) -> Array:
    return memory.view(part.address, part.elements * part.nbytes).view(part.block)


def _image_to_row(args: Sequence[CValue], name: str, block: Pair, strides: Pair, memory: AddressSpace) -> None:
    source, target = _read(args, name)
    rows = _blocks(source, target, block, strides, name, memory)
    _packed(target, memory)[:] = rows.reshape(-1).copy()


def _row_to_image(args: Sequence[CValue], name: str, block: Pair, strides: Pair, memory: AddressSpace) -> None:
    """Where blocks overlap the later one wins, as in the order of the DMA."""
    source, target = _read(args, name)
    blocks = _blocks(target, source, block, strides, name, memory)
    values = _packed(source, memory).copy().reshape(blocks.shape)
    if strides == block:
        blocks[...] = values
        return
    for row, column in np.ndindex(blocks.shape[1], blocks.shape[2]):
        blocks[:, row, column] = values[:, row, column]


@library("LL_ATON_LIB_SW_SpaceToDepth")
def sw_space_to_depth(args: Sequence[CValue], memory: AddressSpace) -> None:
    name = "LL_ATON_LIB_SW_SpaceToDepth"
    source, target, block = _read_sw(args, name)
    image, deep = _planes(args, source, target, name, memory)
    n, c, h, w = source.shape
    expected = (n, c * block[0] * block[1], h // block[0], w // block[1])
    require(
        h % block[0] == 0 and w % block[1] == 0 and target.shape == expected, f"{target.shape}, not {expected}", name
    )
    split = image.reshape(n, c, h // block[0], block[0], w // block[1], block[1])
    deep[...] = split.transpose(0, 3, 5, 1, 2, 4).reshape(deep.shape)


@library("LL_ATON_LIB_SW_DepthToSpace")
def sw_depth_to_space(args: Sequence[CValue], memory: AddressSpace) -> None:
    name = "LL_ATON_LIB_SW_DepthToSpace"
    source, target, block = _read_sw(args, name)
    deep, image = _planes(args, source, target, name, memory)
    n, c, h, w = source.shape
    depth = c // (block[0] * block[1])
    expected = (n, depth, h * block[0], w * block[1])
    require(c % (block[0] * block[1]) == 0 and target.shape == expected, f"{target.shape}, not {expected}", name)
    if as_int(argument(args, 6, name), name) == 0:  # depth last in the channel number: block row, block column, depth
        split = deep.reshape(n, *block, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        split = deep.reshape(n, depth, *block, h, w).transpose(0, 1, 4, 2, 5, 3)
    image[...] = split.reshape(image.shape)


def _read_sw(args: Sequence[CValue], name: str) -> tuple[KernelBuffer, KernelBuffer, Pair]:
    source, target = (first_buffer(argument(args, k, name), name) for k in (0, 2))
    require(len(source.shape) == len(target.shape) == 4, "not an image", name)
    require(source.nbits == target.nbits >= 8, "elements of different size", name)
    require(source.elements == target.elements, f"{source.shape} and {target.shape}", name)
    return source, target, _pair(args, 4, name)


def _planes(
    args: Sequence[CValue], source: KernelBuffer, target: KernelBuffer, name: str, memory: AddressSpace
) -> tuple[Array, Array]:
    """Both as N, C, H, W by their own offsets; the input as a copy."""
    offsets = [as_ints(argument(args, k, name), name, 4) for k in (1, 3)]
    read = strided(memory, source.address, source.shape, offsets[0], source.block).copy()
    return read, strided(memory, target.address, target.shape, offsets[1], target.block)
