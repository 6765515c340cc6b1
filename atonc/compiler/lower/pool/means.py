"""Means over anything: the POOL's global average on frames that the reading engine cuts out.

Every window is a frame of its own, so any window, stride and count goes; the result has 8 fractional bits, and an ARITH
turns it into codes. Sums over more pixels than one average holds are cut: parts divided by the number of all pixels are
added up with 16 bits, as published programs add them; of more pixels than were ever divided by, means are averaged.

    m = sat16(round(sum * MUL >> S)),   y = sat8(round((round(A * m >> 8) + C) >> R))

C is the addend with which most means get the right code. A mean of so many codes takes few values: all of them can be
looked at. Around every half of a code the right one is decided between two neighbours of that lattice, and TFLite
decides by two roundings: 23/49 becomes a whole code there, 22/49 none. The unit's own errors (8 bits of the mean, 16 of
the factor) are larger than the distance of 23/49 from the line of TFLite, and smaller than half the step between both;
so the addend that stands in the middle is right for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import floor, lcm, log2, prod

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.arith import Affine, AffinePair, affine_unit, clip_unit, first_trusted, pair_unit
from atonc.compiler.lower.units.pool import (
    MOST_DIVIDED,
    MOST_MULTIPLIER,
    MOST_PIXELS,
    channel_groups,
    division,
    frame_of,
    global_unit,
    quotient,
)
from atonc.compiler.lower.units.views import row, walk
from atonc.compiler.lower.units.wiring import End, Wiring, pack
from atonc.compiler.ops.rounding import Rounding, lift, rounding_of
from atonc.compiler.plan.flow import EachChannel
from atonc.compiler.plan.policy import MOST_PARTS, WORTH_SPLITTING
from atonc.compiler.plan.streams import Area, Loop
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import MEAN, MEAN_STEEP
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import BUS_BYTES, MOST_TABLE_SHIFT, POOL_CHANNELS
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.safety.evidence.trust import operands
from atonc.machine.hw.stream import finish, shift_right_rounded
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

Kept = tuple[int, int, int]  # turns, bytes in the source, bytes in the target
Ints = NDArray[np.int64]

FRACTION = 8
_STEEPEST = 64.0  # codes per code: beyond, the fraction of the mean is too coarse


@dataclass(frozen=True)
class Line:
    """The line from a mean with 8 fractional bits to codes."""

    a: int
    c: int
    shift: int
    clip: tuple[int, int] | None = None
    most: int = MOST_MULTIPLIER  # of the division in front of it

    @staticmethod
    def of(
        gain: float,
        offset: float,
        clip: tuple[int, int] | None = None,
        usual: float | None = None,
        divisor: int = 1,
        ties_up: bool = False,
        most: int = MOST_MULTIPLIER,
    ) -> Line:
        """codes = gain * mean + offset. Around the `usual` mean neither short factors nor the division by `divisor` do
        harm. The unit rounds ties away from code zero, with `ties_up` upwards."""
        if gain > _STEEPEST:
            seen = f"{gain:.1f} output LSB for a step of the mean"
            raise Refusal(MEAN_STEEP, seen, f"{_STEEPEST}", "use the CPU")
        multiplier, power = division(divisor, most)
        divided = quotient(divisor, most)
        if usual is not None:
            divided = multiplier * divisor / 2.0 ** (power + FRACTION)  # nearly that
        shift = max(0, min(MOST_TABLE_SHIFT, 14 - floor(log2(gain))))
        a = round(gain / divided * 2**shift)
        if a > 32767:
            a, shift = round(gain / divided * 2 ** (shift - 1)), shift - 1
        missing = (gain * 2**shift - a * divided) * (usual or 0.0)
        return Line(a, round(offset * 2**shift + missing) + ties_up, shift, clip, most)

    def shorter(self, bits: int) -> Line:
        """The same with coefficients of so many bits less."""
        a, c = (round(number / 2**bits) for number in (self.a, self.c))
        return replace(self, a=a, c=c, shift=self.shift - bits)

    def error(self, gain: float, divisor: int = 1, parts: int = 1) -> float:
        """In codes, before the last rounding: by the fraction of the mean, of each of its parts, the divisor and the
        factor."""
        factor, slope = quotient(divisor, self.most), self.a / 2.0**self.shift
        fraction = gain / factor * parts * 2.0**-9
        return fraction + gain * 128 * 2.0**-15 + 128 * abs(slope * factor - gain) + 2.0**-self.shift

    def units(self) -> tuple[ArithConfig, ...]:
        unit = affine_unit(Affine.single(self.a, self.c, self.shift), 0, in_bytes=2, fraction=FRACTION)
        return (unit,) if self.clip is None else (unit, clip_unit(*self.clip))


@dataclass(frozen=True)
class Means:
    """Means over the `reduced` loops for every turn of the `kept` ones; `batch` neighbouring channels at a time."""

    source: str
    target: str
    kept: tuple[Kept, ...]
    reduced: tuple[Loop, ...]
    batch: int
    divisor: int  # of the sum; the number of pixels unless padding counts
    line: Line
    near: int = 0  # offsets
    far: int = 0

    @property
    def pixels(self) -> int:
        return prod(count for count, _ in self.reduced)

    @property
    def frame(self) -> tuple[int, int] | None:
        """As one average holds all pixels; None if it does not."""
        return frame_of(self.pixels, self.batch)

    @property
    def near_loops(self) -> list[Loop]:
        return [*((n, near) for n, near, _ in self.kept), *self.reduced, (self.batch, 1)]

    @property
    def reader(self) -> StrengConfig | None:
        return walk(self.near_loops, self.near, write=False)

    @property
    def writer(self) -> StrengConfig | None:
        return walk([*((n, far) for n, _, far in self.kept), (self.batch, 1)], self.far, write=True)

    @property
    def results(self) -> int:
        return prod(count for count, _, _ in self.kept) * self.batch

    def halves(self) -> tuple[Means, ...]:
        """For both POOL units, where their results lie in words of their own and the work is worth it."""
        *outer, (count, near, far) = self.kept
        word = lcm(far, BUS_BYTES) // far if far else count
        half = -(-count // 2 // word) * word
        aligned = not (self.far % BUS_BYTES or any(step % BUS_BYTES for _, _, step in outer))
        if not (0 < half < count and aligned) or self.pixels * self.results < 2 * WORTH_SPLITTING:
            return (self,)
        first = replace(self, kept=(*outer, (half, near, far)))
        rest = replace(self, near=self.near + half * near, far=self.far + half * far)
        return first, replace(rest, kept=(*outer, (count - half, near, far)))

    def wirings(self) -> Iterator[Wiring]:
        """IN > POOL > ARITH > OUT, one for every turn of a loop too many."""
        frame, reader, writer = self.frame, self.reader, self.writer
        if frame is None:
            raise Refusal(MEAN, f"{self.pixels} pixels", f"{MOST_PIXELS}", "use smaller windows")
        if reader is None or writer is None:
            yield from (p for part in self._unrolled() for p in part.wirings())
            return
        units = (global_unit(*frame, self.batch, self.divisor, self.line.most), *self.line.units())
        yield Wiring.chain([End(self.source, reader)], units, End(self.target, writer), reader.elements)

    def _unrolled(self) -> Iterator[Means]:
        if not self.kept:
            raise Refusal(MEAN, f"windows {self.reduced}", "two loops", "use the CPU")
        axis = min(range(len(self.kept)), key=lambda i: self.kept[i][0])
        count, near, far = self.kept[axis]
        if count > MOST_PARTS:
            raise Refusal(MEAN, f"{count} separate pieces", f"{MOST_PARTS}", "use the CPU")
        rest = (*self.kept[:axis], *self.kept[axis + 1 :])
        for k in range(count):
            yield replace(self, kept=rest, near=self.near + k * near, far=self.far + k * far)


def mean_groups(op: Op, context: Context, pieces: Iterable[Means], flow: EachChannel | None) -> list[TaskGroup]:
    """All means of an operator; `flow`: what they do together as long as one average holds their pixels."""
    title, found, groups = f"{op.kind} {op.name}", list[Wiring](), list[TaskGroup]()
    for means in pieces:
        if means.frame is None:
            groups += in_parts(means, context, op.origin, title)
        else:
            found += [wiring for half in means.halves() for wiring in half.wirings()]
    return pack(found, op.origin, title, flow=None if groups else flow) + groups


def all_pixels(picture: Area) -> EachChannel:
    """What the means of a whole picture are, as long as one average holds its pixels."""
    pixels, (_, batch, _) = picture.height * picture.width, next(channel_groups(picture.channels, POOL_CHANNELS))
    return EachChannel(picture, frame_of(pixels, batch) or (picture.height, picture.width))


def parts_of(pixels: int, batch: int) -> list[int]:
    """How many pixels each part has: equal parts if possible, else rows of 64 x 64 and a rest."""
    least = -(-pixels // MOST_PIXELS)
    for count in range(least, min(4 * least, pixels) + 1):
        if pixels % count == 0 and frame_of(pixels // count, batch):
            return [pixels // count] * count
    size = 4096 if pixels > 4096 else max(n for n in range(1, pixels) if frame_of(n, batch))
    return [size, *parts_of(pixels - size, batch)]


def in_parts(means: Means, context: Context, origin: tuple[str, ...], title: str) -> list[TaskGroup]:
    """A mean over one long loop of pixels: parts with 16 bits, then two at a time become one."""
    if len(means.reduced) > 1 or means.divisor != means.pixels:
        raise Refusal(MEAN, f"{means.pixels} pixels in windows", f"{MOST_PIXELS}", "use smaller windows")
    ((_, step),), results = means.reduced, means.results
    words, written = row(results, item_bytes=2), row(results, item_bytes=2, write=True)
    parts: list[tuple[End, int]] = []
    wirings: list[Wiring] = []
    at = 0
    for size in parts_of(means.pixels, means.batch):
        name = context.scratch(2 * results, f"{title} part")
        divisor = divisor_of(size, means.pixels)
        part = replace(means, reduced=((size, step),), near=means.near + at * step, divisor=divisor)
        frame, reader = part.frame, part.reader
        if frame is None or reader is None:
            seen = f"{part.pixels} pixels in loops {part.near_loops}"
            raise Refusal(MEAN, seen, f"{MOST_PIXELS}", "use the CPU")
        unit = global_unit(*frame, means.batch, divisor, means.line.most)
        wirings.append(Wiring.chain([End(means.source, reader)], [unit], End(name, written), reader.elements))
        parts.append((End(name, words), size))
        at += size
    groups = pack(wirings, origin, title)
    fewest = 2 if means.line.clip is None else 1  # the last average and the line fit one chain, a clip does not
    while len(parts) > fewest:
        joined, pairs = [], []
        for (a, m), (b, n) in zip(parts[::2], parts[1::2], strict=False):
            name = context.scratch(2 * results, f"{title} sum")
            both = pair_unit(joining(m, n, means.pixels), 2, 2)
            pairs.append(Wiring.chain([a, b], [both], End(name, written), results))
            joined.append((End(name, words), m + n))
        groups += pack(pairs, origin, title)
        parts = joined + (parts[-1:] if len(parts) % 2 else [])
    writer = means.writer
    if writer is None:
        raise Refusal(MEAN, f"results {means.kept}", "two loops", "use the CPU")
    last = [pair_unit(joining(parts[0][1], parts[1][1], means.pixels), 2, 2)] if len(parts) > 1 else []
    ends, units = [end for end, _ in parts], [*last, *means.line.units()]
    return groups + pack([Wiring.chain(ends, units, End(means.target, writer), results)], origin, title)


def divisor_of(part: int, pixels: int) -> int:
    """What the sum of a part of so many pixels is divided by."""
    return pixels if pixels <= MOST_DIVIDED else part


def joining(m: int, n: int, pixels: int) -> AffinePair:
    """How two parts of m and n pixels become one: as their sum, or as an average in units of 1/2^14."""
    if pixels <= MOST_DIVIDED:
        return AffinePair(1, 1, 0, 0, 0, 0, 0, out_bytes=2)
    a = round((1 << 14) * m / (m + n))
    return AffinePair(a, (1 << 14) - a, 0, 0, 0, 0, 14, out_bytes=2)


MOST_LOOKED_AT = 256  # beyond, neighbours of the lattice are closer than the unit's own errors
AROUND = 64  # codes on both sides of usual means: those that count


def with_best_addend(
    line: Line, rounding: Rounding, ratio: float, zeros: tuple[int, int], usual: int, pixels: int
) -> Line:
    """`ratio`: codes of the result for a code of the mean; `zeros`: zero points of what comes in and goes out; `usual`:
    what means are around."""
    if pixels > MOST_LOOKED_AT:
        return line
    sums: Ints = np.arange(max(-128, usual - AROUND) * pixels, min(127, usual + AROUND) * pixels + 1)
    low, high = line.clip or (-128, 127)
    exact = rounding((sums - zeros[0] * pixels).astype(np.float64) * (ratio / pixels)) + zeros[1]
    wanted = np.clip(exact, low, high).astype(np.int64)
    multiplier, shift = division(pixels, line.most)
    before = shift_right_rounded(finish(sums * multiplier, shift, 2, True, True) * line.a, FRACTION)
    return replace(line, c=_most_covered(*_ranges(before, wanted, line.shift, (low, high)), line.c))


def _ranges(before: Ints, wanted: Ints, shift: int, ends: tuple[int, int]) -> tuple[Ints, Ints]:
    """From which addend on the code is the wanted one, and from which it is another again. Halves go away from zero."""
    step, far = 1 << shift, 1 << 40
    first = wanted * step - step // 2 - before + (wanted <= 0)
    last = wanted * step - step // 2 + step - before + (wanted < 0)
    return np.where(wanted == ends[0], -far, first), np.where(wanted == ends[1], far, last)


def _most_covered(first: Ints, last: Ints, usual: int) -> int:
    """The usual one, if no other is in more ranges; else the middle of the widest stretch that is in most of them."""
    edges = np.sort(np.concatenate((first, last)))
    edges = edges[np.concatenate(([True], edges[1:] != edges[:-1]))]  # np.unique would load masked arrays for it
    count = np.searchsorted(np.sort(first), edges, "right") - np.searchsorted(np.sort(last), edges, "right")
    if np.count_nonzero((first <= usual) & (usual < last)) == count.max():
        return usual
    best = np.flatnonzero(count[:-1] == count[:-1].max())
    width = edges[best + 1] - edges[best]
    widest = best[width.argmax()]
    return int(edges[widest] + edges[widest + 1]) // 2


_ABOVE_ZERO = 16  # codes by which means usually are above the zero point
_MOSTLY_ABOVE = -64  # with a zero point below, most codes are above it
_SHORTER = 3  # bits by which coefficients may be shorter, less one, where only such were seen


def line_of(op: Op, ends: tuple[Tensor, Tensor], pixels: int, divisor: int, trust: Trust) -> Line:
    """Codes of the mean, or of the sum; of `divisor` pixels so many are real, the others stand for zero."""
    x, y = ends
    gain = gain_of(op, ends, pixels)
    offset = y.zero_point - x.zero_point * gain * pixels / divisor
    line = Line.of(gain, offset, op.attrs.get("clip"), divisor=divisor, most=most_multiplier(trust))
    return _trusted(line, lambda shorter: shorter, trust)


def mean_line(op: Op, ends: tuple[Tensor, Tensor], pixels: int, trust: Trust) -> Line:
    """Coefficients for the means that occur. Ties go away from the zero point, behind a ReLU that is upwards; where the
    codes themselves are rounded, the unit does the same."""
    x, y = ends
    gain = gain_of(op, ends, pixels)
    offset, usual = y.zero_point - x.zero_point * gain, x.zero_point + _ABOVE_ZERO
    rounding, clip = rounding_of(op, [x], y), op.attrs.get("clip")
    lifted = float(np.max(lift(rounding, y, clip)))
    turn = y.zero_point + rounding.zero  # the code that ties go away from
    ties_up = turn < _MOSTLY_ABOVE
    line = Line.of(gain, offset + lifted, clip, usual, pixels, ties_up, most_multiplier(trust))
    zeros = x.zero_point, y.zero_point
    return _trusted(line, lambda one: with_best_addend(one, rounding, gain, zeros, usual, pixels), trust)


def gain_of(op: Op, ends: tuple[Tensor, Tensor], pixels: int) -> float:
    """Codes of the result for a code of the mean."""
    x, y = ends
    return x.scale / y.scale * (pixels if op.kind == "sum" else 1.0)


def _trusted(line: Line, finish: Callable[[Line], Line], trust: Trust) -> Line:
    lines = (finish(line.shorter(bits)) for bits in range(min(_SHORTER, line.shift + 1)))
    return first_trusted(lines, Line.units, trust)


def most_multiplier(trust: Trust) -> int:
    return operands("POOL MULVAL", "global avg", (1 << 14, MOST_MULTIPLIER), trust)[1]
