"""Does everything that a firmware puts into memory have a place of its own?

Every pair of ranges is looked at once; a pair that may not share memory becomes a finding with both sides, the bytes
they share and what to do. What is only worth knowing is a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice, takewhile
from typing import Any

from atonc.delivery.boards.spans import NETWORK, SECTIONS, Kind, Span
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.board import APPLICATION, DISPLAY, Board, Memory

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
            low, high = first.common(second)
            if low < high and (said := _judged(first, second)):
                fix, note = said
                yield OverlapFinding(str(first), str(second), low, high, fix, note)


def _judged(first: Span, second: Span) -> tuple[str, bool] | None:
    """What to do about two ranges that share memory, and whether it is only a note; nothing if they may."""
    for one, other in ((first, second), (second, first)):
        for kinds, others, rule in _RULES:
            if one.kind in kinds and other.kind in others:
                return rule(one, other)
    return None


# -------------------------------------------------------------------------------------------------- what may not share


def _section_in_network(section: Span, network: Span) -> tuple[str, bool]:
    region = f"{network.start:#010x} to {network.end - 1:#010x}"
    if network.kind in _POOLS:
        other = f"or make {network.what} end before {section.start:#010x}"
    else:
        other = f"or compile the network with pools that leave out {section.start:#010x} to {section.end - 1:#010x}"
    return f"in the linker script, end the region of {section.what} outside {region}; {other}", False


def _image_in_network(image: Span, network: Span) -> tuple[str, bool]:
    free = network.start - image.start
    need = image.end - image.start
    return (
        f"the image has {need:,} bytes, {max(free, 0):,} are free in front of the weights: move {network.what} to "
        f"{_rounded(image.end):#010x} or later and flash the weights there, or make the image smaller",
        False,
    )


def _loaded_in_loader(section: Span, loader: Span) -> tuple[str, bool]:
    return (
        f"the first-stage loader runs there while it loads: keep code and initialised data outside "
        f"{loader.start:#010x} to {loader.end - 1:#010x}; .bss and buffers may lie there",
        False,
    )


def _network_in_loader(network: Span, loader: Span) -> tuple[str, bool]:
    return "fine once the application runs; load nothing there before", True


def _in_loader_image(span: Span, loader: Span) -> tuple[str, bool]:
    return f"begin {span.what} at {loader.end:#010x} or later: flashing it would erase the first-stage loader", False


def _network_in_display(network: Span, display: Span) -> tuple[str, bool]:
    return (
        f"make {network.what} end at {display.start:#010x}, or move the {display.what.removesuffix(' of the board')} "
        "(board file and linker script)",
        False,
    )


def _two_sections(one: Span, other: Span) -> tuple[str, bool] | None:
    if one.source != other.source:
        return f"{one.source} and {other.source} are not for the same board at the same time", False
    return f"give {one.what} and {other.what} different regions in the linker script", False


def _two_networks(one: Span, other: Span) -> tuple[str, bool] | None:
    """RAM for activations may be shared by networks that take turns; constants may not be shared with anything.

    What a network uses lies in pools: in those of its own file, if that is given too.
    """
    pools = [span.kind in _POOLS for span in (one, other)]
    if pools[0] != pools[1]:
        return None
    if one.source == other.source:
        if {one.kind, other.kind} <= _COMPILED:
            return None
        what = "the pools of one file" if pools[0] else "constants and activations of one network"
        return f"{what} must not overlap: correct offset or size of {other.what}", False
    if one.kind in _WORKING and other.kind in _WORKING:
        return None
    if one.kind in _CONSTANT and other.kind in _CONSTANT:
        return f"give {other.what} a base of {_rounded(one.end):#010x} or later, and flash its weights there", False
    return f"keep {other.what} away from {one.what}: one would overwrite the other", False


def _image_and_image(one: Span, other: Span) -> tuple[str, bool]:
    return f"{one.source} and {other.source} take the same slot: flash one of them elsewhere", False


def _section_in_image(section: Span, image: Span) -> tuple[str, bool] | None:
    """Sections that lie in flash, beside an image that is copied from there."""
    return f"move {section.what} behind {_rounded(image.end):#010x} in the linker script", False


def _stack_in_contents(stack: Span, section: Span) -> tuple[str, bool]:
    return f"make the region larger, or {section.what} smaller: the stack grows into it", False


_RULES = (
    ((*SECTIONS, Kind.STACK), NETWORK, _section_in_network),
    ((Kind.STACK,), (Kind.LOADED,), _stack_in_contents),
    ((Kind.IMAGE,), NETWORK, _image_in_network),
    ((Kind.LOADED,), (Kind.LOADER,), _loaded_in_loader),
    (NETWORK, (Kind.LOADER,), _network_in_loader),
    ((*SECTIONS, *NETWORK), (Kind.LOADER_IMAGE,), _in_loader_image),
    (NETWORK, (Kind.DISPLAY,), _network_in_display),
    (SECTIONS, SECTIONS, _two_sections),
    (NETWORK, NETWORK, _two_networks),
    ((Kind.IMAGE,), (Kind.IMAGE,), _image_and_image),
    (SECTIONS, (Kind.IMAGE,), _section_in_image),
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
        elif (end := _reach(span, memory, board)) < span.end:
            yield _past_end(span, memory, end)
        elif span.kind in SECTIONS and not {APPLICATION, DISPLAY} & set(memory.users):
            fix = f"move it: {memory.name} is for {', '.join(memory.users)} only"
            yield OverlapFinding(str(span), f"{memory.name} of the board", span.start, span.end, fix)


def _reach(span: Span, memory: Memory, board: Board) -> int:
    """The end of the memories that follow each other from there on."""
    end = memory.end
    while end < span.end and (following := board.memory_at(end)) is not None:
        end = following.end
    return end


def _past_end(span: Span, memory: Memory, end: int) -> OverlapFinding:
    """A pool that is too large does no harm until a network fills it."""
    whole_pool = span.kind in _POOLS
    fix = f"{memory.name} ends at {end:#010x}: make {span.what} {span.end - end:,} bytes smaller"
    return OverlapFinding(str(span), f"the end of {memory.name}", end, span.end, fix, note=whole_pool)
