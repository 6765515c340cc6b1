"""Where weights that shall stay in RAM find no room, activations that need less of it make some."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.log import Proposal
from atonc.compiler.search.weights import in_flash
from atonc.machine.base.words import ALL_RAM


def propose(candidate: Candidate) -> Iterator[Proposal]:
    if short_of_room(candidate) and not candidate.decisions.compact:
        reason = "weights that would be faster in RAM find no room: activations keep to the smallest extent"
        yield Proposal(candidate.decisions.but(compact=True), reason, candidate)


def short_of_room(candidate: Candidate) -> bool:
    """Whether weights would be faster in RAM, and all that is free holds others."""
    everything = candidate.decisions.resident_bytes == ALL_RAM
    return everything and any(in_flash(candidate.made.program, candidate.setting.target))
