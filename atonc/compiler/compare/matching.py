"""Finds the buffer that holds a tensor: quantisation and size must agree, the values decide."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.compiler.compare.observed import Arrangement, ObservedBuffer, centre, may_hold, mean_distance, sample_index
from atonc.compiler.ir import Array, Tensor
from atonc.machine.base.frozen import dataclass

CLOSE = 2.0  # mean difference in codes up to which a buffer may be this tensor at all
HOPELESS = 8.0  # no closer look at an arrangement that is so far off
SPARSE = 32
CLOSE_RAW = 0.3  # the same without the scale as a second witness


@dataclass(frozen=True, eq=False)
class Match:
    buffer: ObservedBuffer
    values: Array  # centred, in the tensor's shape
    note: str = ""


@dataclass(frozen=True, eq=False)
class MatchCandidate:
    distance: float  # mean, over a sample
    buffer: ObservedBuffer
    stored: Arrangement

    def match(self, tensor: Tensor, note: str = "") -> Match:
        return Match(self.buffer, centre(self.stored.full(), self.buffer.offset_for(tensor), tensor), note)


class Matcher:
    """The buffers of a run, and which of them have found their tensor."""

    def __init__(self, observed: Sequence[ObservedBuffer]) -> None:
        self.by_size: dict[int, list[ObservedBuffer]] = {}
        for buffer in sorted(observed, key=lambda b: (b.is_stream, b.epoch)):
            self.by_size.setdefault(buffer.data.size, []).append(buffer)
        self.claimed: set[int] = set()

    def find(self, tensor: Tensor, expected: Array, unit: float, earliest: int, reuse: bool) -> Match | None:
        """The closest buffer written at or after epoch `earliest`; claims it and its exact copies.

        `reuse`: a buffer that another tensor has claimed may be this one too (operators that only move values).
        """
        for raw in (False, True):  # codes without a scale are looked at only when no other buffer fits
            candidates = self.candidates(tensor, expected, unit, earliest, raw)
            free = [c for c in candidates if self.free(c.buffer)]
            equal = [c for c in candidates if reuse and c.distance == 0]
            best = self._closest(free, tensor, expected, unit) or self._closest(equal, tensor, expected, unit)
            if best is not None:
                self._claim(best, free, tensor)
                return best
        return None

    def candidates(
        self, tensor: Tensor, expected: Array, unit: float, earliest: int, raw: bool = False
    ) -> list[MatchCandidate]:
        """Every buffer that could hold the tensor, in its closest arrangement; only a sample is compared."""
        index = sample_index(tensor.shape)
        wanted = expected[index]
        found = []
        for buffer in self.by_size.get(tensor.elements, ()):
            if buffer.is_raw == raw and buffer.epoch >= earliest and may_hold(buffer, tensor):
                nearest = self._arranged(buffer, tensor, index, wanted, unit)
                if nearest is not None:
                    found.append(nearest)
        return found

    def claim_copies(self, tensor: Tensor, expected: Array) -> None:
        """Claims the buffers that hold exactly these values."""
        for candidate in self.candidates(tensor, expected, 1.0, -1):
            if candidate.distance == 0 and np.array_equal(candidate.match(tensor).values, expected):
                self.claim(candidate.buffer)

    def free(self, buffer: ObservedBuffer) -> bool:
        return id(buffer) not in self.claimed

    def claim(self, buffer: ObservedBuffer) -> None:
        self.claimed.add(id(buffer))

    @staticmethod
    def _arranged(
        buffer: ObservedBuffer, tensor: Tensor, index: tuple[Array, ...], wanted: Array, unit: float
    ) -> MatchCandidate | None:
        best: MatchCandidate | None = None
        offset = buffer.offset_for(tensor)
        few = tuple(i[::SPARSE] for i in index)  # most arrangements are far off: a few values show it
        for stored in buffer.arrangements(tensor):
            far = mean_distance(centre(stored.sample(few), offset, tensor), wanted[::SPARSE], unit)
            if best is not None and far > HOPELESS:
                continue
            far = mean_distance(centre(stored.sample(index), offset, tensor), wanted, unit)
            if best is None or far < best.distance:
                best = MatchCandidate(far, buffer, stored)
            if far < 0.1:
                break  # no other order of the axes can be meant
        return best

    @staticmethod
    def _closest(candidates: list[MatchCandidate], tensor: Tensor, expected: Array, unit: float) -> Match | None:
        """The sample only selects; all values decide. Equal ones go to the earliest buffer."""
        close = [c for c in candidates if c.distance <= (CLOSE_RAW if c.buffer.is_raw else CLOSE)]
        if not close:
            return None
        nearest = min(c.distance for c in close)
        matches = [c.match(tensor) for c in close if c.distance <= 1.5 * nearest + 0.05]
        if len(matches) == 1:
            return matches[0]
        return min(matches, key=lambda m: (mean_distance(m.values, expected, unit), m.buffer.is_stream, m.buffer.epoch))

    def _claim(self, best: Match, candidates: list[MatchCandidate], tensor: Tensor) -> None:
        self.claim(best.buffer)
        for candidate in candidates:
            close = candidate.distance <= 1.0 and self.free(candidate.buffer)
            if close and np.array_equal(candidate.match(tensor).values, best.values):
                self.claim(candidate.buffer)
