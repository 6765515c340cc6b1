"""Two writers of one epoch whose bytes interleave: how long their runs are, and how far they stay from each other.

Pixels of a tensor whose channels come from two chains look so. The nearer two writers come to each other, the more
they could disturb each other; the longer the runs and the wider the gaps, the more they are like writers of two
buffers, as nearly all published epochs have them.
"""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.hw.safety.evidence.grades import Feature
from atonc.machine.hw.safety.evidence.neighbours import Relation, distance, shorter_run
from atonc.machine.hw.units.stream_engine import StrengConfig

BETWEEN, RUN = "bytes between interleaved writers", "shorter run of interleaved writers"
INTERLEAVED = (Relation.OWN_WORDS, Relation.SHARED_WORDS)


def features(one: StrengConfig, other: StrengConfig, relation: Relation) -> Iterator[Feature]:
    if relation in INTERLEAVED:
        yield Feature(BETWEEN, str(relation), distance(one, other))
        yield Feature(RUN, "", shorter_run(one, other))
