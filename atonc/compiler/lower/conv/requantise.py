"""Accumulator to output codes: the shift behind the CONVACC and one 32-bit ARITH with coefficients per channel.

    y = sat8(round((A[c] * acc16 + C[c]) >> R)),   acc16 = sat16(round(acc >> OS))

OS need not hold every possible sum: an accumulator beyond what maps to -128..127 saturates anyway. So OS follows from
the sums that matter, or from the largest possible sum if that is smaller.

Channels whose scale is degenerate: one step of the sum is worth more codes than there are.

Quantisers give such scales to layers that never answered while they were calibrated. There one sum at most has a code
of its own; every other one saturates, and does so with any factor of a few hundred codes a step. So a factor that fits
the units gives the same codes as the one of the model. (Sums beyond 16 bits are rounded as everywhere; the layer
declares it.)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log2, sqrt
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.arith import clip_unit, moving_units, saturating_steps
from atonc.compiler.plan.policy import MOST_SPREADS, SPREAD, TOLERATED
from atonc.compiler.select.rules import CONV_BIAS, SCALES
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import MOST_OUT_SHIFT, MOST_TABLE_SHIFT, PARTIAL_LIMIT
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.safety.evidence.trust import operands
from atonc.machine.hw.units.arith import ROWS, WINDOW_ROWS, ArithConfig

A_MAX = (1 << 15) - 1
C_MAX = 2.0**31 - 2**24
_WORD = (-(1 << 15), (1 << 15) - 1)


_ALL_CODES = (-128, 127)


class Coefficients(NamedTuple):
    factor: int = A_MAX  # A
    addend: float = C_MAX  # B and C together
    lower: tuple[int, int] = _ALL_CODES  # limits of codes that a unit may clip to
    upper: tuple[int, int] = _ALL_CODES
    spared: int = 0  # codes by which addends may grow later
    shift: int = MOST_TABLE_SHIFT  # of the products
    low: tuple[int, int] = _WORD  # word of an addend that is in no table

    def clips(self, clip: tuple[int, int] | None) -> bool:
        """Whether a unit may clip so by itself."""
        if clip is None:
            return True
        low, high = clip
        return self.lower[0] <= low <= self.lower[1] and self.upper[0] <= high <= self.upper[1]

    def nearest(self, addends: NDArray[np.float64]) -> NDArray[np.float64]:
        """Addends whose low word is one that units without a table may have."""
        low = (addends + 32768.0) % 65536.0 - 32768.0
        return addends - low + np.clip(low, *self.low)


WHOLE_FORMAT = Coefficients()


@memoise
def coefficients(trust: Trust) -> Coefficients:
    """All numbers of their format, or those that tables were seen with."""
    names = ("ARITH A of a table", "ARITH A")  # a single channel has no table
    most = min(operands(name, "AFFINE X2", (1, A_MAX), trust)[1] for name in names)
    low, high = operands("ARITH B of a table", "AFFINE X2", _WORD, trust)
    lower, upper = (operands(f"ARITH {limit}", "AFFINE CLIPOUT", _ALL_CODES, trust) for limit in ("CLIPMIN", "CLIPMAX"))
    word = operands("ARITH C", "AFFINE X2", _WORD, trust)
    return Coefficients(most, min(C_MAX, 65536.0 * min(-low, high)), lower, upper, low=word)


Real = NDArray[np.float64]
Ints = NDArray[np.int64]

_MARGIN = 2.0  # codes beyond the range that must still be exact before saturation
_CODES = 256.0
SHIFT_CODES = ArithConfig(  # (x + 128) mod 256, exactly as every public network writes it
    a=16384, b=32, combine_bc=1, shift_out=14, round_mode=1, out_bytes=1, bytes_x=1, out_bytes_x=1, bytes_y=1,
    out_bytes_y=1,
)  # fmt: skip
_NEARLY = 1e-3  # steps of an accumulator by which a whole number may be off


@dataclass(frozen=True)
class Requantisation:
    out_shift: int
    factors: Ints  # A
    addends: Ints  # C, 32 bit
    shift: int  # R
    clip: tuple[int, int] | None = None  # in output codes, where narrower than int8
    error: float = 0.0  # expected largest distance from exact arithmetic, in codes, before the final rounding
    mean_error: float = 0.0  # expected distance of a usual value: so many values get another code
    short: float = 0.0  # the part of `error` that factors of 16 bits cost channels whose steps are less than a code
    saturating: bool = False  # clips by the ends of int8, moved to where they are needed

    @property
    def steps(self) -> tuple[int, ...]:
        """What is added to codes until their clip is done: which way a half is rounded depends on the first of them."""
        return saturating_steps(self.clip) if self.saturating else (0,)

    def channels(self, first: int, count: int) -> Self:
        part = slice(first, first + count)
        return replace(self, factors=self.factors[part], addends=self.addends[part])

    def units(self, first: int, count: int, batch: int, pixels: int) -> list[ArithConfig]:
        """For `count` channels from `first`, which arrive in groups of `batch`, each with all its pixels."""
        part = slice(first, first + count)
        addends = self.addends[part] + (self.steps[0] << self.shift)
        unit = coefficient_unit(self.factors[part], addends, batch, pixels, self.shift)
        return [unit, *moving_units(self.steps)] if self.saturating else _clipped(unit, self.clip)

    def ariths(self, count: int) -> int:
        """How many `units` there are for so many channels."""
        return ariths_behind(self.clip, count, saturating=self.saturating)


def requantisation(
    scale: Real,
    offset: Real,
    largest: Real,
    sums: int = 1,
    clip: tuple[int, int] | None = None,
    usual: Real | None = None,
) -> Requantisation:
    """For codes = scale[c] * acc + offset[c]; `largest` bounds |acc| per channel, `usual` are typical codes of the
    results (those of no sum unless said), where factors of 16 bits are made to do no harm.

    `sums`: how often a partial result is rounded to 16 bits on the way; then saturation before the end is an error.
    The shift is the one with the smallest error: small ones saturate, large ones round away too much.
    """
    needed = largest if sums > 1 else np.minimum(largest, matters(scale, offset))
    usual = offset if usual is None else usual
    return best_rules(Accumulated(scale, offset, needed, usual, sums), clip, [scale.size])[0]


@dataclass(frozen=True, eq=False)
class Accumulated:
    """Sums of some channels, and what they mean: codes = scale[c] * sum + offset[c]."""

    scale: Real
    offset: Real
    needed: Real  # up to where sums may not saturate
    usual: Real  # typical codes of the results
    sums: int  # how often a partial result is rounded to 16 bits on the way
    codes: float = _CODES  # that results have


def best_rules(
    acc: Accumulated, clip: tuple[int, int] | None, counts: Sequence[int], within: Coefficients = WHOLE_FORMAT
) -> list[Requantisation]:
    """The same for stretches of so many channels, one behind the other."""
    require_usable(acc.scale, acc.offset)
    stretches, first, sums = [], 0, acc.sums
    for count in counts:
        some = slice(first, first + count)
        room = PARTIAL_LIMIT - (sums if sums > 1 else 0)  # roundings on the way add up
        fits = max(0, ceil(log2(max(float(acc.needed[some].max()), 1.0) / room)))  # nothing saturates from here on
        least = fits if sums > 1 else max(0, fits - 2)  # what is lost on the way never comes back
        shifts = range(min(least, MOST_OUT_SHIFT), min(fits + 2, MOST_OUT_SHIFT) + 1)
        stretches.append((some, shifts))
        first += count
    clip = narrowed(clip)
    saturating = not within.clips(clip)
    if saturating:
        within = within._replace(spared=saturating_steps(clip)[0])
    tried = with_shifts(acc, stretches, within)
    return [replace(_best(one, clip), saturating=saturating) for one in tried]


def _best(tried: TriedRules, clip: tuple[int, int] | None) -> Requantisation:
    allowed = min(tried.error) + TOLERATED
    best = min((k for k, error in enumerate(tried.error) if error <= allowed), key=lambda k: tried.mean_error[k])
    return tried.rule(best, clip)


def require_usable(scale: Real, offset: Real) -> None:
    """Whether factors and addends exist at all."""
    steepest, farthest = float(np.abs(scale).max()), float(np.abs(offset).max())
    if not (steepest <= A_MAX and farthest <= C_MAX):  # also what is not a number
        raise Refusal(
            SCALES,
            f"a step of the sum is worth {steepest:g} output LSB, its offset {farthest:g}",
            f"{A_MAX} and {C_MAX:.0f} LSB",
            "check the scales: they differ beyond all use",
        )


@dataclass(frozen=True, eq=False)
class TriedRules:
    """Rules with several shifts: of each field one, or a row, for every shift."""

    out_shifts: Sequence[int]
    factors: Ints
    addends: Ints
    shifts: list[int]
    error: list[float]
    mean_error: list[float]
    short: list[float]

    def rule(self, k: int, clip: tuple[int, int] | None = None) -> Requantisation:
        errors = self.error[k], self.mean_error[k], self.short[k]
        return Requantisation(self.out_shifts[k], self.factors[k], self.addends[k], self.shifts[k], clip, *errors)


Stretches = Sequence[tuple[slice, Sequence[int]]]  # of channels, each with shifts to try


def with_shifts(acc: Accumulated, stretches: Stretches, within: Coefficients = WHOLE_FORMAT) -> list[TriedRules]:
    """A rule for each shift. All of them at once, in few steps: layers have few channels and many rules are tried."""
    scale, offset, needed, usual, sums = acc.scale, acc.offset, acc.needed, acc.usual, acc.sums
    size = np.abs(scale)
    fine = [
        _shifts(float(size[some].max()), float(np.abs(offset[some]).max()), shifts, within)
        for some, shifts in stretches
    ]
    coarse = _rows([[2.0**shift for shift in shifts] for _, shifts in stretches], stretches)
    parts = _rows([[2.0**shift for shift in one] for one in fine], stretches)
    cut = _rows([[float(shift > 0) for shift in shifts] for _, shifts in stretches], stretches)
    unit = scale * coarse  # codes per step of the 16-bit accumulator
    exact = unit * parts
    rounded_factors = np.rint(exact)
    reach = needed / coarse
    steep = np.maximum(size * coarse, 1e-30)
    most = np.minimum(reach, 32767.0)
    middle = np.maximum((usual - offset) / np.where(unit == 0, 1e-30, unit), -most)
    np.minimum(middle, most, out=middle)
    missing = exact - rounded_factors
    addends = np.rint(offset * parts + missing * middle)
    moved = np.zeros_like(addends)  # by the few addends that may not be as they are
    for some in (some for some, _ in stretches if some.stop - some.start == 1):
        moved[:, some] = within.nearest(addends[:, some]) - addends[:, some]
    addends = addends + moved
    lost = np.maximum(reach - 32767.0, 0.0) * steep  # by saturation
    skew = np.abs(missing) / parts  # by the short factors, per step away from the usual accumulator
    short = skew * np.minimum(reach + np.abs(middle), acc.codes / steep)
    error = lost + short + _together(sums) * cut * steep + (0.5 + np.abs(moved)) / parts
    spread = np.sqrt(sums / (6 * np.pi)) * cut * steep  # mean size of a normal error
    usually = SPREAD * acc.codes / _CODES
    mean = lost + skew * np.minimum(reach / 2, usually / steep) + spread + (0.25 + np.abs(moved)) / parts
    ordinary = np.where(steep < 1.0, short, 0.0)
    found = []
    for (some, shifts), fine_shifts in zip(stretches, fine, strict=True):
        at = slice(0, len(shifts)), some
        found.append(
            TriedRules(
                shifts,
                rounded_factors[at].astype(np.int64),
                addends[at].astype(np.int64),
                fine_shifts,
                error[at].max(axis=1).tolist(),
                (np.add.reduce(mean[at], axis=1) / (some.stop - some.start)).tolist(),
                ordinary[at].max(axis=1).tolist(),
            )
        )
    return found


def _together(sums: int) -> float:
    """How many steps so many roundings are off, at most: all of them by half a step, or many of them by as far as
    independent ones ever go."""
    return min(0.5 * sums, MOST_SPREADS * sqrt(sums / 12))


def _rows(numbers: list[list[float]], stretches: Stretches) -> Real:
    """A row for every shift: the number of the stretch in each of its channels. Those with fewer shifts repeat their
    last one."""
    if len(numbers) == 1:
        return np.array(numbers[0])[:, None]
    most = max(map(len, numbers))
    columns = [np.array([*some, *some[-1:] * (most - len(some))]) for some in numbers]
    return np.repeat(np.stack(columns, axis=1), [some.stop - some.start for some, _ in stretches], axis=1)


def cut_costs(scale: Real, largest: Real) -> Real:
    """For every place 1.. to cut a row of channels: what rounding costs when both sides have shifts of their own.

    Accumulators are cut to the largest one of their side, factors to the largest scale of their side.
    """
    steep = np.maximum(np.abs(scale), 1e-30)
    sides = []
    for forward in (True, False):
        s, a = (steep, largest) if forward else (steep[::-1], largest[::-1])
        cost = np.cumsum(s) * np.maximum.accumulate(a) + np.cumsum(a) * np.maximum.accumulate(s)
        sides.append(cost[:-1] if forward else cost[:-1][::-1])
    return sides[0] + sides[1]


def matters(scale: Real, offset: Real, codes: float = _CODES) -> Real:
    """The largest |acc| whose result, of so many codes, is not yet saturated: none where results are constant."""
    slope = np.maximum(np.abs(scale), 1e-30)
    ends = [np.abs((end - offset) / slope) for end in (-codes / 2 - _MARGIN, codes / 2 - 1 + _MARGIN)]
    return np.where(scale == 0, 0.0, np.maximum(*ends))


def _shifts(steepest: float, farthest: float, out_shifts: Sequence[int], within: Coefficients) -> list[int]:
    """As large as the 16-bit factors and the 32-bit addends allow, for every shift of the sums."""
    most = min(floor(log2(within.addend / max(farthest + within.spared, 1.0))), within.shift)
    by_factor = (floor(log2(within.factor / max(steepest * 2.0**shift, 1e-30))) for shift in out_shifts)
    return [max(0, min(one, most)) for one in by_factor]


@dataclass(frozen=True)
class TwoSteps:
    """What ST's releases 2.x do: 16-bit products in steps of a power of two, then scale, bias and zero point."""

    out_shift: int
    factors: Ints
    shift: int
    bias_factor: int
    addends: Ints
    clip: tuple[int, int] | None = None
    bias_shift: int = 20  # less where the biases are large

    BIAS_SHIFT = 20

    def channels(self, first: int, count: int) -> TwoSteps:
        part = slice(first, first + count)
        return replace(self, factors=self.factors[part], addends=self.addends[part])

    def ariths(self, count: int) -> int:
        return ariths_behind(self.clip, count, in_two_steps=True)

    def units(self, first: int, count: int, batch: int, pixels: int) -> list[ArithConfig]:
        part = slice(first, first + count)
        same = np.full(count, self.bias_factor)
        zeros = np.zeros(count, np.int64)
        scale = coefficient_unit(self.factors[part], zeros, batch, pixels, self.shift)
        scale = changed(scale, combine_bc=0, out_bytes=2, a=1 if scale.is_vector else scale.a)
        bias = coefficient_unit(same, self.addends[part], batch, pixels, self.bias_shift)
        return [scale, *_clipped(bias, self.clip)]


def two_steps(
    scale: Real, offset: Real, out_scale: float, zero: int, weight_sums: Ints, clip: tuple[int, int] | None = None
) -> TwoSteps:
    """For codes = scale[c] * acc + offset[c]; `weight_sums` are the signed sums of the kernels, `zero` is the zero
    point inside the offsets. Scales and biases are 32-bit floating-point numbers there."""
    out_shift = max(0, int(np.abs(weight_sums).max()).bit_length() - 7)
    with np.errstate(over="ignore", invalid="ignore"):
        accumulator = _single(scale * out_scale)
        bias = _single_bias(scale, offset - zero, out_scale, accumulator)
    if not (accumulator.any() and np.isfinite([accumulator, bias]).all()):
        raise Refusal(SCALES, "scales or biases beyond that", "numbers of 32 bits", "leave out --numerics 2.x")
    usual = ceil(log2(out_scale) - 6)
    middle = max(usual, ceil(log2(max(float(np.abs(bias).max()), 1e-30) / 32767.0)))  # biases of 16 bits there
    bias_shift = TwoSteps.BIAS_SHIFT - (middle - usual)
    real = accumulator * 2.0 ** (out_shift - middle)
    shift = factor_shift(real)
    if not 0 <= shift <= MOST_TABLE_SHIFT:
        seen = f"factors of {float(np.abs(real).max()):.3g} need a shift of {shift}"
        raise Refusal(SCALES, seen, f"0 to {MOST_TABLE_SHIFT} behind a table", "leave out --numerics 2.x")
    factor = min(A_MAX, int(half_away(np.array([2.0 ** (middle + bias_shift) / out_scale]))[0]))
    if bias.size <= ROWS:
        addends = cut_to_32_bits((bias / out_scale + zero) * 2.0**bias_shift)
    else:  # more channels than coefficients: there biases are a second input of 16 bits
        addends = factor * half_away(bias / 2.0**middle) + (zero << bias_shift)
    factors = half_away(real * 2.0**shift)
    return TwoSteps(out_shift, factors, shift, factor, addends, narrowed(clip), bias_shift)


def factor_shift(gains: Real) -> int:
    """With which the largest factor has 15 bits, also where it is rounded up to the next power of two."""
    shift = 14 - floor(log2(float(np.abs(gains).max())))
    return shift if half_away(np.abs(gains) * 2.0**shift).max() <= A_MAX else shift - 1


def _single(values: Real) -> Real:
    return values.astype(np.float32).astype(np.float64)


def _single_bias(scale: Real, offset: Real, out_scale: float, accumulator: Real) -> Real:
    """Biases count steps of the accumulator, unless the model has them as real numbers."""
    steps = np.divide(offset, scale, out=np.full_like(offset, 0.5), where=scale != 0)
    whole = np.rint(steps)
    counted = np.abs(steps - whole) < _NEARLY
    return _single(np.where(counted, whole * accumulator, offset * out_scale))


def cut_to_32_bits(values: Real) -> Ints:
    """Rounded to the numbers of 32 bits that hold all of them, then the bits behind the point are cut off."""
    largest = max(float(np.abs(values).max()), 1.0)
    kept = max(0, 31 - ceil(log2(largest)))
    rounded: Ints = np.rint(values * 2.0**kept).astype(np.int64) >> kept
    return rounded


def half_away(values: Real) -> Ints:
    return (np.sign(values) * np.floor(np.abs(values) + 0.5)).astype(np.int64)


def narrowed(clip: tuple[int, int] | None) -> tuple[int, int] | None:
    """None where saturation to int8 does the same."""
    return None if clip is None or (clip[0] <= -128 and clip[1] >= 127) else (int(clip[0]), int(clip[1]))


def channel_table(factors: Ints, addends: Ints) -> bytes:
    table = np.zeros((ROWS, 3), "<i2")
    table[: factors.size, 0] = factors.astype(np.int16)
    table[: factors.size, 1] = (addends >> 16).astype(np.int16)
    table[: factors.size, 2] = (addends & 0xFFFF).astype(np.uint16).view(np.int16)
    return table.tobytes()


def ariths_behind(
    clip: tuple[int, int] | None, count: int, in_two_steps: bool = False, saturating: bool = False
) -> int:
    """ARITHs of a rule for so many channels; behind one without a table another one clips."""
    if saturating:
        return 1 + len(saturating_steps(clip))
    return 1 + in_two_steps + (clip is not None and count == 1)


def _clipped(unit: ArithConfig, clip: tuple[int, int] | None) -> list[ArithConfig]:
    """Units with tables clip what they give; behind scalar coefficients there is a unit for that."""
    if clip is None or unit.is_vector:
        return [unit if clip is None else changed(unit, clip_out=1, clip_min=clip[0], clip_max=clip[1])]
    return [unit, clip_unit(*clip)]


_PLAIN = ArithConfig(
    combine_bc=1, rounded=1, saturated=1, round_mode=1, out_bytes=1, bytes_x=2, out_bytes_x=2, bytes_y=2, out_bytes_y=2
)


def coefficient_unit(factors: Ints, addends: Ints, batch: int, pixels: int, shift: int) -> ArithConfig:
    """A and a 32-bit addend per channel; channels come in groups of `batch`, each with all its pixels."""
    count = factors.size
    if count == 1:  # tables of one row were never seen
        low = int(addends[0]) & 0xFFFF
        a, b, c = int(factors[0]), int(addends[0]) >> 16, low - (low >> 15 << 16)
        return changed(_PLAIN, shift_out=shift, a=a, b=b, c=c)
    return changed(
        _PLAIN,
        shift_out=shift,
        vector_a=1,
        vector_b=1,
        vector_c=1,
        count1=1,
        count2=1,
        count3=1,
        step=1,
        reset1_every=batch - 1,
        offset1=1 - batch,
        reset2_every=batch * pixels - 1,
        offset2=1,
        reset3_every=count * pixels - 1,
        offset3=1 - count,
        translate=int(count <= WINDOW_ROWS),
        table=channel_table(factors, addends),
    )


STEEP = 640.0  # codes a step: both neighbours of the sum whose result is nearest to code 0 saturate
FARTHEST = 2.0**40  # codes: beyond, the zero point inside an offset is lost in double precision
BEYOND = 320.0  # codes: beyond both ends of int8, with room for roundings; at most half of STEEP


def tame(scale: Real, offset: Real, lowest: Real, highest: Real) -> tuple[Real, Real]:
    """Scale and offset that give the same codes for all whole sums of each channel, without factors beyond `STEEP`.
    Zero is one of the sums."""
    steep = (np.abs(scale) > STEEP) & (np.abs(offset) < FARTHEST)
    if not steep.any():
        return scale, offset
    steps = np.rint(np.divide(offset, scale, out=np.zeros_like(offset), where=steep))
    nearest = np.clip(offset - steps * scale, -BEYOND, BEYOND)  # the code of the sum -steps
    reached = (lowest <= -steps) & (-steps <= highest)
    slope = np.where(reached & (lowest < highest), np.copysign(STEEP, scale), 0.0)
    ends = np.where(reached, steps * slope + nearest, np.copysign(BEYOND, offset))
    return np.where(steep, slope, scale), np.where(steep, ends, offset)


def bias_of(op: Op, context: Context, accumulator_scale: Real, outputs: int) -> Real:
    """In real units; without a scale of its own it counts in units of the accumulator."""
    if len(op.inputs) < 3 or not op.inputs[2]:
        return np.zeros(outputs)
    tensor = context.tensor(op.inputs[2])
    if tensor.data is None:
        raise Refusal(CONV_BIAS, "a bias that is not constant", "a constant", "add it as a separate layer")
    values = np.asarray(tensor.data, np.float64).reshape(-1)
    if tensor.quant is not None:
        return (values - tensor.quant.zero_points) * tensor.quant.scales
    return values if tensor.is_float else values * accumulator_scale
