"""Wires a task: takes units as they are needed, links them, names the buffers that engines walk."""

from __future__ import annotations

from dataclasses import field

from atonc.compiler.plan.task import ENGINE, EngineUse, Purpose, Task, TaskGroup, Wire
from atonc.machine.base.errors import UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.limits import UNITS
from atonc.machine.hw.units.stream_engine import StrengConfig


@dataclass
class TaskBuilder:
    """Collects one task. Every method returns the name of the unit whose output flows on."""

    origin: tuple[str, ...]
    title: str
    purpose: Purpose = Purpose.COMPUTE
    units: dict[str, UnitConfig] = field(default_factory=dict)
    engines: dict[str, EngineUse] = field(default_factory=dict)
    wires: list[Wire] = field(default_factory=list)
    used: dict[str, int] = field(default_factory=dict)  # units and engines, by kind

    def read(self, buffer: str, config: StrengConfig, follows: str = "") -> str:
        """`follows`: a writer of the same buffer, behind whose frames the reader stays."""
        name = self._next(ENGINE)
        config = changed(config, sync=1) if follows else config
        self.engines[name] = EngineUse(buffer, config, follows)
        return name

    def write(self, source: str, buffer: str, config: StrengConfig, **gate: int) -> str:
        name = self._next(ENGINE)
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

    def link(self, source: str, target: str, port: int, *, drop: int = 0, keep: int = 0, stop_after: int = 0) -> None:
        """`drop` frames then `keep` frames, again and again; or `stop_after` so many frames."""
        self.wires.append(Wire(source, target, port, drop, keep, stop_after))

    def available(self, kind: str) -> int:
        return UNITS[kind] - self._used(kind)

    def done(self, cost: int = 0) -> Task:
        wires = tuple(self.wires)
        return Task(self.origin, self.title, dict(self.units), dict(self.engines), wires, self.purpose, cost)

    def alone(self) -> TaskGroup:
        """The task in a group of its own."""
        return TaskGroup.of(self.done())

    def _used(self, kind: str) -> int:
        return self.used.get(kind, 0)

    def _next(self, kind: str) -> str:
        used = self._used(kind)
        if used == UNITS[kind]:
            raise UnsupportedError(
                f"the epoch needs more than {UNITS[kind]} {kind} units",
                where=", ".join(self.origin),
                rule="units of one epoch",
            )
        self.used[kind] = used + 1
        return f"{kind} {chr(ord('a') + used)}"
