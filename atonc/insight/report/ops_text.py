"""What `atonc ops` shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atonc.insight.explain.operators import OperatorInfo


def lines(table: Sequence[OperatorInfo], verbose: bool) -> list[str]:
    if not verbose:
        width = max(len(info.kind) for info in table)
        out = [
            f"{info.kind:{width}}  {info.where:20}  {info.note or ', '.join(r.id for r in info.rules)}"
            for info in table
        ]
        return [f"{len(table)} operators found", *out]
    out = []
    for info in table:
        out.append(f"{info.kind}: {info.where}" + (f"; {info.note}" if info.note else ""))
        for rule in info.rules:
            out += [f"    {rule.id}: {rule.sentence}", f"        limit: {rule.limit}. What to do: {rule.remedy}."]
    return out


def markdown(table: Sequence[OperatorInfo]) -> list[str]:
    rows = [f"| {i.kind} | {i.where} | {', '.join(r.id for r in i.rules)} | {i.note} |" for i in table]
    return [f"# {len(table)} operators", "", "| operator | runs on | rules | note |", "|---|---|---|---|", *rows, ""]


def as_json(table: Sequence[OperatorInfo]) -> list[dict[str, Any]]:
    return [
        {"op": info.kind, "where": info.where, "note": info.note, "rules": [rule.as_dict() for rule in info.rules]}
        for info in table
    ]
