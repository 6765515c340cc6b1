"""What `atonc ops` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atonc.insight.explain.operators import OperatorInfo
from atonc.insight.report.marks import head
from atonc.insight.report.summary import SummaryRow, next_row, summary_lines
from atonc.machine.base.words import count


def lines(table: Sequence[OperatorInfo], verbose: bool) -> list[str]:
    """Where each operator runs; `verbose`: with every rule that may send it to the CPU."""
    if not verbose:
        return _by_place(table)
    out = []
    for info in table:
        out.append(f"{info.kind}: {info.where}" + (f"; {info.note}" if info.note else ""))
        for rule in info.rules:
            out += [f"    {rule.id}: {rule.sentence}", f"        limit: {rule.limit}. What to do: {rule.remedy}."]
    return out


def _by_place(table: Sequence[OperatorInfo]) -> list[str]:
    groups: dict[str, list[str]] = {}
    for info in table:
        groups.setdefault(info.where, []).append(info.kind)
    out: list[str] = []
    for where, kinds in groups.items():
        out += [head(where, f": {len(kinds)}"), f"  {', '.join(kinds)}"]
    rest = "what may send one to the CPU: atonc ops OP; all of them: -v"
    return [*out, *summary_lines((SummaryRow("in all", count(len(table), "operator")), next_row(rest)))]


def markdown(table: Sequence[OperatorInfo]) -> list[str]:
    rows = [f"| {i.kind} | {i.where} | {', '.join(r.id for r in i.rules)} | {i.note} |" for i in table]
    return [f"# {len(table)} operators", "", "| operator | runs on | rules | note |", "|---|---|---|---|", *rows, ""]


def as_json(table: Sequence[OperatorInfo]) -> list[dict[str, Any]]:
    return [
        {"op": info.kind, "where": info.where, "note": info.note, "rules": [rule.as_dict() for rule in info.rules]}
        for info in table
    ]
