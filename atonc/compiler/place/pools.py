"""Boards: which memories there are, which lie side by side, and in which order they are worth using."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path

from atonc.compiler.place.types import USER_BASE, USER_BYTES, Layout
from atonc.compiler.place.usage import CountedPool
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import board as board_file
from atonc.machine.hw.board import DEFAULT_SET, DISPLAY
from atonc.machine.hw.board import Board as Described
from atonc.machine.hw.limits import BUS_BYTES, CPU_CACHE_LINE, PREFETCH_BYTES, XSPI_TAIL
from atonc.machine.hw.machine import CPU_RAM, NPU_RAM, Machine, insecure, secure
from atonc.machine.hw.mpool import MemoryPool, read_mpool


@dataclass(frozen=True)
class BoardMemory:
    """What a network sees of a board: the memory pools that it may use, and the machine that works on them."""

    name: str
    pools: tuple[MemoryPool, ...]
    machine: Machine
    application_from: Mapping[str, int] = field(default_factory=dict)  # pool -> where applications keep frame buffers
    # inputs and outputs with a place of their own, which others leave alone: start and end of each
    pinned: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    # constants that are in flash already: the SHA-256 of their bytes -> address; nothing else goes into their pools
    constants_at: Mapping[bytes, int] = field(default_factory=dict)
    # RAM in which other networks work between two runs: nothing that must stay lies there
    overwritten: tuple[tuple[int, int], ...] = ()

    @property
    def read_only(self) -> tuple[MemoryPool, ...]:
        return tuple(pool for pool in self.pools if not pool.writable)

    def is_filled(self, pool: MemoryPool) -> bool:
        """Whether it holds constants that are there already."""
        return any(pool.base <= place < pool.base + pool.size_bytes for place in self.constants_at.values())

    @property
    def external_ram(self) -> tuple[MemoryPool, ...]:
        return tuple(pool for pool in self.pools if pool.writable and is_external(pool))

    @property
    def on_chip(self) -> tuple[MemoryPool, ...]:
        return tuple(pool for pool in self.pools if pool.writable and not is_external(pool))

    @property
    def cached(self) -> frozenset[str]:
        """Pools whose constants are read through the NPU cache: a pool file may say that one is read past it."""
        return frozenset(pool.name for pool in self.pools if is_external(pool) and pool.cacheable)

    def pools_at(self, start: int, end: int) -> list[tuple[MemoryPool, int]]:
        """The pools that [start, end) touches, each with the bytes in it, by address."""
        return [(p, n) for base, stop, p in self._spans if (n := min(end, stop) - max(start, base)) > 0]

    @cached_property
    def _spans(self) -> tuple[tuple[int, int, MemoryPool], ...]:
        ordered = sorted(self.pools, key=lambda pool: pool.base)
        return tuple((pool.base, pool.base + pool.size_bytes, pool) for pool in ordered)

    def is_npu_ram(self, pool: MemoryPool) -> bool:
        bank = self.machine.memory_at(pool.base)
        return bank is not None and bank.kind == NPU_RAM

    def byte_cycles(self, pool: MemoryPool) -> float:
        """What a byte takes at least: by the machine, or by the file of the pools where the machine has no memory."""
        bank, timing = self.machine.memory_at(pool.base), self.machine.timing
        if bank is None:
            return pool.timing.cycles_per_byte
        if bank.external:
            return self.machine.external_cycles_per_byte(bank)
        return (timing.noc_beat if bank.kind == CPU_RAM else timing.write_beat) / BUS_BYTES

    def pool_name(self, start: int, end: int) -> str:
        return "_".join(pool.name for pool, _ in self.pools_at(start, end))


@dataclass(frozen=True)
class PoolWindow:
    """A contiguous range that buffers may fill, from its start or (`downward`) from its end."""

    start: int
    end: int
    downward: bool = False
    npu_ram: bool = True  # no part of it is slower than the NPU's own RAM

    @property
    def size_bytes(self) -> int:
        return max(0, self.end - self.start)


def is_external(pool: MemoryPool) -> bool:
    return outside_chip(pool.base)


def outside_chip(address: int) -> bool:
    """Whether the address lies behind the NPU cache."""
    return not 0x3400_0000 <= secure(address) < 0x3500_0000


def banks_of(pools: Iterable[MemoryPool]) -> list[CountedPool]:
    """Lists the pools as `usage` counts them."""
    return [CountedPool(pool.name, pool.base, pool.size_bytes, pool.writable, is_external(pool)) for pool in pools]


def npu_ram_bytes(board: BoardMemory) -> int:
    """Where engines may start at any address."""
    return sum(pool.size_bytes for pool in board.pools if pool.writable and board.is_npu_ram(pool))


def has_other_ram(board: BoardMemory) -> bool:
    """RAM beside the NPU's own, in which engines start at aligned addresses only."""
    return any(pool.writable and not board.is_npu_ram(pool) for pool in board.pools)


def usable(pools: Iterable[MemoryPool]) -> tuple[int, int]:
    """What buffers may fill of neighbouring pools: behind the last buffer an engine still finds memory to read."""
    run = list(pools)
    start = min(pool.base for pool in run)
    end = max(pool.base + pool.size_bytes for pool in run)
    tail = PREFETCH_BYTES + (XSPI_TAIL if any(is_external(pool) for pool in run) else 0)
    return -(-start // CPU_CACHE_LINE) * CPU_CACHE_LINE, (end - tail) // CPU_CACHE_LINE * CPU_CACHE_LINE


def runs(pools: Iterable[MemoryPool]) -> list[list[MemoryPool]]:
    """Pools that follow each other without a gap, as one region each."""
    found: list[list[MemoryPool]] = []
    for pool in sorted(pools, key=lambda p: p.base):
        if found and found[-1][-1].base + found[-1][-1].size_bytes == pool.base:
            found[-1].append(pool)
        else:
            found.append([pool])
    return found


def segments(run: list[MemoryPool]) -> list[list[MemoryPool]]:
    """Parts of a run that are equally fast."""
    return [list(group) for _, group in groupby(run, key=_speed)]


def window(board: BoardMemory, pools: list[MemoryPool], downward: bool = False) -> PoolWindow:
    start, end = usable(pools)
    return PoolWindow(start, end, downward, all(map(board.is_npu_ram, pools)))


def segment_windows(board: BoardMemory) -> list[PoolWindow]:
    """Equally fast regions of the chip, the fastest first, of these the largest first."""
    found = [part for run in runs(board.on_chip) for part in segments(run)]
    found.sort(key=lambda part: (_speed(part[0]), -sum(p.size_bytes for p in part), part[0].base))
    return [_clear_of_end(part, board) for part in found]


def run_windows(board: BoardMemory) -> list[PoolWindow]:
    """Whole regions of the chip, the largest first, filled from the end that is faster."""
    found = sorted(runs(board.on_chip), key=lambda run: (-sum(p.size_bytes for p in run), run[0].base))
    return [window(board, run, downward=_speed(run[-1]) < _speed(run[0])) for run in found]


def same_end(part: PoolWindow, whole: PoolWindow) -> PoolWindow | None:
    """A part of a region, filled from the end from which the region is; None when it does not reach that end."""
    touches = part.end == whole.end if whole.downward else part.start == whole.start
    return PoolWindow(part.start, part.end, whole.downward, part.npu_ram) if touches else None


def _clear_of_end(part: list[MemoryPool], board: BoardMemory) -> PoolWindow:
    """A segment needs room for prefetch only where no other pool follows."""
    whole = window(board, part)
    end = part[-1].base + part[-1].size_bytes
    follows = any(pool.base == end for pool in board.on_chip)
    return PoolWindow(whole.start, end if follows else whole.end, npu_ram=whole.npu_ram)


def movable_outside(found: BoardMemory) -> BoardMemory:
    """The board for relocatable networks: what lies outside the chip gets its base at run time."""
    return replace(found, pools=tuple(replace(p, absolute=p.absolute and not is_external(p)) for p in found.pools))


def not_secure(found: BoardMemory) -> BoardMemory:
    """The board as the non-secure state of the processor sees it."""
    return replace(found, pools=tuple(replace(p, base=insecure(p.base)) for p in found.pools))


def _speed(pool: MemoryPool) -> float:
    return pool.timing.cycles_per_byte


def board(name: str) -> BoardMemory:
    """The memories of a board that ships with atonc (`SET@BOARD`: another pool set), or of a board file."""
    return board_pools(board_file.find_board(name), board_file.split_choice(name)[0])


def board_pools(found: Described, pool_set: str = DEFAULT_SET) -> BoardMemory:
    pools = found.pool_set(pool_set).pools
    bases = [area.base for area in found.areas_of(DISPLAY)]
    shown = {at: pool for at in bases for pool in pools if pool.base <= at < pool.base + pool.size_bytes}
    taken = {pool.name: start for start, pool in sorted(shown.items(), reverse=True)}
    return check_pools(BoardMemory(found.name, pools, found.machine(), taken), found.file)


def read_board(path: Path, machine: Machine) -> BoardMemory:
    """A board from its `.toml` or from any memory-pool file, which says nothing of the machine."""
    if path.suffix == ".toml":
        return board_pools(board_file.read_board_file(path))
    return board_of(path.stem, read_mpool(path).usable, machine, str(path))


def board_of(name: str, pools: Iterable[MemoryPool], machine: Machine, where: str = "") -> BoardMemory:
    """Pools as a file lists them, without the virtual ones, which are several real ones seen as one."""
    real = [pool for pool in pools if pool.size_bytes > 0 and pool.size_bytes < 1 << 40]
    kept = tuple(pool for pool in real if not any(_holds(pool, other) for other in real))
    return check_pools(BoardMemory(name, kept, machine), where or name)


def check_pools(found: BoardMemory, where: str) -> BoardMemory:
    ordered = sorted(found.pools, key=lambda pool: pool.base)
    for low, high in pairwise(ordered):
        if low.base + low.size_bytes > high.base:
            raise InputError(f"pools {low.name} and {high.name} overlap", where=where)
    for pool in ordered:
        if pool.base < USER_BASE + USER_BYTES and pool.base + pool.size_bytes > USER_BASE:
            raise InputError(f"pool {pool.name} lies at {USER_BASE:#x}, where the chip has no memory", where=where)
    if not any(pool.writable for pool in found.pools):
        raise InputError("no pool may be written: nowhere to put activations", where=where)
    return found


def _holds(outer: MemoryPool, inner: MemoryPool) -> bool:
    inside = outer.base <= inner.base and inner.base + inner.size_bytes <= outer.base + outer.size_bytes
    return inside and outer.size_bytes > inner.size_bytes


def placement_notes(layout: Layout, board: BoardMemory) -> Iterator[str]:
    """What the user should know about where things lie."""
    for pool in board.pools:
        start, end = board.application_from.get(pool.name, 0), pool.base + pool.size_bytes
        inside = [h for h in layout.placed.values() if not h.user_allocated and pool.base <= h.address < end]
        reached = max((home.end for home in inside), default=0)
        if start and reached > start:
            yield (
                f"{pool.name} is used up to {reached:#x}, but ST's applications for this board keep their frame "
                f"buffers from {start:#x} on: move these, or take a smaller network or input"
            )
        if not pool.absolute and inside:
            yield (f"{pool.name} is of relative mode in the pool file; the program takes {pool.base:#x} as its address")
