"""An epoch prepared for the rules: who feeds whom, typed by unit kind, looked up once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property, lru_cache
from typing import TypeVar

from atonc.machine.hw import chains
from atonc.machine.hw.cycles.flow import StreamFlow, StreamWords, element_counts
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.links import LinkKind
from atonc.machine.hw.safety.context import CheckedPool, SafetyContext
from atonc.machine.hw.safety.mode_keys import Key, mode_key
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link

C = TypeVar("C", bound=UnitConfig)


@cache
def kind_of_name(unit: str) -> str:
    """CONVACC of CONVACC2, also for units that are not configured."""
    return unit.partition(":")[0].rstrip("0123456789")


def number_of_name(unit: str) -> int:
    digits = unit[len(kind_of_name(unit)) :]
    return int(digits) if digits.isascii() and digits.isdigit() else -1


@lru_cache(maxsize=1 << 12)
def _link_kind(source: str, destination: str, port: int) -> LinkKind:
    return LinkKind(kind_of_name(source), kind_of_name(destination), port)


class EpochView:
    def __init__(self, epoch: Epoch, context: SafetyContext) -> None:
        self.epoch, self.context = epoch, context
        self.units: Mapping[str, UnitConfig] = epoch.units
        self.links = epoch.links
        self._into: dict[tuple[str, int], Link] = {}
        self._from: dict[str, list[Link]] = {}
        self._ports: dict[str, list[int]] = {}
        for link in epoch.links:
            self._into.setdefault((link.destination, link.port), link)
            self._from.setdefault(link.source, []).append(link)
            self._ports.setdefault(link.destination, []).append(link.port)

    def source(self, unit: str, port: int) -> Link | None:
        return self._into.get((unit, port))

    def destinations(self, unit: str) -> list[Link]:
        return self._from.get(unit, [])

    def ports(self, unit: str) -> list[int]:
        """Linked input ports."""
        return self._ports.get(unit, [])

    def kind(self, unit: str) -> str:
        return kind_of_name(unit)

    def link_kind(self, link: Link) -> LinkKind:
        return _link_kind(link.source, link.destination, link.port)

    def _typed(self, config_type: type[C]) -> dict[str, C]:
        return {name: config for name, config in self.units.items() if isinstance(config, config_type)}

    @cached_property
    def engines(self) -> dict[str, StrengConfig]:
        return self._typed(StrengConfig)

    @cached_property
    def readers(self) -> dict[str, StrengConfig]:
        return {name: config for name, config in self.engines.items() if not config.to_memory}

    @cached_property
    def writers(self) -> dict[str, StrengConfig]:
        return {name: config for name, config in self.engines.items() if config.to_memory}

    @cached_property
    def convaccs(self) -> dict[str, ConvaccConfig]:
        return self._typed(ConvaccConfig)

    @cached_property
    def ariths(self) -> dict[str, ArithConfig]:
        return self._typed(ArithConfig)

    @cached_property
    def activs(self) -> dict[str, ActivConfig]:
        return self._typed(ActivConfig)

    @cached_property
    def poolings(self) -> dict[str, PoolConfig]:
        return self._typed(PoolConfig)

    @cached_property
    def processing(self) -> list[str]:
        return [name for name in self.units if name not in self.engines]

    @cached_property
    def flow(self) -> StreamFlow:
        """How many elements travel where."""
        return element_counts(self.epoch)

    def arriving(self, unit: str, port: int) -> StreamWords | None:
        """What comes to a port; None when it is not linked."""
        return None if self.source(unit, port) is None or unit not in self.units else self.flow[unit].input(port)

    @cached_property
    def memory_of(self) -> dict[str, CheckedPool | None]:
        """The pool in which each engine starts."""
        return {name: self.context.pool_at(config.address) for name, config in self.engines.items()}

    @cached_property
    def spans(self) -> dict[str, tuple[int, int]]:
        """First and one-past-last address that each engine touches."""
        return {name: config.span() for name, config in self.engines.items()}

    @cached_property
    def chains(self) -> dict[tuple[str, ...], str]:
        """Units and canonical text of each chain."""
        return chains.texts(self.epoch)

    @cached_property
    def modes(self) -> dict[str, Key]:
        """What the study of public networks calls the mode of each unit."""
        roles = {engine: self.role(engine) for engine in self.engines}
        return {unit: mode_key(config, roles.get(unit, "")) for unit, config in self.units.items()}

    def role(self, engine: str) -> str:
        """What an engine is for: `to CONVACC:1`, `from ARITH`; empty when it is not linked."""
        if self.engines[engine].to_memory:
            link = self.source(engine, 0)
            return f"from {kind_of_name(link.source)}" if link else ""
        links = self.destinations(engine)
        return f"to {kind_of_name(links[0].destination)}:{links[0].port}" if links else ""
