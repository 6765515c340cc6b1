"""What of a task, or of tasks side by side, nobody may rely on: as far as that is known before there are addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, product

from atonc.hw.chains import Shape, texts_of
from atonc.hw.memoise import memoise
from atonc.hw.safety.evidence import Feature, Graded, Trust
from atonc.hw.safety.evidence.epochs import reader_and_writer, two_writers
from atonc.hw.safety.evidence.neighbours import relation
from atonc.plan.streams import with_idle_steps
from atonc.plan.task import Task

_LIMIT = "limit behind the last byte"  # known when buffers have addresses


@memoise
def untrusted(task: Task, trust: Trust) -> Graded | None:
    """The first form of its chain, its units or its engines that may not be used."""
    texts = chain_texts(task)
    for feature in (*(Feature("chain", "", text) for text in texts), *_set_of(texts)):
        found = trust.grade(feature)
        if not trust.allows(found):
            return found
    units = [trust.grade_unit(unit) for unit in task.units.values()]
    for name, use in task.engines.items():
        units.append(trust.grade_unit(with_idle_steps(use.config), _role(task, name)))
    odd = (one for unit in units if unit.grade.rank > trust.worst.rank for one in unit.features)
    return next((one for one in odd if not trust.allows(one) and not one.feature.name.endswith(_LIMIT)), None)


@memoise
def chain_texts(task: Task) -> tuple[str, ...]:
    """Canonical; a task is one chain, unless it was merged from some that nothing connects."""
    units = {**task.units, **{name: use.config for name, use in task.engines.items()}}
    shape = Shape.of(units, ((w.source, w.target, w.port, bool(w.keep or w.stop_after)) for w in task.wires))
    return tuple(text for _, text in texts_of(shape))


def may_share_epoch(tasks: Sequence[Task], trust: Trust) -> bool:
    """Whether tasks, each of which may be relied on, may also stand side by side. How many units and engines an epoch
    has is a limit of the chip (`schedule.pack`)."""
    if len(tasks) == 1:
        return True
    together = _set_of(chain.from_iterable(map(chain_texts, tasks)))
    near = (feature for one, other in combinations(tasks, 2) for feature in _near(one, other))
    return all(trust.allows(trust.grade(feature)) for feature in chain(together, near))


def _set_of(texts: Iterable[str]) -> Iterator[Feature]:
    ordered = sorted(texts)
    if len(ordered) > 1:
        yield Feature("chains side by side", "", " || ".join(ordered))


def _near(one: Task, other: Task) -> Iterator[Feature]:
    """Engines of two tasks on one buffer, at least one of which writes."""
    for a, b in product(one.engines.values(), other.engines.values()):
        if a.buffer != b.buffer or not (a.config.to_memory or b.config.to_memory):
            continue
        found = relation(a.config, b.config)
        if a.config.to_memory and b.config.to_memory:
            yield from two_writers(a.config, b.config, found)
        else:
            yield reader_and_writer(found)


def _role(task: Task, engine: str) -> str:
    for wire in task.wires:
        if wire.target == engine:
            return f"from {wire.source.partition(' ')[0]}"
        if wire.source == engine:
            return f"to {wire.target.partition(' ')[0]}:{wire.port}"
    return ""
