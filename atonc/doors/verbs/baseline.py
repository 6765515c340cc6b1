"""`atonc compare A --against BASELINE.json`: is it worse than what was written down before?

A baseline is what `--json` of analyze, generate, explain or evaluate printed; so may be A.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from atonc.doors.verbs.documents import FORMAT
from atonc.machine.base.checks import CheckResult
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

MAX_BYTES = 64 << 20
_MOST = 1e15  # of any figure
_SAVE = "atonc analyze MODEL --json > BASELINE.json writes one"


@dataclass(frozen=True)
class BaselineFigure:
    """One figure then and now."""

    name: str
    before: float
    now: float
    unit: str
    more_is_better: bool = False

    def worse(self, allowed_percent: float) -> bool:
        """By more than is allowed."""
        lost = self.before - self.now if self.more_is_better else self.now - self.before
        return lost > abs(self.before) * allowed_percent / 100

    @property
    def change_percent(self) -> float | None:
        return 100 * (self.now - self.before) / abs(self.before) if self.before else None

    def __str__(self) -> str:
        change = "" if self.change_percent is None else f" ({self.change_percent:+.2f} %)"
        digits = "," if self.unit == "bytes" else ".6g"
        before, now = (f"{int(v) if self.unit == 'bytes' else v:{digits}}" for v in (self.before, self.now))
        return f"{self.name}: {before} {self.unit} before, {now} now{change}".replace("  ", " ")


@dataclass(frozen=True)
class FigureTable:
    """The figures of a document, by name: value, unit, whether more is better."""

    figures: Mapping[str, tuple[float, str, bool]]
    model_sha256: str | None


def read_document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_file(path, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a JSON document: {str(error)[:200]}", where=str(path), remedy=_SAVE) from None
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise InputError("has no format number: not a document of atonc --json", where=str(path), remedy=_SAVE)
    if found["format"] > FORMAT:
        raise InputError(f"has format {found['format']}, known is {FORMAT}", where=str(path), remedy="update atonc")
    return found


def measured(document: Mapping[str, Any], where: str) -> FigureTable:
    figures = dict(_figures(document))
    if wrong := next((name for name, (value, _, _) in figures.items() if not abs(value) < _MOST), ""):
        raise InputError(f"{wrong[:40]} has a value that no figure has", where=where, remedy=_SAVE)
    if not figures:
        raise InputError("has no figures to compare", where=where, remedy=_SAVE)
    sha = document.get("model_sha256")
    return FigureTable(figures, sha if isinstance(sha, str) else None)


def _figures(document: Mapping[str, Any]) -> Iterator[tuple[str, tuple[float, str, bool]]]:
    memory = document.get("memory")
    memory = memory if isinstance(memory, dict) else {}
    for name, value, unit in (
        ("latency", document.get("latency_ms"), "ms"),
        ("energy", document.get("energy_uj") or None, "uJ"),  # 0: not known what its steps do
        ("RAM", memory.get("ram_bytes"), "bytes"),
        ("spilled", memory.get("spilled_bytes"), "bytes"),
        ("weights", memory.get("weights_bytes"), "bytes"),
    ):
        if _is_number(value):
            yield name, (value, unit, False)
    verify = document.get("verify")
    outputs = verify.get("outputs") if isinstance(verify, dict) else None
    cosines = [row.get("cos") for row in outputs or () if isinstance(row, dict)]
    known = [cosine for cosine in cosines if _is_number(cosine)]
    if known and len(known) == len(cosines):
        yield "cosine of the worst output", (min(known), "", True)
    sides = document.get("figures")
    for side, rows in sides.items() if isinstance(sides, dict) else ():
        for row in rows if isinstance(rows, list) else ():
            if isinstance(row, dict) and _is_number(row.get("value")):
                yield f"{row.get('name')} of {side}", (row["value"], "", True)


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float)


def against(before: FigureTable, now: FigureTable) -> tuple[BaselineFigure, ...]:
    """Figures that both have."""
    shared = [name for name in before.figures if name in now.figures]
    if not shared:
        raise InputError("the baseline and what is compared have no figure in common", remedy=_SAVE)
    rows = ((name, before.figures[name], now.figures[name][0]) for name in shared)
    return tuple(BaselineFigure(name, old, new, unit, more) for name, (old, unit, more), new in rows)


def checks(figures: Sequence[BaselineFigure], allowed_percent: float) -> list[CheckResult]:
    limit = f", {allowed_percent:g} % worse is allowed" if allowed_percent else ""
    return [CheckResult(one.name, not one.worse(allowed_percent), f"{one}{limit}") for one in figures]


def lines(found: Sequence[CheckResult], same_model: bool) -> list[str]:
    from atonc.insight.report.document import Mark, Marked, SummaryRow, note, summary_lines

    words = {True: (Mark.GOOD, "ok   "), False: (Mark.ALARM, "WORSE")}
    worse = sum(not check.holds for check in found)
    verdict = SummaryRow("passed", f"{count(len(found), 'figure')}, none worse than the baseline", Mark.GOOD)
    if worse:
        verdict = SummaryRow("failed", f"{worse} of {count(len(found), 'figure')} worse than the baseline", Mark.ALARM)
    return [
        *([] if same_model else [note("the baseline is of another model")]),
        *(Marked(mark, word, after=f" {one.says}") for one in found for mark, word in [words[one.holds]]),
        *summary_lines([verdict]),
    ]


def as_json(figures: Sequence[BaselineFigure], allowed_percent: float, same_model: bool) -> dict[str, Any]:
    rows = [
        {
            "name": one.name,
            "before": one.before,
            "now": one.now,
            "unit": one.unit,
            "change_percent": one.change_percent,
            "worse": one.worse(allowed_percent),
        }
        for one in figures
    ]
    return {"passed": not any(row["worse"] for row in rows), "same_model": same_model, "figures": rows}
