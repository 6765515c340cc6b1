"""What of a task nobody may rely on, as far as that is known before buffers have addresses."""

from __future__ import annotations

from atonc.hw.chains import Shape, texts_of
from atonc.hw.memoise import memoise
from atonc.hw.safety.evidence import Feature, Graded, Trust
from atonc.plan.streams import with_idle_steps
from atonc.plan.task import Task

_LIMIT = "limit behind the last byte"  # known when buffers have addresses


@memoise
def untrusted(task: Task, trust: Trust) -> Graded | None:
    """The first form of its chain, its units or its engines that may not be used."""
    for text in chain_texts(task):
        found = trust.grade(Feature("chain", "", text))
        if not trust.allows(found):
            return found
    units = [trust.grade_unit(unit) for unit in task.units.values()]
    for name, use in task.engines.items():
        units.append(trust.grade_unit(with_idle_steps(use.config), _role(task, name)))
    odd = (one for unit in units if unit.grade.rank > trust.worst.rank for one in unit.features)
    return next((one for one in odd if not trust.allows(one) and not one.feature.name.endswith(_LIMIT)), None)


def chain_texts(task: Task) -> list[str]:
    """Canonical; a task is one chain, unless it was merged from some that nothing connects."""
    units = {**task.units, **{name: use.config for name, use in task.engines.items()}}
    shape = Shape.of(units, ((w.source, w.target, w.port, bool(w.keep or w.stop_after)) for w in task.wires))
    return [text for _, text in texts_of(shape)]


def _role(task: Task, engine: str) -> str:
    for wire in task.wires:
        if wire.target == engine:
            return f"from {wire.source.partition(' ')[0]}"
        if wire.source == engine:
            return f"to {wire.target.partition(' ')[0]}:{wire.port}"
    return ""
