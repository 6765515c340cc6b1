"""LL_ATON_LIB_DMA_Transpose and LL_ATON_LIB_Transpose, published in full."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.lib_buffers import MIN_DMA_BYTES, KernelBuffer, first_buffer, require
from atonc.machine.emu.cpu.registry import library
from atonc.machine.emu.cpu.struct_view import argument, as_ints
from atonc.machine.emu.cpu.tensors import packed_strides, strided
from atonc.machine.emu.files.types import CValue

_DMA, _SW = "LL_ATON_LIB_DMA_Transpose", "LL_ATON_LIB_Transpose"


@library(_DMA)
def dma_transpose(args: Sequence[CValue], memory: AddressSpace) -> None:
    """The input is read front to back; the writer's four loops put each element in its place."""
    source, target, in_offsets, out_offsets = _read(args, _DMA)
    rank = len(source.shape)
    if target.size_bytes < MIN_DMA_BYTES:
        _by_permutation(source, target, in_offsets, out_offsets, argument(args, 5, _DMA), _DMA, memory)
        return
    require(rank in (3, 4), f"{rank} dimensions", _DMA)
    where_to = as_ints(argument(args, 4, _DMA), _DMA, rank)
    require(sorted(where_to) == list(range(rank)), f"{where_to} is not a permutation", _DMA)
    require(source.elements * source.nbytes == source.size_bytes, "the input is not packed", source.where)
    _move(source, target, packed_strides(source.shape, source.nbytes), [out_offsets[k] for k in where_to], memory)


@library(_SW)
def transpose(args: Sequence[CValue], memory: AddressSpace) -> None:
    source, target, in_offsets, out_offsets = _read(args, _SW)
    require(len(source.shape) > 2, f"{len(source.shape)} dimensions", _SW)
    _by_permutation(source, target, in_offsets, out_offsets, argument(args, 4, _SW), _SW, memory)


def _read(args: Sequence[CValue], name: str) -> tuple[KernelBuffer, KernelBuffer, tuple[int, ...], tuple[int, ...]]:
    source, target = (first_buffer(argument(args, k, name), name) for k in (0, 2))
    require(len(source.shape) == len(target.shape), "buffers of different rank", name)
    require(source.nbits == target.nbits >= 8, "elements of different size", name)
    in_offsets, out_offsets = (as_ints(argument(args, k, name), name, len(source.shape)) for k in (1, 3))
    return source, target, in_offsets, out_offsets


def _by_permutation(
    source: KernelBuffer,
    target: KernelBuffer,
    in_offsets: tuple[int, ...],
    out_offsets: tuple[int, ...],
    permutation: CValue,
    name: str,
    memory: AddressSpace,
) -> None:
    """Output axis k is input axis permutation[k]; the innermost input axis is always packed."""
    rank = len(source.shape)
    perm = as_ints(permutation, name, rank)
    require(sorted(perm) == list(range(rank)), f"{perm} is not a permutation", name)
    out_strides = [out_offsets[perm.index(axis)] for axis in range(rank)]
    _move(source, target, (*in_offsets[:-1], source.nbytes), out_strides, memory)


def _move(
    source: KernelBuffer,
    target: KernelBuffer,
    in_strides: Sequence[int],
    out_strides: Sequence[int],
    memory: AddressSpace,
) -> None:
    read = strided(memory, source.address, source.shape, tuple(in_strides), source.block)
    strided(memory, target.address, source.shape, tuple(out_strides), source.block)[...] = read.copy()
