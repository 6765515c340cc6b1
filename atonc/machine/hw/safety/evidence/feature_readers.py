"""Engines that read whole numbers of 16 bits for a CONVACC with features of 16 bits and kernels of 8.

Published readers of that mode extend bytes; whole numbers are read for kernels of 16 bits. So it is said only where it
is so: all else is every published reader.
"""

from __future__ import annotations

from collections.abc import Iterator

from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.safety.evidence.grades import Feature
from atonc.machine.hw.safety.view import EpochView
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

FEATURES = 0  # the port
WHOLE = Feature("STRENG reads features", "simd2", "16 bits")
_SIMD = 2


def read_for(reader: UnitConfig, unit: UnitConfig, port: int) -> tuple[Feature, ...]:
    """What there is to say of a unit that reads from an engine."""
    wide = isinstance(unit, ConvaccConfig) and unit.simd == _SIMD and port == FEATURES
    return (WHOLE,) if wide and isinstance(reader, StrengConfig) and reader.element_bytes > 1 else ()


def features(view: EpochView) -> Iterator[tuple[str, Feature]]:
    for link in view.links:
        if link.source in view.engines and link.destination in view.units:
            for found in read_for(view.engines[link.source], view.units[link.destination], link.port):
                yield link.source, found
