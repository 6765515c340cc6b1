"""A document of `atonc compare --against` as the comment of a pull request: `change_table.py MODEL DOCUMENT GATES`.
GATES is the exit code of `atonc analyze`, whose gates the workflow may have asked for."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GATE_BROKEN = 1


def table(model: str, judged: dict[str, Any], gates: int) -> Iterator[str]:
    figures = judged.get("figures", [])
    if not figures:
        raise SystemExit(judged.get("error", {}).get("what", "no figures"))
    worse = [one["name"] for one in figures if one["worse"]]
    verdict = f"worse: {', '.join(worse)}" if worse else "nothing is worse"
    gate = ", a gate does not hold" if gates == GATE_BROKEN else ", analysis failed" if gates else ""
    yield f"### {_code(model)} on the STM32N6: {verdict}{gate}"
    yield ""
    yield "| | before | now | change | |"
    yield "|---|---:|---:|---:|---|"
    for one in figures:
        change = "" if one["change_percent"] is None else f"{one['change_percent']:+.2f} %"
        values = (_number(one[key], one["unit"]) for key in ("before", "now"))
        yield f"| {one['name']} | {' | '.join(values)} | {change} | {'**worse**' if one['worse'] else 'ok'} |"
    yield ""
    yield "Times are predicted, results emulated; no board was needed."


def _number(value: Any, unit: str) -> str:
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.6g}" if isinstance(value, float) else "-"
    return f"{text} {unit}".rstrip()


def _code(text: str) -> str:
    """Names come from the pull request: nothing in them may be markup."""
    return f"`{re.sub(r'[^A-Za-z0-9_. /+-]', '_', text)[:200]}`"


if __name__ == "__main__":
    try:
        judged = json.loads(Path(sys.argv[2]).read_text())
    except ValueError:
        raise SystemExit("atonc compare gave no document") from None
    print("\n".join(table(sys.argv[1], judged, int(sys.argv[3]))))
