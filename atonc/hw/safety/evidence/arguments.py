"""Arguments: why a form whose parts were all seen may be used although the combination was not.

Each is one entry with what it allows, the evidence, and what would disprove it; `docs/silicon.md` is written from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from atonc.hw import pipelines
from atonc.hw.proven import Level
from atonc.hw.safety.evidence.grades import Feature


@dataclass(frozen=True, slots=True)
class Argument:
    id: str
    title: str
    allows: str  # in words
    why: str
    evidence: str
    disproof: str  # what a board would have to show
    covers: Callable[[Feature], bool]


def _pipelines_seen_alone(feature: Feature) -> bool:
    texts = str(feature.value).split(" || ")
    return feature.name == "pipelines side by side" and all(
        pipelines.evidence(text).level != Level.NEVER for text in texts
    )


ARGUMENTS = (
    Argument(
        "S1",
        "Pipelines side by side",
        "two or more independent pipelines in one epoch, each of a form that was seen",
        "pipelines of one epoch share no unit and no link; what they share is the bus, which every epoch with several "
        "engines shares as well",
        "805 different combinations occur, with up to five pipelines in one epoch; unit numbers do not matter",
        "an epoch of two pipelines that hangs or differs although each of them alone runs",
        _pipelines_seen_alone,
    ),
)


def argument_for(feature: Feature) -> Argument | None:
    return next((argument for argument in ARGUMENTS if argument.covers(feature)), None)
