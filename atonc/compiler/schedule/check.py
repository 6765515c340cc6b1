"""Proves a schedule, knowing nothing of how it was made: it imports no pass, and not `assign`.

The tasks of the operators, in the order of the graph, say what is meant. A schedule may move them as it likes and put
one behind the other, as long as every merge computes the same (`check_merges`), every task runs once, whatever touches
the same bytes runs in that order and never in the same epoch (but for sums that a CONVACC takes back), every task has
units of its own, and every chain is one that published programs have.
`plan.contents` follows the bytes through the result, `hw.safety` looks at the registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product

from atonc.compiler.plan.aliases import root
from atonc.compiler.plan.findings import Finding
from atonc.compiler.plan.task import ENGINE, EngineUse, Task
from atonc.compiler.plan.types import CpuPlan, EpochPlan, StepPlan
from atonc.compiler.schedule.check_merges import prove
from atonc.compiler.schedule.types import LoweredOperator, Schedule, Step
from atonc.machine.base.errors import InternalError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.footprint import share_word, touched
from atonc.machine.hw.limits import MOST_READERS, MOST_WRITERS, UNITS
from atonc.machine.hw.links import Shape, texts_of
from atonc.machine.hw.safety.evidence.epochs import Relation, of_copy, relation
from atonc.machine.hw.safety.evidence.trust import chain_seen
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

ONCE = "every task runs exactly once"
SERVES = "a step names the operator that it serves"
TOPOLOGICAL = "tasks that touch the same bytes run in the order of the graph"
HAZARD = "no task reads or writes what another one of its epoch writes"
OWN_WORDS = "no two tasks of an epoch write into the same word of the bus"
READ_BACK = "a task reads what it writes only where a CONVACC takes its sums back"
OWN_UNITS = "every task of an epoch has units and engines of its own"
COUNTS = "an epoch has no more units than the chip"
FOLLOWED = "a reader waits for the writer that its task names"
MERGED = "a merged task computes what the two operators mean"
PROVEN = "every chain is one of ST programs"

SUMS = 2  # port of a CONVACC


def check(
    works: Iterable[LoweredOperator], schedule: Schedule, plans: Sequence[StepPlan], aliases: Mapping[str, str]
) -> list[Finding]:
    """All findings; an empty list means that the schedule is sound. `plans` are its steps with unit numbers."""
    merged = prove(works, schedule.merges, aliases)
    works = merged.works
    missing = list(_complete(works, schedule))
    return [
        *(Finding(MERGED, where, seen) for where, seen in merged.faults),
        *missing,
        *([] if missing else _ordered(works, schedule, aliases)),
        *_words(schedule),
        *_assigned(schedule, plans),
        *_proven(schedule),
    ]


def require_sound(findings: Sequence[Finding], allow_unproven: bool = False) -> None:
    """`allow_unproven`: the user takes chains that no published program has."""
    findings = [one for one in findings if not (allow_unproven and one.rule == PROVEN)]
    if findings:
        first = findings[0]
        raise InternalError(
            f"{first.seen} ({len(findings)} findings)",
            where=first.where,
            rule=first.rule,
            remedy="report the model: the compiler must not produce this",
        )


# ------------------------------------------------------------------------------------------------- each task once


def _complete(works: list[LoweredOperator], schedule: Schedule) -> Iterator[Finding]:
    wanted = {id(item): work.op for work in works for item in _items(work)}
    counted: Counter[int] = Counter()
    for number, step in enumerate(schedule.steps, 1):
        for item, op in _with_owners(step):
            counted[id(item)] += 1
            if id(item) not in wanted:
                yield Finding(ONCE, f"step {number}, {item.title}", "a task of no operator")
            elif wanted[id(item)] != op:
                yield Finding(SERVES, f"step {number}, {item.title}", f"{op}, not {wanted[id(item)]}")
    for work in works:
        for item in _items(work):
            if counted[id(item)] != 1:
                yield Finding(ONCE, f"{work.op}, {item.title}", f"runs {counted[id(item)]} times")


def _items(work: LoweredOperator) -> list[Task | CpuPlan]:
    return [*((work.call,) if work.call else ()), *(task for group in work.groups for task in group.tasks)]


def _with_owners(step: Step) -> list[tuple[Task | CpuPlan, str]]:
    return [(step, step.op)] if isinstance(step, CpuPlan) else list(zip(step.tasks, step.ops, strict=True))


# ------------------------------------------------------------------------------------------------- order and hazards


@dataclass(frozen=True)
class _Access:
    """`use` is None where the CPU takes all of a buffer."""

    step: int
    item: Task | CpuPlan
    use: EngineUse | None
    write: bool


def _ordered(works: list[LoweredOperator], schedule: Schedule, aliases: Mapping[str, str]) -> Iterator[Finding]:
    """Accesses of every memory in the order of the graph; only those that do not run in that order are compared."""
    steps = {id(item): n for n, step in enumerate(schedule.steps, 1) for item, _ in _with_owners(step)}
    known: dict[str, list[_Access]] = {}
    latest: dict[str, int] = {}
    for work in works:
        for item in _items(work):
            for name, access in _accesses(item, steps[id(item)]):
                memory = root(name, aliases)
                before = known.setdefault(memory, [])
                if access.step <= latest.get(memory, 0):
                    yield from _conflicts(memory, access, before)
                before.append(access)
                latest[memory] = max(latest.get(memory, 0), access.step)


def _accesses(item: Task | CpuPlan, step: int) -> Iterator[tuple[str, _Access]]:
    if isinstance(item, CpuPlan):
        yield from ((name, _Access(step, item, None, False)) for name in item.inputs)
        yield from ((name, _Access(step, item, None, True)) for name in item.outputs)
    else:
        for use in item.engines.values():
            yield use.buffer, _Access(step, item, use, bool(use.config.to_memory))


def _conflicts(buffer: str, access: _Access, before: Iterable[_Access]) -> Iterator[Finding]:
    """Finds conflicts with what comes earlier in the graph but not earlier in the schedule."""
    for other in before:
        if other.step < access.step or not (access.write or other.write) or not _overlap(access, other):
            continue
        where = f"step {access.step}, {access.item.title}"
        what = f"{'writes' if access.write else 'reads'} {buffer}"
        if other.item is access.item:
            if access.write == other.write or not _declared(access, other):
                yield Finding(READ_BACK, where, f"reads and writes {buffer}")
        elif other.step == access.step:
            yield Finding(HAZARD, where, f"{what}, which {other.item.title} {_does(other)} in the same epoch")
        else:
            yield Finding(TOPOLOGICAL, where, f"{what} before {other.item.title} {_does(other)} it")


def _words(schedule: Schedule) -> Iterator[Finding]:
    """Bytes of two writers may lie next to each other in a word in turn, not at the same time."""
    for number, step in enumerate(schedule.steps, 1):
        for one, other in () if isinstance(step, CpuPlan) else combinations(step.tasks, 2):
            for a, b in product(one.writers(), other.writers()):
                if a.buffer == b.buffer and share_word(a.config, b.config):
                    yield Finding(OWN_WORDS, f"step {number}, {one.title}", f"{other.title} writes {b.buffer} too")


def _does(access: _Access) -> str:
    return "writes" if access.write else "reads"


def _overlap(one: _Access, other: _Access) -> bool:
    if one.use is None or other.use is None:
        return True
    if one.use.buffer != other.use.buffer:
        return True  # two names of one memory: rare, so no closer look
    a, b = one.use.config, other.use.config
    return share_word(a, b) and _share_byte(a, b)


def _share_byte(one: StrengConfig, other: StrengConfig) -> bool:
    spans = one.span(), other.span()
    low, high = min(span[0] for span in spans), max(span[1] for span in spans)
    return bool((touched(one, low, high) & touched(other, low, high)).any())


def _declared(one: _Access, other: _Access) -> bool:
    """Whether the reader of the two brings sums back to a CONVACC from where the writer leaves them, or both move bytes
    down."""
    reader, writer = (other, one) if one.write else (one, other)
    task = reader.item
    assert isinstance(task, Task) and reader.use is not None and writer.use is not None
    ends = reader.use.config, writer.use.config
    if not task.units and len(task.engines) == 2:
        return of_copy(*ends, relation(*ends), "to STRENG") in (Relation.BEHIND, Relation.APART, Relation.BORDER)
    names = [name for name, use in task.engines.items() if use is reader.use]
    fed = [wire for wire in task.wires if wire.source in names]
    if not fed or reader.use.config.address != writer.use.config.address:
        return False
    return all(wire.port == SUMS and isinstance(task.units.get(wire.target), ConvaccConfig) for wire in fed)


# ------------------------------------------------------------------------------------------------- units and numbers


def _assigned(schedule: Schedule, plans: Sequence[StepPlan]) -> Iterator[Finding]:
    if len(plans) != len(schedule.steps):
        yield Finding(ONCE, "the program", f"{len(plans)} steps for {len(schedule.steps)} of the schedule")
    for number, (step, plan) in enumerate(zip(schedule.steps, plans, strict=False), 1):
        where = f"step {number}, {plan.title}"
        if isinstance(step, CpuPlan) or isinstance(plan, CpuPlan):
            if step is not plan:
                yield Finding(ONCE, where, "not the step of the schedule")
            continue
        yield from (Finding(rule, where, seen) for rule, seen in _epoch(step.tasks, plan))


def _epoch(tasks: Sequence[Task], plan: EpochPlan) -> Iterator[tuple[str, str]]:
    uses = [use for task in tasks for use in task.engines.values()]
    units = [config for task in tasks for config in task.units.values()]
    kinds = Counter(config.KIND for config in units) + Counter({ENGINE: len(uses)})
    for kind, count in kinds.items():
        if count > UNITS[kind]:
            yield COUNTS, f"{count} {kind}"
    writers = sum(use.config.to_memory for use in uses)
    if writers > MOST_WRITERS or len(uses) - writers > MOST_READERS:
        yield COUNTS, f"{len(uses) - writers} readers and {writers} writers"
    for name, kind in [*((n, c.KIND) for n, c in plan.units.items()), *((n, ENGINE) for n in plan.engines)]:
        if name not in _NAMES[kind]:
            yield OWN_UNITS, f"{name} as {kind}"
    if len(plan.units) != len(units) or len(plan.engines) != len(uses):
        seen = f"{len(plan.units)} units and {len(plan.engines)} engines for {len(units)} and {len(uses)} of the tasks"
        yield OWN_UNITS, seen
    elif sorted(forms(plan)) != sorted(form for task in tasks for form in forms(task)):
        yield OWN_UNITS, f"wired as {' | '.join(forms(plan))}"
    elif list(plan.units.values()) != units or [u.buffer for u in plan.engines.values()] != [u.buffer for u in uses]:
        yield OWN_UNITS, "other configurations than those of the tasks"
    yield from _followed(tasks, plan)


def _followed(tasks: Sequence[Task], plan: EpochPlan) -> Iterator[tuple[str, str]]:
    """Readers that wait for a writer: it must be the writer of their own buffer."""
    for name, use in plan.engines.items():
        if use.config.sync:
            writer = plan.engines.get(f"{ENGINE}{use.config.sync_source}")
            if writer is None or not writer.config.to_memory or writer.buffer != use.buffer:
                yield FOLLOWED, f"{name} waits for {ENGINE}{use.config.sync_source}"
    if sum(bool(use.follows) for task in tasks for use in task.engines.values()) != sum(
        use.config.sync for use in plan.engines.values()
    ):
        yield FOLLOWED, "another number of readers waits than the tasks say"


_NAMES = {kind: frozenset(f"{kind}{n}" for n in range(count)) for kind, count in UNITS.items()}

# ------------------------------------------------------------------------------------------------- proven chains


def _proven(schedule: Schedule) -> Iterator[Finding]:
    for number, step in enumerate(schedule.steps, 1):
        for task in () if isinstance(step, CpuPlan) else step.tasks:
            found = forms(task)
            if len(found) != 1:
                yield Finding(PROVEN, f"step {number}, {task.title}", f"{len(found)} chains in one task")
            for text in found:
                if not chain_seen(text):
                    yield Finding(PROVEN, f"step {number}, {task.title}", text or "no writer")


def forms(item: Task | EpochPlan) -> tuple[str, ...]:
    """The text of every chain."""
    units = {**item.units, **{name: use.config for name, use in item.engines.items()}}
    if isinstance(item, Task):
        shape = Shape.of(units, ((w.source, w.target, w.port, bool(w.keep or w.stop_after)) for w in item.wires))
    else:
        shape = Shape.of(units, ((k.source, k.destination, k.port, not k.permanent) for k in item.links))
    return tuple(text for _, text in texts_of(shape))
