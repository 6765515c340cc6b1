"""The page: figures side by side, and the samples that changed their answer as pictures."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from html import escape

from atonc.insight.evaluating.datasets import DatasetEntry
from atonc.insight.evaluating.metrics.top import class_name
from atonc.insight.evaluating.run import AnsweredSample, Evaluation
from atonc.insight.report.evaluate_text import signed, value
from atonc.insight.report.html.page import plain_page, table

MOST_PICTURES, PIXELS = 60, 160
MOST_CLASSES, MOST_PAIRS = 24, 20


def page(found: Evaluation) -> bytes:
    title = f"{found.model}: accuracy on {found.samples} samples"
    said = f"{found.samples} samples, metric {found.metric}; in brackets the 95 % interval"
    return plain_page(title, said, _sections(found))


def _sections(found: Evaluation) -> Iterator[tuple[str, str]]:
    sides = (*found.sides.items(), *found.distances.items())
    rows = [(name, figure.name, value(figure)) for name, figures in sides for figure in figures]
    rows += [(f"NPU less {found.yardstick}, same samples", one.name, signed(one)) for one in found.differences]
    notes = "".join(f'<p class="hint">{escape(note)}</p>' for note in found.notes)
    yield "Figures", table(("by", "figure", "value"), rows, "Figures of all sides") + notes
    yield "Classes and answers", _confusion(found)
    if found.worst:
        yield "Mistakes, the worst first", f'<div class="samples">{"".join(map(_sample, found.worst))}</div>'
    if found.yardstick:
        shown = "".join(map(_sample, found.changed[:MOST_PICTURES]))
        more = len(found.changed) > MOST_PICTURES
        rest = f'<p class="hint">The first {MOST_PICTURES} are shown; evaluation.json has all.</p>' if more else ""
        many = f"{len(found.changed)} {'sample' if len(found.changed) == 1 else 'samples'}"
        title = f"{many} with another answer than the {found.yardstick} model's"
        yield title, f'<div class="samples">{shown}</div>{rest}'
    yield "What was evaluated", table(("", ""), found.origin.items(), "What was evaluated")


def _confusion(found: Evaluation) -> str:
    """Rows are true classes, columns answers of the NPU, where there is room for all; and what is confused most."""
    counts = found.confusion
    names = [class_name(k, found.data) for k in range(len(counts))]
    pairs = sorted((-count, k, answer) for k, row in enumerate(counts) for answer, count in enumerate(row)
                   if count and k != answer)  # fmt: skip
    listed = [(names[k], names[answer], str(-count), f"{-count / sum(counts[k]):.0%}") for count, k, answer in pairs]
    most = table(("class", "taken for", "samples", "of the class"), listed[:MOST_PAIRS], "Most confused classes")
    if not counts or len(counts) > MOST_CLASSES:
        return most if listed else ""
    lines = [(names[k], *(str(count or "") for count in row)) for k, row in enumerate(counts)]
    return table(("class", *names), lines, "Confusion matrix: classes down, answers across") + (most if listed else "")


def _sample(changed: AnsweredSample) -> str:
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
