"""A sweep as a table for people, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from atonc.insight.report import document as doc
from atonc.insight.sweeping.run import BUSY, Sweep, SweepResult, time_of
from atonc.machine.base.errors import plain
from atonc.machine.base.words import count, ms_text, size_text
from atonc.machine.cost.energy import amount

_MOST_NAME = 44


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (  # figure, title, how it reads
    ("latency_ms", "latency", partial(ms_text, digits=3)),
    ("latency_low_ms", "at least", "{:.3f}".format),
    ("latency_high_ms", "at most", partial(ms_text, digits=3)),
    ("busy_ms", "of a second", partial(ms_text, digits=3)),
    ("busy_low_ms", "at least", "{:.3f}".format),
    ("busy_high_ms", "at most", partial(ms_text, digits=3)),
    ("energy_uj", "energy (core, memories)", amount),
    ("energy_uj_per_second", "energy/s", amount),
    ("npu_load", "NPU", _percent),
    ("flash_load", "flash read", _percent),
    ("ram_bytes", "RAM", size_text),
    ("lower_bound_bytes", "no plan below", size_text),
    ("weights_bytes", "weights", size_text),
    ("flash_bytes", "flash", size_text),
    ("cpu_layers", "on CPU", str),
    ("times_practical", "x attainable minimum", "{:.2f}".format),
    ("times_absolute", "x theoretical minimum", "{:.2f}".format),
    ("outputs_db", "accuracy", "{:.1f} dB".format),
)


def document(found: Sweep, written: str = "") -> doc.Document:
    """`written`: the files of it."""
    done = [(result, result.figures) for result in found.results if result.figures is not None]

    def column(key: str, title: str, text: Callable[[Any], str]) -> doc.Column[SweepResult]:
        """Nothing where a row has no such figure: a network without convolutions has no practical bound."""
        return doc.Column(title, lambda row: text(known[key]) if key in (known := row.figures or {}) else None)

    def named(row: SweepResult) -> str:
        return f"{'* ' if row.on_front else '  '}{name(found, row)}"

    shown = [column(*one) for one in COLUMNS if any(one[0] in figures for _, figures in done)]
    columns = [doc.Column[SweepResult]("", named, left=True), *shown]
    rest = f"{len(done)} compiled, {len(found.refused)} refused; {found.known} were kept"
    blocks: list[doc.Block] = [f"{count(len(found.results), 'row')}, {rest}", *map(doc.Note, found.notes)]
    if done:
        blocks.append(doc.Table(columns, [result for result, _ in done], "Rows", titles=True, indent=0))
        said = "* the front: no other row of its file is better in time, RAM or accuracy and as good in the others"
        blocks.append(said)
    refused = [[f"no figures: {name(found, result)}", f"  {result.why_not}"] for result in found.refused]
    files = [f"written: {written}"] if written else []
    time, best = time_of(done[0][1]) if done else "", ""
    if done:
        ms, low, high = min(tuple(one[f"{time}{end}_ms"] for end in ("", "_low", "_high")) for _, one in done)
        of = " of a second" if time == BUSY else ""
        best = f"; the fastest {ms:.3f} ms{of} predicted ({low:.3f} to {high:.3f})"
    rows = f"{count(len(found.results), 'row')}, {len(done)} compiled, {len(found.refused)} refused{best}"
    return doc.Document(
        f"{doc.short_name(found.file)}: {rows}",
        [doc.Chapter("", blocks), *(doc.Chapter("", lines) for lines in (*refused, files))],
        data=lambda: as_json(found),
        tables={"rows": [_flat(found, result) for result in found.results]},
        plot=_plot(found, time),
    )


def _plot(found: Sweep, time: str) -> doc.Scatter | None:
    """RAM against time; what no other row of the same file beats is marked."""
    dots = []
    for number, row in enumerate(found.results, 1):
        if (known := row.figures) is not None:
            place = known[f"{time}_ms"], known["ram_bytes"] / 1024
            dots.append(doc.ScatterDot(str(number), *place, name(found, row), row.on_front))
    across = "predicted time of a second (ms)" if time == BUSY else "predicted latency (ms)"
    return doc.Scatter(dots, across, "RAM (KiB)") if dots else None


def as_json(found: Sweep) -> dict[str, Any]:
    rows = [asdict(result) for result in found.results]
    return {"sweep": found.file, "rows": rows, "varied": list(found.varied), "notes": list(found.notes)}


def _flat(found: Sweep, result: SweepResult) -> dict[str, Any]:
    """A row with all its figures: of options those that differ between rows."""
    varied = {key: result.options.get(key) for key in found.varied}
    figures = {key: value for key, value in (result.figures or {}).items() if key != "notes"}
    names = {"model": result.model, "board": result.board, "size": result.size}
    return {**names, **varied, **figures, "on_front": result.on_front, "why_not": result.why_not}


def as_csv(found: Sweep) -> str:
    """A line for each row; options that differ have columns."""
    figures = list(dict.fromkeys(key for result in found.results for key in result.figures or {} if key != "notes"))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["model", "board", "size", *found.varied, *figures, "on_front", "why_not"])
    for result in found.results:
        varied = [_safe(_text(result.options.get(name, ""))) for name in found.varied]
        values = [_cell((result.figures or {}).get(key, "")) for key in figures]
        names = [_safe(result.model), _safe(result.board), _safe(result.size)]
        writer.writerow([*names, *varied, *values, int(result.on_front), _safe(result.why_not)])
    return out.getvalue()


def _cell(value: Any) -> Any:
    """What is no number or text is JSON."""
    return json.dumps(value) if isinstance(value, list | dict | bool) else "" if value is None else value


def _safe(text: str) -> str:
    """Spreadsheets take what begins like this for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def name(found: Sweep, result: SweepResult, whole: bool = False) -> str:
    """What tells the row from others; on a line of text a long name of a model is cut."""
    boards = {other.board for other in found.results} - {""}  # a file that cannot be read names none
    model = result.model if whole else result.model[:_MOST_NAME]
    parts = [model, result.size, Path(result.board).name if len(boards) > 1 else ""]
    varied = ((key, result.options.get(key)) for key in found.varied)
    parts += [f"{key}={_text(value)}" for key, value in varied if value not in (None, "", [], ())]
    return plain(" ".join(filter(None, parts)))
