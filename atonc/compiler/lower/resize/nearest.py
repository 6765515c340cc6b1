"""Resizing: nearest pixels as copies.

Along an axis the source index is a list. Where it repeats every pixel equally often, a loop with step zero does it;
where it is periodic, one strided copy for every phase; else one copy for every even stretch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.move.copies import Move, Units, copy
from atonc.compiler.lower.move.recipe import change_between, runs, view_of
from atonc.compiler.lower.registry import recipe
from atonc.compiler.lower.units.strided_views import StridedView
from atonc.compiler.lower.units.wiring import placeable
from atonc.compiler.ops.movement import nearest_index, source_positions
from atonc.compiler.plan.task import TaskGroup
from atonc.machine.base.errors import ModelError

Pair = tuple[StridedView, StridedView]

_MOST_PIECES = 10  # of one pass; beyond, one axis after the other


@recipe("resize_nearest")
@placeable
def lower_nearest(op: Op, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    if len(x.shape) != len(y.shape):
        raise ModelError(f"{op.kind} gives {len(y.shape)} dimensions for {len(x.shape)}", where=op.name)
    maps = [_indices(op, x, y, axis) for axis in range(len(x.shape))]
    units = change_between(op, x, y)
    source, target = view_of(context, op.inputs[0]), view_of(context, op.outputs[0])
    counts = [len(list(_pieces(index))) for index in maps]
    changed = [axis for axis, index in enumerate(maps) if index != list(range(x.shape[axis]))]
    if len(changed) < 2 or prod(counts) <= _MOST_PIECES:
        return copy(context, _moves(source, target, maps, changed, units), op.origin, f"{op.kind} {op.name}")
    return _one_by_one(op, context, source, target, maps, changed, units)


def _indices(op: Op, x: Tensor, y: Tensor, axis: int) -> list[int]:
    """Finds for every output index along an axis the pixel that it takes."""
    a, b = x.shape[axis], y.shape[axis]
    scales = op.attrs.get("scales")
    if a == b and (not scales or scales[axis] == 1.0):
        return list(range(a))
    positions = source_positions(a, b, float(scales[axis]) if scales else b / a, op.attrs["coordinates"])
    found = np.clip(nearest_index(positions, op.attrs["rounding"]), 0, a - 1)
    return [int(i) for i in found]


def _pieces(index: list[int]) -> Iterator[tuple[int, int, int, int, int, int]]:
    """(output start, output step, source start, source step, count, repetitions) of copies that make up a map."""
    times = _repetition(index)
    if times > 1:
        yield 0, 1, index[0], 1, len(index) // times, times
        return
    period = _period(index)
    if period:
        ahead, step = period
        for phase in range(ahead):
            count = len(range(phase, len(index), ahead))
            yield phase, ahead, index[phase], step, count, 1
        return
    for at, count, step in runs(index):
        if step or count == 1:
            yield at, 1, index[at], step, count, 1
        else:
            yield at, 1, index[at], 0, 1, count


def _repetition(index: list[int]) -> int:
    """How often every pixel follows itself, if equally often and pixel by pixel; else 1."""
    times = next((k for k, i in enumerate(index) if i != index[0]), len(index))
    even = len(index) % times == 0 and index == [index[0] + k // times for k in range(len(index))]
    return times if even else 1


def _period(index: list[int]) -> tuple[int, int] | None:
    """The fewest outputs after which the map moves on by a fixed number of pixels."""
    for ahead in range(1, min(len(index) // 2, 16) + 1):
        step = index[ahead] - index[0]
        if all(index[k + ahead] - index[k] == step for k in range(len(index) - ahead)):
            return ahead, step
    return None


def _moves(
    source: StridedView, target: StridedView, maps: list[list[int]], axes: list[int], units: Units
) -> Iterator[Move]:
    for pieces in product(*(list(_pieces(maps[axis])) for axis in axes)):
        near, far = source, target
        for axis, piece in reversed(list(zip(axes, pieces, strict=True))):
            near, far = _part(near, far, axis, piece)
        yield Move(near, far, units)


def _part(near: StridedView, far: StridedView, axis: int, piece: tuple[int, int, int, int, int, int]) -> Pair:
    start, ahead, first, step, count, times = piece
    near, far = near.cut(axis, first, count, step), far.cut(axis, start, count * times, ahead)
    return near.repeat(axis + 1, times), far.split(axis, count, times)


def _one_by_one(
    op: Op,
    context: Context,
    source: StridedView,
    target: StridedView,
    maps: list[list[int]],
    axes: list[int],
    units: Units,
) -> list[TaskGroup]:
    """Axis after axis through scratch memory, the one that shrinks the most first."""
    groups: list[TaskGroup] = []
    order = sorted(axes, key=lambda axis: target.shape[axis] / source.shape[axis])
    for axis in order:
        last = axis == order[-1]
        shape = tuple(target.shape[a] if a == axis else n for a, n in enumerate(source.shape))
        result = target if last else StridedView.whole(context.scratch(prod(shape), op.name), shape)
        moves = _moves(source, result, maps, [axis], units if last else ())
        groups += copy(context, moves, op.origin, f"{op.kind} {op.name}")
        source = result
    return groups
