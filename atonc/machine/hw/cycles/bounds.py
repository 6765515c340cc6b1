"""What no epoch can be faster than, from what the parts of the chip can do in a clock. A witness beside the calibrated
model: it shares no formula with it, and no prediction may lie below (`tests/hw/test_cycles_bounds.py`,
`tests/compiler/test_bounds.py`).

    units        every port of a unit passes a word a cycle; a CONVACC multiplies so many pairs a cycle (`PRODUCTS`)
    engines      a word a cycle
    banks        a beat of 8 bytes a clock of the memory, each way
    interfaces   a beat of 8 bytes a clock of the NPU RAM, each way (likely, see `interface_beat` in `stm32n6.toml`)
    outside      the bytes of flash and external RAM at their speed; what the cache keeps is fetched once
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from atonc.machine.hw.cycles import traffic
from atonc.machine.hw.cycles.flow import StreamFlow, element_counts
from atonc.machine.hw.cycles.hardware import Bound, slowest
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import PRODUCTS
from atonc.machine.hw.machine import CPU_RAM, FLASH, Machine, MemoryBank
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig


def bounds(epoch: Epoch, machine: Machine) -> list[Bound]:
    """All of them, each with what it is about."""
    flow = element_counts(epoch)
    return [
        *_ports(epoch, flow),
        *_products(epoch, flow),
        *_engines(epoch, flow),
        *_memories(epoch, flow, machine),
        *_interfaces(epoch, flow, machine),
    ]


def tightest(epoch: Epoch, machine: Machine) -> Bound:
    return slowest(bounds(epoch, machine))


def _ports(epoch: Epoch, flow: StreamFlow) -> Iterator[Bound]:
    for name, config in epoch.units.items():
        if not isinstance(config, StrengConfig):
            yield Bound(flow[name].output.total, f"{name} gives")
            yield from (Bound(words, f"{name} takes at port {port}") for port, words in flow[name].taken.items())


def _products(epoch: Epoch, flow: StreamFlow) -> Iterator[Bound]:
    for name, config in epoch.units.items():
        if isinstance(config, ConvaccConfig):
            yield Bound(flow[name].output.total * config.taps / PRODUCTS[config.simd], f"{name} multiplies")


def _engines(epoch: Epoch, flow: StreamFlow) -> Iterator[Bound]:
    for name, engine in epoch.engines().items():
        yield Bound(_words(name, engine, epoch, flow), f"{name} moves")


def _memories(epoch: Epoch, flow: StreamFlow, machine: Machine) -> Iterator[Bound]:
    """Reads and writes of a memory on the chip pass each other; outside there is one bus for both."""
    spent: dict[tuple[str, bool], float] = defaultdict(float)
    spans = traffic.secure_spans(machine.memories)
    for name, engine in epoch.engines().items():
        for bank, share in traffic.shares(engine, spans):
            key = bank.name, bool(engine.to_memory) and not bank.external
            spent[key] += share * _memory_cycles(name, engine, bank, epoch, flow, machine)
    yield from (Bound(cycles, f"{bank} {'written' if writes else 'read'}") for (bank, writes), cycles in spent.items())


def _memory_cycles(
    name: str, engine: StrengConfig, bank: MemoryBank, epoch: Epoch, flow: StreamFlow, machine: Machine
) -> float:
    clocks = machine.clocks
    if not bank.external:
        mhz = clocks.noc_mhz if bank.kind == CPU_RAM else clocks.npu_ram_mhz
        return _beats(name, engine, epoch, flow) * clocks.npu_mhz / mhz
    moved = _words(name, engine, epoch, flow) * engine.bytes_per_element
    if engine.cacheable and engine.cache_allocate:
        moved = min(moved, traffic.distinct_bytes(engine))
    return moved * clocks.npu_mhz / (clocks.flash_mb_per_s if bank.kind == FLASH else clocks.hyperram_mb_per_s)


def _interfaces(epoch: Epoch, flow: StreamFlow, machine: Machine) -> Iterator[Bound]:
    clocks, carried = machine.clocks, defaultdict[tuple[int, str], float](float)
    for port, engines in machine.engine_ports.items():
        for name, engine in epoch.engines().items():
            if name in {f"STRENG{k}" for k in engines}:
                carried[port, "writes" if engine.to_memory else "reads"] += _beats(name, engine, epoch, flow)
    for (port, way), count in carried.items():
        yield Bound(count * clocks.npu_mhz / clocks.npu_ram_mhz, f"interface {port} {way}")


def _words(name: str, engine: StrengConfig, epoch: Epoch, flow: StreamFlow) -> int:
    """Counts words that flow; of an overlong reader only those that its unit takes."""
    return engine.elements if engine.to_memory else flow.delivered(epoch, name)


def _beats(name: str, engine: StrengConfig, epoch: Epoch, flow: StreamFlow) -> float:
    return traffic.beats(engine) * _words(name, engine, epoch, flow) / max(1, engine.elements)
