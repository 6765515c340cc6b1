"""The page: figures side by side, and the samples that changed their answer as pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from html import escape

from atonc.insight.evaluating.datasets import DatasetEntry
from atonc.insight.evaluating.run import Changed, Evaluation
from atonc.insight.report.evaluate_text import value
from atonc.insight.report.html.page import head

MOST_PICTURES, PIXELS = 60, 160
_STYLE = """
main{max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.3rem .8rem;text-align:left;border-bottom:1px solid #8884}
.samples{display:flex;flex-wrap:wrap;gap:1rem}
figure{margin:0;width:12rem;font-size:.85rem}figure img{width:100%;image-rendering:auto;display:block}
"""


def page(found: Evaluation) -> bytes:
    """One file; nothing is loaded from elsewhere."""
    start = head(f"{found.model}: accuracy on {found.samples} samples", _STYLE)
    body = "\n".join(_body(found))
    return f"{start}\n<body><main>\n{body}\n</main></body></html>\n".encode()


def _body(found: Evaluation) -> Iterator[str]:
    yield f"<h1>{escape(found.model)}</h1>"
    yield f"<p>{found.samples} samples, metric {escape(found.metric)}. In brackets the 95 % interval.</p>"
    yield "<table><tr><th>by</th><th>figure</th><th>value</th></tr>"
    for name, figures in (*found.sides.items(), *found.distances.items()):
        for figure in figures:
            yield f"<tr><td>{escape(name)}</td><td>{escape(figure.name)}</td><td>{value(figure)}</td></tr>"
    yield "</table>"
    yield from (f"<p>{escape(note)}</p>" for note in found.notes)
    if found.yardstick:
        yield f"<h2>{len(found.changed)} samples with another answer than the {escape(found.yardstick)} model's</h2>"
        yield "<div class='samples'>"
        yield from map(_sample, found.changed[:MOST_PICTURES])
        yield "</div>"
    if len(found.changed) > MOST_PICTURES:
        yield f"<p>The first {MOST_PICTURES} are shown; evaluation.json has all.</p>"


def _sample(changed: Changed) -> str:
    answers = "".join(f"<br>{escape(side)}: {escape(words)}" for side, words in changed.answers.items())
    caption = f"<figcaption>{escape(changed.entry.name)}{answers}</figcaption>"
    return f"<figure>{_picture(changed.entry)}{caption}</figure>"


def _picture(entry: DatasetEntry) -> str:
    """Small and inside the page; arrays have none."""
    if entry.row is not None:
        return ""
    from PIL import Image

    with Image.open(entry.file) as image:
        small = image.convert("RGB")
        small.thumbnail((PIXELS, PIXELS))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=80)
    return f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}">'
