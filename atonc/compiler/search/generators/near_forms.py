"""Weights in RAM change what is best: cuts whose kernels the flash could not follow, lanes that each read all of them.
Operators that read theirs there are lowered again for it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from atonc.compiler.plan.task import TaskGroup, tasks_of
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.log import Proposal
from atonc.compiler.search.weights import in_flash


def propose(candidate: Candidate) -> Iterator[Proposal]:
    decisions = candidate.decisions
    near = {*(decisions.resident or ()), *(one.constant for one in decisions.fetched or ())}
    scarce = bool(decisions.fetched) or any(in_flash(candidate.made.program, candidate.setting.target))
    yield from lowered_for(candidate, near, scarce)


def lowered_for(candidate: Candidate, near: Collection[str], scarce: bool) -> Iterator[Proposal]:
    """`near`: constants that are read from RAM; `scarce`: others find no room there."""
    decisions = candidate.decisions
    ops = frozenset(work.op for work in candidate.made.scheduled.reference if _reads(candidate, work.groups, near))
    if ops and (ops, scarce) != (decisions.near, decisions.ram_scarce):
        said = f"weights are read from RAM: {len(ops)} operators are lowered for that"
        yield Proposal(decisions.but(near=ops, ram_scarce=scarce), said, candidate)


def _reads(candidate: Candidate, groups: Sequence[TaskGroup], near: Collection[str]) -> bool:
    """Whether at least half of the weights that these read lie in RAM."""
    buffers = candidate.made.mapped.context.buffers
    names = {use.buffer for task in tasks_of(groups) for use in task.engines.values()}
    sizes = {name: buffers[name].size_bytes for name in names if buffers[name].kind == BufferKind.CONSTANT}
    return 2 * sum(size for name, size in sizes.items() if name in near) >= max(1, sum(sizes.values()))
