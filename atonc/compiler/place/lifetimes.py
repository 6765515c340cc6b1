"""From which step to which the contents of each buffer matter, and what every step moves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from atonc.compiler.plan.aliases import begins, root
from atonc.compiler.plan.lives import spans
from atonc.compiler.plan.types import Buffer, BufferKind, CpuPlan, Planned, StepPlan
from atonc.machine.base.errors import ModelError
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.cycles.traffic import beats
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES, CPU_CACHE_LINE, READ_ALIGNMENT, WRITE_ALIGNMENT


class Access(NamedTuple):
    """One step's use of a buffer; `aligned`: engines start where any memory takes it."""

    step: int
    buffer: str
    size_bytes: int  # moved, repeats included
    write: bool
    by_cpu: bool
    aligned: bool = True
    bus_bytes: int = 0  # of an engine, in whole beats of the bus


@dataclass(frozen=True)
class Lifetime:
    """A root buffer, from its first to its last step; `members` are all names that share its memory."""

    buffer: Buffer
    first: int
    last: int
    members: tuple[str, ...]
    accesses: tuple[Access, ...]
    edge: bool = False  # input or output: the application touches it

    @property
    def alignment(self) -> int:
        return CPU_CACHE_LINE if self.edge or any(a.by_cpu for a in self.accesses) else ALIGNED

    @property
    def padded_bytes(self) -> int:
        return max(1, -(-self.buffer.size_bytes // self.alignment)) * self.alignment

    @property
    def traffic_bytes(self) -> int:
        return sum(a.size_bytes for a in self.accesses)

    @property
    def npu_ram_only(self) -> bool:
        """Some engine starts at an address that was only ever seen in the NPU's own RAM."""
        return not all(a.aligned for a in self.accesses)


def accesses(plans: Sequence[StepPlan], buffers: Mapping[str, Buffer]) -> Iterator[Access]:
    for step, plan in enumerate(plans):
        if isinstance(plan, CpuPlan):
            for write, names in ((False, plan.inputs), (True, plan.outputs)):
                for name in dict.fromkeys(n for n in names if n):
                    yield Access(step, name, _buffer(buffers, name).size_bytes, write, by_cpu=True)
            continue
        for use in plan.engines.values():
            config, write, name = use.config, bool(use.config.to_memory), _buffer(buffers, use.buffer).name
            aligned = config.address % (WRITE_ALIGNMENT if write else READ_ALIGNMENT) == 0
            size = config.frames * config.frame_bytes
            yield Access(step, name, size, write, False, aligned, BUS_BYTES * beats(config))


def lifetimes(planned: Planned, exclude: Collection[str] = ()) -> list[Lifetime]:
    """One per root buffer that is used, in order of `buffers`; buffers in `exclude` (the user's own) are left out."""
    plans, aliases = planned.plans, planned.aliases
    every = with_scratch(plans, planned.buffers)
    uses: dict[str, list[Access]] = {}
    for access in accesses(plans, every):
        uses.setdefault(root(access.buffer, aliases), []).append(access)
    members: dict[str, list[str]] = {}
    for name in dict.fromkeys((*every, *aliases)):
        members.setdefault(root(name, aliases), []).append(name)
    starts, ends = ({root(name, aliases) for name in names} for names in (planned.inputs, planned.outputs))
    skipped = {root(name, aliases) for name in exclude}
    last_step = max(0, len(plans) - 1)
    touched: list[list[str]] = [[] for _ in plans]
    for name, used_here in uses.items():
        for access in used_here:
            touched[access.step].append(name)
    lives = spans(touched, starts, ends)
    found = []
    for name, shared in members.items():
        used = tuple(uses.get(name, ()))
        if name in skipped or not (used or name in starts or name in ends):
            continue
        first, last = lives.get(name, (0, last_step if name in ends else 0))
        buffer = _largest(name, [(_buffer(every, n), begins(n, every, aliases)) for n in shared if n in every])
        if buffer.kind == BufferKind.CONSTANT:
            first, last = 0, last_step
        found.append(Lifetime(buffer, first, last, tuple(shared), used, name in starts or name in ends))
    return found


def with_scratch(plans: Sequence[StepPlan], buffers: Mapping[str, Buffer]) -> dict[str, Buffer]:
    """All buffers, those that epochs declare themselves included."""
    every = dict(buffers)
    for plan in plans:
        if not isinstance(plan, CpuPlan):
            for buffer in plan.scratch:
                every.setdefault(buffer.name, buffer)
    return every


def _buffer(buffers: Mapping[str, Buffer], name: str) -> Buffer:
    if name not in buffers:
        raise ModelError("a step uses an undeclared buffer", where=name)
    return buffers[name]


def _largest(name: str, shared: Sequence[tuple[Buffer, int]]) -> Buffer:
    """The root with room for everything that shares its memory, from some byte on; a constant stays one."""
    if not shared:
        raise ModelError("a step uses an undeclared buffer", where=name)
    own = next((b for b, _ in shared if b.name == name), shared[0][0])
    return replace(own, name=name, size_bytes=max(start + b.size_bytes for b, start in shared))
