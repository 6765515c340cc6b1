"""Resizing: linear as weighted sums of neighbours, nearest pixels as copies.

Linear: first along the lines, then along the columns. Pixels that share their weights and follow each other evenly form
one chain. Between the two passes values have 16 bits with 8 fractional ones; weights are rounded to 1/256, so sums are
exact where the weights are (scales 2, 4, 8).

    m = sat16(a1 * x1 + (256 - a1) * x2),   y = sat8(round((A * m1 + B * m2 + C) >> R))

The last rounding and the weights stay within one code of exact arithmetic as long as an input code is not worth two
output codes.

Nearest: along an axis the source index is a list. Where it repeats every pixel equally often, a loop with step zero
does it; where it is periodic, one strided copy for every phase; else one copy for every even stretch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import gcd, prod
from typing import Any

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.move.copies import Move, Units, copy, pad_view, wirings
from atonc.compiler.lower.move.recipe import change_between, runs, view_of
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.operators import along
from atonc.compiler.lower.units.arith import (
    WIDE_ERROR,
    AffinePair,
    clip_unit,
    fit_pair,
    fit_wide_pair,
    pair_unit,
    product_unit,
)
from atonc.compiler.lower.units.views import EnginePort, StridedView, all_trusted, walk_together
from atonc.compiler.lower.units.wiring import End, Wiring, codes_recipe, in_pieces, pack, placed_recipe
from atonc.compiler.ops.movement import nearest_index, source_positions
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import RESIZE_LINEAR
from atonc.machine.base.errors import ModelError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED
from atonc.machine.hw.safety.evidence import Trust

ONE = 256  # of the weights
_STEEPEST = 1.9  # output LSB for an input LSB
_MOST_PIECES = 64  # along an axis
READ_X, READ_Y, WRITE = EnginePort("to ARITH:0"), EnginePort("to ARITH:1"), EnginePort("from ARITH")
_ALIGNED_CHANNELS = ALIGNED // 2  # of 16 bits: pixels begin at aligned addresses


@dataclass(frozen=True)
class ResizePiece:
    """Outputs start, start + ahead, ... from inputs low + k * step and high + k * step with one pair of weights."""

    start: int
    ahead: int
    low: int
    high: int
    step: int
    count: int
    weight: int  # of `high`, in 1/256

    def halves(self) -> tuple[ResizePiece, ResizePiece]:
        some = self.count // 2
        start, way = self.start + some * self.ahead, some * self.step
        rest = replace(self, start=start, low=self.low + way, high=self.high + way, count=self.count - some)
        return replace(self, count=some), rest

    def between(self, first: int, end: int) -> Iterator[ResizePiece]:
        """What of it lies there, counted from the first; nothing, or one piece."""
        skipped = max(0, -(-(first - self.start) // self.ahead))
        count = min(self.count, -(-(end - self.start) // self.ahead)) - skipped
        if count > 0:
            start, way = self.start + skipped * self.ahead - first, skipped * self.step
            yield replace(self, start=start, low=self.low + way, high=self.high + way, count=count)


def pieces(size_in: int, positions: Sequence[float]) -> list[ResizePiece]:
    """The outputs of one axis in as few pieces as their weights allow."""
    alike: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for index, position in enumerate(positions):
        low = int(np.floor(position))
        weight = round((position - low) * ONE)
        if weight == ONE:
            low, weight = low + 1, 0
        gap = int(weight > 0 and low + 1 < size_in)
        alike[weight if gap else 0, gap].append((index, low))
    return [piece for key, places in sorted(alike.items()) for piece in _even(places, *key)]


def _even(places: list[tuple[int, int]], weight: int, gap: int) -> list[ResizePiece]:
    """Stretches whose outputs and inputs both step evenly forward."""
    found, at = [], 0
    while at < len(places):
        (start, low), count, ahead, step = places[at], 1, 1, 1
        if at + 1 < len(places):
            ahead, step = places[at + 1][0] - start, places[at + 1][1] - low
            while at + count < len(places) and places[at + count] == (start + count * ahead, low + count * step):
                count += 1
        if step < 0 or count == 1:
            count, ahead, step = 1, 1, 1
        found.append(ResizePiece(start, ahead, low, low + gap, step, count, weight))
        at += count
    return found


@codes_recipe("resize_linear")
def lower_linear(op: Op, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    _check(op, x, y)
    axes = {axis: _axis_pieces(op, x, y, axis) for axis in (1, 2)}
    title, trust = f"{op.kind} {op.name}", context.facts.target.trust
    source = StridedView.whole(context.buffer(op.inputs[0]), x.shape[1:])
    target = StridedView.whole(context.buffer(op.outputs[0]), y.shape[1:])
    changed = [axis for axis in (1, 2) if x.shape[axis] != y.shape[axis]]
    if len(changed) < 2:
        axis = changed[0] if changed else 1
        ends = _ends(op, x, y, 1)
        error = 128 / ONE * ends.gain
        context.explain(op, lambda values: [along(values[0], axis, y.shape[axis], axes[axis], ends)], error)
        sums = AxisSums(axis - 1, (READ_X, READ_Y, WRITE), ends.units, trust)
        return pack(sums.wirings(source, target, axes[axis]), op.origin, title)

    def codes(values: Sequence[Any]) -> list[Any]:
        middle = along(values[0], 2, y.shape[2], axes[2], None)
        return [along(middle, 1, y.shape[1], axes[1], _ends(op, x, y, ONE))]

    context.explain(op, codes, 256 / ONE * x.scale / y.scale + WIDE_ERROR)
    ends = _ends(op, x, y, ONE)
    channels, whole = x.shape[3], -(-x.shape[3] // _ALIGNED_CHANNELS) * _ALIGNED_CHANNELS
    groups: list[TaskGroup] = []
    if channels < whole:
        wider = context.scratch(source.elements // channels * whole, op.name)
        near = StridedView.whole(wider, (*source.shape[:2], whole))
        moves = wirings(context, [Move(source, near.cut(2, 0, channels))])
        fills = pad_view(context, [near.cut(2, channels, whole - channels)], 0, source.buffer, source.elements)
        groups, source = pack([*moves, *fills], op.origin, title), near
    shape = (source.shape[0], y.shape[2], whole)
    between = StridedView.whole(context.scratch(2 * prod(shape), op.name), shape, 2)
    lines = AxisSums(1, _TO_WIDE, _widening, trust).wirings(source, between, axes[2])
    groups += pack(lines, op.origin, title)
    for first, rows in bands(y.shape[1], prod(y.shape[2:]), y.shape[2] * whole, context.room.band_bytes):
        band = target.cut(0, first, rows)
        parts = [part for piece in axes[1] for part in piece.between(first, first + rows)]
        groups += _columns(op, context, between, band, parts, ends)
    return groups


def _columns(
    op: Op, context: Context, between: StridedView, band: StridedView, parts: Sequence[ResizePiece], ends: Ends
) -> list[TaskGroup]:
    """Some rows of the result from lines of 16 bits, whose engines begin at aligned addresses: by way of a memory with
    room behind the channels where pixels do not."""
    title, whole = f"{op.kind} {op.name}", between.shape[2]
    sums = AxisSums(0, _FROM_WIDE, ends.units, context.facts.target.trust)
    rows, width, channels = band.shape
    if channels == whole:
        return pack(sums.wirings(between, band, parts), op.origin, title)
    far = StridedView.whole(context.scratch(rows * width * whole, op.name), (rows, width, whole))
    groups = pack(sums.wirings(between, far, parts), op.origin, title)
    return groups + copy(context, [Move(far.cut(2, 0, channels), band)], op.origin, title)


def bands(height: int, line_bytes: int, row_bytes: int, most_bytes: int) -> list[tuple[int, int]]:
    """First row and rows of parts of a result that begin where any memory takes them and fit the NPU's RAM beside the
    lines that they are made of; `row_bytes` is what a row takes there."""
    step = ALIGNED // gcd(ALIGNED, line_bytes)
    rows = height if height * row_bytes <= most_bytes else max(1, most_bytes // row_bytes // step) * step
    return in_pieces(height, rows)


def _check(op: Op, x: Tensor, y: Tensor) -> None:
    if len(x.shape) != 4 or x.shape[0] != 1 or x.shape[3] != y.shape[3] or x.shape[0] != y.shape[0]:
        raise Refusal(RESIZE_LINEAR, f"{x.shape} to {y.shape}", "height and width of one image", "use the CPU")
    if x.scale / y.scale > _STEEPEST:
        raise Refusal(RESIZE_LINEAR, f"{x.scale / y.scale:.2f} output LSB for an input LSB", f"{_STEEPEST}", "CPU")


def _axis_pieces(op: Op, x: Tensor, y: Tensor, axis: int) -> list[ResizePiece]:
    a, b = x.shape[axis], y.shape[axis]
    found = pieces(a, np.clip(_positions(op, x, y, axis), 0, a - 1).tolist())
    if len(found) > _MOST_PIECES:
        seen = f"{a} to {b} pixels have {len(found)} different pairs of weights"
        raise Refusal(RESIZE_LINEAR, seen, f"{_MOST_PIECES}", "use half-pixel coordinates and an integer scale")
    return found


def _positions(op: Op, x: Tensor, y: Tensor, axis: int) -> Any:
    """Where the pixels of the output lie along an axis, in pixels of the input."""
    a, b, scales = x.shape[axis], y.shape[axis], op.attrs.get("scales")
    return source_positions(a, b, float(scales[axis]) if scales else b / a, op.attrs["coordinates"])


@dataclass(frozen=True)
class Ends:
    """codes = gain * value + offset."""

    gain: float
    offset: float
    clip: tuple[int, int] | None
    bytes_in: int  # of the values

    def pair(self, piece: ResizePiece) -> AffinePair:
        high = piece.weight / ONE
        fit = fit_pair if self.bytes_in == 1 else fit_wide_pair
        return fit(self.gain * (1 - high), self.gain * high, self.offset)

    def units(self, piece: ResizePiece) -> tuple[Units, Units]:
        """None on the first stream."""
        unit = pair_unit(self.pair(piece), self.bytes_in, self.bytes_in)
        return (), (unit,) if self.clip is None else (unit, clip_unit(*self.clip))


def _ends(op: Op, x: Tensor, y: Tensor, one: int) -> Ends:
    gain = x.scale / y.scale
    return Ends(gain / one, y.zero_point - x.zero_point * gain, op.attrs.get("clip"), 1 if one == 1 else 2)


@dataclass(frozen=True)
class AxisSums:
    """Along one axis: two readers, units on the first, the unit that joins both, units behind it."""

    axis: int
    ports: tuple[EnginePort, EnginePort, EnginePort]
    units: Callable[[ResizePiece], tuple[Units, Units]]  # on the first, from the joining one on
    trust: Trust

    def wirings(self, source: StridedView, target: StridedView, parts: Iterable[ResizePiece]) -> list[Wiring]:
        return [chain for part in parts for chain in self._chains(source, target, part)]

    def _chains(self, source: StridedView, target: StridedView, piece: ResizePiece) -> Iterator[Wiring]:
        """One, or where its engines may not be relied on, those of both halves."""
        low, high = (source.cut(self.axis, first, piece.count, piece.step) for first in (piece.low, piece.high))
        far = target.cut(self.axis, piece.start, piece.count, piece.ahead)
        engines = walk_together(self.ports, (low, high, far), self.trust)
        if engines is None:
            seen = f"steps {low.strides} to {far.strides} for {low.shape}"
            raise Refusal(RESIZE_LINEAR, seen, "lines of pixels", "use the CPU")
        if piece.count > 1 and not all_trusted(self.ports, engines, self.trust):
            for half in piece.halves():
                yield from self._chains(source, target, half)
        else:
            first, after = self.units(piece)
            near = [End(low.buffer, engines[0], first), End(high.buffer, engines[1])]
            yield Wiring.chain(near, after, End(far.buffer, engines[2]), engines[2].elements)


# [x > ARITH, y] > ARITH > OUT: bytes along the lines to 16 bits with 8 fractional ones
_TO_WIDE = READ_X, READ_Y, replace(WRITE, word=2)
# [x, y] > ARITH > OUT: 16 bits along the columns to bytes; lines are read without gaps
_FROM_WIDE = replace(READ_X, word=2, raw=True), replace(READ_Y, word=2, raw=True), WRITE


def _widening(piece: ResizePiece) -> tuple[Units, Units]:
    first = product_unit(np.array([ONE - piece.weight]), 0)
    return (first,), (pair_unit(AffinePair(1, piece.weight, 0, 0, 0, 0, 0, 2), 2, 1),)


_MOST_COPIES = 10  # of one pass; beyond, one axis after the other


@placed_recipe("resize_nearest")
def lower_nearest(op: Op, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    if len(x.shape) != len(y.shape):
        raise ModelError(f"{op.kind} gives {len(y.shape)} dimensions for {len(x.shape)}", where=op.name)
    maps = [_indices(op, x, y, axis) for axis in range(len(x.shape))]
    units = change_between(op, x, y)
    source, target = view_of(context, op.inputs[0]), view_of(context, op.outputs[0])
    counts = [len(list(_pieces(index))) for index in maps]
    changed = [axis for axis, index in enumerate(maps) if index != list(range(x.shape[axis]))]
    title, groups = f"{op.kind} {op.name}", list[TaskGroup]()
    if len(changed) < 2 or prod(counts) <= _MOST_COPIES:
        return copy(context, _moves(source, target, maps, changed, units), op.origin, title)
    order = sorted(changed, key=lambda axis: y.shape[axis] / x.shape[axis])
    for axis in order:  # one after the other through scratch memory, the one that shrinks the most first
        last = axis == order[-1]
        shape = tuple(target.shape[a] if a == axis else n for a, n in enumerate(source.shape))
        result = target if last else StridedView.whole(context.scratch(prod(shape), op.name), shape)
        groups += copy(context, _moves(source, result, maps, [axis], units if last else ()), op.origin, title)
        source = result
    return groups


def _indices(op: Op, x: Tensor, y: Tensor, axis: int) -> list[int]:
    """Finds for every output index along an axis the pixel that it takes."""
    a, b = x.shape[axis], y.shape[axis]
    scales = op.attrs.get("scales")
    if a == b and (not scales or scales[axis] == 1.0):
        return list(range(a))
    found = np.clip(nearest_index(_positions(op, x, y, axis), op.attrs["rounding"]), 0, a - 1)
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
        for axis, (start, ahead, first, step, count, times) in reversed(list(zip(axes, pieces, strict=True))):
            near = near.cut(axis, first, count, step).repeat(axis + 1, times)
            far = far.cut(axis, start, count * times, ahead).split(axis, count, times)
        yield Move(near, far, units)
