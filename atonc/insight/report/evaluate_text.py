"""What `atonc evaluate` found, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atonc.insight.evaluating.metrics.base import MetricFigure
    from atonc.insight.evaluating.run import Evaluation

SHOWN = 10


def lines(found: Evaluation, all_changed: bool = False) -> Iterator[str]:
    yield f"{found.model}: {found.samples} samples, metric {found.metric}; 95 % intervals behind"
    for side, figures in found.sides.items():
        for figure in figures:
            yield f"  {side:<12} {figure.name:<14} {value(figure)}"
    for pair, figures in found.distances.items():
        for figure in figures:
            yield f"  {pair:<12} {figure.name:<14} {value(figure)}"
    if found.yardstick:
        yield f"{len(found.changed)} samples get another answer on the NPU than by the {found.yardstick} model"
        for changed in found.changed if all_changed else found.changed[:SHOWN]:
            yield f"  {changed.entry.name}: " + "; ".join(f"{side}: {word}" for side, word in changed.answers.items())
        if len(found.changed) > SHOWN and not all_changed:
            yield f"  ... and {len(found.changed) - SHOWN} more (-v, or the page)"
    for note in found.notes:
        yield f"note: {note}"


def value(figure: MetricFigure) -> str:
    return f"{figure.value:.4f}  ({figure.low:.4f} to {figure.high:.4f})"
