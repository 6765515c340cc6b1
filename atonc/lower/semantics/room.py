"""How far sums go where units hand them on, and how much room there is: 24 bits inside and between units, 16 bits of
shifted sums from pass to pass and from chain to chain.

The last sum before codes are made needs none: a shift holds all sums whose codes are not at the end of their range."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import numpy as np

from atonc.hw.limits import PARTIAL_LIMIT, SUM_LIMIT
from atonc.lower.conv.requantise import Requantisation
from atonc.lower.conv.weight_sums import extreme_sums
from atonc.lower.semantics.arithmetic import Ints, ints
from atonc.lower.semantics.sums import Chain, Layered, Sums

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


def room_seen(layered: Layered, codes: Iterable[Ints]) -> float:
    """Of all pieces of a layer, on these codes of its input."""
    flat = [np.ascontiguousarray(ints(one)).reshape(-1) for one in codes]
    rooms = (reached(piece, one).room(piece.rule.out_shift) for piece in layered.pieces for one in flat)
    return min(rooms, default=inf)


def reached(piece: Sums, codes: Ints) -> Reached:
    """At sampled positions, exactly where the units of the piece hand sums on."""
    features = piece.features(codes)
    whole = partial = 0
    total: Ints = np.zeros(1, np.int64)
    for number, chain in enumerate(piece.chains, 1):
        now: Ints = np.zeros(1, np.int64)
        for after, terms in enumerate(chain.passes, 1):
            for term in terms:
                now = now + piece.term(features, term, chain.subtracted, SAMPLES)
                whole = max(whole, _largest(now))
            if after < len(chain.passes) or len(piece.chains) > 1:
                partial = max(partial, _largest(now))
        total = total + now
        partial = max(partial, _largest(total)) if number < len(piece.chains) else partial
    return Reached(whole, partial)


def _largest(sums: Ints) -> int:
    return int(np.abs(sums).max(initial=0))


def possible(piece: Sums, low: int, high: int) -> Reached:
    """Whatever the features are, as numbers low..high."""
    sums = [_possible(piece, chain, low - chain.subtracted, high - chain.subtracted) for chain in piece.chains]
    alone = len(sums) == 1 and len(piece.chains[0].passes) == 1
    together = int(np.add.reduce(sums).max(initial=0))
    roundings = sum(len(chain.passes) for chain in piece.chains) << piece.rule.out_shift
    partial = 0 if alone and isinstance(piece.rule, Requantisation) else together + roundings
    return Reached(max(int(one.max(initial=0)) for one in sums), partial)


def _possible(piece: Sums, chain: Chain, low: int, high: int) -> Ints:
    """Per output channel, of all passes together: none of its parts is larger."""
    found: Ints = np.zeros(piece.count, np.int64)
    parts = {id(term.part): term.part for terms in chain.passes for term in terms}
    for part in parts.values():  # all passes over a part together see all of its channels
        found = found + extreme_sums(part.weights, low, high)[piece.first : piece.first + piece.count]
    return found
