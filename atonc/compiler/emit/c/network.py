"""What the writers of C files share: the program, its blocks, its pools and who touches which buffer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property
from pathlib import PurePath

from atonc.compiler.emit.c import names
from atonc.compiler.emit.program import Movable, Program, ProgramStep, RelativePool, UserBuffer
from atonc.compiler.emit.runs import container, npu_runs, program_memory
from atonc.compiler.ir import Graph
from atonc.compiler.place.types import Placed
from atonc.compiler.place.usage import MemoryUse
from atonc.compiler.plan.types import BufferKind
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.templates import Words
from atonc.machine.hw.dma import CHANNEL, DmaCopy
from atonc.machine.hw.mpool import MemoryPool

NEWEST_RUNTIME = "1.1.3-262"  # of the releases of LL_ATON whose sources are public


@dataclass(frozen=True)
class Cycles:
    """What a step is expected to take: computing alone, and with the memories in the way."""

    npu: int = 0
    total: int = 0


@dataclass(frozen=True)
class Block:
    """One item of the list that the runtime walks: a run of epochs in one program, one epoch, or one CPU step."""

    steps: tuple[ProgramStep, ...]

    @property
    def first(self) -> int:
        return self.steps[0].number

    @property
    def last(self) -> int:
        return self.steps[-1].number

    @property
    def on_cpu(self) -> bool:
        return self.steps[0].epoch is None

    def reads(self) -> set[str]:
        return set().union(*(step.plan.reads() for step in self.steps)) - {""}

    def writes(self) -> set[str]:
        return set().union(*(step.plan.writes() for step in self.steps)) - {""}


@dataclass(frozen=True)
class CNetwork:
    """A program on its way into C."""

    name: str
    program: Program
    graph: Graph
    pools: tuple[MemoryPool, ...]
    model: str = ""  # file name
    tool: str = "atonc"
    epoch_controller: bool = True
    channels_first: frozenset[str] = frozenset()  # inputs and outputs that are stored that way
    cycles: Mapping[int, Cycles] = field(default_factory=dict)  # by step number
    dma_channel: int = CHANNEL  # copies weights ahead, where the program has such copies
    runtime: str = NEWEST_RUNTIME  # the release that images of ST's packager name; the C code suits all of them

    @property
    def release(self) -> tuple[int, ...]:
        """The same as numbers: major, minor, micro, build."""
        return tuple(map(int, self.runtime.replace("-", ".").split(".")))

    @property
    def suffix(self) -> str:
        return names.suffix(self.name)

    @property
    def origin_name(self) -> str:
        """The model's own name."""
        return names.plain(PurePath(self.model).stem) if self.model else self.name

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        if not self.epoch_controller:
            return tuple(Block((step,)) for step in self.program.steps)
        on_cpu = [Block((step,)) for step in self.program.steps if step.epoch is None]
        on_npu = [Block(tuple(run)) for run in npu_runs(self.program)]
        return tuple(sorted((*on_cpu, *on_npu), key=lambda block: block.first))

    @property
    def cpu_blocks(self) -> list[Block]:
        return [block for block in self.blocks if block.on_cpu]

    @cached_property
    def labels(self) -> dict[str, str]:
        """Buffer -> its name in tables and comments. The number of a scratch memory tells how many forms were tried
        before, which is not the same for everyone who makes this program: they are counted as they come."""
        states = (state.name for state in self.program.states)
        buffers = (*self.program.inputs, *self.program.outputs, *states, *self.program.placed)
        return names.unique(buffers, lambda name: name if name in self.graph.tensors else re.sub(r"#\d+", "", name))

    @cached_property
    def shifts(self) -> dict[str, int]:
        """Buffers whose memory holds codes plus a number."""
        return {name: home.buffer.offset for name, home in self.program.placed.items() if home.buffer.offset}

    @cached_property
    def user_buffers(self) -> dict[int, UserBuffer]:
        """The user's buffers by the address that stands in for their memory."""
        return {user.address: user for user in self.program.user_io}

    @cached_property
    def memory(self) -> MemoryUse:
        return program_memory(self.program, self.graph, self.pools, self.epoch_controller)

    @cached_property
    def copies(self) -> tuple[DmaCopy, ...]:
        """All that the DMA copies ahead, in the order of its lists."""
        return tuple(one for step in self.program.steps if step.dma is not None for one in step.dma.starts)

    def copies_before(self, number: int) -> int:
        """How many of them are started in front of earlier steps."""
        steps = self.program.steps[: number - 1]
        return sum(len(step.dma.starts) for step in steps if step.dma is not None)

    @property
    def blob_bytes(self) -> int:
        """Programs of the epoch controller, as their arrays hold them."""
        if not self.epoch_controller:
            return 0
        stored = (container(self.program, block.steps) for block in self.blocks if not block.on_cpu)
        return sum(4 * len(one.words()) for one in stored)

    def home(self, buffer: str) -> Placed:
        return self.program.placed[buffer]

    def user_of(self, buffer: str) -> UserBuffer | None:
        """The buffer of the application that holds it, if one does."""
        return self.user_buffers.get(self.home(buffer).address)

    def c_symbol(self, part: Movable | MemoryPool) -> str:
        """In C: the variable that holds the application's pointer, or the array that stands for the pool."""
        return f"_mem_pool_{part.symbol}_{self.suffix}"

    def used_bytes(self, pool: MemoryPool) -> int:
        """Counts the bytes from the base of a pool to the last one that the network keeps in it."""
        end = pool.base + pool.size_bytes
        ends = [min(h.end, end) for h in self.program.placed.values() if h.address < end and h.end > pool.base]
        region = self.program.encrypted
        ends += [region.end] if region is not None and region.pool == pool.name else []
        return max(ends, default=pool.base) - pool.base

    @cached_property
    def words(self) -> Words:
        """What templates of C files may say of any network."""
        return {
            **{"name": self.name, "net": self.suffix, "NET": names.macro(self.name), "tool": self.tool},
            "relative": any(not pool.absolute for pool in self.pools),
            "relative_pools": "\n".join(self._relative_pools()),
            "encrypted": self.program.encrypted is not None,
            "resident": any(home.copy_of for home in self.program.placed.values()),
            "has_copies": bool(self.copies),
            "has_users": bool(self.program.user_io),
            "has_states": bool(self.program.states),
        }

    def _relative_pools(self) -> Iterator[str]:
        """Memory pools without a fixed base are arrays that the linker, or the loader of a relocatable image, gives a
        place. Each is declared, with the bytes that are used in a comment: ST's packager reads both, and wants as many
        as there are pools of that mode."""
        yield "/* Memory pools whose base is known at run time only. */"
        for pool in self.pools:
            if not pool.absolute:
                yield f"extern unsigned char {self.c_symbol(pool)}[]; /* [{self.used_bytes(pool)}]; */"

    def relative_at(self, address: int) -> RelativePool | None:
        return next((pool for pool in self.program.relative if pool.address <= address < pool.limit), None)

    def pool_at(self, address: int) -> MemoryPool | None:
        return next((p for p in self.pools if p.base <= address < p.base + p.size_bytes), None)

    def origin(self, buffer: str) -> tuple[str, int]:
        """Base (as C) and offset of a buffer."""
        home = self.home(buffer)
        part = self.user_of(buffer) or self.relative_at(home.address)
        if part is not None:
            return self.c_symbol(part), home.address - part.address
        pool = self.pool_at(home.address)
        base = pool.base if pool is not None else home.address
        return names.address(base), home.address - base

    def address(self, buffer: str, offset_bytes: int = 0) -> str:
        """The address of a byte of a buffer as a C expression of an integer type."""
        base, offset = self.origin(buffer)
        if base.startswith("_"):
            return f"((uintptr_t){base} + {offset + offset_bytes}U)"
        return f"({base} + {offset + offset_bytes}UL)"

    def place(self, address: int) -> str:
        """Any address inside a pool as a C expression of an integer type."""
        pool = self.relative_at(address)
        return f"((uintptr_t){self.c_symbol(pool)} + {address - pool.address}U)" if pool else names.address(address)

    @cached_property
    def writer(self) -> dict[str, ProgramStep]:
        """Buffer -> the step that wrote it last."""
        found: dict[str, ProgramStep] = {}
        for step in self.program.steps:
            found |= dict.fromkeys(sorted(step.plan.writes()), step)
        return found

    def constants(self) -> Iterator[Placed]:
        for home in self.program.placed.values():
            if home.buffer.kind == BufferKind.CONSTANT and home.buffer.data:
                yield home
