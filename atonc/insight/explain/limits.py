"""How fast a layer could be at best, whatever program does it.

    absolute    all units multiply bytes in every cycle; what the layer reads and writes passes the bus once; its
                weights come from outside the chip once. No program that runs the layer by itself is faster.
    practical   of a convolution: the same with what ten stream engines allow, three lanes of one unit or two of two,
                and with what it takes to program and start one epoch. Other operators of the NPU count nothing: they
                might run behind a convolution.

Of a network the practical bound is the sum over its layers, each waiting for its own weights, and what the CPU takes.
The absolute one lets all layers overlap: units and external memory are each busy for what all layers ask of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.limits import BUS_BYTES, PRODUCTS, UNITS
from atonc.machine.hw.machine import FLASH, Machine

BYTES = 1  # SIMD mode of a CONVACC
PEAK = PRODUCTS[BYTES] * UNITS["CONVACC"]  # multiplications a cycle
UNIT_WORK, BUS, OUTSIDE, START = "convolvers", "bus", "external memory", "programming"


@dataclass(frozen=True)
class LayerWork:
    """What a layer asks of the chip; nothing here depends on clocks, so a folder keeps it."""

    macs: int
    lane_cycles: int  # of its units in the best cut; 0: no convolution
    read_bytes: int  # features and weights
    written_bytes: int
    program_words: int  # of the shortest of its epochs
    outside_bytes: Mapping[str, int]  # weights by the kind of external memory that they come from


@dataclass(frozen=True)
class LayerLimit:
    """Cycles that each resource takes at best."""

    work: LayerWork
    units: int
    bus: int
    outside: int
    start: int  # to program and start an epoch

    @property
    def absolute(self) -> int:
        return max(self.units, self.bus, self.outside)

    @property
    def practical(self) -> int:
        return self._practical(self.outside)

    @property
    def practical_in_ram(self) -> int:
        """With its weights in RAM."""
        return self._practical(0)

    def _practical(self, outside: int) -> int:
        lanes = self.work.lane_cycles
        return max(lanes, self.bus, outside) + self.start if lanes else 0

    @property
    def held_by(self) -> str:
        """What decides the practical bound; empty where there is none."""
        shares = {UNIT_WORK: self.work.lane_cycles, OUTSIDE: self.outside, BUS: self.bus, START: self.start}
        return max(shares, key=shares.__getitem__) if self.practical else ""


@dataclass(frozen=True)
class NetworkLimit:
    """Cycles of the whole network at best, and how many times that it takes."""

    cycles: int
    practical: int
    practical_in_ram: int
    absolute: int

    @property
    def times_practical(self) -> float:
        return self.cycles / self.practical if self.practical else 0.0

    @property
    def times_absolute(self) -> float:
        return self.cycles / self.absolute if self.absolute else 0.0

    def as_dict(self) -> dict[str, float]:
        return {
            "practical_cycles": self.practical,
            "practical_in_ram_cycles": self.practical_in_ram,
            "absolute_cycles": self.absolute,
            "times_practical": round(self.times_practical, 3),
            "times_absolute": round(self.times_absolute, 3),
        }

    def __str__(self) -> str:
        return f"{self.times_practical:.2f} times the practical bound, {self.times_absolute:.2f} times the absolute"


def limit_of(work: LayerWork, machine: Machine, programmed_by: str) -> LayerLimit:
    clocks, timing = machine.clocks, machine.timing
    by_cpu = programmed_by == hardware.CPU
    word = machine.npu_cycles(timing.cpu_before_word) if by_cpu else timing.controller_word
    beat = clocks.npu_mhz / clocks.npu_ram_mhz / (BUS_BYTES * len(machine.engine_ports))
    outside = sum(byte_cycles(kind, machine) * size for kind, size in work.outside_bytes.items())
    bus = beat * max(work.read_bytes, work.written_bytes)
    start = timing.epoch + word * work.program_words
    return LayerLimit(work, ceil(work.macs / PEAK), ceil(bus), ceil(outside), ceil(start))


def byte_cycles(kind: str, machine: Machine) -> float:
    return machine.flash_byte_cycles if kind == FLASH else machine.hyperram_byte_cycles


def network_limit(limits: Sequence[LayerLimit], cycles: int, cpu_cycles: int) -> NetworkLimit | None:
    """None where no convolution runs on the NPU, or where nothing is known about its layers."""
    if not any(one.practical for one in limits):
        return None
    return NetworkLimit(
        cycles=cycles,
        practical=sum(one.practical for one in limits) + cpu_cycles,
        practical_in_ram=sum(one.practical_in_ram for one in limits) + cpu_cycles,
        absolute=max(sum(one.units for one in limits), sum(one.outside for one in limits)),
    )
