"""Convolutions and dense layers on batches: products of matrices in floating point that holds every sum exactly.

The pieces of a layer (`atonc.compiler.lower.semantics.sums`) that read the same windows become one bank of kernels.
Sums are in units of their output shift, so that rounding to 16 bits is rounding to whole numbers. Then 16-bit sums
become codes: v = t*f + a, shifted with rounding, limited. `semantics.sums.requantised` says it in 64-bit integers. Here
it is 32-bit arithmetic that wraps, with coefficients chosen so that nothing that matters wraps; where there are none,
the 64-bit form is used.

Sums in single precision need neither a rounding nor a conversion of their own: with 3 * 2^22 added they have no bits
behind the point, and then their bits are those of that number plus the sum, which the addends make up for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from atonc.compiler.ir import Array
from atonc.compiler.lower.conv.kernel_parts import Part, Sides, out_size
from atonc.compiler.lower.conv.requantise import Requantisation, TwoSteps
from atonc.compiler.lower.semantics.sums import Layered, LoweredSums, SumTerm, requantised
from atonc.compiler.plan.streams import Area
from atonc.machine.base.frozen import dataclass

Ints = NDArray[np.int64]
Rule = Requantisation | TwoSteps

_MOST_SHIFT = 23  # 129 codes in 32 bits
_ROW = 8192  # elements that are worth a call
_BEYOND = 129  # codes: saturated on both sides
_WHOLE, _WHOLE_BITS = np.float32(3 << 22), 0x4B40_0000  # for sums below 2^22


@dataclass(frozen=True, eq=False)
class Exact64:
    """Any rule, some channels each."""

    parts: tuple[tuple[Rule, int], ...]  # with the number of channels
    rounds = False  # sums are whole numbers

    def __call__(self, sums: Array) -> Array:
        channels = sum(count for _, count in self.parts)
        flat = sums.reshape(-1, channels).astype(np.int64)
        flat = np.clip(flat, -32768, 32767)
        codes, first = np.empty(flat.shape, np.int64), 0
        for rule, count in self.parts:
            codes[:, first : first + count] = requantised(rule, flat[:, first : first + count])
            first += count
        return codes.reshape(sums.shape)


@dataclass(frozen=True, eq=False)
class Wrapping32:
    """Factors, addends and limits of the channels, over and over; the same shift for all."""

    factors: NDArray[np.int32]
    addends: NDArray[np.int32]
    channels: int
    shift: int
    clip: tuple[int, int]
    limits: tuple[Any, Any] | None  # of the sums, for all or in rows, where they may go too far
    half: int = 0  # where both signs have ties, rounded away from zero; else the addends contain it
    rounds: bool = False  # sums are in single precision, to be rounded to whole numbers, ties to even

    def __call__(self, sums: Array) -> Array:
        codes = sums.view(np.int32) if self.rounds else np.empty(sums.size, np.int32)
        for part, length in in_rows(sums.size, self.channels, self.factors.size):
            t, v = sums[part].reshape(-1, length), codes[part].reshape(-1, length)
            if self.limits is not None and self.limits[0].ndim:  # `np.clip` takes five times as long as both steps
                np.maximum(t, self.limits[0][:length], out=t)
                np.minimum(t, self.limits[1][:length], out=t)
            elif self.limits is not None:
                np.clip(t, *self.limits, out=t)
            if self.rounds:
                t += _WHOLE  # `v` is the same memory
            else:
                v[...] = t
            v *= self.factors[:length]
            v += self.addends[:length]
            if self.half:
                v += v >> 31
                v += np.int32(self.half)
            v >>= self.shift
            np.clip(v, *self.clip, out=v)
        return codes


Finish = Exact64 | Wrapping32  # sums of all channels, pixel after pixel, which may be overwritten -> codes


@lru_cache(maxsize=4096)
def in_rows(elements: int, channels: int, longest: int) -> tuple[tuple[slice, int], ...]:
    """Equal rows of whole pixels where there are any such rows, else as many as there are and what is left."""
    pixels = elements // channels
    rows = -(-elements // longest)
    even = next((n for n in range(rows, 4 * rows + 1) if pixels % n == 0), None)
    if even is not None:
        return ((slice(0, elements), elements // even),)
    length = longest // channels * channels
    whole = elements // length * length
    return (slice(0, whole), length), (slice(whole, elements), elements - whole)


def row(values: Array) -> Array:
    """One for each channel, over and over: short rows cost time."""
    return np.tile(values, max(1, -(-_ROW // values.size)))


def finish_for(rules: Sequence[tuple[Rule, int]], reach: Ints, dtype: type[np.floating[Any]]) -> Finish:
    """`rules` with their numbers of channels, in order; `reach`: no sum of a channel is larger."""
    plain = [rule for rule, _ in rules if isinstance(rule, Requantisation) and not rule.saturating]
    if len(plain) == len(rules) and len({rule.clip for rule in plain}) == 1:
        found = _wrapping(plain, [count for _, count in rules], reach, dtype)
        if found is not None:
            return found
    return Exact64(tuple(rules))


def _wrapping(
    rules: Sequence[Requantisation], counts: Sequence[int], reach: Ints, dtype: type[np.floating[Any]]
) -> Wrapping32 | None:
    factors, addends = (np.concatenate([getattr(rule, name) for rule in rules]) for name in ("factors", "addends"))
    shifts = np.repeat([rule.shift for rule in rules], counts)
    common = int(shifts.max())
    factors, addends = _settled(factors, addends, shifts)
    below, above = _ties(factors, addends, shifts)
    apart = bool((below & above).any())
    half, raised = (1 << shifts) // 2, common - shifts
    if common > _MOST_SHIFT or (apart and raised.any()):
        return None
    limits = _limits(factors, addends, shifts, reach)
    inside = (addends if apart else addends + half - below) << raised
    factors = factors << raised
    found = next((ends for ends in limits if _fits(factors, inside, ends, common)), None)
    if found is None:
        return None
    clip = rules[0].clip or (-128, 127)
    rounds = dtype is np.float32
    return Wrapping32(
        row(factors).astype(np.int32),
        row(inside - _WHOLE_BITS * factors * rounds).astype(np.int32),
        factors.size,
        common,
        (max(clip[0], -128), min(clip[1], 127)),
        _as_limits(found, reach, dtype),
        int(half[0]) * apart,
        rounds,
    )


def _fits(factors: Ints, addends: Ints, ends: tuple[Ints, Ints], shift: int) -> bool:
    """Nothing between these sums wraps, not even with half a code more."""
    room = (1 << 31) - (1 << shift)
    some = bool((ends[0] <= ends[1]).all())
    return some and all(bool((np.abs(end * factors + addends) < room).all()) for end in ends)


def _as_limits(ends: tuple[Ints, Ints], reach: Ints, dtype: type[np.floating[Any]]) -> tuple[Any, Any] | None:
    low, high = ends
    if (-reach >= low).all() and (reach <= high).all():
        return None
    if np.unique(low).size == np.unique(high).size == 1:
        return dtype(low[0]), dtype(high[0])
    return row(low).astype(dtype), row(high).astype(dtype)


def _settled(factors: Ints, addends: Ints, shifts: Ints) -> tuple[Ints, Ints]:
    """Channels that give the same saturated code for all sums of 16 bits have no factor."""
    far = _BEYOND << shifts
    ends = [np.clip(end * factors + addends, -far, far) for end in (-32768, 32767)]
    same = (ends[0] == ends[1]) & (np.abs(ends[0]) == far)
    return np.where(same, 0, factors), np.where(same | (factors == 0), ends[0], addends)


def _limits(factors: Ints, addends: Ints, shifts: Ints, reach: Ints) -> list[tuple[Ints, Ints]]:
    """Between which sums the codes have to be right, the cheapest way first: all sums that there are, where those
    beyond 16 bits have saturated codes; those of 16 bits; those up to the first with a saturated code."""
    far, ones = _BEYOND << shifts, np.ones_like(factors)
    saturated = [np.abs(end * factors + addends) >= far for end in (-32768, 32767)]
    harmless = (reach <= 32767) | (saturated[0] & saturated[1]) | (factors == 0)
    found = [(-reach, reach)] if harmless.all() else []
    found.append((-32768 * ones, 32767 * ones))
    steep = np.where(factors == 0, 1, np.abs(factors))
    turned = np.where(factors < 0, -addends, addends)  # -v has a positive factor
    low, high = -((far + turned) // steep) - 1, (far - turned) // steep + 1
    low, high = np.where(factors == 0, -32768, low), np.where(factors == 0, 32767, high)
    return [*found, (np.clip(low, -32768, 32768), np.clip(high, -32769, 32767))]


def _ties(factors: Ints, addends: Ints, shifts: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether some 16-bit sum of a channel lies half way between two negative codes, and between two positive ones."""
    codes = np.arange(-_BEYOND, _BEYOND)
    at = (codes[:, None] << shifts) + (1 << shifts) // 2 - addends  # t * factor
    steep = np.where(factors == 0, 1, factors)
    whole = np.where(factors == 0, at == 0, (at % steep == 0) & (np.abs(at // steep) <= 32768)) & (shifts > 0)
    negative = codes < 0
    return whole[negative].any(axis=0), whole[~negative].any(axis=0)


_APART = 1 << 20  # between the marks of neighbouring codes


@dataclass(frozen=True, eq=False)
class StoredCodes:
    """`offset` + what is here."""

    offset: int
    sources: NDArray[np.intp] | None = None  # None: the codes themselves
    targets: NDArray[np.intp] | None = None
    fill: NDArray[np.int16] | None = None  # the copy, with its border

    def __call__(self, codes: Array) -> Array:
        """[samples, elements]"""
        if self.fill is None:
            return codes
        copy = np.repeat(self.fill[None], codes.shape[0], axis=0)
        copy[:, self.targets] = codes[:, self.sources]
        return copy

    def farthest(self, subtracted: int) -> int:
        """The largest magnitude of (what is stored - subtracted)."""
        zero = subtracted - self.offset
        ends = [-128 - zero, 127 - zero]
        if self.fill is not None:
            ends += [int(self.fill.min()) - zero, int(self.fill.max()) - zero]
        return max(map(abs, ends))


def stored_of(function: Callable[[Any], Any], elements: int) -> StoredCodes:
    """Read off the function: where it puts marks, it puts codes."""
    marks = (np.arange(elements, dtype=np.int64) + 1) * _APART
    found = np.asarray(function(marks)).reshape(-1)
    sources = (found + _APART // 2) // _APART - 1
    moved = sources >= 0
    offsets = np.unique(found[moved] - marks[sources[moved]])
    assert offsets.size == 1
    offset = int(offsets[0])
    if moved.all() and np.array_equal(sources, np.arange(elements)):
        return StoredCodes(offset)
    fill = np.where(moved, 0, found - offset).astype(np.int16)
    return StoredCodes(offset, sources[moved], np.flatnonzero(moved), fill)


Float = type[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Grid:
    """Numbers in a row that are a picture [samples, lines, columns, channels], with more lines and columns than are
    wanted."""

    flat: Array
    shape: tuple[int, ...]

    def picture(self, lines: int, columns: int) -> Array:
        return self.flat[: prod(self.shape)].reshape(self.shape)[:, :lines, :columns]


@dataclass(frozen=True, eq=False)
class Frame:
    """Where windows are, and the number that stands for zero."""

    area: Area
    window: tuple[int, int]
    padding: Sides
    stride: int
    zero: int
    columns: int  # of the output
    dtype: Float

    @staticmethod
    def of(part: Part, area: Area, zero: int, dtype: Float) -> Frame:
        return Frame(area, part.window, part.padding, part.stride, zero, out_size(part)[1], dtype)

    @property
    def plain(self) -> bool:
        return self.window == (1, 1) and self.stride == 1 and not any(self.padding)

    def lines(self, features: Array, rows: slice) -> tuple[Array, int]:
        """The view of the lines that these output rows need, and how many above are padding."""
        first = rows.start * self.stride - self.padding[0]
        last = (rows.stop - 1) * self.stride - self.padding[0] + self.window[0]
        return pictures(features, self.area)[:, max(first, 0) : max(0, min(last, self.area.height))], max(0, -first)

    def centred(self, view: Array, out: Array) -> None:
        """What the codes are without their zero; the most usual zero is the lowest code."""
        if self.zero == -128 and view.dtype == np.int8:
            out[...] = view.view(np.uint8) ^ np.uint8(128)
            return
        out[...] = view
        if self.zero:
            out -= self.dtype(self.zero)

    def phases(self, features: Array, rows: slice, step: int) -> tuple[list[list[Array]], tuple[int, ...]]:
        """Centred lines with zeros around them: every n-th line and column for a stride of n, once from each of the
        first n on. All have the shape [samples, lines, columns, channels] and are flat, with room for the last window
        behind the end."""
        view, above = self.lines(features, rows)
        count, left = rows.stop - rows.start, self.padding[1]
        more = [(size - 1) // step for size in self.window]
        shape = (view.shape[0], count + more[0], self.columns + more[1], view.shape[3])
        room = more[1] * shape[3]
        starts = [[(above - i, left - j) for j in range(step)] for i in range(step)]
        return [[self._phase(view, start, step, shape, room) for start in line] for line in starts], shape

    def _phase(self, view: Array, before: tuple[int, int], step: int, shape: tuple[int, ...], room: int) -> Array:
        """`before`: lines and columns of padding before the first pixel, where some are before the phase."""
        flat = np.empty(prod(shape) + room, self.dtype)
        flat[flat.size - room :] = 0
        lines, from_lines = _every(before[0], step, view.shape[1], shape[1])
        columns, from_columns = _every(before[1], step, view.shape[2], shape[2])
        self.framed(view[:, from_lines, from_columns], flat[: flat.size - room].reshape(shape), lines, columns)
        return flat

    def framed(self, view: Array, buffer: Array, lines: slice, columns: slice) -> None:
        """The view in these lines and columns of the buffer, zeros in the others."""
        buffer[:, : lines.start] = 0
        buffer[:, lines.stop :] = 0
        inner = buffer[:, lines]
        inner[:, :, : columns.start] = 0
        inner[:, :, columns.stop :] = 0
        if view.size:
            self.centred(view, inner[:, :, columns])


def _every(before: int, step: int, pixels: int, size: int) -> tuple[slice, slice]:
    """Where in a buffer of this size the pixels at multiples of the step go, and which pixels they are."""
    place = max(0, -(-before // step))
    start = place * step - before
    count = max(0, min(size - place, -(-(pixels - start) // step)))
    return slice(place, place + count), slice(start, start + (count - 1) * step + 1 if count else start, step)


@dataclass(frozen=True, eq=False)
class Dense:
    frame: Frame
    matrix: Array  # [rows * columns * channels, outputs]

    @staticmethod
    def of(part: Part, zero: int, weights: Array, first: int, dtype: Float) -> Dense:
        """`weights` [outputs, rows, columns, channels], of the channels from `first` on."""
        area = part.area.channels_from(first, weights.shape[3])
        matrix = np.ascontiguousarray(weights.reshape(weights.shape[0], -1).T.astype(dtype))
        return Dense(Frame.of(part, area, zero, dtype), matrix)

    @property
    def line_elements(self) -> int:
        return self.matrix.shape[0]

    def sums(self, features: Array, rows: slice) -> Grid:
        """Sums up these output rows; the array is the caller's."""
        frame = self.frame
        if frame.plain:
            view = frame.lines(features, rows)[0]
            left = np.empty(view.shape, frame.dtype)
            frame.centred(view, left)
        else:
            left = self._windows(features, rows)
        found = left.reshape(-1, self.matrix.shape[0]) @ self.matrix
        return Grid(found.reshape(-1), (features.shape[0], rows.stop - rows.start, frame.columns, found.shape[1]))

    def _windows(self, features: Array, rows: slice) -> Array:
        """[samples, rows, columns, window rows, window columns, channels], as a copy."""
        frame, count = self.frame, rows.stop - rows.start
        view, above = frame.lines(features, rows)
        lines = (count - 1) * frame.stride + frame.window[0]
        columns = (frame.columns - 1) * frame.stride + frame.window[1]
        buffer = np.empty((view.shape[0], lines, columns, view.shape[3]), frame.dtype)
        left = frame.padding[1]
        width = min(view.shape[2], columns - left)
        frame.framed(view[:, :, :width], buffer, slice(above, above + view.shape[1]), slice(left, left + width))
        sample, line, pixel, item = buffer.strides
        shape = (view.shape[0], count, frame.columns, *frame.window, view.shape[3])
        strides = (sample, line * frame.stride, pixel * frame.stride, line, pixel, item)
        return np.ascontiguousarray(as_strided(buffer, shape, strides))


@dataclass(frozen=True, eq=False)
class Depthwise:
    frame: Frame
    taps: Array  # [rows, columns, channels over and over]
    channels: Array | None  # of the input, one for each output; None: as they are

    @staticmethod
    def of(part: Part, zero: int, weights: Array, channels: Array, dtype: Float) -> Depthwise:
        """`weights` [outputs, rows, columns]."""
        alike = np.array_equal(channels, np.arange(channels[0], channels[0] + channels.size))
        area = part.area.channels_from(int(channels[0]), channels.size) if alike else part.area
        taps = np.stack([[row(weights[:, i, j]) for j in range(weights.shape[2])] for i in range(weights.shape[1])])
        return Depthwise(Frame.of(part, area, zero, dtype), taps.astype(dtype), None if alike else channels)

    @property
    def line_elements(self) -> int:
        return 2 * self.frame.area.channels

    def sums(self, features: Array, rows: slice) -> Grid:
        frame, count = self.frame, rows.stop - rows.start
        phases, shape = frame.phases(features, rows, frame.stride)
        if self.channels is not None:
            channels = self.channels
            phases = [[one.reshape(-1, shape[3])[:, channels].reshape(-1) for one in line] for line in phases]
            shape = (*shape[:3], channels.size)
        line = shape[2] * shape[3]
        elements = prod(shape) - (shape[1] - count) * line  # the last lines are there for windows only
        total = np.empty(prod(shape), frame.dtype)
        total[elements:] = 0
        product = np.empty(elements, frame.dtype)
        for part, length in in_rows(elements, shape[3], self.taps.shape[2]):
            sums, now = total[part].reshape(-1, length), product[part].reshape(-1, length)
            for number, (i, j) in enumerate(np.ndindex(*frame.window)):
                start = i // frame.stride * line + j // frame.stride * shape[3] + part.start
                here = phases[i % frame.stride][j % frame.stride]
                some = here[start : start + now.size].reshape(now.shape)
                np.multiply(some, self.taps[i, j, :length], out=now if number else sums)
                if number:
                    sums += now
        return Grid(total, shape)


WindowSums = Dense | Depthwise  # `line_elements`: that an output pixel takes on the way


def pictures(flat: Array, area: Area) -> Array:
    """The view [samples, height, width, channels] of an area in [samples, bytes]."""
    shape = (flat.shape[0], area.height, area.width, area.channels)
    if area.contiguous and not area.offset and area.height * area.line == flat.shape[1]:
        return flat.reshape(shape)
    step = flat.itemsize
    strides = (flat.strides[0], area.line * step, area.pixel * step, step)
    return as_strided(flat[:, area.offset :], shape, strides)


_BLOCK = 1 << 18  # elements that are worked on at once: what the processor keeps near
_EXACT = {np.float32: 1 << 22, np.float64: 1 << 51}  # sums below this, and ties moved by two steps, are exact
_BEHIND_TIES = {t: t(1) + np.finfo(t).eps for t in (np.float32, np.float64)}  # ties are rounded away from zero
_LIMITED = 1 << 23  # what goes from unit to unit has 24 bits


@dataclass(frozen=True, eq=False)
class ChannelBlock:
    """Some output channels of some rows."""

    stored: StoredCodes
    chains: tuple[tuple[tuple[WindowSums, ...], ...], ...]  # chains of passes of windows
    finish: Finish
    target: Area  # of these channels
    units: Array | None  # the 24-bit limits in units of each channel, where sums may get there
    rounded: bool  # some output shift is not 0
    dtype: Float

    def add_to(self, features: Array, result: Array) -> None:
        """Both [samples, bytes]."""
        target = pictures(result, self.target)
        for samples, rows in self._blocks(features.shape[0]):
            total = self._chain(features[samples], rows, self.chains[0])
            for chain in self.chains[1:]:
                both = total.flat + self._chain(features[samples], rows, chain).flat
                total = Grid(np.clip(both, -32768, 32767, out=both), total.shape)
            codes = Grid(self.finish(total.flat), total.shape)
            target[samples, rows] = codes.picture(rows.stop - rows.start, self.target.width)

    def _blocks(self, samples: int) -> Iterator[tuple[slice, slice]]:
        area = self.target
        line = area.width * max(area.channels, *(w.line_elements for c in self.chains for p in c for w in p))
        rows = max(1, _BLOCK // line)
        rows = -(-area.height // -(-area.height // rows))  # blocks of equal height
        together = max(1, _BLOCK // (line * area.height))
        for first in range(0, samples, together):
            for start in range(0, area.height, rows):
                yield slice(first, min(first + together, samples)), slice(start, min(start + rows, area.height))

    def _chain(self, features: Array, rows: slice, passes: Sequence[Sequence[WindowSums]]) -> Grid:
        if len(passes) == 1 and len(passes[0]) == 1 and len(self.chains) == 1:
            total = passes[0][0].sums(features, rows)
            self._rounded(total.flat, by_finish=self.finish.rounds)
            return total
        sums: Array | None = None
        for windows in passes:
            for number, window in enumerate(windows):
                now = window.sums(features, rows).picture(rows.stop - rows.start, self.target.width)
                sums = now + sums if sums is not None else np.ascontiguousarray(now)
                if self.units is not None and number + 1 < len(windows):
                    np.clip(sums, -self.units, self.units - self.units / _LIMITED, out=sums)
            assert sums is not None
            self._rounded(sums)
            np.clip(sums, -32768, 32767, out=sums)
        assert sums is not None
        return Grid(np.ascontiguousarray(sums).reshape(-1), sums.shape)

    def _rounded(self, total: Array, by_finish: bool = False) -> None:
        if self.rounded:
            total *= _BEHIND_TIES[self.dtype]
            if not by_finish:
                np.rint(total, out=total)


class LayerKernel:
    """A whole layer: codes [samples, ...] to codes."""

    def __init__(self, layered: Layered, elements: int) -> None:
        self.shape = layered.shape
        self.wanted = int(np.prod(self.shape))
        self.written = max(self.wanted, max(p.target.height * p.target.line for p in layered.pieces))
        known: dict[int, StoredCodes] = {}  # by function, which the pieces keep alive
        for piece in layered.pieces:
            if id(piece.features) not in known:
                known[id(piece.features)] = stored_of(piece.features, elements)
        self.banks = [_bank(group, known[id(group[0].features)]) for group in _groups(layered.pieces)]
        seen = np.zeros((1, self.written), bool)
        for bank in self.banks:
            pictures(seen, bank.target)[...] = True
        assert seen[:, : self.wanted].all()

    def __call__(self, codes: Array) -> Array:
        samples = codes.shape[0]
        flat = np.ascontiguousarray(codes).reshape(samples, -1)
        result = np.empty((samples, self.written), np.int8)
        features: dict[int, Array] = {}
        for bank in self.banks:
            key = id(bank.stored)
            if key not in features:
                features[key] = bank.stored(flat)
            bank.add_to(features[key], result)
        return result[:, : self.wanted].reshape(samples, *self.shape)


# ------------------------------------------------------------------------------------------------- pieces become banks


def _groups(pieces: Iterable[LoweredSums]) -> list[list[LoweredSums]]:
    """Neighbours in the channels that read the same windows."""
    found: dict[Any, list[LoweredSums]] = {}
    for piece in sorted(pieces, key=lambda piece: piece.first):
        for number in range(len(found) + 1):
            key = (_geometry(piece), number)
            known = found.setdefault(key, [])
            if not known or known[-1].first + known[-1].count == piece.first:
                known.append(piece)
                break
    return list(found.values())


def _geometry(piece: LoweredSums) -> Any:
    def place(term: SumTerm) -> Any:
        part = term.part
        return part.area, part.window, part.padding, part.stride, term.first, term.count

    chains = [(chain.subtracted, [list(map(place, terms)) for terms in chain.passes]) for chain in piece.chains]
    return repr((piece.target, piece.multiplier, id(piece.features), chains))


def _bank(pieces: list[LoweredSums], stored: StoredCodes) -> ChannelBlock:
    lead = pieces[0]
    shifts = np.repeat([piece.rule.out_shift for piece in pieces], [piece.count for piece in pieces])
    reach = _reach(pieces, stored)
    several = len(lead.chains) > 1 or any(len(chain.passes) > 1 for chain in lead.chains)
    largest = int((reach + (32768 << shifts) * several).max())
    cut = largest >= _LIMITED and any(len(terms) > 1 for chain in lead.chains for terms in chain.passes)
    dtype: Float = np.float32 if largest < _EXACT[np.float32] and not cut else np.float64
    assert largest < _EXACT[np.float64]
    chains = tuple(_chain(pieces, number, stored, shifts, dtype, merge=not cut) for number in range(len(lead.chains)))
    target = lead.target.channels_from(lead.first, shifts.size)
    steps = (reach >> shifts) + 1
    return ChannelBlock(
        stored,
        chains,
        finish_for([(p.rule, p.count) for p in pieces], np.minimum(steps, 32768) if several else steps, dtype),
        target,
        _LIMITED / 2.0**shifts if cut else None,
        bool(shifts.any()),
        dtype,
    )


def _reach(pieces: list[LoweredSums], stored: StoredCodes) -> Any:
    """No sum of a channel is larger, whatever the codes."""
    found = []
    for piece in pieces:
        total = np.zeros(piece.count, np.int64)
        for chain in piece.chains:
            most = stored.farthest(chain.subtracted)
            for part in {id(t.part): t.part for terms in chain.passes for t in terms}.values():
                own = np.abs(part.weights[piece.first : piece.first + piece.count].astype(np.int64))
                total += own.sum(axis=(1, 2, 3)) * most
        found.append(total)
    return np.concatenate(found)


def _chain(
    pieces: list[LoweredSums], number: int, stored: StoredCodes, shifts: Any, dtype: Float, merge: bool
) -> tuple[tuple[WindowSums, ...], ...]:
    lead = pieces[0]
    passes = []
    for index, terms in enumerate(lead.chains[number].passes):
        apart = [(k, k, term.first, term.count) for k, term in enumerate(terms)]
        spans = _spans(terms) if merge and not lead.multiplier else apart
        windows: list[WindowSums] = []
        for at, _, first, count in spans:
            parts = [(one.chains[number].passes[index][at].part, one.first, one.count) for one in pieces]
            weights = np.concatenate([p.weights[start : start + n].astype(np.int64) for p, start, n in parts])
            part = lead.chains[number].passes[index][at].part
            zero = lead.chains[number].subtracted - stored.offset
            scaled = weights / 2.0 ** shifts[:, None, None, None]
            if lead.multiplier:
                channels = np.arange(lead.first, lead.first + shifts.size) // lead.multiplier
                windows.append(Depthwise.of(part, zero, scaled[..., 0], channels, dtype))
            else:
                last = min(first + count, part.area.channels)
                windows.append(Dense.of(part, zero, scaled[..., first:last], first, dtype))
        passes.append(tuple(windows))
    return tuple(passes)


def _spans(terms: Sequence[SumTerm]) -> list[tuple[int, int, int, int]]:
    """Terms of the same part with neighbouring channels are one: first and last term, first channel, channels."""
    found: list[tuple[int, int, int, int]] = []
    for number, term in enumerate(terms):
        if found:
            start, end, first, count = found[-1]
            if terms[end].part is term.part and first + count == term.first:
                found[-1] = (start, number, first, count + term.count)
                continue
        found.append((number, number, term.first, term.count))
    return found
