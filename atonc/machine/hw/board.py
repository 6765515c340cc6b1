"""A board as data: memories, who may use which part of them, pools for networks, clocks. `board_file` reads them.

Everything that depends on the board comes from here: the compiler's memory pools, the `.mpool` file and the linker
fragment, the clocks of every prediction, the memories of the virtual board, and what `atonc board check` compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import CPU_RAM, FLASH, HYPERRAM, NPU_RAM, Machine, MemoryBank, secure, stm32n6
from atonc.machine.hw.mpool import MemoryPool

APPLICATION, NPU, DISPLAY, FSBL = "application", "npu", "display", "fsbl"
USERS = (APPLICATION, NPU, DISPLAY, FSBL)
KINDS = (CPU_RAM, NPU_RAM, FLASH, HYPERRAM, "itcm", "dtcm", "ram", "internal_flash", "sdram")
USER_BUFFERS = "user buffers"  # the area for inputs and outputs that the application supplies
MACHINES = ("stm32n6", "stm32h747")
DEFAULT_SET = "default"
_EXTERNAL = (FLASH, HYPERRAM)
_LEAST_DATA = 128 << 10  # stack, heap and tables of a small firmware
_NPU_KINDS = (CPU_RAM, NPU_RAM, *_EXTERNAL)
# sets that every board has: those of the pools of its default set that are of these kinds
_DERIVED = {
    "allmems": _NPU_KINDS,
    "noextmem": (CPU_RAM, NPU_RAM),
    "extram": (CPU_RAM, NPU_RAM, HYPERRAM),
    "extflash": (CPU_RAM, NPU_RAM, FLASH),
    "nointmem": _EXTERNAL,
}


@dataclass(frozen=True)
class Memory:
    """What answers at a range of addresses. Size 0: the board has none (in a file that is based on another)."""

    name: str
    kind: str
    base: int
    size_bytes: int
    users: tuple[str, ...]
    postfix: str = ""  # in the names of initialiser files and C symbols
    byte_width: int = 1
    freq_ratio: float = 1.0  # NPU clock over memory clock, as pool files have it
    throughput: str = ""
    latency: str = ""
    writable: bool = True
    cacheable: bool = False
    constants_preferred: bool = False
    mb_per_s: float = 0.0  # what a stream of the NPU really gets from an external memory
    read_power: float = 0.0
    write_power: float = 0.0

    @property
    def end(self) -> int:
        return self.base + self.size_bytes

    def holds(self, start: int, end: int) -> bool:
        return self.base <= start and end <= self.end


@dataclass(frozen=True)
class MemoryArea:
    """A part of a memory that belongs to somebody."""

    name: str
    user: str
    base: int
    size_bytes: int
    memory: str
    linker: str = ""  # name of the region in linker scripts
    attributes: str = "xrw"
    at_boot: bool = False  # only until the application runs

    @property
    def end(self) -> int:
        return self.base + self.size_bytes


@dataclass(frozen=True)
class PoolSet:
    """The memory pools of one kind of application: what an `.mpool` file holds."""

    name: str
    title: str
    pools: tuple[MemoryPool, ...]
    past_end: frozenset[str] = frozenset()  # pools that the file knows to be larger than the memory


@dataclass(frozen=True)
class Board:
    name: str
    title: str
    machine_name: str
    clocks: Mapping[str, float]  # MHz, by the names of `machine.Clocks`
    memories: tuple[Memory, ...]
    areas: tuple[MemoryArea, ...] = ()
    pool_sets: Mapping[str, PoolSet] = field(default_factory=dict)
    flash_loader: str = ""  # of STM32CubeProgrammer
    file: str = ""

    @property
    def has_npu(self) -> bool:
        return self.machine_name == "stm32n6"

    def require_npu(self) -> Board:
        if not self.has_npu:
            raise InputError(
                f"{self.title} has no NPU",
                where=self.file or self.name,
                rule="networks are compiled for boards with an STM32N6",
                remedy="`atonc board list` shows them; `atonc deploy` serves this board with C code for its CPU",
            )
        return self

    def memory(self, name: str) -> Memory | None:
        return next((memory for memory in self.memories if memory.name == name), None)

    def memory_at(self, address: int) -> Memory | None:
        """On an STM32N6 the non-secure address of a memory is the same memory."""
        address = secure(address) if self.has_npu else address
        return next((memory for memory in self.memories if memory.base <= address < memory.end), None)

    def data_places(self) -> tuple[tuple[int, int], ...]:
        """Where a firmware without display may keep its data, the usual place first: start and end of each."""
        own = [area for area in self.areas_of(APPLICATION) if area.linker and self._is_ram(area.memory)]
        taken = {area.memory for area in own}
        others = [m for kind in (CPU_RAM, "ram", "dtcm") for m in self.of_kind(kind) if m.name not in taken]
        roomy = [m for m in others if APPLICATION in m.users and m.size_bytes >= _LEAST_DATA]
        buffers = self.area(USER_BUFFERS)
        places = [*((area.base, area.end) for area in own), *((m.base, m.end) for m in roomy)]
        if buffers is None:
            return tuple(places)
        return tuple((start, min(end, buffers.base) if start < buffers.base < end else end) for start, end in places)

    def _is_ram(self, name: str) -> bool:
        memory = self.memory(name)
        return memory is not None and memory.kind in (CPU_RAM, "ram", "dtcm")

    def areas_of(self, user: str) -> tuple[MemoryArea, ...]:
        return tuple(area for area in self.areas if area.user == user)

    def area(self, name: str) -> MemoryArea | None:
        return next((area for area in self.areas if area.name == name), None)

    def of_kind(self, *kinds: str) -> tuple[Memory, ...]:
        return tuple(memory for memory in self.memories if memory.kind in kinds)

    def pool_set(self, name: str = DEFAULT_SET) -> PoolSet:
        """Finds a set of pools: as the file has it, else one of those that follow from the default."""
        self.require_npu()
        if name in self.pool_sets:
            return self.pool_sets[name]
        if name not in _DERIVED:
            known = ", ".join(self.set_names)
            raise InputError(f"no pool set {name[:60]!r}", where=self.file or self.name, rule=f"the board has {known}")
        default = self.pool_sets[DEFAULT_SET]
        pools = tuple(pool for pool in default.pools if self._kind(pool) in _DERIVED[name])
        if not any(pool.writable for pool in pools):
            raise InputError(
                f"pool set {name!r} has no memory that may be written",
                where=self.file or self.name,
                remedy="choose another set or profile",
            )
        return replace(default, name=name, title=f"of the default: {name}", pools=pools)

    @property
    def set_names(self) -> tuple[str, ...]:
        return (*self.pool_sets, *(name for name in _DERIVED if name not in self.pool_sets))

    def _kind(self, pool: MemoryPool) -> str:
        memory = self.memory_at(pool.base)
        return memory.kind if memory else ""

    def machine(self) -> Machine:
        """The chip at the clocks of this board and with its external memories."""
        chip = stm32n6()
        speeds = {f"{m.kind}_mb_per_s": m.mb_per_s for m in self.of_kind(*_EXTERNAL) if m.mb_per_s}
        inside = tuple(bank for bank in chip.memories if not bank.external)
        outside = tuple(_bank(memory) for memory in self.of_kind(*_EXTERNAL))
        return replace(chip.with_clocks(**self.clocks, **speeds), memories=(*inside, *outside))


def _bank(memory: Memory) -> MemoryBank:
    return MemoryBank(
        memory.name,
        memory.kind,
        memory.base,
        memory.size_bytes,
        memory.byte_width,
        memory.freq_ratio,
        memory.latency,
    )
