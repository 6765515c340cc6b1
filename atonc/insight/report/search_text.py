"""What `atonc explain --search` shows: every program that was built, why, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from atonc.compiler.search.log import Attempt
from atonc.compiler.search.saved import KEY, as_json
from atonc.compiler.select.decisions import Decisions


def lines(attempts: Sequence[Attempt], decisions: Decisions) -> list[str]:
    out = [f"{len(attempts)} programs were built:" if len(attempts) > 1 else "one program was built:"]
    for number, one in enumerate(attempts, 1):
        figures = f"{one.cycles:,} cycles, {one.peak_bytes:,} bytes at the peak: " if one.cycles else ""
        out.append(f"  {number:2}  {one.reason}")
        out.append(f"      {figures}{one.verdict}" + (f" ({one.seen})" if one.seen else ""))
    decided = as_json(replace(decisions, made_for=None))
    out += ["", "decided: " + ("nothing otherwise than what is tried first" if not decided else "")]
    return [*out, *(f"  {name}: {_value(value)}" for name, value in decided.items())]


def _value(value: Any) -> str:
    if isinstance(value, dict | list | tuple):
        shown = [str(one) for one in value][:4]
        return ", ".join(shown) + (f" and {len(value) - 4} more" if len(value) > 4 else "")
    return str(value)


def rows(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    return [asdict(one) for one in attempts]


def data(attempts: Sequence[Attempt], decisions: Decisions) -> dict[str, Any]:
    return {"search": rows(attempts), KEY: as_json(decisions)}
