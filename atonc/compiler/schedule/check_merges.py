"""Proves that merged tasks compute what the two operators meant, from the tasks alone: it does not import `fuse`.

A merge takes a group of the consumer away and puts longer tasks in the place of those that write the buffer between
them. It is right if the group turns each byte of its operands into the byte at the same place of its result, if each
longer task is the old one with that same arithmetic behind it, on the same bytes in the same order, and if nothing
between producer and consumer touches what now is read or written earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.plan.aliases import root
from atonc.compiler.plan.task import EngineUse, Task, TaskGroup
from atonc.compiler.plan.types import CpuPlan
from atonc.compiler.schedule.check_means import is_identity, means_of, whole_means
from atonc.compiler.schedule.check_pools import pooled, same_pools
from atonc.compiler.schedule.types import LoweredOperator, Merge
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.footprint import places, touched
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import AFFINE, ArithConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

Item = tuple[str, Task | CpuPlan]  # operator, what it does
Expression = tuple[object, ...]  # a unit and what feeds it, or the bytes of a buffer
T = TypeVar("T")
_GEOMETRY = (
    "address", "raw", "fsize_low", "fsize_high", "depth", "pixel_offset_low", "pixel_offset_high", "line_offset_low",
    "line_offset_high", "frames", "single", "frame_offset", "frame_repeat", "repeat_offset",
)  # fmt: skip
Meaning = Callable[[Task, str, str, StrengConfig | None], T | None]  # of the units between two nodes of a task


@dataclass(frozen=True)
class Proof:
    """What is meant after all merges, and what is wrong with them."""

    works: list[LoweredOperator]
    faults: list[tuple[str, str]]  # where, seen


def prove(works: Iterable[LoweredOperator], merges: Iterable[Merge], aliases: Mapping[str, str]) -> Proof:
    """Merges are looked at one after the other, each on what the ones before left."""
    now, faults = _Works(works, aliases), list[tuple[str, str]]()
    for merge in merges:
        where = f"{merge.producer} > {merge.consumer}"
        faults += [(where, seen) for seen in _Judge(now, merge).faults()]
        now.merge(merge)
    return Proof(now.works, faults)


def _key(group: TaskGroup) -> tuple[int, ...]:
    return tuple(map(id, group.tasks))


class _Works:
    """The works as far as they are merged, and which of them touch a buffer: a merge looks at those only."""

    def __init__(self, works: Iterable[LoweredOperator], aliases: Mapping[str, str]) -> None:
        self.works, self.aliases = list(works), aliases
        self.of_op: dict[str, list[int]] = {}
        self.touching: dict[str, set[int]] = {}  # by buffer; works that no longer do stay in it
        for number, work in enumerate(self.works):
            self.of_op.setdefault(work.op, []).append(number)
            self._note(number)

    def root(self, name: str) -> str:
        return root(name, self.aliases)

    def merge(self, merge: Merge) -> None:
        """Takes the consumer's group away and puts the longer tasks in their place."""
        became = {id(old): new for old, new in merge.pairs}
        for number in self.of_op.get(merge.consumer, ()):
            work = self.works[number]
            groups = tuple(group for group in work.groups if _key(group) != _key(merge.group))
            self.works[number] = replace(work, groups=groups)
        for number in self.of_op.get(merge.producer, ()):
            work = self.works[number]
            groups = tuple(TaskGroup(tuple(became.get(id(task), task) for task in g.tasks)) for g in work.groups)
            self.works[number] = replace(work, groups=groups)
            self._note(number)

    def items(self, buffers: Iterable[str], ops: Iterable[str]) -> Iterator[tuple[tuple[int, int], Item]]:
        """What these operators do and whatever else touches these buffers, in order, each with its place."""
        numbers = {number for name in buffers for number in self.touching.get(name, ())}
        numbers.update(number for op in ops for number in self.of_op.get(op, ()))
        for number in sorted(numbers):
            for place, item in enumerate(self._done_by(number)):
                yield (number, place), (self.works[number].op, item)

    def touched(self, item: Task | CpuPlan, write: bool) -> set[str]:
        if isinstance(item, CpuPlan):
            return {self.root(name) for name in (item.outputs if write else item.inputs)}
        return {self.root(use.buffer) for use in (item.writers() if write else item.readers())}

    def _done_by(self, number: int) -> Iterator[Task | CpuPlan]:
        work = self.works[number]
        yield from (work.call,) if work.call else ()
        yield from (task for group in work.groups for task in group.tasks)

    def _note(self, number: int) -> None:
        for item in self._done_by(number):
            for name in self.touched(item, True) | self.touched(item, False):
                self.touching.setdefault(name, set()).add(number)


class _Judge:
    """One merge, on the works before it."""

    def __init__(self, works: _Works, merge: Merge) -> None:
        self.works, self.merge = works, merge
        self.root = works.root
        self._touched = works.touched

    def faults(self) -> Iterator[str]:
        merge = self.merge
        works = [self.works.works[number] for number in self.works.of_op.get(merge.consumer, ())]
        if not any(_key(merge.group) == _key(group) for work in works for group in work.groups):
            yield "the consumer has no such group"
            return
        yield from self._complete()
        pools = [unit for task in merge.group.tasks for unit in task.units.values() if isinstance(unit, PoolConfig)]
        if pools:
            yield from self._same_means() if all(pool.is_global for pool in pools) else self._same_windows()
            return
        if all(_is_copy(task) for task in merge.group.tasks):  # moved as a whole, or like any other bytes
            seen = list(self._in_place())
            if not seen or not self._is_whole():
                yield from seen
                return
        yield from self._same_bytes()
        reference = {self._meaning(task) for task in merge.group.tasks}
        if len(reference) != 1 or None in reference:
            yield "the consumer does not treat all bytes of its operands alike"
            return
        target, expression = next(one for one in reference if one is not None)
        for old, new in merge.pairs:
            yield from self._longer(old, new, target, expression)
        yield from self._early(target)

    # ---------------------------------------------------------------------------------------- who writes, who reads

    def _complete(self) -> Iterator[str]:
        """All writers of the buffer are longer tasks now; nobody misses it; the consumer did all of its result."""
        merge, through = self.merge, self.root(self.merge.through)
        old = {id(task) for task, _ in merge.pairs}
        items = [item for _, item in self.works.items((through,), (merge.producer,))]
        for op, item in items:
            if through in self._touched(item, True) and id(item) not in old:
                yield f"{item.title} writes {through} too"
            if id(item) in old and op != merge.producer:
                yield f"{item.title} is a task of {op}"
            reads = through in self._touched(item, False)
            if reads and id(item) in old:
                yield f"{item.title} reads what it writes"
            if reads and not merge.kept and not any(item is task for task in merge.group.tasks):
                yield f"{item.title} reads {through}, which is no longer written"
        for old_task, _ in merge.pairs:
            if not any(item is old_task for _, item in items):
                yield f"{old_task.title} is no task before the merge"

    def _same_bytes(self) -> Iterator[str]:
        merge, through = self.merge, self.root(self.merge.through)
        written = _bytes(self._only(task, through) for task, _ in merge.pairs)
        wanted = _bytes(self._only(task, "") for task in merge.group.tasks)
        if not wanted.all() or written.size < wanted.size or not written[: wanted.size].all():
            yield "producer and consumer do not write the same bytes"

    def _only(self, task: Task, root: str) -> list[StrengConfig]:
        """The writers of a buffer, or all of them."""
        return [use.config for use in task.writers() if not root or self.root(use.buffer) == root]

    def _is_whole(self) -> bool:
        """Whether the result of the consumer begins where its operand does and is as long: then bytes keep places."""
        tasks = self.merge.group.tasks
        written = _bytes([use.config for use in task.writers()] for task in tasks)
        return np.array_equal(written, _bytes([use.config for use in task.readers()] for task in tasks))

    def _in_place(self) -> Iterator[str]:
        """The copies are gone, and what they copied is written at once where they took it, in the same order."""
        merge, through = self.merge, self.root(self.merge.through)
        copied = [task.readers()[0].config for task in merge.group.tasks]
        targets = {use.buffer for task in merge.group.tasks for use in task.writers()}
        sources = {self.root(use.buffer) for task in merge.group.tasks for use in task.readers()}
        if len(targets) != 1 or sources != {through}:
            yield "the consumer does something else than copying one buffer into one other"
            return
        (target,), there = targets, _places_of(merge.group)
        written = _bytes(self._only(task, through) for task, _ in merge.pairs)
        if not np.array_equal(written, _bytes([copied])):
            yield "the consumer copies other bytes than the producer writes"
        for old, new in merge.pairs:
            writers = [n for n, use in old.engines.items() if use.writes and self.root(use.buffer) == through]
            into = [wire for wire in old.wires if wire.target in writers]
            fresh = [name for name in new.engines if name not in old.engines] if merge.kept else writers
            if len(writers) != 1 or len(into) != 1 or len(fresh) != 1 or fresh[0] not in new.engines:
                yield f"{new.title} does not write once at the place that it is copied to"
                continue
            before, after = old.engines[writers[0]], new.engines[fresh[0]]
            same = new.engines == {**old.engines, fresh[0]: after} and after.buffer == target and not after.follows
            if not same or not _goes_there(before.config, after.config, there):
                yield f"{new.title} does not write at the place that it is copied to"
            if merge.kept:
                yield from self._twice(old, new, writers[0], fresh[0])
            elif new.units != old.units or set(new.wires) != set(old.wires):
                yield f"{new.title} computes something else than before"
        yield from self._early(self.root(target), _bytes([task.writers()[0].config] for task in merge.group.tasks))

    def _twice(self, old: Task, new: Task, writer: str, fresh: str) -> Iterator[str]:
        """What the producer writes is written a second time, as it is."""
        (into,) = (wire for wire in old.wires if wire.target == writer)
        byte: Expression = ("byte", writer)
        yield from _kept(old, new, writer, True)
        gated = into.keep or into.stop_after
        if gated or any(_expression(new, name, {into.source: byte}) != byte for name in (writer, fresh)):
            yield f"{new.title} writes something else than before"

    def _early(self, target: str, own_bytes: NDArray[np.bool_] | None = None) -> Iterator[str]:
        """Between the first of the longer tasks and the consumer: nobody may touch the result (`own_bytes` of it, if
        given), nobody may write what is read from memory."""
        own = {id(task) for task in self.merge.group.tasks}
        operands = {self.root(use.buffer) for old, new in self.merge.pairs for use in _added(old, new)}
        items = list(self.works.items((target, *operands), (self.merge.producer, self.merge.consumer)))
        places, start = {id(item): place for place, (_, item) in items}, (0, 0)
        first = min((places.get(id(task), start) for task, _ in self.merge.pairs), default=start)
        last = max(places.get(id(task), start) for task in self.merge.group.tasks)
        for place, (_, item) in items:
            if id(item) in own or not first <= place <= last:
                continue
            if target in self._touched(item, True) | self._touched(item, False) and not self._beside(item, own_bytes):
                yield f"{item.title} touches {target} before the consumer"
            for name in sorted(operands & self._touched(item, True)):
                yield f"{item.title} writes {name} behind the producer"

    def _beside(self, item: Task | CpuPlan, own_bytes: NDArray[np.bool_] | None) -> bool:
        """Whether a task touches other bytes of the result, under its own name."""
        targets = {use.buffer for task in self.merge.group.tasks for use in task.writers()}
        if own_bytes is None or isinstance(item, CpuPlan):
            return False
        there = [use for use in item.engines.values() if self.root(use.buffer) in map(self.root, targets)]
        flags = _bytes([use.config] for use in there)[: own_bytes.size]
        return all(use.buffer in targets for use in there) and not (flags & own_bytes[: flags.size]).any()

    # ---------------------------------------------------------------------------------------- POOL

    def _same_means(self) -> Iterator[str]:
        """Every channel is averaged once, over the same pixels, by the same arithmetic, and lies where it did."""
        reference, done, seen = self._pools(means_of)
        yield from seen
        if not seen and whole_means(reference) != whole_means(done):
            yield "producer and consumer do not average the same"

    def _same_windows(self) -> Iterator[str]:
        """Every result is made once, of the same bytes, by the same arithmetic, and lies where it did."""
        reference, done, seen = self._pools(pooled)
        yield from seen
        if not seen and not same_pools(reference, done):
            yield "producer and consumer do not look through the same windows"

    def _pools(self, meaning: Meaning[T]) -> tuple[list[T], list[T], list[str]]:
        """What the tasks of the consumer mean, what the longer ones do, and what is wrong before both are compared."""
        merge, through = self.merge, self.root(self.merge.through)
        reference = [meaning(task, *_ends(task), None) for task in merge.group.tasks]
        targets = {self.root(use.buffer) for task in merge.group.tasks for use in task.writers()}
        sources = {self.root(use.buffer) for task in merge.group.tasks for use in task.readers()}
        if None in reference or len(targets) != 1 or sources != {through}:
            return [], [], ["the consumer does something else than pooling one buffer"]
        done = [found for pair in merge.pairs for found in self._pool(*pair, targets, meaning)]
        seen = [*(one for one in done if isinstance(one, str)), *self._early(next(iter(targets)))]
        return [one for one in reference if one], [one for one in done if not isinstance(one, str)], seen

    def _pool(self, old: Task, new: Task, targets: set[str], meaning: Meaning[T]) -> Iterator[T | str]:
        through = self.root(self.merge.through)
        writers = [n for n, use in old.engines.items() if use.config.to_memory and self.root(use.buffer) == through]
        fresh = [name for name in new.engines if name not in old.engines]
        into = [wire for wire in old.wires if wire.target in writers]
        if len(writers) != 1 or len(fresh) != 1 or len(into) != 1 or into[0].keep or into[0].stop_after:
            yield f"{new.title} does not go on from one writer"
            return
        yield from _kept(old, new, writers[0], self.merge.kept)
        leaves: dict[str, Expression] = {into[0].source: ("byte", through)}
        if self.merge.kept and _expression(new, writers[0], leaves) != ("byte", through):
            yield f"{new.title} no longer writes {through} as it was"
        found = meaning(new, into[0].source, fresh[0], old.engines[writers[0]].config)
        if found is None or self.root(new.engines[fresh[0]].buffer) not in targets:
            yield f"{new.title} does not pool whole frames"
        else:
            yield found

    # ---------------------------------------------------------------------------------------- the same arithmetic

    def _meaning(self, task: Task) -> tuple[str, Expression] | None:
        """The buffer that the task writes, and what each of its bytes is."""
        writers = [name for name, use in task.engines.items() if use.config.to_memory]
        cuts = {_cut(use.config) for use in task.engines.values()}
        if len(writers) != 1 or len(cuts) != 1 or None in cuts:
            return None
        leaves: dict[str, Expression] = {
            name: ("byte", self.root(use.buffer)) for name, use in task.engines.items() if name != writers[0]
        }
        found = _expression(task, writers[0], leaves)
        return None if found is None else (self.root(task.engines[writers[0]].buffer), found)

    def _longer(self, old: Task, new: Task, target: str, reference: Expression) -> Iterator[str]:
        through = self.root(self.merge.through)
        writers = [n for n, use in old.engines.items() if use.config.to_memory and self.root(use.buffer) == through]
        if len(writers) != 1:
            yield f"{old.title} has {len(writers)} writers of {through}"
            return
        writer, walk = writers[0], _walk(old.engines[writers[0]].config)
        yield from _kept(old, new, writer, self.merge.kept)
        streams = self._streams(old, walk)
        fresh = {name: use for name, use in new.engines.items() if name not in old.engines}
        leaves = dict(streams)
        for name, use in fresh.items():
            if not use.config.to_memory:
                if _walk(use.config) != walk or use.config.sign_extend or use.config.align_right:
                    yield f"{use} is read in another order than the producer writes"
                leaves[name] = ("byte", self.root(use.buffer))
        results = [(name, use) for name, use in fresh.items() if use.config.to_memory]
        if len(results) != 1 or self.root(results[0][1].buffer) != target:
            yield f"{new.title} does not write {target} once"
            return
        name, use = results[0]
        if _walk(use.config) != walk:
            yield f"{use} is written in another order than {through}"
        if _expression(new, name, leaves) != reference:
            yield f"{new.title} computes something else than the consumer"
        if self.merge.kept and _expression(new, writer, leaves) != ("byte", through):
            yield f"{new.title} no longer writes {through} as it was"

    def _streams(self, old: Task, walk: tuple[object, ...]) -> dict[str, Expression]:
        """Units of the producer that send the bytes of a buffer in the order of the merge."""
        found: dict[str, Expression] = {}
        for name, use in old.engines.items():
            into = [wire for wire in old.wires if wire.target == name]
            plain = len(into) == 1 and not (into[0].keep or into[0].stop_after)
            if use.config.to_memory and plain and _walk(use.config) == walk:
                found[into[0].source] = ("byte", self.root(use.buffer))
        return found


def _places_of(copies: TaskGroup) -> NDArray[np.int64]:
    """For every byte of a buffer, where tasks copy it to; -1: nowhere."""
    ends = [(places(task.readers()[0].config), places(task.writers()[0].config)) for task in copies.tasks]
    found = np.full(max(int(near.max()) for near, _ in ends) + 1, -1, np.int64)
    for near, far in ends:
        found[near] = far
    return found


def _goes_there(old: StrengConfig, new: StrengConfig, there: NDArray[np.int64]) -> bool:
    """Whether a writer does what the other one did, but for where each byte goes."""
    near, same = places(old), {name: getattr(old, name) for name in _GEOMETRY}
    inside = near.min() >= 0 and near.max() < there.size
    return bool(inside and replace(new, **same) == old and np.array_equal(places(new), there[near]))


def _is_copy(task: Task) -> bool:
    """One reader of bytes in a row, and one writer of as many."""
    if task.units or len(task.engines) != 2 or len(task.wires) != 1:
        return False
    if not task.readers() or not task.writers() or task.wires[0].keep or task.wires[0].stop_after:
        return False
    near, far = task.readers()[0].config, task.writers()[0].config
    plain = not (near.sign_extend or near.align_right or near.sync or far.sync)
    return plain and places(near).size == places(far).size and near.element_bytes == far.element_bytes


def _kept(old: Task, new: Task, writer: str, kept: bool) -> Iterator[str]:
    """The producer itself is as it was, but for the writer of the buffer between."""
    engines = {name: use for name, use in old.engines.items() if kept or name != writer}
    if any(new.engines.get(name) != use for name, use in engines.items()) or (not kept and writer in new.engines):
        yield f"{new.title} has other engines than before"
    if any(new.units.get(name) != unit for name, unit in old.units.items()):
        yield f"{new.title} has other units than before"
    into_old = {wire for wire in new.wires if wire.target in old.units or wire.target in engines} - {
        wire for wire in new.wires if wire.target == writer
    }
    if into_old != {wire for wire in old.wires if wire.target != writer}:
        yield f"{new.title} is wired in another way than before"


def _ends(task: Task) -> tuple[str, str]:
    """A reader and a writer."""
    writers = {name for name, use in task.engines.items() if use.config.to_memory}
    return next((n for n in task.engines if n not in writers), ""), next(iter(writers), "")


def _added(old: Task, new: Task) -> list[EngineUse]:
    """Readers that the longer task has besides."""
    return [use for name, use in new.engines.items() if name not in old.engines and not use.config.to_memory]


def _expression(task: Task, node: str, leaves: Mapping[str, Expression], depth: int = 0) -> Expression | None:
    """What arrives at a node: identities left out, operands of sums in one order. None: not byte by byte."""
    if node in leaves:
        return leaves[node]
    into = sorted((wire for wire in task.wires if wire.target == node), key=lambda wire: wire.port)
    if not into or depth > len(task.wires) or any(wire.keep or wire.stop_after for wire in into):
        return None
    inputs = [_expression(task, wire.source, leaves, depth + 1) for wire in into]
    if None in inputs:
        return None
    unit = task.units.get(node)
    if unit is None or (len(inputs) == 1 and is_identity(unit)):
        return inputs[0] if len(inputs) == 1 else None
    if isinstance(unit, ActivConfig) and len(inputs) == 1:
        return (unit, inputs[0])
    if not isinstance(unit, ArithConfig) or unit.is_vector or len(inputs) != 1 + bool(unit.dual_input):
        return None
    return _sum(unit, *inputs) if len(inputs) == 2 else (unit, inputs[0])


def _sum(unit: ArithConfig, x: Expression | None, y: Expression | None) -> Expression:
    """Describes a sum; where both ports do the same with plain bytes, their order does not count."""
    if unit.operation != AFFINE or unit.bytes_x != unit.bytes_y or unit.combine_bc:
        return (unit, x, y)
    rest = replace(unit, a=0, b=0, shift_a=0, shift_b=0)
    parts = sorted([(unit.a, unit.shift_a, x), (unit.b, unit.shift_b, y)], key=repr)
    return (rest, *parts)


# ------------------------------------------------------------------------------------------------- bytes in memory


def _cut(config: StrengConfig) -> tuple[int, int] | None:
    """First byte and count of bytes in a row, taken as they are."""
    if not config.raw or config.frames != 1 or config.element_bytes != 1 or config.sign_extend or config.sync:
        return None
    return config.address, config.frame_elements


def _walk(config: StrengConfig) -> tuple[object, ...]:
    """Which bytes in which order: loops that turn once do not matter, nor do loops that are one even walk."""
    loops: list[tuple[int, int]] = []
    for count, step in (*config.frame_loops(), *zip(config.shape, config.steps, strict=True)):
        if count == 1:
            continue
        if loops and loops[-1][1] == count * step:
            loops[-1] = (loops[-1][0] * count, step)
        else:
            loops.append((count, step))
    return (config.bytes_per_element, config.address, config.elements, *loops)


def _bytes(writers: Iterable[list[StrengConfig]]) -> NDArray[np.bool_]:
    """All bytes that are written, as flags."""
    configs = [config for one in writers for config in one]
    size = max((config.span()[1] for config in configs), default=0)
    flags = np.zeros(size, np.bool_)
    for config in configs:
        flags |= touched(config, 0, size)
    return flags
