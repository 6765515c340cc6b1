"""Cycles per epoch, two models side by side: ST's estimate and the chip as measured."""

from __future__ import annotations

from atonc.hw.cycles import hardware, st_estimate
from atonc.hw.cycles.flow import StreamFlow, StreamWords, UnitFlow, element_counts
from atonc.hw.cycles.network import EpochCost, NetworkCycles, network_cycles
from atonc.hw.cycles.result import EpochCycles

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
