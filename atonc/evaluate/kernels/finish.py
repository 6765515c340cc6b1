"""16-bit sums become codes: v = t*f + a, shifted with rounding, limited.

`atonc.lower.meaning.sums.requantised` says it in 64-bit integers. Here it is 32-bit arithmetic that wraps, with
coefficients chosen so that nothing that matters wraps; where there are none, the 64-bit form is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.lower.meaning.sums import requantised
from atonc.lower.requantise import Requantisation, TwoSteps

Ints = NDArray[np.int64]
Array = NDArray[Any]
Rule = Requantisation | TwoSteps
Finish = Callable[[Array], Array]  # sums [rows, width * channels], which may be overwritten -> codes

_MOST_SHIFT = 23  # 129 codes in 32 bits
_BEYOND = 129  # codes: saturated on both sides


@dataclass(frozen=True, eq=False)
class Exact64:
    """Any rule, some channels each."""

    parts: tuple[tuple[Rule, int], ...]  # with the number of channels

    def __call__(self, sums: Array) -> Array:
        channels = sum(count for _, count in self.parts)
        flat = sums.reshape(-1, channels).astype(np.int64)
        codes, first = np.empty(flat.shape, np.int64), 0
        for rule, count in self.parts:
            codes[:, first : first + count] = requantised(rule, flat[:, first : first + count])
            first += count
        return codes.reshape(sums.shape)


@dataclass(frozen=True, eq=False)
class Wrapping32:
    """One factor, addend and pair of limits for each element of a row; the same shift for all."""

    factors: NDArray[np.int32]
    addends: NDArray[np.int32]
    shift: int
    clip: tuple[int, int]
    limits: tuple[Array, Array] | None  # of the sums, where they may be further than the codes
    half: int = 0  # where both signs have ties, rounded away from zero; else the addends contain it

    def __call__(self, sums: Array) -> Array:
        if self.limits is not None:
            np.maximum(sums, self.limits[0], out=sums)
            np.minimum(sums, self.limits[1], out=sums)
        v = sums.astype(np.int32)
        v *= self.factors
        v += self.addends
        if self.half:
            v += v >> 31
            v += np.int32(self.half)
        v >>= self.shift
        return np.clip(v, *self.clip, out=v)


def finish_for(rules: Sequence[tuple[Rule, int]], reach: Ints, width: int, dtype: type[np.floating[Any]]) -> Finish:
    """`rules` with their numbers of channels, in order; `reach`: no sum of a channel is larger; `width` pixels a row."""
    plain = [rule for rule, _ in rules if isinstance(rule, Requantisation)]
    if len(plain) == len(rules) and len({rule.clip for rule in plain}) == 1:
        found = _wrapping(plain, [count for _, count in rules], reach, width, dtype)
        if found is not None:
            return found
    return Exact64(tuple(rules))


def _wrapping(
    rules: Sequence[Requantisation], counts: Sequence[int], reach: Ints, width: int, dtype: type[np.floating[Any]]
) -> Wrapping32 | None:
    factors, addends = (np.concatenate([getattr(rule, name) for rule in rules]) for name in ("factors", "addends"))
    shifts = np.repeat([rule.shift for rule in rules], counts)
    common = int(shifts.max())
    factors, addends = _settled(factors, addends, shifts)
    low, high = _limits(factors, addends, shifts)
    if common > _MOST_SHIFT or (low > high).any():
        return None
    half = (1 << shifts) // 2
    below, above = _ties(factors, addends, shifts)
    apart = bool((below & above).any())
    inside = addends if apart else addends + half - below
    raised = common - shifts
    factors, inside = factors << raised, inside << raised
    room = (1 << 31) - (1 << common)
    if any((np.abs(end * factors + inside) >= room).any() for end in (low, high)):
        return None
    if apart and (raised != 0).any():
        return None  # one half for all
    clip = rules[0].clip or (-128, 127)
    beyond = bool(((-reach < low) | (reach > high)).any())
    limits = (_row(low, width).astype(dtype), _row(high, width).astype(dtype)) if beyond else None
    as32 = [_row(values, width).astype(np.int32) for values in (factors, inside)]
    return Wrapping32(as32[0], as32[1], common, (max(clip[0], -128), min(clip[1], 127)), limits, int(half[0]) * apart)


def _row(values: Ints, width: int) -> Ints:
    return np.tile(values, width)


def _settled(factors: Ints, addends: Ints, shifts: Ints) -> tuple[Ints, Ints]:
    """Channels that give the same saturated code for all sums of 16 bits have no factor."""
    far = _BEYOND << shifts
    ends = [np.clip(end * factors + addends, -far, far) for end in (-32768, 32767)]
    same = (ends[0] == ends[1]) & (np.abs(ends[0]) == far)
    return np.where(same, 0, factors), np.where(same | (factors == 0), ends[0], addends)


def _limits(factors: Ints, addends: Ints, shifts: Ints) -> tuple[Ints, Ints]:
    """The first sums of 16 bits on both sides whose codes are saturated; an empty range where there is no saying."""
    far = _BEYOND << shifts
    steep = np.where(factors == 0, 1, np.abs(factors))
    turned = np.where(factors < 0, -addends, addends)  # -v has a positive factor
    low, high = -((far + turned) // steep) - 1, (far - turned) // steep + 1
    low, high = np.where(factors == 0, -32768, low), np.where(factors == 0, 32767, high)
    return np.clip(low, -32768, 32768), np.clip(high, -32769, 32767)


def _ties(factors: Ints, addends: Ints, shifts: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether some 16-bit sum of a channel lies half way between two negative codes, and between two positive ones."""
    codes = np.arange(-_BEYOND, _BEYOND)
    at = (codes[:, None] << shifts) + (1 << shifts) // 2 - addends  # t * factor
    steep = np.where(factors == 0, 1, factors)
    whole = np.where(factors == 0, at == 0, (at % steep == 0) & (np.abs(at // steep) <= 32768)) & (shifts > 0)
    negative = codes < 0
    return whole[negative].any(axis=0), whole[~negative].any(axis=0)
