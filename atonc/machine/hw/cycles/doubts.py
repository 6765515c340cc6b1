"""Cycles of an epoch that rest on what calibration has hardly covered, by topic. The band of a prediction grows with
them (`cost/band.py` says how far, and why); no price follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from atonc.machine.hw.cycles import hardware, traffic
from atonc.machine.hw.cycles.hardware import EpochCycles
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import HYPERRAM, Machine, kind_of_label
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

WORDS, CPU_WORDS = "command-stream fetch", "registers written by the CPU"
SIDE_BY_SIDE = "parallel convolutions"
TURNS, LONG_TURNS = "jumps between short frames", "jumps between longer frames"
CACHED = "weights re-read through the NPU cache"
OUTSIDE = "external RAM"
COPIES = "copies by HPDMA1"
MEASURED = "constants measured on this board"
# topics that are in doubt because of constants alone: measuring these settles them
_SETTLED_BY = {
    WORDS: ("controller_word",),
    CPU_WORDS: ("cpu_before_word",),
    TURNS: ("frame_turn",),
    CACHED: ("cache_beat", "cache_discontinuity"),
    OUTSIDE: ("hyperram_mb_per_s",),
}


def doubts(epoch: Epoch, machine: Machine, programmed_by: str, priced: EpochCycles) -> Mapping[str, float]:
    """`priced`: what the model says of this epoch, so programmed."""
    programming = priced.detail.get("programming", 0.0)
    work = priced.cycles - programming
    found = {
        CPU_WORDS if programmed_by == hardware.CPU else WORDS: programming,
        SIDE_BY_SIDE: work if convolutions(epoch) > 1 else 0.0,
        CACHED: work if priced.bound_by and _cached(epoch, priced.bound_by, machine) else 0.0,
        OUTSIDE: work if kind_of_label(priced.bound_by) == HYPERRAM else 0.0,
        **_turns(epoch, machine, programmed_by, priced),
    }
    settled = {topic for topic, by in _SETTLED_BY.items() if set(by) <= set(machine.measured)}
    measured = sum(cycles for topic, cycles in found.items() if topic in settled)
    open_ = {topic: cycles for topic, cycles in found.items() if cycles > 0 and topic not in settled}
    return open_ | ({MEASURED: measured} if measured > 0 else {})


def convolutions(epoch: Epoch) -> int:
    """How many run side by side: convolvers that pass sums or results on to each other are one."""
    group = {name: name for name, config in epoch.units.items() if not isinstance(config, StrengConfig)}
    for link in epoch.links:
        if link.source in group and link.destination in group:
            old, new = group[link.destination], group[link.source]
            group = {name: new if at == old else at for name, at in group.items()}
    return len({group[name] for name, config in epoch.units.items() if isinstance(config, ConvaccConfig)})


def _cached(epoch: Epoch, bound_by: str, machine: Machine) -> bool:
    streams = [engine for engine in epoch.readers().values() if engine.cacheable and engine.cache_allocate]
    banks = [machine.memory_at(engine.address) for engine in streams]
    return any(bank is not None and bank.label == bound_by for bank in banks)


def _turns(epoch: Epoch, machine: Machine, programmed_by: str, priced: EpochCycles) -> Mapping[str, float]:
    """What the turns add to this epoch."""
    frames = [engine.frame_elements for engine in epoch.readers().values() if traffic.jumps(engine)]
    if not frames or min(frames) >= machine.timing.frame_turn:
        return {}
    added = priced.cycles - hardware.epoch_cycles(epoch, _without_turns(machine), programmed_by).cycles
    return {TURNS if min(frames) <= machine.timing.frame_turn_words else LONG_TURNS: added}


@memoise
def _without_turns(machine: Machine) -> Machine:
    return replace(machine, timing=replace(machine.timing, frame_turn=0.0, frame_turn_words=0))
