"""What an epoch takes on the chip: the model calibrated on boards (constants and their evidence in `stm32n6.toml`).

    epoch = fixed + overlap(core, external) + programming
    core = slowest of: units, streams, on-chip banks, interfaces to the bus
    overlap = max(core, external) + the first kernel set, which nothing hides: min(core, kernel part) / kernel sets

Configuration of the next epoch does not run in parallel, so programming adds up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from operator import attrgetter
from typing import NamedTuple

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.cycles import traffic, work
from atonc.machine.hw.cycles.flow import KERNELS, StreamFlow, UnitFlow, element_counts
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import BUS_BYTES, PRODUCTS
from atonc.machine.hw.machine import CPU_RAM, Machine, MemoryBank, stm32n6
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig


@dataclass(frozen=True)
class EpochCycles:
    """`compute` is what the units alone would take; `detail` gives every candidate and part, in cycles."""

    cycles: int
    compute: int
    bound_by: str  # feature, weights, output, compute, bus, the name of a memory, programming, cpu or nothing ("")
    detail: Mapping[str, float] = field(default_factory=dict)


class Bound(NamedTuple):
    """One thing that an epoch cannot be faster than."""

    cycles: float
    label: str


def slowest(bounds: list[Bound]) -> Bound:
    """The first of the largest ones, so that a tie goes to the unit and not to its memory."""
    return max(bounds, key=attrgetter("cycles"), default=Bound(0.0, ""))


CONTROLLER, CPU, NOBODY = "controller", "cpu", "nobody"  # who programs the epoch
INTERFACE = "bus"  # label of what an interface to the bus bounds


def epoch_cycles(
    epoch: Epoch, machine: Machine | None = None, programmed_by: str = CONTROLLER, warm_cache: bool = False
) -> EpochCycles:
    """`warm_cache`: lines that cached streams want are still there from the last inference."""
    machine = machine or stm32n6()
    if epoch.empty:
        programming = programming_cycles(epoch, machine, programmed_by)
        return EpochCycles(round(programming), 0, "programming" if programming else "", {"programming": programming})
    flow = element_counts(epoch)
    units = slowest(_unit_bounds(epoch, flow, machine))
    beats = work.beats(epoch, flow)
    moved = [*_bank_bounds(epoch, beats, machine), *_interface_bounds(epoch, beats, machine)]
    core = slowest([units, *_stream_bounds(epoch, flow, machine), *moved])
    external = _external(epoch, flow, machine, warm_cache)
    body = max(core.cycles, external.cycles) + min(core.cycles, external.kernels) / external.kernel_sets
    programming = programming_cycles(epoch, machine, programmed_by)
    longest = slowest([core, Bound(external.cycles, external.name)])
    label = "programming" if programming > longest.cycles else longest.label
    detail = {
        "fixed": machine.timing.epoch,
        "units": units.cycles,
        "core": core.cycles,
        "external": external.cycles,
        "unhidden kernels": body - max(core.cycles, external.cycles),
        "programming": programming,
    }
    return EpochCycles(round(machine.timing.epoch + body + programming), round(units.cycles), label, detail)


def programming_cycles(epoch: Epoch, machine: Machine, programmed_by: str) -> float:
    """NPU cycles that pass while the epoch is configured and, by the CPU, torn down."""
    timing = machine.timing
    if programmed_by == CONTROLLER:
        return timing.controller_word * epoch.words
    if programmed_by == NOBODY or epoch.empty:
        return 0.0
    before = max(0.0, timing.cpu_before_word * epoch.words + timing.cpu_before_constant)
    after = timing.cpu_after_constant + sum(
        cost * len(epoch.of_kind(kind))
        for kind, cost in (
            ("STRENG", timing.cpu_after_streng),
            ("CONVACC", timing.cpu_after_convacc),
            ("ARITH", timing.cpu_after_arith),
        )
    )
    return machine.npu_cycles(before + after)


def _unit_bounds(epoch: Epoch, flow: StreamFlow, machine: Machine) -> list[Bound]:
    bounds = []
    for name, config in epoch.units.items():
        unit = flow[name]
        if isinstance(config, ConvaccConfig):
            bounds += _convolution_bounds(config, unit, machine)
        elif not isinstance(config, StrengConfig):
            bounds.append(Bound(max(unit.output.total, *unit.taken.values(), 0), "compute"))
    return bounds


def _convolution_bounds(config: ConvaccConfig, unit: UnitFlow, machine: Machine) -> list[Bound]:
    """A frame is done when its features are in and its outputs are out; kernels for 3x3 wait for the lines above."""
    timing = machine.timing
    sets = max(1, config.frames_out(1))
    loads = -(-unit.output.frames // sets)
    out, features = float(config.out_elements * sets), float(config.feature_words)
    if config.kernel_height > 1:
        line = -(-config.line_elements // config.packing)
        top, bottom, _, _ = config.padding
        out += max(0, config.kernel_height - 1 - top) * line + config.batch
        if bottom and config.stride_y == 1:
            features += timing.fill_lines * line + timing.fill_per_line * config.height + timing.fill_constant
    return [
        Bound(loads * features, "feature") if features >= out else Bound(loads * out, "output"),
        Bound(unit.output.total * config.taps / PRODUCTS[config.simd], "products"),
        Bound(unit.taken.get(KERNELS, 0), "weights"),
    ]


def _stream_bounds(epoch: Epoch, flow: StreamFlow, machine: Machine) -> list[Bound]:
    """One word per cycle in every engine, one value of 4 bits; short frames that lie apart cost a turn-round each."""
    bounds = []
    for name, engine in epoch.engines().items():
        if engine.to_memory:
            bounds.append(Bound(engine.elements, "output"))
            continue
        words = flow.delivered(epoch, name) * (engine.element_bytes if engine.four_bits else 1)
        ports = {link.port for link in epoch.destinations(name) if _is_convolution(epoch, link.destination)}
        label = "weights" if KERNELS in ports else "feature" if ports else "read"
        bank = machine.memory_at(engine.address)
        if not ports and (bank is None or not bank.external) and traffic.jumps(engine):
            frames = -(-words // max(1, engine.frame_elements))
            turn = machine.timing.frame_turn + min(machine.timing.frame_turn_words, engine.frame_elements)
            bounds.append(Bound(frames * max(engine.frame_elements, turn), label))
        else:
            bounds.append(Bound(words, label))
    return bounds


def _interface_bounds(epoch: Epoch, beats: Mapping[str, float], machine: Machine) -> list[Bound]:
    """An interface moves a beat each way at a time, for all of its engines."""
    carried: dict[tuple[int, bool], float] = {}
    for name, engine in epoch.engines().items():
        way = machine.interfaces.get(name, 0), bool(engine.to_memory)
        carried[way] = carried.get(way, 0.0) + beats[name]
    return [Bound(machine.timing.interface_beat * count, INTERFACE) for count in carried.values()]


def _bank_bounds(epoch: Epoch, beats: Mapping[str, float], machine: Machine) -> list[Bound]:
    """Reads and writes of a bank overlap; scattered reads cost more per beat than bursts."""
    timing = machine.timing
    reads: dict[int, float] = {}
    writes: dict[int, float] = {}  # by base
    for name, engine in epoch.engines().items():
        single = traffic.run_bytes(engine) <= BUS_BYTES
        for bank, share in traffic.shares(engine, _on_chip_spans(machine)):
            if bank.kind == CPU_RAM:
                weight = timing.noc_beat
            elif engine.to_memory:
                weight = timing.write_beat
            else:
                weight = timing.single_read_beat if single else timing.read_beat
            side = writes if engine.to_memory else reads
            side[bank.base] = side.get(bank.base, 0.0) + weight * beats[name] * share
    busy = [bank for bank in _on_chip(machine) if bank.base in reads or bank.base in writes]
    return [Bound(max(reads.get(b.base, 0.0), writes.get(b.base, 0.0)), b.name) for b in busy]


@memoise
def _on_chip(machine: Machine) -> tuple[MemoryBank, ...]:
    return tuple(bank for bank in machine.memories if not bank.external)


@memoise
def _on_chip_spans(machine: Machine) -> traffic.Spans[MemoryBank]:
    return traffic.secure_spans(_on_chip(machine))


@dataclass(frozen=True)
class _External:
    """The slowest external memory."""

    name: str = ""
    cycles: float = 0.0
    kernels: float = 0.0  # the part that brings kernels
    kernel_sets: int = 1


def _external(epoch: Epoch, flow: StreamFlow, machine: Machine, warm_cache: bool) -> _External:
    totals: dict[str, float] = {}
    kernels: dict[str, float] = {}
    for name, engine in epoch.engines().items():
        bank = machine.memory_at(engine.address)
        if bank is None or not bank.external:
            continue
        cycles = _external_stream(engine, flow.delivered(epoch, name), bank, machine, warm_cache)
        totals[bank.label] = totals.get(bank.label, 0.0) + cycles
        if any(link.port == KERNELS and _is_convolution(epoch, link.destination) for link in epoch.destinations(name)):
            kernels[bank.label] = kernels.get(bank.label, 0.0) + cycles
    if not totals:
        return _External()
    name = max(totals, key=lambda key: totals[key])
    return _External(name, totals[name], kernels.get(name, 0.0), _kernel_sets(epoch, flow))


def _external_stream(engine: StrengConfig, words: int, bank: MemoryBank, machine: Machine, warm_cache: bool) -> float:
    per_byte = machine.external_cycles_per_byte(bank)
    if not work.is_cached(engine, bank):
        return per_byte * words * engine.bytes_per_element
    # cached: memory is read once, every access then pays a beat on the bus and, where it jumps, a turn-round
    part = words / max(1, engine.elements)
    fetched = 0 if warm_cache else work.fetched_bytes(engine, words)
    turns = machine.timing.cache_discontinuity * (traffic.jumps(engine) + 1)
    return per_byte * fetched + (machine.timing.cache_beat * traffic.beats(engine) + turns) * part


def _kernel_sets(epoch: Epoch, flow: StreamFlow) -> int:
    frames: Iterable[int] = (
        flow[name].output.frames for name, config in epoch.units.items() if isinstance(config, ConvaccConfig)
    )
    return max(1, *frames, 1)


def _is_convolution(epoch: Epoch, unit: str) -> bool:
    return isinstance(epoch.units.get(unit), ConvaccConfig)
