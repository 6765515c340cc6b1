"""Functions of one code of 16 bits: a line for each high byte, from tables of bytes.

    g * x = 256 * high + low + 128,   y = coarse * top[high] + rest[high] + offset + gain * slope[high] * low

Published tables take bytes and give bytes, so what a line begins with is put together of several: `top` in steps of
`coarse` codes, `rest` in codes of the output. A table has few rows, so both go straight over as many high bytes as
they can: `top` rises by whole steps, and `rest` by what is left. Where `rest` would need more rows than there are, a
third table stands between them. The input may be stretched (g), so that high bytes are not spent on codes beyond which
nothing changes any more: both halves saturate there.

What all 65,536 codes become is known before a function is lowered so, and how far that is from exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.elementwise.function import fitted
from atonc.compiler.lower.elementwise.tables import FunctionTable, bent_fits
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited, shifted, table_codes
from atonc.compiler.lower.semantics.arithmetic import pair as pair_codes
from atonc.compiler.lower.sixteen.streams import HIGHEST, LOWEST, ZERO, require_centred
from atonc.compiler.lower.units.arith import Affine, AffinePair, Array, affine_unit, multiply_unit, pair_unit
from atonc.compiler.lower.units.views import row
from atonc.compiler.lower.units.wiring import Wiring, in_pieces, origin_of, pack, parts
from atonc.compiler.ops.curves import CODES, function_codes
from atonc.compiler.ops.functions import FUNCTIONS, RANGES
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.coarse import CoarseCodes
from atonc.compiler.plan.evidence import untrusted_unit
from atonc.compiler.plan.policy import FUNCTION_PIECE, LEAST_FUNCTION
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import WIDE_FEW, WIDE_FUNCTION
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED, UNITS
from atonc.machine.hw.safety.evidence import Trust

MOST_ERROR = 8  # codes: layers of 16 bits in one pass are off by 3 to 16
_MOST_STORED = 1.5  # of what is stored on a coarser scale
_MOST_MARGIN = 2  # of its numbers
_OTHERWISE = (*RANGES, "clip", "hard_swish", "leaky_relu")
KINDS = ("table", *(kind for kind in FUNCTIONS if kind not in _OTHERWISE))
_RUNS = 256  # high bytes
_SHIFT = 14  # of the sum of a slope and a rest, as seen
_STRETCH = 64  # steps of g
_FLAT = 1  # codes: where nothing changes any more
_PARTS_OF_TOP = 8
_TELLS = 0.25  # of a run inside the format: less does not tell how steep it is
_CLOSE = 1  # of a table: further ones are not looked for
_LANES = UNITS["ACTIV"]
WHOLE = CoarseCodes(0, 0)


@dataclass(frozen=True, eq=False)
class Halves:
    """The bytes of a stretched code: both saturate."""

    stretch: int  # in steps of 1/64

    @property
    def top(self) -> Affine:
        """Half a code less than a multiple of 256 is never in the middle between two where nothing is stretched."""
        return Affine.single(self.stretch, -255 * _STRETCH // 2, 14)

    @property
    def rest(self) -> AffinePair:
        return AffinePair(self.stretch, -256 * _STRETCH, ZERO * _STRETCH, 0, 0, 0, 6)

    def __call__(self, codes: Ints) -> tuple[Ints, Ints]:
        high = limited(shifted(int(self.top.a[0]) * codes + int(self.top.c[0]), self.top.shift), 8)
        return high, pair_codes(self.rest, codes, high)


@dataclass(frozen=True, eq=False)
class Lines:
    """What the tasks of a function compute."""

    halves: Halves
    slope: FunctionTable
    parts: tuple[tuple[AffinePair, FunctionTable], ...]  # the sums, one after the other, and what each adds
    results: Array  # of all codes
    error: float

    @staticmethod
    def of(
        halves: Halves, slope: FunctionTable, parts: Sequence[tuple[AffinePair, FunctionTable]], exact: Array
    ) -> Lines:
        high, low = halves(CODES)
        found = table_codes(slope)[high + 128] * low
        for rule, table in parts:
            found = pair_codes(rule, found, table_codes(table)[high + 128])
        return Lines(halves, slope, tuple(parts), found.astype(np.int16), float(np.abs(found - exact).max()))


def lines_of(exact: Array, trust: Trust, most: float = MOST_ERROR) -> Lines:
    """The first that is near enough, of few tables; or the nearest."""
    return _nearest(np.ascontiguousarray(exact, np.float64).tobytes(), trust, most)


@lru_cache(maxsize=128)
def _nearest(data: bytes, trust: Trust, most: float) -> Lines:
    exact, best = np.frombuffer(data, np.float64), None
    for found in _ways(exact, trust):
        best = found if best is None or found.error < best.error else best
        if best.error <= most:
            break
    assert best is not None
    return best


def _ways(exact: Array, trust: Trust) -> Iterator[Lines]:
    for tables in (1, 2):
        for stretch in dict.fromkeys((_STRETCH, _useful_stretch(exact))):
            yield _fitted(exact, Halves(stretch), tables, trust)


def _useful_stretch(exact: Array) -> int:
    """Until the last code that changes anything is the last that there is."""
    changing = np.flatnonzero((np.abs(exact - exact[0]) > _FLAT) & (np.abs(exact - exact[-1]) > _FLAT))
    reach = int(np.abs(CODES[changing]).max()) if changing.size else HIGHEST
    return min(_STRETCH * HIGHEST // max(reach, 1), 127 * _STRETCH)


def _fitted(exact: Array, halves: Halves, tables: int, trust: Trust) -> Lines:
    """`tables`: of what lines begin with, but the last one."""
    high, low = halves(CODES)
    starts = np.searchsorted(high, np.arange(-128, 128))
    slopes = _slopes(exact, low, starts)
    factor = max(1, ceil(float(np.abs(slopes).max()) / 127 * 2**_SHIFT))
    factor = min(factor, HIGHEST)
    slope = _nearest_table(np.rint(slopes * 2**_SHIFT / factor).astype(np.int64), trust)
    begins = _begins(exact, factor * slope.codes[high + 128].astype(np.int64) * low / 2**_SHIFT, starts)
    middle = int(begins.max() + begins.min()) // 2
    coarse = max(1, ceil(int(begins.max() - begins.min()) / 255))
    steps = (coarse, max(1, coarse // _PARTS_OF_TOP))[:tables]
    left, parts = begins - middle, list[tuple[AffinePair, FunctionTable]]()
    for step, finer in zip(steps, (*steps[1:], 1), strict=True):
        table = _nearest_table(_whole_steps(left, step, 127 * finer), trust)
        parts.insert(0, (AffinePair(1, step, 0, 0, 0, 0, 0, 2), table))
        left = left - step * table.codes.astype(np.int64)
    shift = max(0, int(np.abs(middle)).bit_length() + _SHIFT - 15)
    first = AffinePair(factor, 1 << _SHIFT, middle << _SHIFT >> shift, 0, 0, shift, _SHIFT, 2)
    return Lines.of(halves, slope, [(first, _nearest_table(left, trust)), *parts], exact)


def _nearest_table(wanted: Ints, trust: Trust) -> FunctionTable:
    table = limited(wanted, 8)
    found = fitted(table, trust)
    if found.error <= _CLOSE:
        return found
    bent = (one for one in bent_fits(table) if not untrusted_unit(one.config, "", trust))
    return min((found, *bent), key=lambda one: (one.error, one.wrong))


def _slopes(exact: Array, low: Ints, starts: Ints) -> Array:
    """A run rises from its first to its last code inside the format; or as a neighbour does that tells more."""
    slopes, told = np.zeros(_RUNS), np.zeros(_RUNS)
    for number, (start, end) in enumerate(zip(starts, (*starts[1:], CODES.size), strict=True)):
        places = start + np.flatnonzero(_inside(exact[start:end]))
        told[number] = places.size / (end - start)
        if places.size > 1 and low[places[-1]] != low[places[0]]:
            first, last = places[0], places[-1]
            slopes[number] = (exact[last] - exact[first]) / (low[last] - low[first])
    steepest = slopes.copy()
    for neighbour in (np.roll(slopes, 1), np.roll(slopes, -1)):
        better = (told > 0) & (told < _TELLS) & (np.abs(neighbour) > np.abs(steepest))
        steepest = np.where(better, neighbour, steepest)
    return steepest


def _inside(exact: Array) -> NDArray[np.bool_]:
    return (exact > LOWEST) & (exact < HIGHEST)


def _begins(exact: Array, risen: Array, starts: Ints) -> Ints:
    """In the middle of what lies between the lines and the results, of the results inside the format: a line may begin
    beyond it. Where there are none, it is flat."""
    left, inside, ends = exact - risen, _inside(exact), (*starts[1:], CODES.size)
    inside |= np.repeat(~np.logical_or.reduceat(inside, starts), np.subtract(ends, starts))
    least = np.minimum.reduceat(np.where(inside, left, np.inf), starts)
    most = np.maximum.reduceat(np.where(inside, left, -np.inf), starts)
    return np.rint((least + most) / 2).astype(np.int64)


def _whole_steps(left: Ints, step: int, room: int) -> Ints:
    """Multiples of a step near these, along lines that are as long as what they leave has room."""
    found = np.zeros(_RUNS, np.int64)
    waiting = [(0, _RUNS)]
    while waiting:
        start, count = waiting.pop()
        line = _whole_line(left[start : start + count], step, room)
        if line is None:
            waiting += [(start, count // 2), (start + count // 2, count // 2)]
        else:
            found[start : start + count] = line
    return found


def _whole_line(left: Ints, step: int, room: int) -> Ints | None:
    """A line of one high byte is whatever is nearest."""
    places = np.arange(left.size)
    rise = (left[-1] - left[0]) / max(1, left.size - 1) / step
    for each in dict.fromkeys((round(rise), floor(rise), ceil(rise))):
        rest = left - step * each * places
        line: Ints = each * places + round(int(rest.max() + rest.min()) / 2 / step)
        fits = line.min() >= -128 and line.max() <= 127 and np.abs(left - step * line).max() <= room
        if left.size == 1 or fits:
            return limited(line, 8)
    return None


@recipe(*KINDS, wide=True)
def lower_function(op: Op, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    exact = function_codes(op, context.graph)
    assert exact is not None, "these are the functions of one code"
    _require_many(x.elements, LEAST_FUNCTION)
    coarse = context.coarse.get(y.name, WHOLE)
    most = max(_MOST_STORED, MOST_ERROR / coarse.step)
    lines = _stored_lines(exact, coarse, context.facts.target.trust, most)
    if lines is None or lines.error > most:
        error = lines.error if lines else most
        seen = f"{op.kind}: {error * coarse.step:,.3g} LSB (int16)"
        raise Refusal(WIDE_FUNCTION, seen, f"{most * coarse.step:g}", WIDE_FUNCTION.remedy)
    _require_many(x.elements, LEAST_FUNCTION * (1 + len(lines.parts)) // 3)
    results = coarse.codes(lines.results)
    error = float(np.abs(results - exact.astype(np.int64)).max())
    context.explain(op, lambda given: [results[ints(given[0]) - LOWEST]], error)
    names, groups = (context.buffer(x.name), context.buffer(y.name)), list[TaskGroup]()
    for start, count in in_pieces(x.elements, FUNCTION_PIECE, ALIGNED):
        groups += _piece(op, context, lines, names, start, count)
    return groups


def _require_many(elements: int, least: int) -> None:
    if elements < least:
        raise Refusal(WIDE_FEW, f"{elements:,} values", f"{least:,}", WIDE_FEW.remedy)


def _stored_lines(exact: Array, coarse: CoarseCodes, trust: Trust, most: float) -> Lines | None:
    """Nothing saturates at the ends of a coarser scale: lines keep away from them by what they would go beyond."""
    low, high = ((end >> coarse.dropped) + coarse.zero for end in (LOWEST, HIGHEST))
    stored = np.clip(exact / coarse.step + coarse.zero, low, high)
    for margin in range(_MOST_MARGIN + 1):
        lines = lines_of(np.clip(stored, low + margin, high - margin), trust, most)
        if low <= lines.results.min() and lines.results.max() <= high:
            return lines
    return None


def _piece(
    op: Op, context: Context, lines: Lines, names: tuple[str, str], start: int, count: int
) -> Iterator[TaskGroup]:
    """In epochs of the chains that public networks have: behind a table that feeds a sum its bytes are stored, too."""
    source, target = names
    high, low, unused = (context.scratch(count, label) for label in ("high bytes", "low bytes", "bytes of a table"))
    top, rest = affine_unit(lines.halves.top, 0, in_bytes=2), pair_unit(lines.halves.rest, bytes_x=2)

    def split(place: int, many: int, b: TaskBuilder) -> None:
        whole = row(many, start + place, 2)
        x = b.read(source, whole)
        highs = b.unit(top, b.read(source, whole))
        lows = b.unit(rest, x, highs)
        b.write(highs, high, row(many, place, write=True))
        b.write(lows, low, row(many, place, write=True))

    def rise(into: str, place: int, many: int, b: TaskBuilder) -> None:
        steep = b.unit(lines.slope.config, b.read(high, row(many, place)))
        b.write(b.unit(multiply_unit(), steep, b.read(low, row(many, place))), into, row(many, place, 2, write=True))

    def add(number: int, before: str, into: str, first: int, place: int, many: int, b: TaskBuilder) -> None:
        rule, table = lines.parts[number]
        x = b.read(before, row(many, place, 2))
        looked_up = b.unit(table.config, b.read(high, row(many, place)))
        b.write(b.unit(pair_unit(rule, bytes_x=2), x, looked_up), into, row(many, first + place, 2, write=True))
        b.write(looked_up, unused, row(many, place, write=True))

    sums = [context.scratch(2 * count, "part of a line") for _ in lines.parts]
    builds = [partial(split), partial(rise, sums[0])]
    for number, before in enumerate(sums):
        last = number == len(sums) - 1
        builds.append(partial(add, number, before, target if last else sums[number + 1], start if last else 0))
    for build in builds:
        wirings = [Wiring(partial(build, *lane), lane[1]) for lane in parts(count, _LANES)]
        yield from pack(wirings, origin_of(op), f"{op.kind} {op.name}")
