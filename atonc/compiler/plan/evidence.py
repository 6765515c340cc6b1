"""What of a task nobody may rely on, as far as that is known before buffers have addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations, product

from atonc.compiler.plan.streams import with_idle_steps
from atonc.compiler.plan.task import Task
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.limits import PREFETCH_BYTES
from atonc.machine.hw.links import Shape, texts_of
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence import Feature, Graded, Trust, UnitGrade
from atonc.machine.hw.safety.evidence.epochs import (
    ONE_CHAIN,
    Relation,
    of_copy,
    read_for,
    reader_and_writer,
    together,
    two_writers,
)
from atonc.machine.hw.safety.evidence.epochs import relation as relation_of
from atonc.machine.hw.safety.view import PoolKind
from atonc.machine.hw.units.stream_engine import StrengConfig

relation = lru_cache(maxsize=1 << 12)(relation_of)  # forms of one layer share pieces, and layers look alike


@memoise
def untrusted(task: Task, trust: Trust) -> Graded | None:
    """The first form of its chain, its units or its engines that may not be used."""
    texts = chain_texts(task)
    chains = (Feature("chain", "", text) for text in texts)
    near = (*_in_one_buffer(task), *among_writers((task,)))
    for feature in (*chains, *side_by_side(texts), *near, *_feature_readers(task)):
        found = trust.grade(feature)
        if not trust.allows(found):
            return found
    units = [(unit, "") for unit in task.units.values()]
    engines = [(use.config, _role(task, name)) for name, use in task.engines.items()]
    return next((odd for unit, role in (*units, *engines) if (odd := untrusted_unit(unit, role, trust))), None)


def untrusted_unit(config: UnitConfig, role: str, trust: Trust) -> Graded | None:
    """The first form of a unit, or of an engine in that role, that may not be used."""
    unit = _engine_grade(config, role, trust) if isinstance(config, StrengConfig) else trust.grade_unit(config)
    odd = unit.features if unit.grade.rank > trust.worst.rank else ()
    return next((one for one in odd if not trust.allows(one)), None)


@memoise
def _engine_grade(config: StrengConfig, role: str, trust: Trust) -> UnitGrade:
    """Its limit, and whether a reader is in flash and then goes through the cache, is known when buffers have
    addresses: a limit far behind the last byte, as binding sets it, and the better way count."""
    config = changed(with_idle_steps(config), address_limit=config.span()[1] + PREFETCH_BYTES)
    found = trust.grade_unit(config, role)
    if found.grade.rank <= trust.worst.rank or config.to_memory:
        return found
    cached = trust.grade_unit(changed(config, cacheable=1), role, PoolKind.FLASH)
    return min(found, cached, key=lambda one: one.grade.rank)


@memoise
def chain_texts(task: Task) -> tuple[str, ...]:
    """Canonical; a task is one chain, unless it was merged from some that nothing connects."""
    units = {**task.units, **{name: use.config for name, use in task.engines.items()}}
    shape = Shape.of(units, [(w.source, w.target, w.port, bool(w.keep or w.stop_after)) for w in task.wires])
    return tuple(text for _, text in texts_of(shape))


def _in_one_buffer(task: Task) -> Iterator[Feature]:
    """How a reader and a writer of one chain lie to each other there."""
    if len(chain_texts(task)) > 1:
        return
    for (name, one), other in product(task.engines.items(), task.engines.values()):
        if one.buffer == other.buffer and other.config.to_memory and not one.config.to_memory:
            role = _role(task, name)
            found = of_copy(one.config, other.config, relation(one.config, other.config), role)
            yield reader_and_writer(found, ONE_CHAIN, role)


def among_writers(tasks: Iterable[Task]) -> Iterator[Feature]:
    """How writers of one buffer lie to each other, two by two and all of them together."""
    uses = [use for task in tasks for use in task.writers()]
    pairs = [(a, b) for a, b in combinations(range(len(uses)), 2) if uses[a].buffer == uses[b].buffer]
    relations = {(a, b): relation(uses[a].config, uses[b].config) for a, b in pairs}
    for (a, b), found in relations.items():
        yield from _two_writers(uses[a].config, uses[b].config, found)
    yield from together(relations)


@lru_cache(maxsize=1 << 12)
def _two_writers(one: StrengConfig, other: StrengConfig, found: Relation) -> tuple[Feature, ...]:
    return tuple(two_writers(one, other, found))


def _feature_readers(task: Task) -> Iterator[Feature]:
    for wire in task.wires:
        if wire.source in task.engines and wire.target in task.units:
            reader, unit = task.engines[wire.source].config, task.units[wire.target]
            yield from read_for(reader, unit, wire.port)


def side_by_side(texts: Iterable[str]) -> Iterator[Feature]:
    """Chains of one epoch, if there are several."""
    ordered = sorted(texts)
    if len(ordered) > 1:
        yield Feature("chains side by side", "", " || ".join(ordered))


def _role(task: Task, engine: str) -> str:
    for wire in task.wires:
        if wire.target == engine:
            return f"from {wire.source.partition(' ')[0]}"
        if wire.source == engine:
            return f"to {wire.target.partition(' ')[0]}:{wire.port}"
    return ""
