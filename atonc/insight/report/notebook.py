"""What a notebook shows of a document: its line, its figures, its plot and the first rows of its first table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from atonc.insight.report.document import Terms, short_name
from atonc.insight.report.html.plots import svg

if TYPE_CHECKING:
    from atonc.insight.report.document import Document

MOST_ROWS = 20
_PLOT = (
    "<style>.atonc-plot text{fill:currentColor;font:11px system-ui,sans-serif}.atonc-plot .axis{stroke:#8886}"
    ".atonc-plot circle{fill:#3b7dd8}.atonc-plot circle.chosen{fill:#d97b29}</style>"
)  # the pages bring a style of their own


def fragment(found: Document) -> str:
    rows = next(iter(found.tables.values()))
    more = f"<div>the first {MOST_ROWS} of {len(rows)} rows</div>" if len(rows) > MOST_ROWS else ""
    drawing = svg(found.plot) if found.plot is not None else ""
    plot = f'{_PLOT}<div class="atonc-plot">{drawing}</div>' if drawing else ""
    terms = "".join(map(_figures, (one for part in found.sections for one in part.blocks if isinstance(one, Terms))))
    return f"<div><b>{escape(found.line)}</b>{terms}{plot}{row_table(rows[:MOST_ROWS])}{more}</div>"


def _figures(terms: Terms) -> str:
    left = 'style="text-align:left"'
    cells = [f"<tr><td {left}>{escape(k)}</td><td {left}>{escape(v)}</td></tr>" for k, v in terms.rows.items()]
    return f"<table>{''.join(cells)}</table>"


def row_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows may lack columns that others have: refused ones have no figures."""
    names = dict.fromkeys(name for row in rows for name in row)
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_cell(row.get(name))}</td>" for name in names) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() else f"{value:,.4f}"
    return f"{value:,}" if isinstance(value, int) else escape(short_name(str(value)))
