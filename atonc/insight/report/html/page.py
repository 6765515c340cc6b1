"""Puts data, style and scripts together. The scripts draw SVG and canvas themselves: no library to keep up to date."""

from __future__ import annotations

import base64
import html
import io
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from atonc.insight.explain.rules import BOUND_IN_SHORT, BOUNDS
from atonc.insight.explain.types import UNBUILT, NetworkView
from atonc.insight.report import document as doc
from atonc.insight.report.about_text import PAGES, meanings
from atonc.insight.report.html.network import network_data
from atonc.insight.report.html.plots import small_curves, svg

if TYPE_CHECKING:
    from atonc.insight.explain.compare import Comparison
    from atonc.insight.sweeping.run import Sweep

_FIRST = ("numbers.js", "tips.js", "base.js")
_SCRIPTS = (
    *(*_FIRST, "core.js", "timeline.js", "graph.js", "memory.js", "roofline.js", "table.js", "lost.js"),
    *("detail.js", "measured.js", "accuracy.js", "start.js", "live.js"),
)
_COMPARE_SCRIPTS = (*_FIRST, "compare.js")
_SWEEP_SCRIPTS = (*_FIRST, "sweep.js")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_OPTION = re.compile(r"--[a-z][a-z0-9-]*")
PIXELS = 160  # of pictures of samples
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{more}
<title>{title}</title>
{looks}
</head>"""
_TIP = '<div id="tip" role="tooltip" hidden></div>'
_FOOT = f"""{_TIP}
<script id="data" type="application/json">@@DATA@@</script>
<script>@@SCRIPT@@</script>
</body>
</html>"""


def html_page(network: NetworkView) -> bytes:
    """The page of a model that is not compiled yet asks its server how far it is; others ask for nothing."""
    page = _page("page.html", f"{network.model} on the Neural-ART NPU", _SCRIPTS, network_data(network))
    asking = f"{POLICY}; connect-src 'self'" if network.basis == UNBUILT else POLICY
    return page.replace(POLICY.encode(), asking.encode(), 1)


def compare_page(found: Comparison) -> bytes:
    """Two builds on one page."""
    from atonc.insight.report.compare_text import comparison_data

    title = " and ".join(dict.fromkeys((found.a.model, found.b.model)))
    return _page("compare.html", f"{title}: two builds", _COMPARE_SCRIPTS, comparison_data(found))


def sweep_page(found: Sweep) -> bytes:
    """All rows of a sweep, and those that no other beats."""
    from atonc.insight.report import sweep_text

    data = sweep_text.as_json(found)
    labels = [sweep_text.name(found, result, whole=True) for result in found.results]
    rows = [{**row, "label": label} for row, label in zip(data["rows"], labels, strict=True)]
    return _page("sweep.html", f"{found.file}: sweep", _SWEEP_SCRIPTS, {**data, "rows": rows})


def _page(template: str, title: str, scripts: Sequence[str], data: Mapping[str, Any]) -> bytes:
    bottlenecks = {label: [name, BOUNDS[label].sentence] for label, (name, _) in BOUND_IN_SHORT.items()}
    words = {"terms": meanings(*PAGES), "bottlenecks": bottlenecks}
    text = json.dumps({**data, **words}, separators=(",", ":"), sort_keys=False)
    parts = {
        "FOOT": _FOOT,
        "SCRIPT": "\n".join(asset(name) for name in scripts),
        "DATA": text.replace("<", "\\u003c"),  # no text of the model can end the script element
        "HEAD": head(title),  # the last one, since a title may look like a name of these
    }
    page = asset(template)
    for name, text in parts.items():
        page = page.replace(f"@@{name}@@", text, 1)
    return page.encode()


def document_page(document: doc.Document) -> bytes:
    """A page of what was found: every section with a heading, its drawings, tables and notes. One file; nothing is
    loaded from elsewhere."""
    title, said = html.escape(document.title), html.escape(document.said)
    parts = [f'<header><h1>{title}</h1><p class="sub">{said}</p></header>\n<main class="page">\n']
    for one in document.sections:
        body = "".join(map(_markup, one.blocks))
        if one.only != doc.Only.TEXT and body:
            heading = html.escape(one.title[:1].upper() + one.title[1:])
            parts.append(f"<section><h2>{heading}</h2>\n{body}\n</section>")
    end = f"</main>{_TIP}<script>{asset('tips.js')}</script></body></html>"
    return f"{head(document.title)}\n<body>\n{''.join(parts)}\n{end}\n".encode()


def _markup(block: doc.Block) -> str:
    if isinstance(block, doc.Table):
        return _table(block)
    if isinstance(block, str):
        return f"<p>{_text(block)}</p>"
    if isinstance(block, doc.Note):
        return f'<p class="hint">{_text(block.text)}</p>'
    if isinstance(block, doc.Subtitle):
        return f"<h3>{html.escape(block.text)}</h3>"
    if isinstance(block, doc.Cards):
        return f'<div class="samples">{"".join(map(_card, block.cards))}</div>'
    if isinstance(block, doc.Terms):
        lines = (f"<dt>{html.escape(name)}</dt><dd>{_text(value)}</dd>" for name, value in block.rows.items())
        return f"<dl>{''.join(lines)}</dl>"
    if isinstance(block, doc.Links):
        files = ((html.escape(quote(file)), html.escape(what)) for what, file in block.files.items())
        lines = (f'<li><a href="{file}">{what}</a></li>' for file, what in files)
        return f'<ul class="links">{"".join(lines)}</ul>' if block.files else ""
    return svg(block)


def _text(text: str) -> str:
    """Options of the command line never break inside."""
    return _OPTION.sub(r'<code class="option">\g<0></code>', html.escape(text))


def _table(block: doc.Table[Any]) -> str:
    """Cells are text, not markup."""
    columns = [column for column in block.columns if column.only != doc.Only.TEXT]
    heads = '<th scope="col"></th>' * block.numbered + "".join(map(_head, columns))
    rows = [[column.text(row) for column in columns] for row in block.rows]
    cells = [[str(number), *row] for number, row in enumerate(rows, 1)] if block.numbered else rows
    lines = ("".join(f"<td>{_text(cell)}</td>" for cell in row) for row in cells)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(block.label)}">'
    return f"{scroll}<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"


def _head(column: doc.Column[Any]) -> str:
    about = html.escape(meanings().get(column.title.lower(), column.about))
    tip = f' tabindex="0" data-tip="{about}"' if about else ""
    return f'<th scope="col"{tip}>{html.escape(column.title)}</th>'


def _card(card: doc.Card) -> str:
    picture = small_curves(card.picture) if isinstance(card.picture, doc.Curves) else _thumbnail(card.picture)
    said = "".join(f"<br>{html.escape(line)}" for line in card.said)
    title = f"<b>{html.escape(card.title)}</b>" if isinstance(card.picture, doc.Curves) else html.escape(card.title)
    return f"<figure>{picture}<figcaption>{title}{said}</figcaption></figure>"


def _thumbnail(file: Path | None) -> str:
    """Small and inside the page."""
    if file is None:
        return ""
    from PIL import Image

    with Image.open(file) as image:
        small = image.convert("RGB")
        small.thumbnail((PIXELS, PIXELS))
    data = io.BytesIO()
    small.save(data, "JPEG", quality=80)
    return f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(data.getvalue()).decode()}">'


def head(title: str) -> str:
    """The start of a page in one file. A policy forbids to load anything from elsewhere, whatever names of a model
    say."""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    return _HEAD.format(more=policy, title=html.escape(title), looks=f"<style>{asset('style.css')}</style>")


def served_head(title: str, script: str) -> str:
    """The start of a page of the server, which sends the policy itself, and style and scripts as files."""
    icon = '<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">'
    style = '<link rel="stylesheet" href="/assets/style.css">'
    scripts = f'<script src="/assets/numbers.js"></script>\n<script type="module" src="/assets/{script}"></script>'
    return _HEAD.format(more=icon, title=html.escape(title), looks=f"{style}\n{scripts}")


def asset(name: str) -> str:
    return resources.files("atonc.insight.report.html").joinpath("assets", name).read_text("utf-8")
