"""What the user wants: less time, or less memory for a little more time."""

from __future__ import annotations

from atonc.compiler.plan.policy import SLOWER
from atonc.compiler.search.candidate import Candidate
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Goal:
    prefer: str  # "speed" or "memory"

    def figures(self, one: Candidate, fastest: int) -> tuple[float, ...]:
        """Less is better; `fastest`: cycles of the fastest program that was built so far."""
        if self.prefer == "memory":
            return one.cycles > SLOWER * fastest, one.peak_bytes, one.cycles
        return one.cycles, one.peak_bytes
