"""A sweep as a table for people, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from atonc.insight.report.document import note
from atonc.insight.sweeping.run import Sweep, SweepResult
from atonc.machine.base.errors import plain
from atonc.machine.base.words import count
from atonc.machine.cost.energy import amount

FIGURES: Mapping[str, Callable[[Any], str]] = {  # columns of the table, with their titles in the text
    "latency_ms": lambda value: f"{value:.3f} ms",
    "latency_low_ms": lambda value: f"{value:.3f}",
    "latency_high_ms": lambda value: f"{value:.3f} ms",
    "busy_ms": lambda value: f"{value:.3f} ms",
    "busy_low_ms": lambda value: f"{value:.3f}",
    "busy_high_ms": lambda value: f"{value:.3f} ms",
    "energy_uj": amount,
    "energy_uj_per_second": amount,
    "npu_load": lambda value: f"{100 * value:.1f} %",
    "flash_load": lambda value: f"{100 * value:.1f} %",
    "ram_bytes": lambda value: f"{value / 1024:,.0f} KiB",
    "lower_bound_bytes": lambda value: f"{value / 1024:,.0f} KiB",
    "weights_bytes": lambda value: f"{value / 1024:,.0f} KiB",
    "flash_bytes": lambda value: f"{value / 1024:,.0f} KiB",
    "cpu_layers": str,
    "times_practical": lambda value: f"{value:.2f}",
    "times_absolute": lambda value: f"{value:.2f}",
    "outputs_db": lambda value: f"{value:.1f} dB",
}
_TITLES = {
    "latency_ms": "latency", "latency_low_ms": "at least", "latency_high_ms": "at most", "energy_uj": "energy",
    "busy_ms": "of a second", "busy_low_ms": "at least", "busy_high_ms": "at most", "energy_uj_per_second": "energy/s",
    "npu_load": "NPU", "flash_load": "flash read", "ram_bytes": "RAM", "lower_bound_bytes": "no plan below",
    "weights_bytes": "weights", "flash_bytes": "flash", "cpu_layers": "on CPU",
    "times_practical": "x practical", "times_absolute": "x absolute", "outputs_db": "accuracy",
}  # fmt: skip
_MOST_NAME = 44


def as_json(found: Sweep) -> dict[str, Any]:
    return {
        "sweep": found.file,
        "rows": [_row(result) for result in found.results],
        "varied": list(found.varied),
        "notes": list(found.notes),
    }


def _row(result: SweepResult) -> dict[str, Any]:
    return {
        "model": result.model,
        "board": result.board,
        "size": result.size,
        "options": dict(result.options),
        "figures": None if result.figures is None else dict(result.figures),
        "why_not": result.why_not,
        "on_front": result.on_front,
    }


def as_csv(found: Sweep) -> str:
    """A line for each row; options that differ have columns."""
    figures = list(dict.fromkeys(key for result in found.results for key in result.figures or {} if key != "notes"))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["model", "board", "size", *found.varied, *figures, "on_front", "why_not"])
    for result in found.results:
        varied = [_safe(_text(result.options.get(name, ""))) for name in found.varied]
        values = ["" if result.figures is None else result.figures.get(key, "") for key in figures]
        names = [_safe(result.model), _safe(result.board), _safe(result.size)]
        writer.writerow([*names, *varied, *values, int(result.on_front), _safe(result.why_not)])
    return out.getvalue()


def _safe(text: str) -> str:
    """Spreadsheets take what begins like this for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def lines(found: Sweep) -> list[str]:
    done = [result for result in found.results if result.figures is not None]
    columns = [key for key in FIGURES if any(key in (result.figures or {}) for result in done)]
    head = ["", *(_TITLES[key] for key in columns)]
    rows = [[("* " if r.on_front else "  ") + name(found, r), *(_cell(r, key) for key in columns)] for r in done]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rest = f"{len(done)} compiled, {len(found.refused)} refused; {found.known} were kept"
    out = [f"{count(len(found.results), 'row')}, {rest}"]
    out += map(note, found.notes)
    for row in [head, *rows] if rows else []:
        out.append(row[0].ljust(widths[0]) + "".join(f"  {c:>{w}}" for c, w in zip(row[1:], widths[1:], strict=True)))
    if rows:
        out.append("* the front: no other row of its file is better in time, RAM or accuracy and as good in the others")
    for result in found.refused:
        out += ["", f"no figures: {name(found, result)}", f"  {result.why_not}"]
    return out


def _cell(result: SweepResult, key: str) -> str:
    """Nothing where a row has no such figure: a network without convolutions has no practical bound."""
    figures = result.figures or {}
    return FIGURES[key](figures[key]) if key in figures else ""


def name(found: Sweep, result: SweepResult, whole: bool = False) -> str:
    """What tells the row from others; on a line of text a long name of a model is cut."""
    boards = {other.board for other in found.results} - {""}  # a file that cannot be read names none
    model = result.model if whole else result.model[:_MOST_NAME]
    parts = [model, result.size, Path(result.board).name if len(boards) > 1 else ""]
    varied = ((key, result.options.get(key)) for key in found.varied)
    parts += [f"{key}={_text(value)}" for key, value in varied if value not in (None, "", [], ())]
    return plain(" ".join(filter(None, parts)))
