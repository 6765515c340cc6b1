"""An epoch: units with their configurations, the links between them, and what ends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cached_property

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link


@dataclass(frozen=True)
class Event:
    """One step of the program in the order that it is executed: `what` is configure, link, switch, enable, wait,
    unlink or disable; `detail` carries the value that a rule may want (poll value and timeout)."""

    what: str
    unit: str
    detail: tuple[int, ...] = ()


@dataclass(frozen=True)
class Epoch:
    number: int
    units: Mapping[str, UnitConfig]
    links: tuple[Link, ...]
    waits: tuple[str, ...]  # engines whose end ends the epoch
    events: tuple[Event, ...] = ()
    words: int = 0  # length of its part of the program, or of the one that the epoch controller would have
    registers: Mapping[str, Mapping[int, int]] = field(default_factory=dict, repr=False, compare=False)
    kept: frozenset[str] = frozenset()  # units whose table an earlier epoch of the same program has loaded

    def of_kind(self, kind: str) -> dict[str, UnitConfig]:
        return {name: config for name, config in self.units.items() if kind == config.KIND}

    def engines(self) -> Mapping[str, StrengConfig]:
        return self._engines

    def readers(self) -> Mapping[str, StrengConfig]:
        return self._readers

    def writers(self) -> Mapping[str, StrengConfig]:
        return self._writers

    def sources(self, unit: str) -> Mapping[int, Link]:
        """Links into a unit by port."""
        return self._into.get(unit, {})

    def destinations(self, unit: str) -> tuple[Link, ...]:
        return self._from.get(unit, ())

    @cached_property
    def _engines(self) -> Mapping[str, StrengConfig]:
        return {name: config for name, config in self.units.items() if isinstance(config, StrengConfig)}

    @cached_property
    def _readers(self) -> Mapping[str, StrengConfig]:
        return {name: config for name, config in self._engines.items() if not config.to_memory}

    @cached_property
    def _writers(self) -> Mapping[str, StrengConfig]:
        return {name: config for name, config in self._engines.items() if config.to_memory}

    @cached_property
    def _into(self) -> Mapping[str, Mapping[int, Link]]:
        found: dict[str, dict[int, Link]] = {}
        for link in self.links:
            found.setdefault(link.destination, {})[link.port] = link
        return found

    @cached_property
    def _from(self) -> Mapping[str, tuple[Link, ...]]:
        return _grouped((link.source, link) for link in self.links)

    @property
    def empty(self) -> bool:
        return not self.units


def _grouped(links: Iterable[tuple[str, Link]]) -> dict[str, tuple[Link, ...]]:
    """Groups links by unit, in the order of the epoch."""
    found: dict[str, tuple[Link, ...]] = {}
    for unit, link in links:
        found[unit] = (*found.get(unit, ()), link)
    return found
