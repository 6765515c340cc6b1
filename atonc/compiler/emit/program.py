"""The finished program: epochs with addresses, CPU calls, memory contents, and where everything lies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import ClassVar

from atonc.compiler.ir import Graph
from atonc.compiler.place.lifetimes import accesses
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.streams import with_idle_steps
from atonc.compiler.plan.types import BufferKind, CpuPlan, DmaPlan, EpochPlan, StepPlan
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.hw.dma import BEAT_BYTES, DmaCopy, DmaWork
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.four_bits import FourBits
from atonc.machine.hw.limits import PREFETCH_BYTES
from atonc.machine.hw.mpool import MemoryPool


@dataclass(frozen=True)
class ProgramStep:
    number: int
    plan: StepPlan
    epoch: Epoch | None = None
    dma: DmaWork | None = None  # of the processor, before it


@dataclass(frozen=True)
class UserBuffer:
    """An input or output whose memory the application supplies at run time.

    Everything up to the emulator sees it at `address`, where the chip has no memory; in the files that are written
    each such address is `symbol` plus an offset (`emit.runs`). All buffers that lie at `address` are this memory.
    """

    direction: str  # "input" or "output"
    index: int  # among all inputs or all outputs of the network
    name: str  # of the buffer, as in `Program.inputs` or `Program.outputs`
    address: int
    size_bytes: int  # that the application must provide
    npu_ram_only: bool = False  # some engine starts at an address that was seen in the NPU's own RAM only

    alignment: ClassVar[int] = 32  # a line of the processor's cache

    @property
    def symbol(self) -> str:
        """The symbol by which relocation tables name it."""
        return f"_user_io_{self.direction}_{self.index}"

    @property
    def limit(self) -> int:
        """The first address behind all that engines may be told of it."""
        return self.address + self.size_bytes + PREFETCH_BYTES


@dataclass(frozen=True)
class RelativePool:
    """A memory pool whose base is known at run time only (`USEMODE_RELATIVE` in the pool file).

    Everything up to the emulator sees it at the base that the pool file gives; in the files that are written each of
    its addresses is `symbol` plus an offset.
    """

    symbol: str  # as relocation tables name it
    address: int
    size_bytes: int

    @property
    def limit(self) -> int:
        return self.address + self.size_bytes


Movable = UserBuffer | RelativePool


@dataclass(frozen=True)
class EncryptedRegion:
    """The part of a memory image that is encrypted before it is put into flash, in whole words of the cipher."""

    pool: str
    base: int  # of the pool, where its image begins
    start: int
    end: int

    @property
    def offset(self) -> int:
        return self.start - self.base

    @property
    def size_bytes(self) -> int:
        return self.end - self.start

    def meets(self, start: int, end: int) -> bool:
        return start < self.end and end > self.start

    def holds(self, start: int, end: int) -> bool:
        return self.start <= start and end <= self.end


@dataclass(frozen=True)
class StateMemory:
    """Memory that keeps its contents from one inference to the next."""

    name: str  # of its input in the model
    output: str  # that lies in the same memory at the end of a run
    address: int
    first: bytes = field(repr=False)  # what a reset writes there

    @property
    def size_bytes(self) -> int:
        return len(self.first)

    @property
    def end(self) -> int:
        return self.address + len(self.first)


@dataclass(frozen=True)
class Program:
    steps: tuple[ProgramStep, ...]
    placed: Mapping[str, Placed]
    inputs: tuple[str, ...]  # buffers in the order of the graph's inputs, without those of states
    outputs: tuple[str, ...]
    external: frozenset[str] = field(default_factory=frozenset)  # pools that the NPU cache serves
    user_io: tuple[UserBuffer, ...] = ()  # inputs, then outputs; empty when all of them lie inside activations
    relative: tuple[RelativePool, ...] = ()  # of the pools in use
    four_bits: FourBits | None = None  # how engines are taken to read kernels of 4 bits, where some do
    encrypted: EncryptedRegion | None = None  # what its engines decipher (`emit.encryption`)
    states: tuple[StateMemory, ...] = ()
    __repr__ = brief

    @property
    def movable(self) -> tuple[Movable, ...]:
        """Memory whose place is known at run time only."""
        return (*self.user_io, *self.relative)

    @property
    def epochs(self) -> list[Epoch]:
        return [step.epoch for step in self.steps if step.epoch is not None]


def bind_epoch(plan: EpochPlan, number: int, placed: Mapping[str, Placed], cached_pools: frozenset[str]) -> Epoch:
    """The epoch with all addresses known."""
    units: dict[str, UnitConfig] = dict(plan.units)
    copied = {link.source for link in plan.links if link.source in plan.engines and link.destination in plan.engines}
    for name, use in plan.engines.items():
        home = placed[use.buffer]
        units[name] = changed(
            with_idle_steps(use.config),
            address=home.address + use.config.address,
            address_limit=home.end + PREFETCH_BYTES - 1,
            # only constants go through the NPU cache: activations in external RAM are also the CPU's; what is copied
            # to RAM is read once, and published copies pass the cache by
            cacheable=int(home.pool in cached_pools and home.buffer.kind == BufferKind.CONSTANT and name not in copied),
        )
    writers = sorted(name for name, use in plan.engines.items() if use.config.to_memory)
    return Epoch(number, units, plan.links, tuple(writers))


def bind(
    plans: list[StepPlan],
    placed: Mapping[str, Placed],
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    cached_pools: frozenset[str],
    pools: Iterable[MemoryPool] = (),
) -> Program:
    steps = []
    for number, plan in enumerate(plans, 1):
        epoch = None if isinstance(plan, CpuPlan) else bind_epoch(plan, number, placed, cached_pools)
        steps.append(ProgramStep(number, plan, epoch, _dma_work(plan.dma, placed)))
    users = user_buffers(plans, placed, inputs, outputs)
    return Program(tuple(steps), placed, inputs, outputs, cached_pools, users, relative_pools(pools, placed))


def _dma_work(plan: DmaPlan | None, placed: Mapping[str, Placed]) -> DmaWork | None:
    """In whole beats: buffers are followed by more memory."""
    if plan is None:
        return None
    starts = (
        DmaCopy(
            placed[ride.constant].address + ride.offset,
            placed[ride.copy].address + ride.offset,
            -(-ride.size_bytes // BEAT_BYTES) * BEAT_BYTES,
        )
        for ride in plan.starts
    )
    return DmaWork(plan.waits, tuple(starts))


def kept_states(graph: Graph, placed: Mapping[str, Placed]) -> tuple[StateMemory, ...]:
    """Where the states of the graph lie."""
    return tuple(
        StateMemory(one.input, one.output, placed[one.input].address, one.first.tobytes())
        for one in graph.states
        if one.kept
    )


def relative_pools(pools: Iterable[MemoryPool], placed: Mapping[str, Placed]) -> tuple[RelativePool, ...]:
    """The pools without a fixed base that hold something."""
    relative = [pool for pool in pools if not pool.absolute]
    starts = [home.address for home in placed.values() if home.buffer.size_bytes]
    return tuple(
        RelativePool(pool.symbol, pool.base, pool.size_bytes)
        for pool in relative
        if any(pool.base <= start < pool.base + pool.size_bytes for start in starts)
    )


def user_buffers(
    plans: list[StepPlan], placed: Mapping[str, Placed], inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> tuple[UserBuffer, ...]:
    """The inputs and outputs that the application supplies."""
    sizes: dict[int, int] = {}  # of everything that shares the memory
    for home in placed.values():
        sizes[home.address] = max(sizes.get(home.address, 0), home.buffer.size_bytes)
    declared = {name: home.buffer for name, home in placed.items()}
    demanding = {placed[a.buffer].address for a in accesses(plans, declared) if not a.aligned}
    found = []
    for direction, names in (("input", inputs), ("output", outputs)):
        for index, name in enumerate(names):
            home = placed[name]
            if home.user_allocated:
                strict = home.address in demanding
                found.append(UserBuffer(direction, index, name, home.address, sizes[home.address], strict))
    return tuple(found)
