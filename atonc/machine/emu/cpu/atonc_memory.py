"""Our kernels that move bytes and compute nothing."""

from __future__ import annotations

import numpy as np

from atonc.machine.emu.cpu.atonc_args import BYTE, KernelCall, kernel
from atonc.machine.emu.cpu.tensors import Array


@kernel("atonc_copy")
def copy(call: KernelCall) -> None:
    call.write(0, call.read(1, BYTE, call.size(2)))


@kernel("atonc_fill")
def fill(call: KernelCall) -> None:
    item, count = call.size(2), call.size(3)
    call.bounded(item, count)
    call.write(0, np.tile(call.read(1, BYTE, item), count))


@kernel("atonc_move")
def move(call: KernelCall) -> None:
    run, loops = call.size(2), call.loops(3, 4, 3)
    shape = [*(row[0] for row in loops), run]
    if min(shape) <= 0:
        return
    call.bounded(*shape)
    data = call.window(1, shape, [*(row[2] for row in loops), 1], BYTE).copy()
    if not call.is_null(5):
        data = call.read(5, BYTE, 256)[data]
    call.window(0, shape, [*(row[1] for row in loops), 1], BYTE)[...] = data


@kernel("atonc_take")
def take(call: KernelCall) -> None:
    outer, a_in, a_out, middle, b_in, b_out, run = call.sizes(2, 7)
    a_index, b_index = call.integers(9, a_out), call.integers(10, b_out)
    call.bounded(outer, a_out, middle, b_out, run)
    for index, size in ((a_index, a_in), (b_index, b_in)):
        if index.size and not (index.min() >= 0 and index.max() < size):
            raise call.fail("a position outside its axis")
    data = call.read(1, BYTE, call.bounded(outer, a_in, middle, b_in, run)).reshape(outer, a_in, middle, b_in, run)
    call.write(0, data[:, a_index][:, :, :, b_index])


def _inside(indices: Array, size: Array | int) -> Array:
    """Negative ones count from the end, others are kept inside."""
    positions = indices.astype(np.float64)
    positions = np.where(positions < 0, positions + size, positions)
    return np.clip(np.where(np.isnan(positions), 0.0, positions), 0, np.asarray(size) - 1).astype(np.int64)


@kernel("atonc_gather")
def gather(call: KernelCall) -> None:
    outer, size, run = call.sizes(2, 3)
    count = call.size(7)
    call.bounded(outer, count, run)
    if size == 0:
        raise call.fail("nothing to pick from")
    indices = _inside(call.read(5, call.type(6), count), size)
    call.write(0, call.read(1, BYTE, call.bounded(outer, size, run)).reshape(outer, size, run)[:, indices])


@kernel("atonc_gather_nd")
def gather_nd(call: KernelCall) -> None:
    run, tuples, depth = call.size(2), call.size(5), call.size(6)
    axes = call.integers(7, 2 * depth).reshape(depth, 2)
    call.bounded(tuples, run)
    if axes.size and (axes[:, 0].min() < 1 or axes.min() < 0):
        raise call.fail("an axis without elements")
    extent = int(((axes[:, 0] - 1) * axes[:, 1]).sum()) + run
    indices = call.read(3, call.type(4), call.bounded(tuples, depth)).reshape(tuples, depth)
    starts = (_inside(indices, axes[:, 0]) * axes[:, 1]).sum(axis=1)
    data = call.read(1, BYTE, extent)
    call.write(0, data[starts[:, None] + np.arange(run)])
