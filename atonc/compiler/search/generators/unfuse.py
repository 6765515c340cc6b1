"""Chains of several operators write in other places of their buffers, and what they save is reckoned with all buffers
on the chip. Where memory is short, the program without them may be possible, or faster."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.log import Proposal


def without_room(candidate: Candidate) -> Iterator[Proposal]:
    if candidate.chained:
        yield Proposal(candidate.decisions.but(fused=False), "no room: operators share no chain", candidate)


def propose(candidate: Candidate) -> Iterator[Proposal]:
    decisions, spilled = candidate.decisions, candidate.made.layout.spilled_bytes
    if candidate.chained and spilled:
        reason = f"{spilled:,} bytes lie outside the chip: operators share no chain"
        yield Proposal(decisions.but(fused=False), reason, candidate)
    if not decisions.fused:
        yield Proposal(decisions.but(fused=True), "what else changed may leave room: operators share chains", candidate)
