"""`atonc board check`: does everything that a firmware puts into memory have a place of its own?

Ranges of memory come from a linked image, pool files, networks and the board. Every pair of them is looked at once; a
pair that may not share memory becomes a finding with both sides, the bytes they share and what to do. What is only
worth knowing is a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.emu.files.network_c import read_network
from atonc.machine.emu.files.types import CompiledNetwork
from atonc.machine.hw.board import APPLICATION, DISPLAY, FSBL, Board
from atonc.machine.hw.elf import Elf, SectionKind, read_elf
from atonc.machine.hw.elf import ElfSection as FileSection
from atonc.machine.hw.machine import secure
from atonc.machine.hw.mpool import MemoryPool, read_mpool

MAX_BYTES = 512 << 20
_LONG_NAME = 96
_STACK_END, _STACK_START, _STACK_SIZE = ("_estack", "__StackTop"), ("_sstack", "__StackLimit"), ("_Min_Stack_Size",)
_LEAST_STACK = 0x400


@dataclass(frozen=True)
class MappedSection:
    name: str
    start: int
    size_bytes: int
    loaded_at: int  # where its contents are put; the same address unless start-up code copies them
    has_contents: bool  # False: room only, such as .bss

    @property
    def end(self) -> int:
        return self.start + self.size_bytes


@dataclass(frozen=True)
class ElfMap:
    file: str
    sections: tuple[MappedSection, ...]
    stack: tuple[int, int] | None = None  # start and end: usually at the end of a region, in no section

    @property
    def loaded(self) -> tuple[MappedSection, ...]:
        return tuple(section for section in self.sections if section.has_contents)


def read_elf_map(path: Path) -> ElfMap:
    """Sections that take memory, by address. Nothing of their contents is kept."""
    elf = read_elf(read_file(path, MAX_BYTES), str(path))
    return ElfMap(plain(path.name), _sections(elf), _stack(elf))


def _sections(elf: Elf) -> tuple[MappedSection, ...]:
    found = []
    for section in elf.sections:
        if section.in_memory:
            contents = section.kind != SectionKind.ROOM
            loaded = _load_address(section, elf) if contents else section.address
            name = section.name[:_LONG_NAME] or "(unnamed)"
            found.append(MappedSection(name, section.address, section.size_bytes, loaded, contents))
    if not found:
        raise InputError("no section takes memory: not a linked image", where=elf.where)
    return tuple(sorted(found, key=lambda section: (section.start, section.name)))


def _stack(elf: Elf) -> tuple[int, int] | None:
    """By the symbols that linker scripts of this family define."""
    names = {*_STACK_END, *_STACK_START, *_STACK_SIZE}
    values = {symbol.name: symbol.value for symbol in elf.symbols() if symbol.name in names}
    end = next((values[name] for name in _STACK_END if name in values), 0)
    start = next((values[name] for name in _STACK_START if name in values), 0)
    size = next((values[name] for name in _STACK_SIZE if name in values), _LEAST_STACK)
    start = start if 0 < start < end else end - size
    return (start, end) if 0 < start < end else None


def _load_address(section: FileSection, image: Elf) -> int:
    for part in image.segments:
        if part.runs_at <= section.address and section.address + section.size_bytes <= part.runs_at + part.size_bytes:
            return section.address - part.runs_at + part.loaded_at
    return section.address


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

    @property
    def reach(self) -> str:
        return f"{self.start:#010x} to {self.end - 1:#010x}"

    def __str__(self) -> str:
        return f"{self.what} ({self.reach})"


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
    listed = (*network.params, *network.inputs, *network.outputs, *network.internals)
    own = [buffer for buffer in listed if buffer.is_param == constants and not buffer.is_user_allocated]
    ranges = sorted((buffer.address, buffer.address + buffer.size_bytes) for buffer in own)
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


def _span(board: Board, what: str, kind: Kind, start: int, end: int, source: str) -> Span:
    """The non-secure address of on-chip memory is the same memory: both sides are compared by the secure one."""
    moved = secure(start) - start if board.has_npu else 0
    return Span(what, kind, start + moved, end + moved, source)


_CONSTANT = (Kind.CONSTANTS_POOL, Kind.CONSTANTS)
_WORKING = (Kind.POOL, Kind.ACTIVATIONS)
_COMPILED = {Kind.ACTIVATIONS, Kind.RESIDENT}  # one compilation lays them out, by time and in the gaps of each other
_POOLS = (Kind.POOL, Kind.CONSTANTS_POOL)


@dataclass(frozen=True)
class OverlapFinding:
    first: str
    second: str
    start: int
    end: int
    fix: str
    note: bool = False  # worth knowing, not wrong

    @property
    def shared_bytes(self) -> int:
        return self.end - self.start

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"shared_bytes": self.shared_bytes}


def find_overlaps(spans: Sequence[Span], board: Board) -> tuple[OverlapFinding, ...]:
    """Wrong ones first, then notes; both by address."""
    ordered = sorted(spans, key=lambda span: (span.start, span.end))
    found = [*_pairs(ordered), *_places(ordered, board)]
    return tuple(sorted(dict.fromkeys(found), key=lambda f: (f.note, f.start, f.end, f.first, f.second)))


def _pairs(spans: Sequence[Span]) -> Iterator[OverlapFinding]:
    """Sorted by address: behind the end of a range nothing can meet it any more."""
    for at, first in enumerate(spans):
        for second in takewhile(lambda span: span.start < first.end, islice(spans, at + 1, None)):  # noqa: B023
            low, high = max(first.start, second.start), min(first.end, second.end)
            if low < high and (fix := _judged(first, second)):
                yield OverlapFinding(str(first), str(second), low, high, fix, note=fix == _LATER)


def _judged(first: Span, second: Span) -> str:
    """What to do about two ranges that share memory; nothing if they may."""
    for one, other in ((first, second), (second, first)):
        for kinds, others, rule in _RULES:
            if one.kind in kinds and other.kind in others:
                return rule(one, other)
    return ""


# -------------------------------------------------------------------------------------------------- what may not share


def _section_in_network(section: Span, network: Span) -> str:
    if network.kind in _POOLS:
        other = f"or make {network.what} end before {section.start:#010x}"
    else:
        other = f"or compile the network with pools that leave out {section.reach}"
    return f"in the linker script, end the region of {section.what} outside {network.reach}; {other}"


def _image_in_network(image: Span, network: Span) -> str:
    free, need = max(network.start - image.start, 0), image.end - image.start
    return (
        f"the image has {need:,} bytes, {free:,} are free in front of the weights: move {network.what} to "
        f"{_rounded(image.end):#010x} or later and flash the weights there, or make the image smaller"
    )


def _loaded_in_loader(_: Span, loader: Span) -> str:
    return (
        f"the first-stage loader runs there while it loads: keep code and initialised data outside {loader.reach}; "
        ".bss and buffers may lie there"
    )


def _network_in_display(network: Span, display: Span) -> str:
    moved = display.what.removesuffix(" of the board")
    return f"make {network.what} end at {display.start:#010x}, or move the {moved} (board file and linker script)"


def _two_sections(one: Span, other: Span) -> str:
    if one.source != other.source:
        return f"{one.source} and {other.source} are not for the same board at the same time"
    return f"give {one.what} and {other.what} different regions in the linker script"


def _two_networks(one: Span, other: Span) -> str:
    """RAM for activations may be shared by networks that take turns; constants may not be shared with anything.

    What a network uses lies in pools: in those of its own file, if that is given too.
    """
    pools = [span.kind in _POOLS for span in (one, other)]
    if pools[0] != pools[1]:
        return ""
    if one.source == other.source:
        what = "the pools of one file" if pools[0] else "constants and activations of one network"
        laid_out = {one.kind, other.kind} <= _COMPILED
        return "" if laid_out else f"{what} must not overlap: correct offset or size of {other.what}"
    if one.kind in _WORKING and other.kind in _WORKING:
        return ""
    if one.kind in _CONSTANT and other.kind in _CONSTANT:
        return f"give {other.what} a base of {_rounded(one.end):#010x} or later, and flash its weights there"
    return f"keep {other.what} away from {one.what}: one would overwrite the other"


def _in_loader_image(span: Span, loader: Span) -> str:
    return f"begin {span.what} at {loader.end:#010x} or later: flashing it would erase the first-stage loader"


_LATER = "fine once the application runs; load nothing there before"
_RULES: tuple[tuple[Sequence[Kind], Sequence[Kind], Callable[[Span, Span], str]], ...] = (
    ((*SECTIONS, Kind.STACK), NETWORK, _section_in_network),
    (
        (Kind.STACK,),
        (Kind.LOADED,),
        lambda _, section: f"make the region larger, or {section.what} smaller: the stack grows into it",
    ),
    ((Kind.IMAGE,), NETWORK, _image_in_network),
    ((Kind.LOADED,), (Kind.LOADER,), _loaded_in_loader),
    (NETWORK, (Kind.LOADER,), lambda *_: _LATER),
    ((*SECTIONS, *NETWORK), (Kind.LOADER_IMAGE,), _in_loader_image),
    (NETWORK, (Kind.DISPLAY,), _network_in_display),
    (SECTIONS, SECTIONS, _two_sections),
    (NETWORK, NETWORK, _two_networks),
    (
        (Kind.IMAGE,),
        (Kind.IMAGE,),
        lambda one, other: f"{one.source} and {other.source} take the same slot: flash one of them elsewhere",
    ),
    (  # sections that lie in flash, beside an image that is copied from there
        SECTIONS,
        (Kind.IMAGE,),
        lambda section, image: f"move {section.what} behind {_rounded(image.end):#010x} in the linker script",
    ),
)


def _rounded(address: int) -> int:
    """Rounds up to the next 64 KiB: flash is erased in such steps."""
    return -(-address // 0x1_0000) * 0x1_0000


# --------------------------------------------------------------------------------------------- memory that is not there


def _places(spans: Iterable[Span], board: Board) -> Iterator[OverlapFinding]:
    for span in spans:
        memory = board.memory_at(span.start)
        if memory is None:
            fix = f"{board.title} has no memory at {span.start:#010x}: correct the address, or the board file"
            yield OverlapFinding(str(span), "no memory of the board", span.start, span.end, fix)
            continue
        end = memory.end  # of the memories that follow each other from there on
        while end < span.end and (following := board.memory_at(end)) is not None:
            end = following.end
        if end < span.end:  # a pool that is too large does no harm until a network fills it
            fix = f"{memory.name} ends at {end:#010x}: make {span.what} {span.end - end:,} bytes smaller"
            too_large = span.kind in _POOLS
            yield OverlapFinding(str(span), f"the end of {memory.name}", end, span.end, fix, note=too_large)
        elif span.kind in SECTIONS and not {APPLICATION, DISPLAY} & set(memory.users):
            fix = f"move it: {memory.name} is for {', '.join(memory.users)} only"
            yield OverlapFinding(str(span), f"{memory.name} of the board", span.start, span.end, fix)


@dataclass(frozen=True)
class CheckRequest:
    board: Board
    pool_set: str
    images: tuple[Path, ...] = ()
    pool_files: tuple[Path, ...] = ()
    networks: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Checked:
    board: str
    spans: tuple[Span, ...]
    findings: tuple[OverlapFinding, ...]
    __repr__ = brief

    @property
    def wrong(self) -> tuple[OverlapFinding, ...]:
        return tuple(finding for finding in self.findings if not finding.note)

    def as_dict(self) -> dict[str, Any]:
        rows = [{"what": s.what, "kind": s.kind.value, "start": s.start, "end": s.end} for s in self.spans]
        found = [finding.as_dict() for finding in self.findings]
        return {"board": self.board, "ok": not self.wrong, "spans": rows, "findings": found}


def check(asked: CheckRequest) -> Checked:
    """Pools are those of the files; without files, what the networks use; without both, the board's set."""
    board, found = asked.board, list[Span]()
    for path in asked.images:
        found += of_elf(read_elf_map(path), board)
    for name, path in zip(_names(asked.pool_files), asked.pool_files, strict=True):
        found += of_pools(read_mpool(path).usable, name, board)
    for folder in asked.networks:
        found += of_network(folder, board)
    if not asked.pool_files and not asked.networks and board.has_npu:
        found += of_pools(board.pool_set(asked.pool_set).pools, f"{asked.pool_set}@{board.name}", board)
    found += of_board(board)
    return Checked(board.title, tuple(sorted(found, key=lambda s: (s.start, s.end))), find_overlaps(found, board))


def _names(paths: Sequence[Path]) -> list[str]:
    """File names; with the folder where two are called the same."""
    names = [path.name for path in paths]
    return [plain(p.name if names.count(p.name) == 1 else f"{p.parent.name}/{p.name}") for p in paths]
