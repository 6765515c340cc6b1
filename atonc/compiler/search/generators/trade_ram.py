"""RAM buys time, and time buys RAM: from a program with its weights in flash, those with more or less of it."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.plan.policy import FRONT_ROOMS
from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.log import Proposal
from atonc.compiler.search.weights import in_flash
from atonc.machine.base.words import ALL_RAM


def propose(candidate: Candidate) -> Iterator[Proposal]:
    decisions, target = candidate.decisions, candidate.setting.target
    if decisions.resident_bytes:
        return
    if not decisions.compact:
        yield Proposal(decisions.but(compact=True), "activations keep to the smallest extent", candidate)
    weights = sum(one.size_bytes for one in in_flash(candidate.made.program, target))
    for room in (*(size for size in FRONT_ROOMS if size < weights), ALL_RAM) if weights else ():
        size = "all that is free" if room == ALL_RAM else f"{room >> 10} KiB"
        yield Proposal(decisions.but(resident_bytes=room), f"weights stay in RAM, {size} of it", candidate)
