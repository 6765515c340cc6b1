"""Cycles per epoch, two models side by side: ST's estimate and the chip as measured."""

from __future__ import annotations

from atonc.machine.hw.cycles import hardware, st_estimate
from atonc.machine.hw.cycles.flow import StreamFlow, StreamWords, UnitFlow, element_counts
from atonc.machine.hw.cycles.hardware import EpochCycles
from atonc.machine.hw.cycles.network import EpochCost, NetworkCycles, network_cycles

__all__ = [
    "EpochCost",
    "EpochCycles",
    "NetworkCycles",
    "StreamFlow",
    "StreamWords",
    "UnitFlow",
    "element_counts",
    "hardware",
    "network_cycles",
    "st_estimate",
]
