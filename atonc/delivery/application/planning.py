"""One plan of memory for all networks of an application.

Networks take turns on the NPU, so all of them may work in the same RAM. Only three things have a place of their own:
what the application reserves, inputs and outputs that must survive the runs of others (`Kept`, pinned to the end of the
NPU's RAM), and weights that stay in RAM (`residents.py`). Every network is compiled for what the others leave of the
board. Then those that take less RAM are compiled again for what the larger ones take anyway, and stay there unless that
makes them slower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from atonc.compiler.compile.pipeline import Compiled, compile_canonical, memories, read_quantised, verified
from atonc.compiler.frontends.read import in_file
from atonc.compiler.lower.sizes import item_bytes
from atonc.compiler.passes import order
from atonc.compiler.place import BoardMemory
from atonc.compiler.place.explain import PlacementError
from atonc.compiler.place.pools import movable_outside
from atonc.compiler.request.options import Options
from atonc.delivery.application import memory as parts
from atonc.delivery.application.bound import least_ram
from atonc.delivery.application.figures import demand_of
from atonc.delivery.application.plan_types import ApplicationPlan, AppSource, Kept, PlannedNetwork
from atonc.delivery.application.types import ERASED_BYTES, Application, AppNetwork, FlashSlot, Span
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError, CapacityError
from atonc.machine.base.room import NO_ROOM, Room
from atonc.machine.hw.limits import PREFETCH_BYTES

# How much slower a network may get so that it works in the RAM of a larger one. The prediction itself is off by more
# than that; RAM that two networks share is there for a third one, or for frame buffers.
SLOWER = 1.02
# And around what must survive, whose RAM is lost for every other network: there banks can be shared less well.
SLOWER_AROUND_KEPT = 1.05
# Shares of the lower bound that are tried, one after the other, for networks around what must survive.
ROOMS = (1.0, 1.005, 1.015, 1.05, 1.15)
# Room for a next version of a network in its slot: retrained weights have the same size, a wider last layer some more.
GROWTH = 1.125


def read_all(application: Application) -> list[AppSource]:
    return [_read(network) for network in application.networks]


def plan(application: Application, sources: Sequence[AppSource]) -> ApplicationPlan:
    """Memory for all networks; they are verified when the plan stands (`verify_all`)."""
    memory = parts.without(
        memories(Options(board=application.board)), [(one.start, one.end) for one in application.reserved]
    )
    kept = _kept(sources, memory)
    begun = ApplicationPlan(application, memory, (), kept)
    alone = _each_alone(begun, sources)
    shared = _share(begun, sources, alone)
    return _settled(_around_the_kept(shared, sources, alone) if kept else shared, sources)


def verify_all(found: ApplicationPlan) -> ApplicationPlan:
    """Every program on the emulator, layer by layer."""
    networks = []
    for one in found.networks:
        with progress.part(f"network {one.name}"):
            try:
                networks.append(replace(one, compiled=verified(one.compiled, one.network.options)))
            except AtoncError as error:
                raise _of(one.network, error) from error.__cause__
    return replace(found, networks=tuple(networks))


def _read(network: AppNetwork) -> AppSource:
    with progress.part(f"network {network.name}"):
        try:
            source = read_quantised(network.model, network.options)
            return AppSource(network, source, order.run(source, network.options))
        except AtoncError as error:
            raise _of(network, in_file(network.model, error)) from error.__cause__


def _of(network: AppNetwork, error: AtoncError) -> AtoncError:
    """The error with the network that it is about."""
    error.where = f"network {network.name}" + (f", {error.where}" if error.where else "")
    return error


# ------------------------------------------------------------------------------------------------- places of their own


def _kept(
    sources: Sequence[AppSource], memory: BoardMemory, low: bool = False, other_end: int | None = None
) -> tuple[Kept, ...]:
    """A place for every input and output that must survive something; those of the network that keeps most lie beside
    what all share, so that it works in both as in one piece. `other_end`: those of the network that keeps second most
    lie from there on, at the other end of what all share, so that it does the same."""
    wanted = [
        (_size(one, tensor), one.name, tensor, survives)
        for one in sources
        for edges, survives, ours in (
            (one.graph.inputs, one.network.inputs_survive, one.network.options.inputs_allocation),
            (one.graph.outputs, one.network.outputs_survive, one.network.options.outputs_allocation),
        )
        for tensor in edges
        if survives and ours  # else the application brings the memory, and keeps it as long as it wants
    ]
    each = {one.name: sum(size for size, name, *_ in wanted if name == one.name) for one in sources}
    wanted.sort(key=lambda row: (each[row[1]], row[1], row[0]))
    second = sorted(each, key=lambda name: (-each[name], name))[1] if other_end is not None and len(each) > 1 else ""
    moved = [row for row in wanted if row[1] == second]
    wanted = [row for row in wanted if row[1] != second] + moved
    places = parts.places_at_an_end(memory, [row[0] for row in wanted[: len(wanted) - len(moved)]], low)
    places += parts.places_from(other_end or 0, [row[0] for row in moved])
    return tuple(Kept(name, tensor, span, who) for (_, name, tensor, who), span in zip(wanted, places, strict=True))


def _size(source: AppSource, tensor: str) -> int:
    found = source.graph.tensors[tensor]
    return found.elements * item_bytes(found)


def room_for(found: ApplicationPlan, name: str, only: Sequence[Span] | None = None) -> BoardMemory:
    """The RAM of one network: what the board has, without the places of others that must survive it; `only`: inside
    these spans, and in places of its own."""
    own = {one.tensor: one.span for one in found.kept if one.network == name}
    memory = parts.without(replace(found.memory, pinned=own), _of_others(found, name))
    return memory if only is None else parts.within(memory, [*only, *own.values()])


def _of_others(found: ApplicationPlan, name: str) -> list[Span]:
    """What must survive this network, and weights of others in RAM."""
    kept = [one.span for one in found.kept if one.network != name and name in one.survives]
    return [*kept, *(span for other, spans in found.private.items() if other != name for span in spans)]


def granted(found: ApplicationPlan, name: str) -> list[Span]:
    """RAM of the plan in which this network, or its next version, leaves all others alone."""
    return [piece for span in found.ram for piece in parts.left_of(span, _of_others(found, name))]


# ------------------------------------------------------------------------------------------------------------ compiling


def compiled_for(source: AppSource, memory: BoardMemory, slot: FlashSlot, resident: Room = NO_ROOM) -> Compiled:
    options = replace(source.network.options, verify=False, resident=resident)
    memory = movable_outside(memory) if options.relocatable else memory
    with progress.part(f"network {source.name}"):
        try:
            return compile_canonical(
                source.source, source.graph, options, parts.with_flash(memory, slot.start, slot.end)
            )
        except AtoncError as error:
            raise _of(source.network, error) from error.__cause__


def _each_alone(begun: ApplicationPlan, sources: Sequence[AppSource]) -> list[PlannedNetwork]:
    """Every network with all the RAM that it could have, and its slot of the flash behind those before it."""
    flash = parts.flash_of(begun.memory)
    end = flash.base + flash.size_bytes
    known = {slot.network: slot for slot in begun.application.slots}
    cursor = max([flash.base, *(slot.end for slot in known.values())])
    found = []
    for source in sources:
        room = known.get(source.name) or FlashSlot(source.name, erased(cursor), end)
        if room.start >= end:
            raise CapacityError("no flash is left for its constants", where=f"network {source.name}")
        made = compiled_for(source, room_for(begun, source.name), room)
        slot = known.get(source.name) or slot_for(source.network, room, made)
        cursor = max(cursor, slot.end)
        found.append(PlannedNetwork(source.network, made, made, slot))
    return found


def _constants_end(made: Compiled) -> int:
    flash = parts.flash_of(made.memory)
    inside = [home.end for home in made.program.placed.values() if flash.base <= home.address]
    return max((end for end in inside if end <= flash.base + flash.size_bytes), default=flash.base)


def slot_for(network: AppNetwork, room: FlashSlot, made: Compiled) -> FlashSlot:
    """From the start of the room: what was asked for, or what is used and room to grow."""
    used = _constants_end(made) - room.start
    size = network.slot_bytes or round(used * GROWTH) + parts.BEHIND
    if size < used + parts.BEHIND:
        raise CapacityError(
            f"{used + parts.BEHIND:,} bytes of constants and read-ahead, its slot has {size:,}",
            where=f"network {network.name}",
            remedy=f"slot = {erased(used + parts.BEHIND)}, or none",
        )
    if network.slot_bytes > room.end - room.start:
        raise CapacityError(
            f"a slot of {network.slot_bytes:,} bytes, {room.end - room.start:,} of the flash are left",
            where=f"network {network.name}",
            remedy=f"slot = {erased(used + parts.BEHIND)} is enough; without slot it gets room to grow",
        )
    return FlashSlot(network.name, room.start, min(room.end, erased(room.start + size)))


def erased(address: int) -> int:
    """The next address at which the flash can be erased."""
    return -(-address // ERASED_BYTES) * ERASED_BYTES


# -------------------------------------------------------------------------------------------------------------- sharing


def _share(
    begun: ApplicationPlan, sources: Sequence[AppSource], alone: Sequence[PlannedNetwork]
) -> ApplicationPlan:
    """The one that takes most RAM stays where it is, and the others come to it."""
    by_name = {source.name: source for source in sources}
    taken: list[Span] = []
    chosen: dict[str, PlannedNetwork] = {}
    for one in sorted(alone, key=lambda one: (-parts.size_of(working(begun, one)), one.name)):
        better = _moved(begun, by_name[one.name], one, taken) if taken else one
        chosen[one.name] = better
        taken = parts.joined([*taken, *working(begun, better)])
    return replace(begun, networks=tuple(chosen[one.name] for one in alone))


def _around_the_kept(
    shared: ApplicationPlan, sources: Sequence[AppSource], alone: Sequence[PlannedNetwork]
) -> ApplicationPlan:
    """All networks at that end of the NPU's RAM where the places of what must survive are: so whoever need not leave
    such a place alone works in it and beside it as in one piece. Only where sharing takes more than it has to; both
    ends are tried, since borders of banks lie elsewhere for each, and places at both ends of what all share."""
    bound = least_ram([demand_of(shared, one) for one in shared.networks])
    padding = sum(one.span[1] - one.span[0] for one in shared.kept) - kept_bytes(shared) + parts.LINE + PREFETCH_BYTES
    taken = parts.size_of(shared.ram)
    for room in ROOMS:
        size = round(room * bound) + padding
        if size >= taken:
            break
        for low, both in ((False, False), (True, False), (False, True)):
            region = parts.joined(parts.region_at_an_end(shared.memory, size, low))
            if not region or (both and len(region) > 1):
                continue
            try:
                kept = _kept(sources, shared.memory, low, region[0][0] if both else None)
            except CapacityError:  # holes of what is reserved: other places than those of the plan so far
                continue
            found = _all_within(replace(shared, networks=(), kept=kept), sources, alone, region)
            if found is not None:
                return found
    return shared


def _all_within(
    begun: ApplicationPlan, sources: Sequence[AppSource], alone: Sequence[PlannedNetwork], region: Sequence[Span]
) -> ApplicationPlan | None:
    """Nothing where a network does not fit there, or is slower there."""
    chosen = {}
    for source, one in sorted(zip(sources, alone, strict=True), key=lambda pair: -parts.size_of(pair[1].spans())):
        found = compiled_within(begun, source, one.slot, region)
        if found is None or found.cost.cycles > SLOWER_AROUND_KEPT * one.compiled.cost.cycles:
            return None
        chosen[one.name] = replace(one, compiled=found)
    return replace(begun, networks=tuple(chosen[one.name] for one in alone))


def _settled(found: ApplicationPlan, sources: Sequence[AppSource]) -> ApplicationPlan:
    """Each network once more for the RAM that all of them take together: now and then the search finds a faster program
    in less room. And the next version of a relocatable one will have just that."""
    networks = []
    for source, one in zip(sources, found.networks, strict=True):
        pins = {kept.tensor: kept.span for kept in found.kept if kept.network == one.name}
        memory = granted_memory(found.application.board, granted(found, one.name), pins)
        try:
            made = compiled_for(source, memory, one.slot)
        except (PlacementError, CapacityError):
            networks.append(one)
            continue
        most = one.compiled.cost.cycles * (SLOWER if one.network.relocatable is not None else 1)
        networks.append(replace(one, compiled=made) if made.cost.cycles <= most else one)
    return replace(found, networks=tuple(networks))


def granted_memory(board: str, ram: Sequence[Span], pins: Mapping[str, Span]) -> BoardMemory:
    """This RAM of the board only, and places of inputs and outputs in it."""
    return parts.within(replace(memories(Options(board=board)), pinned=pins), ram, least=parts.LINE)


def kept_bytes(found: ApplicationPlan) -> int:
    """Contents of what must survive, without padding."""
    by_name = {one.name: one for one in found.networks}
    return sum(by_name[one.network].compiled.program.placed[one.tensor].size_bytes for one in found.kept)


def working(found: ApplicationPlan, one: PlannedNetwork) -> list[Span]:
    """RAM that it may share with others: all but the places of its own."""
    own = [kept.span for kept in found.kept if kept.network == one.name]
    own += found.private.get(one.name, ())
    return [piece for span in one.spans() for piece in parts.left_of(span, own)]


def _moved(
    begun: ApplicationPlan, source: AppSource, one: PlannedNetwork, taken: Sequence[Span]
) -> PlannedNetwork:
    """Inside what larger networks take, if it fits there and is not slower."""
    if is_within(working(begun, one), taken):
        return one
    found = compiled_within(begun, source, one.slot, taken)
    fine = found is not None and found.cost.cycles <= SLOWER * one.compiled.cost.cycles
    return replace(one, compiled=found) if found is not None and fine else one


def compiled_within(
    begun: ApplicationPlan, source: AppSource, slot: FlashSlot, taken: Sequence[Span]
) -> Compiled | None:
    """Nothing where it does not fit."""
    memory = room_for(begun, source.name, taken)
    if not any(pool.writable for pool in memory.pools):
        return None
    try:
        return compiled_for(source, memory, slot)
    except (PlacementError, CapacityError):
        return None


def compiled_with_copies(
    begun: ApplicationPlan, source: AppSource, slot: FlashSlot, shared: Sequence[Span], own: Sequence[Span]
) -> Compiled | None:
    """With weights in RAM of its own, which stay while others work in the shared RAM."""
    memory = replace(room_for(begun, source.name, [*shared, *own]), overwritten=tuple(parts.joined(shared)))
    try:
        return compiled_for(source, memory, slot, Room(parts.size_of(own)))
    except (PlacementError, CapacityError):
        return None


def is_within(inner: Iterable[Span], outer: Sequence[Span]) -> bool:
    return not any(True for span in inner for _ in parts.left_of(span, outer))
