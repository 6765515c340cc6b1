"""Epochs with the cycles of both models, one a line: for compilations and for runs of finished networks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from atonc.insight.report import marks
from atonc.insight.report.marks import Mark, Marked
from atonc.machine.base.words import elided
from atonc.machine.cost.network import StepCost

SLOWEST = 10
_LEGEND = ", cycles as ST's compiler would estimate and as we predict"
_WIDE, _NARROW = 200, 18  # characters of what an epoch is for


class EpochRow(NamedTuple):
    number: int
    where: str  # npu or cpu, or the kind of a step
    cost: StepCost


def epoch_table(rows: Sequence[EpochRow], verbose: bool, head: str, last: str, width: int) -> list[str]:
    """`head`, `width`: of the second column; `last`: head of the last one."""
    title: str = marks.head("epochs", _LEGEND)
    if not verbose and len(rows) > SLOWEST:
        rows = sorted(rows, key=lambda row: -row.cost.milliseconds)[:SLOWEST]
        title = marks.head(f"the {SLOWEST} slowest epochs", f" (-v: all){_LEGEND}")
    wide = _WIDE if verbose else _NARROW
    titles = f"{'epoch':>7} {head:{width}} {'ST est.':>10} {'bound by':10} {'hardware':>10} {'bound by':10} {last}"
    lines: list[str] = [titles]
    for number, where, cost in rows:
        cycles = f"{'' if cost.known else '~'}{cost.cycles:,d}"
        what = elided(cost.origin, wide)
        figures = f"{cost.st_cycles:10,d} {cost.st_bound_by:10} {cycles:>10} {cost.bound_by:10} {what}"
        before, after = f"{number:7d} ", f"{' ' * (width - len(where))} {figures}"
        lines.append(Marked(Mark.ON_CPU, where, before, after) if where == "cpu" else f"{before}{where}{after}")
    return [title, *lines]
