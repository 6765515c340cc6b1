"""How far sums go where units hand them on, and how much room there is: 24 bits inside and between units, 16 bits of
shifted sums from pass to pass and from chain to chain.

The last sum before codes are made needs none: a shift holds all sums whose codes are not at an end of their range. A
sum whose code is at an end needs only so much that it stays there when its way is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.conv.requantise import Requantisation, TwoSteps, matters
from atonc.compiler.lower.conv.weight_sums import Real, Shown, extreme_sums
from atonc.compiler.lower.conv.wide_results import CODES, WideRequantisation
from atonc.compiler.lower.semantics.arithmetic import Ints
from atonc.compiler.lower.semantics.sums import Layered, LoweredSums, SumChain, sampled_windows
from atonc.compiler.plan.policy import LEAST_ROOM
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import PARTIAL_LIMIT, SUM_LIMIT

SAMPLES = 256  # positions of a picture that are looked at


@dataclass(frozen=True)
class Reached:
    """The largest sums, without their signs."""

    whole: int = 0  # inside and between units
    partial: int = 0  # before it goes on with 16 bits

    def room(self, out_shift: int) -> float:
        """How many times as large they could be."""
        by_units = SUM_LIMIT / self.whole if self.whole else inf
        return min(by_units, (PARTIAL_LIMIT << out_shift) / self.partial if self.partial else inf)


def room_seen(layered: Layered, codes: Iterable[NDArray[Any]]) -> float:
    """Measures the room that all pieces of a layer leave on these codes of its input."""
    flat = [np.ascontiguousarray(one, np.int16).reshape(-1) for one in codes]  # holds code + 128 too
    rooms = (reached(piece, flat).room(piece.rule.out_shift) for piece in layered.pieces if flat)
    return min(rooms, default=inf)


def reached(piece: LoweredSums, codes: Sequence[NDArray[Any]]) -> Reached:
    """At sampled positions of all pictures, exactly where the units of the piece hand sums on."""
    windows = _Windows([piece.features(one) for one in codes])
    total: Real = np.zeros(1)
    inside, between = _Way(), _Way()
    for number, chain in enumerate(piece.chains, 1):
        now: Real = np.zeros(1)
        for after, terms in enumerate(chain.passes, 1):
            for term in terms:
                now = now + piece.sampled_term(windows.under(term.part, chain.subtracted), term)
                inside.passes(now)
            if after < len(chain.passes) or len(piece.chains) > 1:
                between.passes(now)
        total = total + now
        if number < len(piece.chains):
            between.passes(total)
    shown = _shown(piece.rule)
    alone = len(piece.chains) == 1
    return Reached(inside.needed(shown, total if alone else 0 * total), between.needed(shown, total))


class _Windows:
    """What is under kernels at sampled positions: terms over some channels each have it in common."""

    def __init__(self, pictures: Sequence[NDArray[Any]]) -> None:
        self.pictures = pictures
        self.known: dict[tuple[int, int], NDArray[Any]] = {}

    def under(self, part: Part, subtracted: int) -> NDArray[Any]:
        key = id(part), subtracted
        if key not in self.known:
            found = [sampled_windows(picture, part, subtracted, SAMPLES) for picture in self.pictures]
            self.known[key] = np.concatenate(found)
        return self.known[key]


class _Way:
    """The ends of the way that sums take."""

    def __init__(self) -> None:
        self.highest: Any = 0.0
        self.lowest: Any = 0.0

    def passes(self, sums: Real) -> None:
        self.highest, self.lowest = np.maximum(self.highest, sums), np.minimum(self.lowest, sums)

    def needed(self, shown: Shown, total: Real) -> int:
        return int(np.max(shown.required(self.highest, self.lowest, total), initial=0.0))


def _shown(rule: Requantisation | TwoSteps) -> Shown:
    """Per output channel the sums whose codes are not at an end of their range."""
    if not isinstance(rule, Requantisation):
        return Shown(np.full(rule.factors.shape, inf))
    scale = np.maximum(np.abs(rule.factors), 1e-9) / 2.0 ** (rule.shift + rule.out_shift)
    codes = CODES if isinstance(rule, WideRequantisation) else 1 << 8
    return Shown(matters(scale, rule.addends / 2.0**rule.shift, codes), LEAST_ROOM)


def possible(piece: LoweredSums, low: int, high: int) -> Reached:
    """Whatever the features are, as numbers low..high."""
    sums = [_possible(piece, chain, low - chain.subtracted, high - chain.subtracted) for chain in piece.chains]
    alone = len(sums) == 1 and len(piece.chains[0].passes) == 1
    together = int(np.add.reduce(sums).max(initial=0))
    roundings = sum(len(chain.passes) for chain in piece.chains) << piece.rule.out_shift
    partial = 0 if alone and isinstance(piece.rule, Requantisation) else together + roundings
    return Reached(max(int(one.max(initial=0)) for one in sums), partial)


def _possible(piece: LoweredSums, chain: SumChain, low: int, high: int) -> Ints:
    """Per output channel, of all passes together: none of its parts is larger."""
    found: Ints = np.zeros(piece.count, np.int64)
    parts = {id(term.part): term.part for terms in chain.passes for term in terms}
    for part in parts.values():  # all passes over a part together see all of its channels
        found = found + extreme_sums(part.weights, low, high)[piece.first : piece.first + piece.count]
    return found
