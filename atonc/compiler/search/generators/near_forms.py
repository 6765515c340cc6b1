"""Kernels in RAM may be read twice for less: cuts that were dear while they came from flash are tried again."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.lower.same_bits import same_bits
from atonc.compiler.plan.task import tasks_of
from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.log import Proposal


def propose(candidate: Candidate) -> Iterator[Proposal]:
    decisions = candidate.decisions
    near = {*(decisions.resident or ()), *(one.constant for one in decisions.fetched or ())}
    found = dict(_quicker(candidate, near)) if near else {}
    if found:
        reason = f"weights are read from RAM: {len(found)} operators are cut as is best there"
        yield Proposal(decisions.but(forms={**decisions.forms, **found}), reason, candidate)


def _quicker(candidate: Candidate, near: set[str]) -> Iterator[tuple[str, str]]:
    """Operators with weights in RAM, and the form that then takes the fewest cycles."""
    for op, form in candidate.mapped.forms.items():
        if not near.isdisjoint(use.buffer for task in tasks_of(form.groups) for use in task.engines.values()):
            cycles = {str(variant): other.near_cycles for variant, other in reversed(list(same_bits(form, op)))}
            variant = min(cycles, key=lambda one: cycles[one], default="")
            if variant and cycles[variant] < form.near_cycles:
                yield op, variant
