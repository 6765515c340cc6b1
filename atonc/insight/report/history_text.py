"""Many builds in one view, in their order: a row for each, a chart for each figure. `atonc compare A B C ...`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from atonc.insight.report import document as doc
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count, elided, ms_text, size_text
from atonc.machine.cost.energy import amount

COSINE = "cosine of the worst output"
_NAME = 28  # characters of a build's
_UNITS: Mapping[str, Callable[[float], str]] = {
    "ms": ms_text,
    "bytes": lambda value: size_text(round(value)),
    "uJ": amount,
    "%": "{:.1f} %".format,
    "dB": "{:.1f} dB".format,
    "": "{:.5f}".format,
}
_FIRST = ("latency", "RAM", "spilled", "flash", "weights", "CPU share", COSINE)  # in this order, then the others
_RARE = ("spilled", "weights")  # shown where there is some, or no flash


@dataclass(frozen=True)
class BuildRow:
    """`figures`: value, unit, whether more is better, by name."""

    name: str
    figures: Mapping[str, tuple[float, str, bool]]
    bounds_ms: tuple[float, float] | None = None

    def text(self, figure: str) -> str | None:
        return _UNITS[self.figures[figure][1]](self.figures[figure][0]) if figure in self.figures else None


def document(rows: Sequence[BuildRow], notes: Sequence[str] = ()) -> doc.Document:
    names = list(_figure_names(rows))

    def column(figure: str) -> doc.Column[BuildRow]:
        title = "cosine" if figure == COSINE else figure
        return doc.Column(title, lambda row: row.text(figure), about=f"{figure} of the build")

    changes = _changes(rows)
    columns = [
        doc.Column[BuildRow]("build", lambda row: elided(row.name, _NAME), left=True),
        *map(column, names[:1]),
        doc.Column[BuildRow]("vs row above", lambda row: changes.get(row.name), about="its latency against that one's"),
        *map(column, names[1:]),
    ]
    title = f"{count(len(rows), 'build')} in their order"
    table = doc.Table(columns, rows, "Builds", titles=True, indent=0)
    charts = [_chart(rows, name) for name in names]
    sections = [
        doc.Chapter(title, [*map(doc.Note, notes), table]),
        doc.Chapter("Each figure over the builds", charts, doc.Only.PAGE),
    ]
    return doc.Document(
        f"{title}: {', '.join(one.name for one in rows[:3])}{' ...' if len(rows) > 3 else ''}",
        sections,
        list(_summary(rows, names)),
        "Builds in their order",
        "Times are predicted; the shaded range around the latency is its error bounds.",
        data=lambda: {"builds": [_data(row) for row in rows]},
        tables={"builds": [_data(row) for row in rows]},
        plot=charts[0] if charts else None,
    )


def _chart(rows: Sequence[BuildRow], name: str) -> doc.Trend:
    unit = next(row.figures[name][1] for row in rows if name in row.figures)
    title, scale = (f"{name} (KiB)", 1024) if unit == "bytes" else (f"{name} ({unit})" if unit else name, 1)
    points = [(row.name, row.figures[name][0] / scale, row.text(name) or "") for row in rows if name in row.figures]
    return doc.Trend(title, points, [row.bounds_ms for row in rows] if name == "latency" else ())


def _figure_names(rows: Sequence[BuildRow]) -> Iterator[str]:
    found = dict.fromkeys(name for row in rows for name in row.figures)
    whole = all("flash" in row.figures for row in rows)
    for name in (*(name for name in _FIRST if name in found), *(name for name in found if name not in _FIRST)):
        some = any(row.figures[name][0] for row in rows if name in row.figures)
        if name not in _RARE or (some and not (name == "weights" and whole)):
            yield name


def _changes(rows: Sequence[BuildRow]) -> dict[str, str]:
    """How much longer each build takes than the one before, by its name."""
    found = [(row.name, row.figures["latency"][0]) for row in rows if "latency" in row.figures]
    return {name: f"{100 * (now / before - 1):+.1f} %" for (_, before), (name, now) in pairwise(found) if before}


def _summary(rows: Sequence[BuildRow], names: Sequence[str]) -> Iterator[doc.SummaryRow]:
    """From the first build to the last, and which was the best."""
    for name in names[: doc.MOST]:
        known = [row for row in rows if name in row.figures]
        more, first, last = known[0].figures[name][2], known[0], known[-1]
        best = (max if more else min)(known, key=lambda row, name=name: row.figures[name][0])  # type: ignore[misc]
        a, b = first.figures[name][0], last.figures[name][0]
        change = f" ({100 * (b / a - 1):+.1f} %)" if a and a != b else ""
        said = f"{first.text(name)} first, {last.text(name)} last{change}; best {best.text(name)} in {best.name}"
        if len({row.figures[name][0] for row in known}) == 1:
            said = f"{first.text(name)} in all"
        mark = None if a == b else doc.Mark.GOOD if (b > a) == more else doc.Mark.DOUBT
        yield doc.SummaryRow("cosine" if name == COSINE else elided(name, 10), said, mark)


def _data(row: BuildRow) -> dict[str, Any]:
    low, high = row.bounds_ms or (None, None)
    values = {name: value for name, (value, _, _) in row.figures.items()}
    return {"name": row.name, "latency_low_ms": low, "latency_high_ms": high, "figures": values}
