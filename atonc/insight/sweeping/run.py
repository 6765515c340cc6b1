"""All rows of a sweep: computed once, kept, and put together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from atonc.insight import workers
from atonc.insight.sweeping.plan import SweepOptions, SweepPlan, SweepRow
from atonc.insight.workers.run import require_scheduler
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError, InputError, plain
from atonc.machine.base.frozen import dataclass

MEMORY = "ram_bytes"
LATENCY, BUSY = "latency", "busy"  # times: of an inference; of every second, in which an application runs


def on_front(figures: Sequence[Mapping[str, Any] | None], models: Sequence[str]) -> list[bool]:
    """Says for every row whether it is on the Pareto front of its model: one that does something else is no rival. Rows
    without figures are on none."""
    found = [False] * len(figures)
    for model in dict.fromkeys(models):
        places = [place for place, one in enumerate(figures) if one is not None and models[place] == model]
        costs = np.array([_costs(figures[place] or {}) for place in places])
        for number, place in enumerate(places):
            others = costs <= costs[number]
            beaten = others.all(axis=1) & (costs < costs[number]).any(axis=1)
            found[place] = not beaten.any()
    return found


def time_of(figures: Mapping[str, Any]) -> str:
    """The time of a row: its figures are called after it, with `_ms`, `_low_ms` and `_high_ms`."""
    return BUSY if f"{BUSY}_ms" in figures else LATENCY


def _costs(figures: Mapping[str, Any]) -> tuple[float, ...]:
    return figures[f"{time_of(figures)}_ms"], figures[MEMORY], -figures.get("outputs_db", 0.0)


UnitOf = Callable[[SweepPlan, SweepRow], workers.WorkUnit]
_FAILED = "failed"  # not refused: the next run tries it again


@dataclass(frozen=True)
class SweepResult:
    """A row with its figures, or with the reason why it has none."""

    model: str  # or the application file
    board: str
    size: str
    options: Mapping[str, Any]
    figures: Mapping[str, Any] | None
    why_not: str = ""
    on_front: bool = False


@dataclass(frozen=True)
class Sweep:
    file: str
    results: tuple[SweepResult, ...]
    varied: tuple[str, ...]
    accuracy: bool
    known: int  # rows that were there already
    notes: tuple[str, ...] = ()

    @property
    def refused(self) -> tuple[SweepResult, ...]:
        return tuple(result for result in self.results if result.figures is None)


def run(plan: SweepPlan, options: SweepOptions, unit_of: UnitOf, function: str) -> Sweep:
    """`unit_of` says what a row depends on, `function` (`module:function`, for other processes) computes it."""
    units = [unit_of(plan, row) for row in plan.rows]
    cache = Path(options.cache) if options.cache else workers.default_folder()
    if options.scheduler:
        require_scheduler(options.scheduler)
    found: list[bytes] = [b""] * len(units)
    known = 0
    progress.stage("rows", 0, len(units))
    rows = workers.stream(
        units,
        function,
        scheduler=options.scheduler or None,
        processes=options.processes or None,
        cache=cache,
        fresh=options.fresh,
        on_failure=_failure,
    )
    for count, done in enumerate(rows, 1):
        found[done.number], known = done.result, known + done.known
        progress.stage("rows", count, len(units))
    results = [_result(row, json.loads(text)) for row, text in zip(plan.rows, found, strict=True)]
    results, notes = _without_repeats(results)
    notes += (
        ("figures are estimates: codes and weights are assumed, nothing was searched for",) if plan.estimate else ()
    )
    front = on_front([result.figures for result in results], [result.model for result in results])
    marked = tuple(replace(result, on_front=best) for result, best in zip(results, front, strict=True))
    return Sweep(plan.file, marked, plan.varied, plan.accuracy, known, notes)


def _failure(unit: workers.WorkUnit, error: AtoncError) -> bytes:
    return json.dumps({_FAILED: error.as_dict()}).encode()


def _result(row: SweepRow, document: Mapping[str, Any]) -> SweepResult:
    names = plain(row.model.name), row.board, row.size, dict(row.options)
    if "figures" in document:
        return SweepResult(*names, document["figures"])
    words = document.get("refused") or document[_FAILED]
    error = InputError(words["what"], where=words["where"], rule=words["rule"], remedy=words["remedy"])
    return SweepResult(*names, None, ("" if "refused" in document else "failed: ") + error.one_line)


def _without_repeats(results: list[SweepResult]) -> tuple[list[SweepResult], tuple[str, ...]]:
    """A size means nothing to a model without free dimensions: it is there once."""
    kept: list[SweepResult] = []
    fixed: dict[str, None] = {}
    seen: set[str] = set()
    for result in results:
        notes = (result.figures or {}).get("notes", ())
        if result.size and any("has no effect: all sizes" in note for note in notes):
            fixed[result.model] = None
            key = json.dumps([result.model, result.board, dict(result.options)], sort_keys=True)
            if key in seen:
                continue
            seen.add(key)
            result = replace(result, size="")
        kept.append(result)
    return kept, tuple(f"{model} has no free dimensions: sizes mean nothing to it" for model in fixed)
