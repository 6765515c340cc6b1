"""What an application costs: time of a second, load of NPU and flash, RAM, and what is left for more."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.emit.program import Program
from atonc.compiler.plan.types import BufferKind, EpochPlan
from atonc.delivery.application import memory as parts
from atonc.delivery.application.bound import BufferLife, NetworkDemand, least_ram
from atonc.delivery.application.plan_types import ApplicationPlan, PlannedNetwork
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.machine import FLASH


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
    constants_bytes: int


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
    asked, seconds = _flash_demand(one.compiled)
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
        constants_bytes=one.compiled.memory_use().weights_bytes,
    )


def _flash_demand(made: Compiled) -> tuple[int, float]:
    """Bytes that engines ask of the flash in one inference, and the seconds that it needs for them."""
    program, machine = made.program, made.target.machine
    asked, cycles = 0, 0.0
    for address, size in _reads(program):
        bank = machine.memory_at(address)
        if bank is not None and bank.kind == FLASH:
            asked += size
            cycles += size * machine.external_cycles_per_byte(bank)
    return asked, machine.milliseconds(round(cycles)) / 1000


def _reads(program: Program) -> list[tuple[int, int]]:
    return [
        (program.placed[use.buffer].address, use.config.elements * use.config.element_bytes)
        for step in program.steps
        if isinstance(step.plan, EpochPlan)
        for use in step.plan.engines.values()
        if not use.config.to_memory
    ]


def demand_of(found: ApplicationPlan, one: PlannedNetwork) -> NetworkDemand:
    working = [
        home
        for home in one.compiled.program.placed.values()
        if not home.user_allocated and home.buffer.kind not in (BufferKind.CONSTANT, BufferKind.RESIDENT)
    ]
    kept: dict[str, int] = {}
    for place in found.kept:
        if place.network == one.name:
            for other in place.survives:
                kept[other] = kept.get(other, 0) + one.compiled.program.placed[place.tensor].size_bytes
    buffers = tuple(BufferLife(home.address, home.size_bytes, home.first, home.last) for home in working)
    return NetworkDemand(one.name, buffers, parts.size_of(one.spans(BufferKind.RESIDENT)), kept)
