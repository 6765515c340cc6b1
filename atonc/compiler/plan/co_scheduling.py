"""Which tasks may stand side by side in one epoch, as far as that is known before buffers have addresses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, product

from atonc.compiler.plan.evidence import among_writers, chain_texts, relation, side_by_side
from atonc.compiler.plan.task import Task
from atonc.machine.hw.safety.evidence import Feature, Trust
from atonc.machine.hw.safety.evidence.epochs import TWO_CHAINS, reader_and_writer


def may_share_epoch(tasks: Sequence[Task], trust: Trust) -> bool:
    """Whether tasks, each of which may be relied on, may also stand side by side. How many units and engines an epoch
    has is a limit of the chip (`schedule.pack`). Words are not looked at: four full tables are 4,193 of 5,690 seen."""
    if len(tasks) == 1:
        return True
    together = side_by_side(chain.from_iterable(map(chain_texts, tasks)))
    near = (feature for one, other in product(tasks, tasks) if one is not other for feature in _near(one, other))
    return all(trust.allows(trust.grade(feature)) for feature in chain(together, near, among_writers(tasks)))


def _near(one: Task, other: Task) -> Iterator[Feature]:
    """Readers of one task and writers of another one in one buffer."""
    for a, b in product(one.readers(), other.writers()):
        if a.buffer == b.buffer:
            yield reader_and_writer(relation(a.config, b.config), TWO_CHAINS)
