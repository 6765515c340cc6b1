"""What the user wants: less time, less memory for a little more time, or everything that lies between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log

from atonc.compiler.plan.policy import FRONT_BUILDS, FRONT_STEP, MOST_BUILDS, SLOWER
from atonc.compiler.search.candidate import BOTH, MEMORY, Candidate
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Goal:
    prefer: str
    copies: bool = False  # every program is built once more, with what the DMA copies

    @property
    def most_builds(self) -> int:
        return (FRONT_BUILDS if self.prefer == BOTH else MOST_BUILDS) * (2 if self.copies else 1)

    def leaders(self, candidates: Sequence[Candidate], built: Sequence[Candidate]) -> list[Candidate]:
        """The best of them, and of equals the first; with two objectives all that no other beats. `built`: with those
        that may not be used, which show all the same how fast a program can be."""
        if self.prefer == BOTH:
            return _front(candidates)
        fastest = min((one.cycles for one in built), default=0)
        best = min(candidates, key=lambda one: self._figures(one, fastest), default=None)
        return [] if best is None else [best]

    def _figures(self, one: Candidate, fastest: int) -> tuple[float, ...]:
        """Less is better."""
        if self.prefer == MEMORY:
            return one.cycles > SLOWER * fastest, one.peak_bytes, one.cycles
        return one.cycles, one.peak_bytes


def _front(candidates: Iterable[Candidate]) -> list[Candidate]:
    found: dict[Candidate, tuple[int, int]] = {}
    for one in candidates:
        cycles, ram = one.cycles, round(log(max(1, one.ram_bytes), FRONT_STEP))
        if not any(other[0] <= cycles and other[1] <= ram for other in found.values()):
            found = {o: figures for o, figures in found.items() if figures[0] < cycles or figures[1] < ram}
            found[one] = cycles, ram
    return list(found)
