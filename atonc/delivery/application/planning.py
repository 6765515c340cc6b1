"""One plan of memory for all networks of an application.

Networks take turns on the NPU, so all of them may work in the same RAM. Only three things have a place of their own:
what the application reserves, inputs and outputs that must survive the runs of others (`Kept`, pinned to the end of the
NPU's RAM), and weights that stay in RAM. Every network is compiled for what the others leave of the board. Then those
that take less RAM are compiled again for what the larger ones take anyway, and stay there unless that makes them
slower. Weights go into what is left then, and equal constants of several networks to one place of the flash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compile.pipeline import Compiled, compile_canonical, memories, read_quantised, verified
from atonc.compiler.emit.program import Program
from atonc.compiler.emit.runs import dma_notes
from atonc.compiler.frontends.read import in_file
from atonc.compiler.ir import Graph
from atonc.compiler.lower.sizes import item_bytes
from atonc.compiler.passes import order
from atonc.compiler.passes.states import memory_bytes
from atonc.compiler.place import BoardMemory
from atonc.compiler.place.constants import constant_room
from atonc.compiler.place.explain import PlacementError
from atonc.compiler.place.pools import movable_outside
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import Buffer, BufferKind, EpochPlan
from atonc.compiler.request.options import Options
from atonc.compiler.search.generators.resident import outlook
from atonc.delivery.application import memory as parts
from atonc.delivery.application.memory import joined
from atonc.delivery.application.types import ERASED_BYTES, Application, AppNetwork, FlashSlot
from atonc.machine.base import progress
from atonc.machine.base.errors import AtoncError, CapacityError, InputError, ModelError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.spans import Span
from atonc.machine.base.words import NO_ROOM, Room
from atonc.machine.hw.limits import PREFETCH_BYTES
from atonc.machine.hw.machine import FLASH


@dataclass(frozen=True)
class AppSource:
    """A network as it was read."""

    network: AppNetwork
    source: Graph
    graph: Graph  # canonical

    @property
    def name(self) -> str:
        return self.network.name


@dataclass(frozen=True)
class Kept:
    """An input or output in a place that the networks of `survives` leave alone."""

    network: str
    tensor: str
    span: Span
    survives: tuple[str, ...]
    because: str = ""  # what in the file asks for it


@dataclass(frozen=True)
class PlannedNetwork:
    network: AppNetwork
    compiled: Compiled
    alone: Compiled = field(repr=False)  # with all the RAM that the others leave
    slot: FlashSlot

    @property
    def name(self) -> str:
        return self.network.name

    @property
    def notes(self) -> tuple[str, ...]:
        options = self.network.options
        return (*self.compiled.source.notes, *dma_notes(self.compiled.program, options.dma_channel))

    def homes(self, *kinds: BufferKind) -> list[Placed]:
        """Its buffers in RAM; of some kinds, or of all but constants."""
        wanted = kinds or tuple(kind for kind in BufferKind if kind != BufferKind.CONSTANT)
        placed = self.compiled.program.placed.values()
        return [home for home in placed if not home.user_allocated and home.buffer.kind in wanted]

    def spans(self, *kinds: BufferKind) -> list[Span]:
        homes = self.homes(*kinds)
        return joined((home.address, home.address + max(home.reserved_bytes, home.size_bytes)) for home in homes)


@dataclass(frozen=True)
class SharedConstants:
    """A part of the flash that some networks read, every constant of it."""

    networks: tuple[str, ...]
    start: int
    end: int  # with what engines may read ahead
    addresses: Mapping[bytes, int] = field(repr=False)  # SHA-256 of a constant -> where it lies
    data: bytes = field(repr=False)

    @property
    def saved_bytes(self) -> int:
        return len(self.data) * (len(self.networks) - 1)


@dataclass(frozen=True)
class ApplicationPlan:
    application: Application
    memory: BoardMemory  # of the board, without what is reserved
    networks: tuple[PlannedNetwork, ...]
    kept: tuple[Kept, ...] = ()
    private: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)  # network -> RAM for weights that stay there
    shared: tuple[SharedConstants, ...] = ()

    @property
    def model_notes(self) -> tuple[str, ...]:
        """What the readers said of the models, such as which operators stay with the application, and what copies of
        the DMA ask for."""
        return tuple(f"{one.name}: {note}" for one in self.networks for note in one.notes)

    @property
    def ram(self) -> list[Span]:
        """Everything that the networks take of RAM, at whatever time."""
        return joined([*(span for one in self.networks for span in one.spans()), *(one.span for one in self.kept)])


# ------------------------------------------ the least RAM of any plan of the same programs, from lives of buffers alone


@dataclass(frozen=True)
class NetworkDemand:
    name: str
    buffers: tuple[Placed, ...]
    resident_bytes: int = 0
    kept: Mapping[str, int] | None = None  # bytes of this network that must survive: network -> bytes


def least_ram(networks: Sequence[NetworkDemand]) -> int:
    """While one network runs there are its live buffers, what must survive it, and all weights that stay in RAM."""
    residents = sum(one.resident_bytes for one in networks)
    running = []
    for one in networks:
        surviving = sum((other.kept or {}).get(one.name, 0) for other in networks if other is not one)
        running.append(int(live_bytes(one.buffers).max(initial=0)) + surviving)
    return residents + max(running, default=0)


def live_bytes(buffers: Sequence[Placed]) -> NDArray[np.int64]:
    """In every step; of buffers at one address that live together the largest counts: they are the same memory."""
    at: dict[int, NDArray[np.int64]] = {}
    steps = max((home.last for home in buffers), default=-1) + 1
    for home in buffers:
        part = at.setdefault(home.address, np.zeros(steps, np.int64))[home.first : home.last + 1]
        np.maximum(part, home.size_bytes, out=part)
    return sum(at.values(), np.zeros(steps, np.int64))


@dataclass(frozen=True)
class NetworkFigures:
    name: str
    latency_ms: float  # predicted
    alone_ms: float  # with all the RAM that the others leave
    per_second: float
    load: float  # share of a second in which it runs
    flash_bytes: int  # that engines ask of the flash in one inference
    flash_load: float
    ram_bytes: int
    resident_bytes: int
    slot_bytes: int
    constants_bytes: int  # all of them: in its slot, and those of CPU layers in its C file
    code_constants_bytes: int = 0  # of these in the C file


@dataclass(frozen=True)
class ApplicationFigures:
    networks: tuple[NetworkFigures, ...]
    load: float
    flash_load: float
    ram_bytes: int  # of all networks together
    ram_sum_bytes: int  # if each had its own
    lower_bound_bytes: int
    kept_bytes: int
    resident_bytes: int
    free_on_chip_bytes: int  # that no network uses at any time
    free_flash_bytes: int
    shared_constants_bytes: int = 0  # of flash that several networks read
    saved_constants_bytes: int = 0  # that equal constants would have taken once more
    image_ram_bytes: int = 0  # of relocatable images: their data, and code that is copied; besides the above

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def figures(found: ApplicationPlan) -> ApplicationFigures:
    networks = tuple(_network(one) for one in found.networks)
    flash = parts.flash_of(found.memory)
    used_to = max((one.slot.end for one in found.networks), default=flash.base)
    on_chip = [(pool.base, pool.base + pool.size_bytes) for pool in found.memory.on_chip]
    return ApplicationFigures(
        networks,
        load=sum(one.load for one in networks),
        flash_load=sum(one.flash_load for one in networks),
        ram_bytes=parts.size_of(found.ram),
        ram_sum_bytes=sum(one.ram_bytes for one in networks),
        lower_bound_bytes=least_ram([demand_of(found, one) for one in found.networks]),
        kept_bytes=parts.size_of([one.span for one in found.kept]),
        resident_bytes=sum(one.resident_bytes for one in networks),
        free_on_chip_bytes=sum(end - start for span in on_chip for start, end in parts.left_of(span, found.ram)),
        free_flash_bytes=flash.base + flash.size_bytes - used_to,
        shared_constants_bytes=sum(len(one.data) for one in found.shared),
        saved_constants_bytes=sum(one.saved_bytes for one in found.shared),
        image_ram_bytes=sum(one.end - one.start for one in found.application.reserved if one.image),
    )


def _network(one: PlannedNetwork) -> NetworkFigures:
    cost, rate = one.compiled.cost, one.network.per_second
    (asked, seconds), memory = _flash_demand(one.compiled), one.compiled.memory_use()
    return NetworkFigures(
        one.name,
        latency_ms=cost.latency_ms,
        alone_ms=one.alone.cost.latency_ms,
        per_second=rate,
        load=cost.latency_ms * rate / 1000,
        flash_bytes=asked,
        flash_load=seconds * rate,
        ram_bytes=parts.size_of(one.spans()),
        resident_bytes=parts.size_of(one.spans(BufferKind.RESIDENT)),
        slot_bytes=one.slot.end - one.slot.start,
        constants_bytes=memory.weights_bytes,
        code_constants_bytes=memory.code_constants_bytes,
    )


def _flash_demand(made: Compiled) -> tuple[int, float]:
    """Bytes that engines ask of the flash in one inference, and the seconds that it needs for them."""
    program, machine = made.program, made.target.machine
    asked, cycles = 0, 0.0
    plans = [step.plan for step in program.steps if isinstance(step.plan, EpochPlan)]
    for use in (use for plan in plans for use in plan.engines.values() if not use.config.to_memory):
        bank = machine.memory_at(program.placed[use.buffer].address)
        if bank is not None and bank.kind == FLASH:
            size = use.config.elements * use.config.element_bytes
            asked += size
            cycles += size * machine.external_cycles_per_byte(bank)
    return asked, machine.milliseconds(round(cycles)) / 1000


def demand_of(found: ApplicationPlan, one: PlannedNetwork) -> NetworkDemand:
    working = tuple(home for home in one.homes() if home.buffer.kind != BufferKind.RESIDENT)
    kept: dict[str, int] = {}
    for place in found.kept:
        if place.network == one.name:
            for other in place.survives:
                kept[other] = kept.get(other, 0) + one.compiled.program.placed[place.tensor].size_bytes
    return NetworkDemand(one.name, working, parts.size_of(one.spans(BufferKind.RESIDENT)), kept)


# How much slower a network may get so that it works in the RAM of a larger one. The prediction itself is off by more
# than that; RAM that two networks share is there for a third one, or for frame buffers.
SLOWER_TOGETHER = 1.02
# And around what must survive, whose RAM is lost for every other network: there banks can be shared less well.
SLOWER_AROUND_KEPT = 1.05
# Shares of the lower bound that are tried, one after the other, for networks around what must survive.
ROOMS = (1.0, 1.005, 1.015, 1.05, 1.15)
# Room for a next version of a network in its slot: retrained weights have the same size, a wider last layer some more.
GROWTH = 1.125


def read_all(application: Application) -> list[AppSource]:
    found = []
    for network in application.networks:
        with _about(network):
            try:
                source = read_quantised(network.model, network.options)
                found.append(AppSource(network, source, order.run(source, network.options)))
            except AtoncError as error:
                raise in_file(network.model, error) from error.__cause__
    return found


@contextmanager
def _about(network: AppNetwork) -> Iterator[None]:
    """What goes wrong inside names the network that it is about."""
    with progress.part(f"network {network.name}"):
        try:
            yield
        except AtoncError as error:
            *others, last = error.where.split(", ")  # an option of it stands there by its flag
            key, inside = (last, others) if last in network.places else ("", [*others, last])
            error.where = ", ".join(filter(None, (network.at(key), *inside)))
            raise


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
        with _about(one.network):
            networks.append(replace(one, compiled=verified(one.compiled, one.network.options)))
    return replace(found, networks=tuple(networks))


# ------------------------------------------------------------------------------------------------- places of their own


def _kept(
    sources: Sequence[AppSource], memory: BoardMemory, low: bool = False, other_end: int | None = None
) -> tuple[Kept, ...]:
    """A place for every input and output that must survive something, and for states, which survive everybody. Those of
    the network that keeps most lie beside what all share, so that it works in both as in one piece. `other_end`: those
    of the network that keeps second most lie from there on, at the other end of what all share, so that it does the
    same."""
    everybody, after = [one.name for one in sources], {one.name: one.network.after for one in sources}
    sizes = {(one.name, state.input): memory_bytes(one.graph, state) for one in sources for state in one.graph.states}
    wanted = [
        (sizes.get((one.name, tensor)) or _size(one.graph, tensor), one.name, tensor, survives, why)
        for one, net in ((one, one.network) for one in sources)
        for edges, survives, ours, why in (
            (one.graph.frame_inputs, net.inputs_survive, net.options.inputs_allocation, "inputs_survive"),
            (one.graph.frame_outputs, net.outputs_survive, net.options.outputs_allocation, _asked_by(net, after)),
            (_states(one), tuple(name for name in everybody if name != one.name), True, "a state"),
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
    rows = zip(wanted, places, strict=True)
    return tuple(Kept(name, tensor, span, who, why) for (_, name, tensor, who, why), span in rows)


def _asked_by(network: AppNetwork, after: Mapping[str, str]) -> str:
    """Which of those that leave its outputs alone follow it, and which the file names."""
    followers = [f"{name} is after {network.name}" for name in network.outputs_survive if after[name] == network.name]
    named = [name for name in network.outputs_survive if after[name] != network.name]
    return "; ".join([*followers, *([f"outputs_survive names {', '.join(named)}"] if named else [])])


def _size(graph: Graph, name: str) -> int:
    return graph.tensors[name].elements * item_bytes(graph.tensors[name])


def _states(source: AppSource) -> list[str]:
    return [one.input for one in source.graph.states if one.kept]


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
    with _about(source.network):
        return compile_canonical(source.source, source.graph, options, parts.with_flash(memory, slot.start, slot.end))


def _if_it_fits(source: AppSource, memory: BoardMemory, slot: FlashSlot, resident: Room = NO_ROOM) -> Compiled | None:
    try:
        return compiled_for(source, memory, slot, resident)
    except (PlacementError, CapacityError):
        return None


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


def slot_for(network: AppNetwork, room: FlashSlot, made: Compiled) -> FlashSlot:
    """From the start of the room: what was asked for, or what is used and room to grow."""
    flash = parts.flash_of(made.memory)
    ends = [home.end for home in made.program.placed.values() if flash.base <= home.address]
    used = max((end for end in ends if end <= flash.base + flash.size_bytes), default=flash.base) - room.start
    size = network.slot_bytes or round(used * GROWTH) + parts.BEHIND
    if size < used + parts.BEHIND:
        raise CapacityError(
            f"{used + parts.BEHIND:,} bytes of constants and read-ahead, its slot has {size:,}",
            where=network.at("slot"),
            remedy=f"slot = {erased(used + parts.BEHIND)}, or none",
        )
    if network.slot_bytes > room.end - room.start:
        raise CapacityError(
            f"a slot of {network.slot_bytes:,} bytes, {room.end - room.start:,} of the flash are left",
            where=network.at("slot"),
            remedy=f"slot = {erased(used + parts.BEHIND)} is enough; without slot it gets room to grow",
        )
    return FlashSlot(network.name, room.start, min(room.end, erased(room.start + size)))


def erased(address: int) -> int:
    """The next address at which the flash can be erased."""
    return -(-address // ERASED_BYTES) * ERASED_BYTES


# -------------------------------------------------------------------------------------------------------------- sharing


def _share(begun: ApplicationPlan, sources: Sequence[AppSource], alone: Sequence[PlannedNetwork]) -> ApplicationPlan:
    """The one that takes most RAM stays where it is, and the others come to it."""
    by_name = {source.name: source for source in sources}
    taken: list[Span] = []
    chosen: dict[str, PlannedNetwork] = {}
    for one in sorted(alone, key=lambda one: (-parts.size_of(working(begun, one)), one.name)):
        if taken and any(True for span in working(begun, one) for _ in parts.left_of(span, taken)):
            made = compiled_within(begun, by_name[one.name], one.slot, taken)
            if made is not None and made.cost.cycles <= SLOWER_TOGETHER * one.compiled.cost.cycles:
                one = replace(one, compiled=made)
        chosen[one.name] = one
        taken = parts.joined([*taken, *working(begun, one)])
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
        made = _if_it_fits(source, memory, one.slot)
        most = one.compiled.cost.cycles * (SLOWER_TOGETHER if one.network.relocatable is not None else 1)
        networks.append(replace(one, compiled=made) if made is not None and made.cost.cycles <= most else one)
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


def compiled_within(
    begun: ApplicationPlan, source: AppSource, slot: FlashSlot, taken: Sequence[Span]
) -> Compiled | None:
    """Nothing where it does not fit."""
    memory = room_for(begun, source.name, taken)
    return _if_it_fits(source, memory, slot) if any(pool.writable for pool in memory.pools) else None


# ------------------------------------------------------------------------------------------------------ weights in RAM
# What the shared plan leaves free on the chip goes to the networks in steps, each to the one that saves most time of a
# second with it: cycles by the outlook of `--resident`, times how often the network runs. Gains shrink as a network
# gets more, but a large kernel may need several steps at once, so the best average over any number of steps counts.
# Then each network is compiled for the shared RAM and its own part, and keeps that if it is faster.

STEPS = 24  # parts of the free RAM that are given away one after the other: some 100 KiB of what the chip has
_LEAST_BYTES = 4096


def with_residents(found: ApplicationPlan, sources: Sequence[AppSource]) -> ApplicationPlan:
    """The plan with weights in RAM; the same where the application asks for none."""
    free = _free(found)
    budget = min(found.application.resident, sum(end - start for start, end in free))
    if budget < _LEAST_BYTES:
        return found
    private = _places(_shares(found.networks, free, budget), free)
    planned = replace(found, private=private)
    shared = [span for one in found.networks for span in working(found, one)]
    networks, used = [], {}
    by_name = {source.name: source for source in sources}
    for one in found.networks:
        if own := private.get(one.name, ()):  # its weights stay there while others work in the shared RAM
            memory = room_for(planned, one.name, [*shared, *own])
            memory = replace(memory, overwritten=tuple(parts.joined(shared)))
            made = _if_it_fits(by_name[one.name], memory, one.slot, Room(parts.size_of(own)))
            if made is not None and made.cost.cycles < one.compiled.cost.cycles:
                one = replace(one, compiled=made)
        networks.append(one)
        if one.name in private and any(home.copy_of for home in one.compiled.program.placed.values()):
            used[one.name] = own
    return replace(planned, networks=tuple(networks), private=used)


def _free(found: ApplicationPlan) -> list[Span]:
    """RAM of the chip that no network uses at any time; the fastest first."""
    pools = sorted(found.memory.on_chip, key=lambda pool: (not found.memory.is_npu_ram(pool), pool.base))
    free = [span for pool in pools for span in parts.left_of((pool.base, pool.base + pool.size_bytes), found.ram)]
    return [(start, end) for start, end in free if end - start >= _LEAST_BYTES]


def _shares(networks: Sequence[PlannedNetwork], free: Sequence[Span], budget: int) -> dict[str, int]:
    """Bytes for each network."""
    step = max(_LEAST_BYTES, budget // STEPS // parts.LINE * parts.LINE)
    count = budget // step
    curves = {one.name: _curve(one, free, step, count) for one in networks}
    given = dict.fromkeys(curves, 0)
    left = count
    while left:
        gain, fewer, name = max(
            ((curve[given[name] + more] - curve[given[name]]) / more, -more, name)
            for name, curve in curves.items()
            for more in range(1, min(left, len(curve) - 1 - given[name]) + 1)
        )
        if gain <= 0:
            break
        given[name] -= fewer
        left += fewer
    return {name: steps * step for name, steps in given.items() if steps}


def _curve(one: PlannedNetwork, free: Sequence[Span], step: int, count: int) -> list[float]:
    """Cycles of a second that are saved with so many steps of RAM."""
    made, rate = one.compiled, one.network.per_second
    if not rate:
        return [0.0] * (count + 1)
    found = [0.0]
    for steps in range(1, count + 1):
        saved, _ = outlook(made.program, free, steps * step, made.target)
        found.append(max(found[-1], saved * rate))
    return found


def _places(shares: Mapping[str, int], free: Sequence[Span]) -> dict[str, tuple[Span, ...]]:
    """The free RAM cut into pieces, one behind the other."""
    left = list(free)
    found: dict[str, tuple[Span, ...]] = {}
    for name, size in sorted(shares.items(), key=lambda row: (-row[1], row[0])):
        own: list[Span] = []
        while size >= _LEAST_BYTES and left:
            start, end = left.pop(0)
            cut = min(end, start + size // parts.LINE * parts.LINE)
            own.append((start, cut))
            size -= cut - start
            if end - cut >= _LEAST_BYTES:
                left.insert(0, (cut, end))
        found[name] = tuple(own)
    return found


# ------------------------------------------------------- constants that several networks have, stored once
# Networks of one backbone, or one model with two kinds of inputs, have weights with the same bytes. For every set of
# networks that have constants in common there is a part of the flash in front of the slots, and those networks read it
# where it lies. Programs stay as they are but for addresses; the price is that none of these networks can be replaced
# alone, so slots are not kept then.

_LEAST_CONSTANT = 64  # a smaller constant is not worth a look


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
        own = [part for part in shared if one.name in part.networks]
        known = {digest: place for part in own for digest, place in part.addresses.items()}
        # the same program in the same RAM, with some of its constants elsewhere
        memory = parts.with_flash(one.compiled.memory, room.start, room.end)
        memory = parts.with_shared(memory, [(part.start, part.end) for part in own], known)
        made = compiled_for(source, memory, room, Room(parts.size_of(found.private.get(one.name, ()))))
        slot = slot_for(one.network, room, made)
        networks.append(replace(one, compiled=made, slot=slot))
        cursor = slot.end
    for one in networks:  # reads all of a part that it shares: so the files of each have the same image of it
        places = {home.address for _, home in _constants(one.compiled.program)}
        for part in shared:
            if one.name in part.networks and not places.issuperset(part.addresses.values()):
                raise ModelError("other constants than before they were shared", where=f"network {one.name}")
    return replace(found, networks=tuple(networks), shared=tuple(shared))


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
        if home.size_bytes >= _LEAST_CONSTANT and len(home.buffer.data) == home.size_bytes:
            found.setdefault(hashlib.sha256(home.buffer.data).digest(), home)
    yield from found.items()
