"""ARITH units in the settings that public networks use, and their fixed-point coefficients: real gains and offsets as
16-bit numbers with shifts, and their error.

One input:  y = sat8(round((A*x + C) >> R)), C of 32 bits, A and C per tensor or per channel, R shared.
Two inputs: y = sat8(round((((A*x) >> AX) + ((B*y) >> BY) + (C << S)) >> R)), all coefficients of 16 bits.
Several numbers may compute the same: the best that may be relied on is taken (`first_trusted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.registry import Refusal
from atonc.compiler.ops.rounding import round_half_away
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.evidence import untrusted_unit
from atonc.compiler.select.rules import SCALES
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.limits import MOST_TABLE_SHIFT, WIDE_PAIR_SHIFT
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.stream import finish, shift_right_rounded
from atonc.machine.hw.units.arith import AFFINE, CLIP, MULTIPLY, ROWS, WINDOW_ROWS, ArithConfig

Array = NDArray[Any]
Reals = NDArray[np.float64]
Numbers = TypeVar("Numbers")

CODES = np.arange(-128, 128, dtype=np.int64)
FULL_RANGE = (-128, 127)
_LATER = np.triu(np.ones((256, 256), bool), 1)  # pairs of codes, the second above the first
_APART = np.maximum(CODES - CODES[:, None], 1)
_A_LIMIT, _C_LIMIT = 32767, (1 << 31) - 1
_FREE = 1 << 44  # bound where saturation allows everything
_NOTHING = 2.0**-40  # no coefficient shows it
_NUDGES = np.array([0, 1, -1, 2, -2, 3, -3])
_ZERO_WEIGHT = 32  # how often a sum with a zero counts
WIDE_ERROR = 2 * 0.5 * 2.0 ** (15 - WIDE_PAIR_SHIFT)  # codes: of both coefficients on the largest input of 16 bits
_FEW = 0.001  # share of the sums that may be wrong before gains are varied too


@dataclass(frozen=True, eq=False)
class Affine:
    """y = sat8(round((a*x + c) >> shift)), one pair for the tensor or one per channel."""

    a: Array
    c: Array
    shift: int

    @staticmethod
    def single(a: int, c: int, shift: int) -> Affine:
        """The same for all channels."""
        return Affine(np.array([a]), np.array([c]), shift)

    @staticmethod
    def nearest(gain: float, offset: float) -> Affine:
        """With the numbers nearest to the real ones."""
        gains, offsets = np.array([gain]), np.array([offset])
        shift = output_shift(gains, offsets)
        a, c = (np.rint(v * 2.0**shift).astype(np.int64) for v in (gains, offsets))
        return Affine(a, c, shift)

    def __call__(self, x: Array) -> Array:
        """Codes of x, channels last."""
        return finish(self.a * x.astype(np.int64) + self.c, self.shift, 1, True, True).astype(np.int8)

    def channels(self, first: int, count: int) -> Affine:
        return Affine(self.a[first : first + count], self.c[first : first + count], self.shift)


@dataclass(frozen=True)
class AffinePair:
    """The coefficients of a unit with two inputs."""

    a: int
    b: int
    c: int
    shift_a: int
    shift_b: int
    shift_c: int
    shift_out: int
    out_bytes: int = 1

    @property
    def turned(self) -> AffinePair:
        """The same sum, of y and x."""
        return replace(self, a=self.b, b=self.a, shift_a=self.shift_b, shift_b=self.shift_a)

    def __call__(self, x: Array, y: Array) -> Array:
        total = shift_right_rounded(self.a * x.astype(np.int64), self.shift_a)
        total = total + shift_right_rounded(self.b * y.astype(np.int64), self.shift_b) + (self.c << self.shift_c)
        return finish(total, self.shift_out, self.out_bytes, True, True).astype((np.int8, np.int16)[self.out_bytes - 1])


def output_bounds(codes: Array, shift: int, clip: tuple[int, int] = FULL_RANGE, slack: int = 0) -> tuple[Array, Array]:
    """Smallest and largest sum that the output stage turns into these codes, give or take `slack` codes; codes at the
    limits of the clip allow everything beyond."""
    wide = codes.astype(np.int64)
    low, high = wide - slack, wide + slack
    half = (1 << shift) >> 1
    # ties go away from zero: a code owns the tie on its side of zero, the next one owns the other
    lowest = (low << shift) - half + np.where(low <= 0, min(half, 1), 0)
    highest = (high << shift) + half - np.where(high >= 0, min(half, 1), 0)
    return np.where(low <= clip[0], -_FREE, lowest), np.where(high >= clip[1], _FREE, highest)


def fit_affine(codes: Array, gain: Reals, offset: Reals, clip: tuple[int, int] = FULL_RANGE) -> Affine:
    """Coefficients for codes[256, channels] = round(gain*x + offset): of those that fit the widest shift, the ones that
    give exactly these codes where there are any, else the nearest to the real numbers."""
    shift = output_shift(gain, offset)
    nominal = np.rint(gain * 2.0**shift).astype(np.int64)
    fallback = np.clip(np.rint(offset * 2.0**shift), -_C_LIMIT, _C_LIMIT).astype(np.int64)
    low, high = output_bounds(codes, shift, clip)
    a = np.clip(nominal + _NUDGES[:, None], -_A_LIMIT, _A_LIMIT)  # [nudges, channels]
    products = a[:, None, :] * CODES[:, None]
    least = np.maximum((low - products).max(axis=1), -_C_LIMIT)
    most = np.minimum((high - products).min(axis=1), _C_LIMIT)
    exact = least <= most
    best = exact.argmax(axis=0)
    channel = np.arange(nominal.size)
    found = exact[best, channel]
    near = np.clip(fallback, least[best, channel], np.maximum(most[best, channel], least[best, channel]))
    return Affine(np.where(found, a[best, channel], nominal), np.where(found, near, fallback), shift)


def output_shift(gain: Reals, offset: Reals) -> int:
    """The widest shift with which every gain fits 16 bits and every offset 32."""
    largest, farthest = float(np.abs(gain).max(initial=0.0)), float(np.abs(offset).max(initial=0.0))
    _require_small(largest)
    return max(0, min(MOST_TABLE_SHIFT, _room(largest, _A_LIMIT), _room(farthest, _C_LIMIT)))


def _require_small(gain: float) -> None:
    if not gain <= _A_LIMIT:  # also what is not a number
        seen = f"one input LSB is worth {gain:g} output LSB"
        raise Refusal(SCALES, seen, f"{_A_LIMIT} LSB", "check the scales: they differ beyond all use")


def _room(value: float, limit: int) -> int:
    """The largest shift s with round(value * 2^s) <= limit."""
    return 62 if value < _NOTHING else min(62, int(np.floor(np.log2((limit + 0.499) / value))))


def affine_of_table(table: Array, clip: tuple[int, int]) -> Affine | None:
    """The straight line, cut at the ends of the clip, that gives exactly these 256 codes; None if there is none."""
    inside = (table > clip[0]) & (table < clip[1])
    gain = _common_slope(table.astype(np.float64), clip)
    if gain is None:
        return None
    anchor = np.flatnonzero(inside) if inside.any() else np.arange(256)
    offset = float((table[anchor] - gain * CODES[anchor]).mean())
    line = fit_affine(table[:, None], np.array([gain]), np.array([offset]), clip)
    same = np.array_equal(np.clip(line(CODES), *clip), table)
    return line if same else None


def _common_slope(table: Reals, clip: tuple[int, int]) -> float | None:
    """A slope that leads from every code to every other one within the roundings; None if there is none."""
    low = np.where(table <= clip[0], -np.inf, table - 0.5)
    high = np.where(table >= clip[1], np.inf, table + 0.5)
    steps = np.arange(1, 256)
    if ((low[1:] - high[0]) / steps).max() > ((high[1:] - low[0]) / steps).min():
        return None  # the lines from the first code alone have nothing in common
    least = float(((low - high[:, None]) / _APART).max(where=_LATER, initial=-np.inf))
    most = float(((high - low[:, None]) / _APART).min(where=_LATER, initial=np.inf))
    if not least <= most:
        return None
    if np.isinf(least) or np.isinf(most):
        beyond = least if np.isinf(most) else most  # the only limit: stay clear of it
        return 0.0 if least <= 0.0 <= most else beyond * 1.02
    return (least + most) / 2


def fit_pair(
    gain_x: float,
    gain_y: float,
    offset: float,
    out_bytes: int = 1,
    most_shift: int = MOST_TABLE_SHIFT,
    shorter: int = 0,
) -> AffinePair:
    """Coefficients of two inputs: the larger gain in [2^14, 2^15) fixes the output shift, the smaller one has its own
    shift in front of the sum, the offset a left shift. `shorter`: both with so many bits less."""
    _require_small(max(abs(gain_x), abs(gain_y)))
    room_x, room_y = (_room(abs(gain), _A_LIMIT >> shorter) for gain in (gain_x, gain_y))
    out = max(0, min(room_x, room_y, most_shift))
    shift_a, shift_b = (max(0, min(room - out, 31)) if room < 62 else 0 for room in (room_x, room_y))
    a, b = round(gain_x * 2.0 ** (out + shift_a)), round(gain_y * 2.0 ** (out + shift_b))
    addend = offset * 2.0**out
    shift_c = max(0, -_room(abs(addend), _A_LIMIT))
    return AffinePair(a, b, round(addend / 2.0**shift_c), shift_a, shift_b, shift_c, out, out_bytes)


# the larger of two codes is x + (y - x)+, and the positive part comes out of saturation
BEYOND = fit_pair(-1.0, 1.0, -128.0)  # (y - x)+ - 128 of x and y
LARGER = fit_pair(1.0, 1.0, 128.0)  # x + (y - x)+ of that and x


def fit_wide_pair(gain_x: float, gain_y: float, offset: float) -> AffinePair:
    """Fits two inputs of 16 bits, whose sums were seen with few shifts: nothing in front of the sum. The sum of both
    coefficients is the nearest one, so that flat pictures stay as flat as they can."""
    _require_small(max(abs(gain_x), abs(gain_y)) * 2.0**WIDE_PAIR_SHIFT)
    a, b = round((gain_x + gain_y) * 2.0**WIDE_PAIR_SHIFT), round(gain_y * 2.0**WIDE_PAIR_SHIFT)
    addend = offset * 2.0**WIDE_PAIR_SHIFT
    shift_c = max(0, -_room(abs(addend), _A_LIMIT))
    return AffinePair(a - b, b, round(addend / 2.0**shift_c), 0, 0, shift_c, WIDE_PAIR_SHIFT)


@lru_cache(maxsize=1024)
def fit_sum(
    gain_x: float, zero_x: int, gain_y: float, zero_y: int, zero_out: int, shorter: int = 0, times: int = 1
) -> AffinePair:
    """gain_x*(x - zero_x) + gain_y*(y - zero_y), rounded, + zero_out, for bytes: of the coefficients around the real
    ones, those with which most results are exact, zeros counted more often because tensors are full of them. (Here
    ties go away from the zero point, in the unit away from zero.) `shorter`: coefficients with so many bits less;
    `times`: what x is multiplied by before."""
    pair = fit_pair(gain_x / times, gain_y, zero_out - zero_x * gain_x - zero_y * gain_y, shorter=shorter)
    zero = np.array([[0]])
    tests = [(CODES[None, :], CODES[::3, None]), (CODES[None, :], zero + zero_y), (zero + zero_x, CODES[None, :])]
    wanted = []
    for x, y in tests:
        exact = round_half_away(gain_x * (x - zero_x) + gain_y * (y - zero_y)) + zero_out
        wanted.append(np.clip(exact, *FULL_RANGE).astype(np.int8))

    def misses(candidate: AffinePair) -> int:
        pairs = zip(tests, wanted, strict=True)
        wrong = [np.count_nonzero(candidate(times * x, y) != codes) for (x, y), codes in pairs]
        return int(wrong[0] + _ZERO_WEIGHT * (wrong[1] + wrong[2]))

    nearest = best_pair(pair, misses, gains=False)
    few = _FEW * tests[0][0].size * tests[0][1].size
    return nearest if misses(nearest) <= few else best_pair(pair, misses)


def best_pair(pair: AffinePair, misses: Callable[[AffinePair], int], gains: bool = True) -> AffinePair:
    """Finds the coefficients around these that miss least; with `gains` not only the offset is varied."""
    sides = (0, 1, -1) if gains else (0,)
    steps = [(a, b, c) for a in sides for b in sides for c in _NUDGES[:5].tolist()]
    found = [replace(pair, a=pair.a + a, b=pair.b + b, c=pair.c + c) for a, b, c in steps]
    return min((p for p in found if max(abs(p.a), abs(p.b), abs(p.c)) <= _A_LIMIT), key=misses)


def pair_error(
    pair: AffinePair, gain_x: float, gain_y: float, offset: float, reach_x: int = 128, reach_y: int = 128
) -> float:
    """Largest distance, in codes, between the sum and the real numbers before the last rounding."""
    unit = 2.0**pair.shift_out
    error = abs(pair.a / 2.0**pair.shift_a / unit - gain_x) * reach_x
    error += abs(pair.b / 2.0**pair.shift_b / unit - gain_y) * reach_y
    error += abs(pair.c * 2.0**pair.shift_c / unit - offset)
    return float(error + ((pair.shift_a > 0) + (pair.shift_b > 0)) * 0.5 / unit)


def affine_error(line: Affine, gain: Reals, offset: Reals, reach: int = 128) -> float:
    unit = 2.0**line.shift
    return float((np.abs(line.a / unit - gain) * reach + np.abs(line.c / unit - offset)).max())


def _widths(x: int, y: int, out: int) -> dict[str, Any]:
    widths = {"bytes_x": x, "out_bytes_x": x, "bytes_y": y, "out_bytes_y": y, "out_bytes": out}
    return {**widths, "rounded": 1, "saturated": 1, "round_mode": 1}


def affine_unit(line: Affine, elements: int, in_bytes: int = 1, fraction: int = 0) -> ArithConfig:
    """One input, C of 32 bits; coefficients per channel when there are several (channel-last streams). `fraction`: bits
    of the input that the product loses before C is added."""
    base = {"operation": AFFINE, "combine_bc": 1, "shift_out": line.shift, **_widths(in_bytes, 1, 1)}
    if line.a.size == 1:
        a, c = int(line.a.reshape(-1)[0]), int(line.c.reshape(-1)[0])
        return ArithConfig(**base, a=a, b=c >> 16, c=_low16(c), shift_a=fraction)
    addends = line.c.copy()
    if line.a[-1] == 0 == addends[-1] and line.shift > 1:
        addends[-1] = 1  # rounds to 0; programs end a table at the last row that is not zero
    rows = np.stack([line.a, addends >> 16, _low16(addends)], axis=1)
    return ArithConfig(**base, **_per_channel(rows, elements))


def product_unit(a: Array, elements: int) -> ArithConfig:
    """Bytes times one small integer per channel, exact in 16 bits."""
    base = {"operation": AFFINE, **_widths(1, 1, 2)}
    if a.size == 1:
        return ArithConfig(**base, a=int(a[0]))
    rows = np.stack([a, np.ones_like(a), np.zeros_like(a)], axis=1)  # B has no input: the rows are just not empty
    return ArithConfig(**base, **_per_channel(rows, elements))


def _per_channel(rows: Array, elements: int) -> dict[str, Any]:
    """The row counter runs over the channels of every pixel; all counters start over at the end of the stream."""
    channels = rows.shape[0]
    back = (1 - channels + ROWS // 2) % ROWS - ROWS // 2  # 9 bits, signed
    table = np.zeros((ROWS, 3), "<i2")
    table[:channels] = rows
    return {
        **{"vector_a": 1, "vector_b": 1, "vector_c": 1, "count1": 1, "count2": 1, "count3": 1},
        **{"step": 1, "reset1_every": channels - 1, "reset2_every": elements - 1, "reset3_every": elements - 1},
        **{"offset1": back, "offset2": 1, "offset3": back, "translate": int(channels <= WINDOW_ROWS)},
        "table": table.tobytes(),
    }


def pair_unit(pair: AffinePair, bytes_x: int = 1, bytes_y: int = 1) -> ArithConfig:
    names = ("a", "b", "c", "shift_a", "shift_b", "shift_c", "shift_out")
    numbers = {name: getattr(pair, name) for name in names}
    return ArithConfig(operation=AFFINE, dual_input=1, **numbers, **_widths(bytes_x, bytes_y, pair.out_bytes))


def multiply_unit(in_bytes: int = 1, shift: int = 0) -> ArithConfig:
    """The product in 16 bits, of bytes exact. Its coefficients take no part in it; all public programs set them to
    one."""
    widths = _widths(in_bytes, in_bytes, 2)
    return ArithConfig(operation=MULTIPLY, dual_input=1, a=1, b=1, c=1, shift_out=shift, **widths)


def clip_unit(low: int, high: int) -> ArithConfig:
    return ArithConfig(operation=CLIP, a=low, c=high, **_widths(1, 1, 1))


def saturating_steps(clip: tuple[int, int] | None) -> tuple[int, ...]:
    """What is added to codes while the upper end of int8 clips them, and then while the lower one does."""
    low, high = clip or (-128, 127)
    return (127 - high,) if low <= -128 else (127 - high, -128 - low)


def moving_units(steps: tuple[int, ...]) -> list[ArithConfig]:
    """From codes with the first of these steps added to those with the next one, and at last to codes as they are."""
    moves = (after - before for before, after in pairwise((*steps, 0)))
    return [affine_unit(Affine.single(1 << 14, move << 14, 14), 0) for move in moves]


def _low16(values: Any) -> Any:
    """The lowest 16 bits, as numbers with a sign."""
    return (values + 0x8000 & 0xFFFF) - 0x8000


def edge_unit() -> ArithConfig:
    """x + 128, wrapped: uint8 codes to int8 codes and back."""
    widths = {**_widths(1, 1, 1), "rounded": 0, "saturated": 0}
    return ArithConfig(operation=AFFINE, combine_bc=1, a=1 << 14, b=32, shift_out=14, **widths)


def first_trusted(
    candidates: Iterable[Numbers], units: Callable[[Numbers], Iterable[UnitConfig]], trust: Trust
) -> Numbers:
    """The first of these whose units may all be relied on. If there is none, the first of all: whoever judges the chain
    then names what is wrong with the numbers that one would like best."""
    best: Numbers | None = None
    for one in candidates:
        best = one if best is None else best
        if not any(untrusted_unit(unit, "", trust) for unit in units(one)):
            return one
    assert best is not None, "there is at least one candidate"
    return best


def add_streams(builder: TaskBuilder, pair: AffinePair, streams: tuple[str, str], trust: Trust) -> str:
    """Adds two streams of bytes, which change places where no unit was seen with that sign of the first gain."""
    found = first_trusted((pair, pair.turned), lambda one: [pair_unit(one)], trust)
    return builder.unit(pair_unit(found), *(streams if found is pair else reversed(streams)))
