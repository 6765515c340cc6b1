"""What was tried, why, and what came of it."""

from __future__ import annotations

from enum import StrEnum

from atonc.compiler.search.candidate import Candidate
from atonc.compiler.select.decisions import Decisions
from atonc.machine.base.frozen import dataclass

START = "what is tried first"


@dataclass(frozen=True, eq=False)
class Proposal:
    """Decisions that somebody should try."""

    decisions: Decisions
    reason: str  # what was seen, and what shall be done about it
    of: Candidate | None = None  # where it was seen


class Verdict(StrEnum):
    BEST = "the best so far"
    KEPT_OUT = "no better"
    NO_MEMORY = "no memory has room for it"
    UNDECIDED = "weights have no place yet"
    UNTRUSTED = "has a configuration not seen in ST programs"


@dataclass(frozen=True)
class Attempt:
    """One build, as `explain --search` shows it."""

    reason: str
    verdict: Verdict
    cycles: int = 0  # 0: there is no program
    peak_bytes: int = 0
    seen: str = ""  # what the verdict is about

    @staticmethod
    def of(proposal: Proposal, candidate: Candidate, verdict: Verdict) -> Attempt:
        if candidate.built is None:
            return Attempt(proposal.reason, verdict, seen=str(candidate.shortage).splitlines()[0])
        refused = candidate.refused if verdict == Verdict.UNTRUSTED else {}
        seen = next((f"{op}: {why.seen}" for op, why in refused.items()), "")
        return Attempt(proposal.reason, verdict, candidate.cycles, candidate.peak_bytes, seen)
