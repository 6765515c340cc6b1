"""Accuracy on samples with labels that a visitor has sent, in the chip's arithmetic."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atonc.doors.serve import form

if TYPE_CHECKING:
    from atonc.insight.evaluating.run import Evaluation

DOCUMENT = "evaluation.json"
MOST_NOTES = 40


def run(folder: Path, request: Mapping[str, Any], out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Writes pages and figures; gives what `atonc evaluate --json` prints, and the figures of the lists."""
    from atonc.doors.verbs.common import compiler_options
    from atonc.doors.verbs.evaluate import pages_of
    from atonc.doors.verbs.flags import declared_values
    from atonc.insight.evaluating.options import EvaluateOptions
    from atonc.insight.evaluating.run import evaluate
    from atonc.machine.base.disk import write_files

    asked, model = form.parsed(request["options"], form.EVALUATE), folder / request["model"]
    compiler = compiler_options(asked, verify=False)
    sent = str(folder / request["samples"][0])
    wanted = replace(declared_values(EvaluateOptions, asked), data=sent, processes=1)
    found = evaluate(model, wanted, compiler, folder / "scratch")
    title = request["title"]
    found = replace(found, model=title, origin={**found.origin, "model": title, "data": "as sent"})
    document = found.as_dict()
    written = {DOCUMENT: f"{json.dumps(document, indent=1)}\n".encode()}
    write_files(out, written | pages_of(found, model, compiler, asked.name))
    return document, _figures(found)


def _figures(found: Evaluation) -> dict[str, Any]:
    from atonc.machine.base.words import count

    sides = [(side, figures[0]) for side, figures in (*found.sides.items(), *found.distances.items()) if figures]
    tiles = [
        [f"{figure.value:.4f}", f"{figure.name}, {side} ({figure.low:.4f} to {figure.high:.4f})"]
        for side, figure in sides
    ]
    if found.yardstick:
        tiles.append([str(len(found.changed)), f"answers differ from those of the {found.yardstick} model"])
    notes = [f"{count(found.samples, 'sample')}, metric {found.metric}; in brackets the 95 % interval", *found.notes]
    return {"tiles": tiles[:6], "notes": notes[:MOST_NOTES]}
