"""Wires an epoch: takes units as they are needed, links them, names the buffers that engines walk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from atonc.errors import UnsupportedError
from atonc.hw import regs
from atonc.hw.fields import UnitConfig
from atonc.hw.limits import UNITS
from atonc.hw.units.stream_engine import StrengConfig
from atonc.hw.units.switch import Link
from atonc.plan.types import Buffer, EngineUse, EpochPlan


@dataclass
class EpochBuilder:
    """Collects one epoch. Every method returns the name of the unit whose output flows on."""

    origin: tuple[str, ...]
    title: str
    units: dict[str, UnitConfig] = field(default_factory=dict)
    engines: dict[str, EngineUse] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    scratch: list[Buffer] = field(default_factory=list)

    def read(self, buffer: str, config: StrengConfig) -> str:
        name = self._next("STRENG")
        self.engines[name] = EngineUse(buffer, config)
        return name

    def write(self, source: str, buffer: str, config: StrengConfig, **gate: int) -> str:
        name = self._next("STRENG")
        self.engines[name] = EngineUse(buffer, config)
        self.link(source, name, 0, **gate)
        return name

    def unit(self, config: UnitConfig, *sources: str | None, **gate: int) -> str:
        """A processing unit fed by the sources, in the order of its ports; `gate` applies to port 0."""
        name = self._next(config.KIND)
        self.units[name] = config
        for port, source in enumerate(sources):
            if source is not None:
                self.link(source, name, port, **(gate if port == 0 else {}))
        return name

    def link(
        self, source: str, destination: str, port: int, *, drop: int = 0, keep: int = 0, stop_after: int = 0
    ) -> None:
        """`drop` frames then `keep` frames, again and again; or `stop_after` so many frames."""
        other = regs.SOURCES[source]  # both contexts name the same source
        if keep:
            gated = Link(source, destination, port, False, drop, True, keep, other)
        elif stop_after:
            gated = Link(source, destination, port, True, stop_after, False, 255, other)
        else:
            gated = Link(source, destination, port)
        self.links.append(gated)

    def absorb(self, other: EpochBuilder) -> None:
        """Takes over what another builder collected, under names that are free here."""
        names: dict[str, str] = {}
        for name, config in other.units.items():
            names[name] = self._next(config.KIND)
            self.units[names[name]] = config
        for name, use in other.engines.items():
            names[name] = self._next("STRENG")
            self.engines[names[name]] = use
        for name, use in other.engines.items():
            if use.config.sync:
                writer = names[f"STRENG{use.config.sync_source}"]
                synced = replace(use.config, sync_source=int(writer.removeprefix("STRENG")))
                self.engines[names[name]] = replace(use, config=synced)
        for link in other.links:
            source, destination = names[link.source], names[link.destination]
            other_source = 0 if link.permanent else regs.SOURCES[source]
            self.links.append(replace(link, source=source, destination=destination, other_source=other_source))
        self.scratch += other.scratch

    def available(self, kind: str) -> int:
        used = self.engines if kind == "STRENG" else self.units
        return UNITS[kind] - sum(1 for name in used if name.startswith(kind))

    def done(self) -> EpochPlan:
        return EpochPlan(
            self.origin, self.title, dict(self.units), dict(self.engines), tuple(self.links), tuple(self.scratch)
        )

    def _next(self, kind: str) -> str:
        if not self.available(kind):
            raise UnsupportedError(
                f"the epoch needs more than {UNITS[kind]} {kind} units",
                where=", ".join(self.origin),
                rule="units of one epoch",
            )
        return f"{kind}{UNITS[kind] - self.available(kind)}"
