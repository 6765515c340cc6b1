"""Ranges of memory with what lies there and whose it is: from a linked image, pool files, networks and the board."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

from atonc.delivery.boards.elf_map import ElfMap
from atonc.machine.base.errors import plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.files.network_c import read_network
from atonc.machine.emu.files.types import BufferInfo, CompiledNetwork
from atonc.machine.hw.board import APPLICATION, DISPLAY, FSBL, Board
from atonc.machine.hw.machine import secure
from atonc.machine.hw.mpool import MemoryPool

_GAP = 64  # bytes between buffers of one range: alignment
IMAGE_HEADER = 0x400  # of a signed image, in front of the vector table


class Kind(StrEnum):
    ROOM = "room"  # sections without contents: .bss, stack, frame buffers of the application
    STACK = "stack"  # in no section: at the end of its region
    LOADED = "loaded"  # sections whose contents are put there before the application runs
    IMAGE = "image"  # the application in flash, from which the first-stage loader copies it
    POOL = "pool"  # writable: activations
    CONSTANTS_POOL = "constants pool"
    ACTIVATIONS = "activations"
    CONSTANTS = "constants"
    RESIDENT = "resident weights"  # in RAM for as long as the network is initialised
    DISPLAY = "display"
    LOADER = "loader"  # RAM of the first-stage loader, until the application runs
    LOADER_IMAGE = "loader image"


SECTIONS = (Kind.ROOM, Kind.LOADED)
NETWORK = (Kind.POOL, Kind.CONSTANTS_POOL, Kind.ACTIVATIONS, Kind.CONSTANTS, Kind.RESIDENT)


@dataclass(frozen=True)
class Span:
    what: str  # as a sentence names it
    kind: Kind
    start: int
    end: int
    source: str = ""  # the file or the network it comes from

    def common(self, other: Span) -> tuple[int, int]:
        return max(self.start, other.start), min(self.end, other.end)

    def __str__(self) -> str:
        return f"{self.what} ({self.start:#010x} to {self.end - 1:#010x})"


def of_elf(elf: ElfMap, board: Board) -> Iterator[Span]:
    for section in elf.sections:
        kind = Kind.LOADED if section.has_contents else Kind.ROOM
        yield _span(board, f"section {section.name}", kind, section.start, section.end, elf.file)
        if section.loaded_at != section.start:
            end = section.loaded_at + section.size_bytes
            what = f"contents of section {section.name}"
            yield _span(board, what, Kind.LOADED, section.loaded_at, end, elf.file)
    if elf.stack is not None:
        yield _span(board, f"stack of {elf.file}", Kind.STACK, *elf.stack, elf.file)
    yield from _image(elf, board)


def _image(elf: ElfMap, board: Board) -> Iterator[Span]:
    """An image that runs from RAM is copied there from its slot in flash: everything between its ends."""
    slot = next((area for area in board.areas_of(APPLICATION) if _in_flash(board, area.base)), None)
    inside = [s for s in elf.loaded if not _in_flash(board, s.loaded_at)]
    if slot is None or not inside or not board.has_npu:
        return
    first = min(section.loaded_at for section in inside)
    last = max(section.loaded_at + section.size_bytes for section in inside)
    end = slot.base + IMAGE_HEADER + last - first
    yield Span(f"image of {elf.file} in the flash", Kind.IMAGE, slot.base, end, elf.file)


def _in_flash(board: Board, address: int) -> bool:
    memory = board.memory_at(address)
    return memory is not None and memory.kind == "flash"


def of_pools(pools: Iterable[MemoryPool], source: str, board: Board) -> Iterator[Span]:
    """Pools of relative mode have no address yet; a virtual pool is several others, whose names it joins."""
    listed = list(pools)
    names = {pool.name for pool in listed}
    for pool in listed:
        virtual = "_" in pool.name and set(pool.name.split("_")) <= names
        if pool.size_bytes and pool.absolute and not virtual:
            kind = Kind.POOL if pool.writable else Kind.CONSTANTS_POOL
            yield _span(board, f"pool {pool.name} of {source}", kind, pool.base, pool.base + pool.size_bytes, source)


def of_board(board: Board) -> Iterator[Span]:
    for area in board.areas:
        if area.user == DISPLAY:
            yield Span(f"{area.name} of the board", Kind.DISPLAY, area.base, area.end)
        elif area.user == FSBL:
            kind = Kind.LOADER if area.at_boot else Kind.LOADER_IMAGE
            yield Span(f"{area.name} of the board", kind, area.base, area.end)


def of_network(folder: Path, board: Board) -> Iterator[Span]:
    """What the network really uses, of the memories that it could."""
    network = read_network(folder)
    name = plain(folder.name or str(folder))
    for pool, start, end in _merged(network, constants=True):
        yield _span(board, f"constants of {name} in {pool}", Kind.CONSTANTS, start, end, name)
    for pool, start, end in _merged(network, constants=False):
        yield _span(board, f"activations of {name} in {pool}", Kind.ACTIVATIONS, start, end, name)
    for copy in network.residents:
        end = copy.address + copy.size_bytes
        yield _span(board, f"resident weights of {name}", Kind.RESIDENT, copy.address, end, name)


def _merged(network: CompiledNetwork, constants: bool) -> Iterator[tuple[str, int, int]]:
    """Neighbouring buffers as one range; where a file lists no internal buffers, whole pools."""
    pools = [pool for pool in network.pools if not pool.virtual and pool.size_bytes]
    ranges = sorted((b.address, _end(b)) for b in _buffers(network, constants) if not b.is_user_allocated)
    if not constants and not network.internals:
        ranges = sorted((pool.base, pool.base + pool.size_bytes) for pool in pools if pool.writable)
    merged: list[list[int]] = []
    for start, end in ranges:
        if merged and start <= merged[-1][1] + _GAP:
            merged[-1][1] = max(merged[-1][1], end)
        elif end > start:
            merged.append([start, end])
    for start, end in merged:
        home = next((pool.name for pool in pools if pool.base <= start < pool.base + pool.size_bytes), "no pool")
        yield plain(home), start, end


def _buffers(network: CompiledNetwork, constants: bool) -> list[BufferInfo]:
    listed = (*network.params, *network.inputs, *network.outputs, *network.internals)
    return [buffer for buffer in listed if buffer.is_param == constants]


def _end(buffer: BufferInfo) -> int:
    return buffer.address + buffer.size_bytes


def _span(board: Board, what: str, kind: Kind, start: int, end: int, source: str) -> Span:
    """The non-secure address of on-chip memory is the same memory: both sides are compared by the secure one."""
    moved = secure(start) - start if board.has_npu else 0
    return Span(what, kind, start + moved, end + moved, source)
