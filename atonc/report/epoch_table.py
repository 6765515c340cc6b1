"""Epochs with the cycles of both models, one a line: for compilations and for runs of finished networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from atonc.cost.network import StepCost

SLOWEST = 10


class Row(NamedTuple):
    number: int
    where: str  # npu or cpu, or the kind of a step
    cost: StepCost


def epoch_table(rows: Sequence[Row], verbose: bool, head: str, last: str, width: int) -> list[str]:
    """`head`, `width`: of the second column; `last`: head of the last one."""
    title = "epochs"
    if not verbose and len(rows) > SLOWEST:
        rows = sorted(rows, key=lambda row: -row.cost.milliseconds)[:SLOWEST]
        title = f"the {SLOWEST} slowest epochs (-v shows all)"
    lines = [f"{'epoch':>7} {head:{width}} {'ST est.':>10} {'bound by':10} {'hardware':>10} {'bound by':10} {last}"]
    for number, where, cost in rows:
        cycles = f"{'' if cost.known else '~'}{cost.cycles:,d}"
        lines.append(
            f"{number:7d} {where:{width}} {cost.st_cycles:10,d} {cost.st_bound_by:10} {cycles:>10} {cost.bound_by:10} "
            f"{cost.origin}"
        )
    return [title, *lines]
