"""Does every network of an application leave alone what belongs to others? Knows nothing of how the plan was made.

What a network touches is read off the files that were written: tables of buffers, addresses in the NPU's programs and
in the calls of CPU layers, copies of weights, images of constants. What it may touch follows from the application.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import combinations, product
from pathlib import Path
from typing import Any

from atonc.compiler.plan.findings import Finding
from atonc.delivery.application.types import Application, AppNetwork, FlashSlot, SharedSlot
from atonc.delivery.reloc.image import Image
from atonc.machine.base.errors import ModelError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.spans import Span
from atonc.machine.emu.files.initialisers import load_initialisers
from atonc.machine.emu.network import EmulatedNetwork, load
from atonc.machine.hw.board import Board
from atonc.machine.hw.machine import FLASH
from atonc.machine.hw.units.stream_engine import StrengConfig

Named = tuple[str, Span]  # what it is, for messages, and where


@dataclass(frozen=True)
class TouchedMemory:
    """Every range that one network's files name."""

    network: str
    constants: tuple[Named, ...]  # contents that must be there before the first inference
    residents: tuple[Named, ...]  # copies that must stay between inferences
    inputs: tuple[Named, ...]
    outputs: tuple[Named, ...]
    others: tuple[Named, ...]  # whatever else is read or written
    images: tuple[tuple[int, bytes], ...] = field(default=(), repr=False)  # the contents of its constants
    pools: tuple[Named, ...] = ()  # of a relocatable image: what its loader takes for its own
    states: tuple[Named, ...] = ()  # that its next inference reads

    @property
    def everything(self) -> tuple[Named, ...]:
        edges = (*self.inputs, *self.outputs, *self.states)
        return (*self.constants, *self.residents, *edges, *self.others, *self.pools)


def touched_by(folder: Path, name: str, board: Board, image: Image | None = None) -> TouchedMemory:
    """Reads the files of one network, and the image that was made of them."""
    found = load(folder, name)
    network = found.network
    buffers = [
        tuple(
            (f"{what} {one.name}", (one.address, one.address + one.size_bytes))
            for one in side
            if not one.is_user_allocated and one.size_bytes
        )
        for what, side in (("input", network.inputs), ("output", network.outputs), ("buffer", network.internals))
    ]
    images = tuple((part.address, bytes(part.data)) for part in load_initialisers(network, None))
    constants = tuple(("constants", (start, start + len(data))) for start, data in images)
    copies = tuple(("weights in RAM", (one.address, one.address + one.size_bytes)) for one in network.residents)
    params = [
        (f"constant {one.name}", (one.address, one.address + one.size_bytes))
        for one in network.params
        if one.size_bytes
    ]
    others = (*buffers[2], *params, *_engines(found), *_calls(found, board))
    pools = tuple(
        (f"pool {pool.name} of the image", (pool.destination, pool.destination + pool.size_bytes))
        for pool in (image.pools if image is not None else ())
        if pool.destination and pool.size_bytes  # those without an address get one from the loader
    )
    states = tuple(("state", (one.address, one.address + len(one.first))) for one in network.states)
    return TouchedMemory(
        name, constants, copies, buffers[0], buffers[1], others, images=images, pools=pools, states=states
    )


def _engines(found: EmulatedNetwork) -> Iterator[Named]:
    own = [(one.address, one.address + one.size_bytes) for one in found.network.user_buffers]
    for step in found.steps:
        for unit, config in step.epoch.units.items() if step.epoch is not None else ():
            if isinstance(config, StrengConfig) and not any(low <= config.address < high for low, high in own):
                yield f"{unit} of epoch {step.number}", config.span()


def _calls(found: EmulatedNetwork, board: Board) -> Iterator[Named]:
    """Addresses among the arguments of CPU layers: at least their first byte is touched."""
    for step in found.steps:
        for call in step.calls:
            for number in _numbers(call.args):
                if board.memory_at(number) is not None:
                    yield f"{call.name} of epoch {step.number}", (number, number + 1)


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _numbers(inner)


# ------------------------------------------------------------------------------------------------------------ the rules


def check(
    application: Application,
    slots: Sequence[FlashSlot],
    touched: Sequence[TouchedMemory],
    board: Board,
    shared: Sequence[SharedSlot] = (),
) -> list[Finding]:
    """All findings; an empty list means that the plan is sound."""
    named = [FlashSlot(" and ".join(one.networks), one.start, one.end) for one in shared]
    by_name = {one.network: one for one in touched}
    missing = [one.name for one in application.networks if one.name not in by_name]
    known = {slot.network: slot for slot in slots}
    return [
        *(Finding("every network has its files", name, "none found") for name in missing),
        *_slots([*slots, *named], board),
        *(found for one in touched for found in _of_one(one, application, known.get(one.network), shared, board)),
        *(finding for pair in combinations(touched, 2) for finding in _of_two(*pair, shared)),
        *(finding for one in shared for finding in _same_bytes(one, touched)),
        *(finding for one in application.networks if one.name in by_name for finding in _survivors(one, by_name)),
    ]


def outside(touched: TouchedMemory, granted: Sequence[Span]) -> Iterator[Finding]:
    """What a new version of one network touches besides what the firmware grants it."""
    for what, span in touched.everything:
        if not _inside(span, granted):
            rule = "an update touches only what the firmware grants its network"
            yield Finding(rule, touched.network, f"{what} {_text(span)}")


def require_sound(findings: Sequence[Finding]) -> None:
    if findings:
        first = findings[0]
        raise ModelError(f"{first.seen} ({len(findings)} findings)", where=first.where, rule=first.rule)


def _slots(slots: Sequence[FlashSlot], board: Board) -> Iterator[Finding]:
    named = [(f"slot of {slot.network}", (slot.start, slot.end)) for slot in slots]
    for slot, own in zip(slots, named, strict=True):
        memory = board.memory_at(slot.start)
        if memory is None or memory.kind != FLASH or not memory.holds(slot.start, slot.end):
            yield Finding("slots lie in flash", slot.network, _text(own[1]))
        for area in board.areas:
            if area.user != "npu" and area.memory == (memory.name if memory else "") and not area.at_boot:
                other = (area.name, (area.base, area.end))
                yield from _meet("slots leave the other images in flash alone", own, other)
    for one, two in combinations(named, 2):
        yield from _meet("every network has a slot of its own", one, two)


def _inside(span: Span, outer: Sequence[Span]) -> bool:
    return any(low <= span[0] and span[1] <= high for low, high in outer)


def _of_one(
    one: TouchedMemory, application: Application, slot: FlashSlot | None, shared: Sequence[SharedSlot], board: Board
) -> Iterator[Finding]:
    if slot is None:
        yield Finding("every network has a slot of its own", one.network, "none")
    flash = [(part.start, part.end) for part in shared if one.network in part.networks]
    flash += [(slot.start, slot.end)] if slot else []
    for what, span in one.constants:
        if slot is not None and not _inside(span, flash):
            yield Finding("constants lie in the slot of their network", one.network, f"{what} {_text(span)}")
    for what, span in one.everything:
        memory = board.memory_at(span[0])
        if memory is None or board.memory_at(span[1] - 1) is None:
            yield Finding("buffers lie in memories of the board", one.network, f"{what} {_text(span)}")
        elif memory.kind == FLASH and slot is not None and not _inside(span, flash):
            yield Finding("networks read only their own slot", one.network, f"{what} {_text(span)}")
        for taken in application.reserved:
            area = (taken.name, (taken.start, taken.end))
            yield from _meet("what is reserved is the application's", (f"{what} of {one.network}", span), area)
    copies = [span for _, span in one.residents]  # engines read them where they lie, which writes nothing
    written = [(what, span) for what, span in one.others if not _inside(span, copies)]
    for copy in one.residents:
        for what, span in (*one.inputs, *one.outputs, *written):
            yield from _meet("weights in RAM stay as they are", copy, (f"{what} of {one.network}", span))


def _of_two(one: TouchedMemory, other: TouchedMemory, shared: Sequence[SharedSlot]) -> Iterator[Finding]:
    both = [(s.start, s.end) for s in shared if {one.network, other.network} <= set(s.networks)]
    for mine, theirs in ((one, other), (other, one)):
        owned = [("constants are not shared", named) for named in mine.constants]
        owned += [("weights in RAM stay as they are", named) for named in mine.residents]
        owned += [("a state is left alone by other networks", named) for named in mine.states]
        for rule, (what, span) in owned:
            for named, touched in theirs.everything if not _inside(span, both) else ():
                yield from _meet(rule, (f"{what} of {mine.network}", span), (f"{named} of {theirs.network}", touched))


def _same_bytes(slot: SharedSlot, touched: Sequence[TouchedMemory]) -> Iterator[Finding]:
    """The files of each network that reads a shared part have the same image of it."""
    found = {}
    for one in touched:
        if one.network in slot.networks:
            found[one.network] = [(at, data) for at, data in one.images if slot.start <= at < slot.end]
    first = next(iter(found.values()), [])
    for name in slot.networks:
        if not first or found.get(name) != first:
            yield Finding("shared constants are the same for all who read them", name, _text((slot.start, slot.end)))


def _survivors(network: AppNetwork, by_name: Mapping[str, TouchedMemory]) -> Iterator[Finding]:
    own = by_name[network.name]
    for edges, survives in ((own.inputs, network.inputs_survive), (own.outputs, network.outputs_survive)):
        for (what, span), other in product(edges, survives):
            rule, mine = f"what must survive {other} is left alone by it", (f"{what} of {network.name}", span)
            for named, touched in by_name[other].everything if other in by_name else ():
                yield from _meet(rule, mine, (f"{named} of {other}", touched))
    common = set(network.inputs_survive) & set(network.outputs_survive)
    for one in own.inputs if common else ():
        for two in own.outputs:
            yield from _meet("inputs and outputs that survive the same run are apart", one, two)


def _meet(rule: str, one: Named, other: Named) -> Iterator[Finding]:
    low, high = max(one[1][0], other[1][0]), min(one[1][1], other[1][1])
    if low < high:
        yield Finding(rule, f"{one[0]}, {other[0]}", f"both have {_text((low, high))}")


def _text(span: Span) -> str:
    return f"{span[0]:#010x}..{span[1]:#010x}"
