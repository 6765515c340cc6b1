"""16-bit sums become codes: v = t*f + a, shifted with rounding, limited.

`atonc.compiler.lower.semantics.sums.requantised` says it in 64-bit integers. Here it is 32-bit arithmetic that wraps,
with coefficients chosen so that nothing that matters wraps; where there are none, the 64-bit form is used.

Sums in single precision need neither a rounding nor a conversion of their own: with 3 * 2^22 added they have no bits
behind the point, and then their bits are those of that number plus the sum, which the addends make up for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.conv.requantise import Requantisation, TwoSteps
from atonc.compiler.lower.semantics.sums import requantised
from atonc.machine.base.frozen import dataclass

Ints = NDArray[np.int64]
Array = NDArray[Any]
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
            v = codes[part].reshape(-1, length)
            self._row(sums[part].reshape(-1, length), v, slice(length))
        return codes

    def _row(self, sums: Array, v: Array, some: slice) -> None:
        if self.limits is not None:
            _limit(sums, *(end[some] if end.ndim else end for end in self.limits))
        if self.rounds:
            sums += _WHOLE  # `v` is the same memory
        else:
            v[...] = sums
        v *= self.factors[some]
        v += self.addends[some]
        if self.half:
            v += v >> 31
            v += np.int32(self.half)
        v >>= self.shift
        np.clip(v, *self.clip, out=v)


Finish = Exact64 | Wrapping32  # sums of all channels, pixel after pixel, which may be overwritten -> codes


def _limit(sums: Array, low: Any, high: Any) -> None:
    """`np.clip` with a limit for each channel takes five times as long as both of its steps."""
    if low.ndim:
        np.maximum(sums, low, out=sums)
        np.minimum(sums, high, out=sums)
    else:
        np.clip(sums, low, high, out=sums)


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
    plain = [rule for rule, _ in rules if isinstance(rule, Requantisation)]
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
