"""Layers that only move elements on the CPU: Gather, Tile, Concat. Published in full except the closed copy loops."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.registry import layer, not_modelled
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import F32, I8, I32, MAX_ELEMENTS, onnx_axis, tensor

# the runtime counts axes batch, channel, width, height
_RUNTIME_AXIS = {0: 0, 1: 3, 2: 2, 3: 1}


def _gather(info: StructView, memory: AddressSpace, dtype: np.dtype[Any]) -> None:
    values, target = tensor(info, "general.input").read(memory, dtype), tensor(info, "general.output")
    axis = _own_axis(values.shape, onnx_axis(info))
    indices = tensor(info, "operand").read(memory, I32).reshape(-1).astype(np.int64)
    indices = np.where(indices < 0, indices + values.shape[axis], indices)
    if np.any((indices < 0) | (indices >= values.shape[axis])):
        raise fail(f"an index outside the {values.shape[axis]} elements of its axis", info.where)
    found = np.take(values, indices, axis)
    if found.size != target.elements or (found.size > 1 and indices.size != target.shape[axis]):
        raise not_modelled(f"a gather of {indices.size} indices into {target.shape}", info)
    target.write(memory, found.reshape(target.shape), dtype)


def _own_axis(shape: tuple[int, ...], axis: int) -> int:
    """The second of two dimensions is the channels to the wrapper, where ST's compiler stores it as the width. Its loop
    steps from value to value (inferred: a published network of 1.1.1 relies on it), so a vector has one axis only."""
    long = max(range(len(shape)), key=shape.__getitem__)
    return long if shape[axis] == 1 and prod(shape) == shape[long] else axis


@layer("gather")
def gather(info: StructView, memory: AddressSpace) -> None:
    _gather(info, memory, F32)


@layer("gather_integer")
def gather_integer(info: StructView, memory: AddressSpace) -> None:
    _gather(info, memory, I8)


def _tile(info: StructView, memory: AddressSpace, dtype: np.dtype[Any]) -> None:
    source, target = tensor(info, "general.input"), tensor(info, "general.output")
    n, c, h, w = info.integers("repeats", 4)
    if min(n, c, h, w) < 1 or n * c * h * w * source.elements > MAX_ELEMENTS:
        raise fail("impossible repetitions", info.where)
    target.write(memory, np.tile(source.read(memory, dtype), (n, h, w, c)), dtype)


@layer("tile")
def tile(info: StructView, memory: AddressSpace) -> None:
    _tile(info, memory, F32)


@layer("tile_integer")
def tile_integer(info: StructView, memory: AddressSpace) -> None:
    _tile(info, memory, I8)


@layer("concat")
def concat(info: StructView, memory: AddressSpace) -> None:
    count, axis = info.integer("num_of_inputs", 2), info.integer("concat_axis")
    if axis not in _RUNTIME_AXIS or not 2 <= count <= 4:
        raise not_modelled(f"a concatenation of {count} tensors along axis {axis}", info)
    names = ("general.input", "operand", "operand1", "operand2")[:count]
    parts, along = [tensor(info, name).read(memory, F32) for name in names], _RUNTIME_AXIS[axis]
    if len({np.delete(part.shape, along).tobytes() for part in parts}) != 1:
        raise fail(f"shapes {[part.shape for part in parts]} do not fit each other", info.where)
    tensor(info, "general.output").write(memory, np.concatenate(parts, along), F32)
