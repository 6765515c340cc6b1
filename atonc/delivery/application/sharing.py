"""Constants that several networks have, stored once: `share_constants` of the application file.

Networks of one backbone, or one model with two kinds of inputs, have weights with the same bytes. For every set of
networks that have constants in common there is a part of the flash in front of the slots, and those networks read it
where it lies. Programs stay as they are but for addresses; the price is that none of these networks can be replaced
alone, so slots are not kept then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.emit.program import Program
from atonc.compiler.place.constants import constant_room
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.delivery.application import memory as parts
from atonc.delivery.application.plan_types import ApplicationPlan, AppSource, PlannedNetwork, SharedConstants
from atonc.delivery.application.planning import compiled_for, erased, slot_for
from atonc.delivery.application.types import FlashSlot
from atonc.machine.base.errors import InputError, ModelError
from atonc.machine.base.words import Room

_LEAST_BYTES = 64  # a smaller constant is not worth a look


def with_shared_constants(found: ApplicationPlan, sources: Sequence[AppSource]) -> ApplicationPlan:
    """The plan with equal constants in one place; the same where the application does not ask, or has none."""
    if not found.application.share_constants:
        return found
    if found.application.slots:
        raise InputError(
            "share_constants with slots of an earlier build",
            where=found.application.file,
            rule="a network that reads constants of others cannot be replaced without them",
            remedy="leave out share_constants, or build without --keep-slots",
        )
    shared = _laid_out(found)
    if not shared:
        return found
    flash = parts.flash_of(found.memory)
    cursor, networks = erased(shared[-1].end), []
    for source, one in zip(sources, found.networks, strict=True):
        room = FlashSlot(one.name, cursor, flash.base + flash.size_bytes)
        made = _compiled(found, source, one, room, [part for part in shared if one.name in part.networks])
        slot = slot_for(one.network, room, made)
        networks.append(replace(one, compiled=made, slot=slot))
        cursor = slot.end
    planned = replace(found, networks=tuple(networks), shared=tuple(shared))
    _require_used(planned)
    return planned


def _laid_out(found: ApplicationPlan) -> list[SharedConstants]:
    """A part of the flash for every set of networks, one behind the other."""
    buffers: dict[bytes, Buffer] = {}
    users: dict[bytes, list[str]] = {}
    for one in found.networks:
        if one.network.relocatable is not None:  # an image has all of its constants in itself
            continue
        for digest, home in _constants(one.compiled.program):
            buffers.setdefault(digest, home.buffer)
            users.setdefault(digest, []).append(one.name)
    sets: dict[tuple[str, ...], list[bytes]] = {}
    for digest, readers in users.items():
        if len(readers) > 1:
            sets.setdefault(tuple(readers), []).append(digest)
    cursor, parts_found = parts.flash_of(found.memory).base, []
    for names, digests in sorted(sets.items()):
        start = erased(cursor)
        addresses, image = {}, bytearray()
        for digest in digests:
            addresses[digest] = start + len(image)
            image += buffers[digest].data.ljust(constant_room(buffers[digest]), b"\0")
        cursor = start + len(image) + parts.BEHIND
        parts_found.append(SharedConstants(names, start, cursor, addresses, bytes(image)))
    return parts_found


def _constants(program: Program) -> Iterator[tuple[bytes, Placed]]:
    """Contents of each constant once, in the order of their addresses."""
    homes = [home for home in program.placed.values() if home.buffer.kind == BufferKind.CONSTANT]
    found: dict[bytes, Placed] = {}
    for home in sorted(homes, key=lambda home: (home.address, home.buffer.name)):
        if home.size_bytes >= _LEAST_BYTES and len(home.buffer.data) == home.size_bytes:
            found.setdefault(contents_digest(home.buffer), home)
    yield from found.items()


def contents_digest(buffer: Buffer) -> bytes:
    return hashlib.sha256(buffer.data).digest()


def _compiled(
    found: ApplicationPlan, source: AppSource, one: PlannedNetwork, room: FlashSlot, shared: Sequence[SharedConstants]
) -> Compiled:
    """The same program in the same RAM, with some of its constants elsewhere."""
    known: Mapping[bytes, int] = {digest: place for part in shared for digest, place in part.addresses.items()}
    memory = parts.with_flash(one.compiled.memory, room.start, room.end)
    memory = parts.with_shared(memory, [(part.start, part.end) for part in shared], known)
    return compiled_for(source, memory, room, Room(parts.size_of(found.private.get(one.name, ()))))


def _require_used(planned: ApplicationPlan) -> None:
    """Every network reads all of a part that it shares: so the files of each have the same image of it."""
    for one in planned.networks:
        places = {home.address for _, home in _constants(one.compiled.program)}
        for part in planned.shared:
            if one.name in part.networks and not places.issuperset(part.addresses.values()):
                raise ModelError("other constants than before they were shared", where=f"network {one.name}")
