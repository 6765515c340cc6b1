"""Forms that are faster and make the peak of activations higher may leave no room for something else: the program with
lower peaks may be possible, or faster."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.log import Proposal


def without_room(candidate: Candidate) -> Iterator[Proposal]:
    if candidate.mapped.context.room.spends:
        yield Proposal(candidate.decisions.but(thrifty=True), "no room: no layer may raise the peak", candidate)


def propose(candidate: Candidate) -> Iterator[Proposal]:
    spilled = candidate.made.layout.spilled_bytes
    if spilled and candidate.mapped.context.room.spends:
        reason = f"{spilled:,} bytes lie outside the chip: no layer may raise the peak"
        yield Proposal(candidate.decisions.but(thrifty=True), reason, candidate)
