"""Operators whose epochs have a form that the user does not trust: first without chains and rows in turn, then with
every task in an epoch of its own, then on the CPU."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.search.candidate import Candidate
from atonc.compiler.search.log import Proposal


def propose(candidate: Candidate) -> Iterator[Proposal]:
    decisions, refused, schedule = candidate.decisions, candidate.refused, candidate.made.scheduled.schedule
    chained = schedule.chained(refused)
    striped = {name for stripe in decisions.stripes for name in stripe.ops if name in refused}
    crowded = schedule.crowded(refused) - chained - striped
    to_cpu = {op: why for op, why in refused.items() if op not in chained | striped | crowded}
    mended = decisions.but(
        unfused=decisions.unfused | chained,
        stripes=decisions.without_stripes_of(striped),
        unstriped=decisions.unstriped | striped,
        alone=decisions.alone | crowded,
        on_cpu={**decisions.on_cpu, **to_cpu},
    )
    ways = ("share no chain", chained), ("compute all rows", striped), ("get epochs of their own", crowded)
    said = ", ".join(f"{len(ops)} {way}" for way, ops in (*ways, ("go to the CPU", to_cpu)) if ops)
    yield Proposal(mended, f"configurations not seen in ST programs: of {len(refused)} operators {said}", candidate)
