"""What of a task nobody may rely on, as far as that is known before buffers have addresses."""

from __future__ import annotations

from atonc.hw.chains import Shape, texts_of
from atonc.hw.fields import UnitConfig
from atonc.hw.memoise import memoise
from atonc.hw.safety.evidence import Feature, Graded, Trust
from atonc.hw.units.stream_engine import StrengConfig
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
    units = [(unit, "") for unit in task.units.values()]
    engines = [(use.config, _role(task, name)) for name, use in task.engines.items()]
    return next((odd for unit, role in (*units, *engines) if (odd := untrusted_unit(unit, role, trust))), None)


def untrusted_unit(config: UnitConfig, role: str, trust: Trust) -> Graded | None:
    """The first form of a unit, or of an engine in that role, that may not be used."""
    unit = trust.grade_unit(with_idle_steps(config) if isinstance(config, StrengConfig) else config, role)
    odd = unit.features if unit.grade.rank > trust.worst.rank else ()
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
