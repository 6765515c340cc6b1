"""When it does not fit: what is asked for, what there is, what lives at the worst step, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atonc.compiler.place.greedy import Problem
from atonc.compiler.place.lifetimes import Lifetime
from atonc.compiler.place.pools import BoardMemory, runs, usable
from atonc.compiler.plan.types import BufferKind, StepPlan
from atonc.machine.base.errors import CapacityError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.mpool import MemoryPool

_SHOWN = 6
NPU_RAM = "NPU RAM"


@dataclass(frozen=True)
class LiveBuffer:
    """A buffer at the worst step, with the layers that fill and use it."""

    name: str
    size_bytes: int
    kind: BufferKind
    written_by: str
    read_by: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True)
class ShortageLever:
    """Something that would lower the demand, or raise the capacity, by so many bytes."""

    what: str
    gain_bytes: int
    enough: bool


@dataclass(frozen=True)
class Shortage:
    """`demand_bytes` is the lower bound: no layout needs less. `memory` says of which memory there is too little."""

    memory: str
    demand_bytes: int
    capacity_bytes: int
    peak_step: int
    peak_title: str
    live: tuple[LiveBuffer, ...]  # largest first
    levers: tuple[ShortageLever, ...]

    @property
    def gap_bytes(self) -> int:
        return self.demand_bytes - self.capacity_bytes


class PlacementError(CapacityError):
    """Does not fit; `shortage` has the figures."""

    def __init__(self, shortage: Shortage) -> None:
        self.shortage = shortage
        shown = ", ".join(f"{b.name} {b.size_bytes:,} B" for b in shortage.live[:_SHOWN])
        more = len(shortage.live) - _SHOWN
        super().__init__(
            f"needs {shortage.demand_bytes:,} bytes of {shortage.memory} at once, the board has "
            f"{shortage.capacity_bytes:,}"
            + ("" if shortage.gap_bytes > 0 else ", but not in one piece where it is needed")
            + f"; live then: {shown}"
            + (f" and {more} more" if more > 0 else ""),
            where=f"step {shortage.peak_step + 1} ({shortage.peak_title})",
            rule="all buffers that live in the same step need their own memory",
            remedy=", or ".join(lever.what for lever in shortage.levers[:3]),
        )


def shortage(ram: Sequence[Lifetime], problem: Problem, plans: Sequence[StepPlan], board: BoardMemory) -> Shortage:
    memory, pools = "RAM", (*board.on_chip, *board.external_ram)
    if problem.lower_bound <= _capacity(pools) and any(life.npu_ram_only for life in ram):
        memory, pools = NPU_RAM, tuple(pool for pool in board.on_chip if board.is_npu_ram(pool))
        ram = [life for life in ram if life.npu_ram_only]
        problem = Problem(tuple(item for item in problem.items if item.npu_ram_only))
    step, demand, capacity = problem.peak_step, problem.lower_bound, _capacity(pools)
    live = [_live(life, plans) for life in ram if life.first <= step <= life.last]
    live.sort(key=lambda b: (-b.size_bytes, b.name))
    title = plans[step].title if step < len(plans) else ""
    levers = _levers(ram, problem, demand - capacity, board)
    if memory != "RAM":
        levers = _npu_ram_levers(live, demand - capacity)
    return Shortage(memory, demand, capacity, step, title, tuple(live), levers)


def _capacity(pools: Iterable[MemoryPool]) -> int:
    return sum(max(0, end - start) for start, end in map(usable, runs(pools)))


def _live(life: Lifetime, plans: Sequence[StepPlan]) -> LiveBuffer:
    writers = dict.fromkeys(_layer(plans[a.step]) for a in life.accesses if a.write)
    readers = dict.fromkeys(_layer(plans[a.step]) for a in life.accesses if not a.write)
    return LiveBuffer(
        life.buffer.name,
        life.padded_bytes,
        life.buffer.kind,
        next(iter(writers), ""),
        tuple(readers),
        life.first,
        life.last,
    )


def _layer(plan: StepPlan) -> str:
    return plan.origin[0] if plan.origin else plan.title


def _levers(ram: Sequence[Lifetime], problem: Problem, gap: int, board: BoardMemory) -> tuple[ShortageLever, ...]:
    """Each lever's gain is the lower bound with it against the lower bound without."""
    found = []
    edges = [n for n, life in enumerate(ram) if life.edge]
    if edges:
        how = "allocate inputs and outputs in the application (--no-inputs-allocation, --no-outputs-allocation)"
        found.append((how, _gain(problem, edges)))
    scratch = [n for n, life in enumerate(ram) if life.buffer.kind == BufferKind.SCRATCH]
    if scratch:
        found.append(("make the split layers smaller: they need scratch memory", _gain(problem, scratch)))
    constants = [n for n, life in enumerate(ram) if life.buffer.kind == BufferKind.CONSTANT]
    if constants:
        found.append(("give the board flash for its constants", _gain(problem, constants)))
    levers = [ShortageLever(what, gain, gain >= gap) for what, gain in found if gain > 0]
    if not board.external_ram:
        levers.append(ShortageLever("use a board or pool file with external RAM", max(gap, 0), True))
    largest = max((life.padded_bytes for life in ram), default=0)
    states = [life.padded_bytes for life in ram if life.buffer.kind == BufferKind.STATE]
    smaller = "keep shorter states (a shorter cache or context)" if largest in states else "lower the input resolution"
    levers.append(ShortageLever(smaller, max(gap, 0), True))
    return tuple(sorted(levers, key=lambda lever: (not lever.enough, -lever.gain_bytes)))


def _npu_ram_levers(live: Sequence[LiveBuffer], gap: int) -> tuple[ShortageLever, ...]:
    """Some engine starts in the middle of these buffers, at an address that was seen in the NPU's own RAM only."""
    makers = dict.fromkeys(buffer.written_by for buffer in live if buffer.written_by)
    on_cpu = [
        ShortageLever(f"compute {maker} on the CPU (--on cpu {maker})", live[0].size_bytes, False) for maker in makers
    ]
    return (
        ShortageLever("use a pool file with more of 0x34200000 to 0x343c0000", max(gap, 0), True),
        *on_cpu[:1],
        ShortageLever("use channel counts that are multiples of 16: parts of these buffers begin in between", 0, False),
    )


def _gain(problem: Problem, without: Sequence[int]) -> int:
    gone = set(without)
    rest = Problem(tuple(item for n, item in enumerate(problem.items) if n not in gone))
    return problem.lower_bound - rest.lower_bound
