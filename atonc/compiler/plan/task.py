"""A task: one chain of units over named buffers. It has no unit numbers and no addresses; `schedule.assign` gives the
first, `place` the second."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from atonc.compiler.plan.flow import Scan, TaskFlow
from atonc.compiler.plan.streams import merged
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.fields import UnitConfig, derived
from atonc.machine.hw.footprint import touched
from atonc.machine.hw.units.stream_engine import StrengConfig

ENGINE = "STRENG"


class Purpose(StrEnum):
    """What a task is for, beside computing the result of its operator."""

    COMPUTE = "compute"
    FEATURES = "features"  # writes the features as the units want them
    PADDING = "padding"  # writes a padded copy of the features
    BORDER = "border"  # writes a copy of the features with their zero point around it
    CONSTANTS = "constants"  # writes a copy of the features with constant channels beside them
    KERNELS = "kernels"  # packs the factors of a product: one as features, one as kernels
    PART = "part"  # computes or adds partial results


@dataclass(frozen=True)
class Order:
    """In which order, and how wide, the elements of a stream come."""

    frames: int
    lines: int
    pixels: int
    depth: int
    element_bytes: int

    def __str__(self) -> str:
        return f"{self.frames} x {self.lines}x{self.pixels}x{self.depth}, {8 * self.element_bytes} bits"


@dataclass(frozen=True)
class EngineUse:
    """A stream engine on a buffer; the address in `config` counts from the start of the buffer."""

    buffer: str
    config: StrengConfig
    follows: str = ""  # the writer of the same task whose frames a reader waits for

    @property
    def order(self) -> Order:
        return Order(self.config.frames, *self.config.shape, self.config.element_bytes)

    @property
    def writes(self) -> bool:
        return bool(self.config.to_memory)

    @cached_property
    def scan(self) -> Scan:
        """Which bytes of the buffer come in which order: the engine's own loops, so that the fact stands once."""
        loops = (*self.config.frame_loops(), *zip(self.config.stored_shape, self.config.steps, strict=True))
        return Scan(self.config.address, tuple(merged(loops)), self.config.elements, self.config.element_bytes)

    def meets(self, other: EngineUse) -> bool:
        """Whether both take a byte of one buffer."""
        first, end = min(self.scan.first, other.scan.first), max(self.scan.end, other.scan.end)
        if max(self.scan.first, other.scan.first) >= min(self.scan.end, other.scan.end):
            return False
        return bool((touched(self.config, first, end) & touched(other.config, first, end)).any())

    def __str__(self) -> str:
        return f"{self.buffer} ({self.order})"


class Wire(NamedTuple):
    """From a unit of the task to a port of another: all frames, `drop` and `keep` in turn, or only the first ones."""

    source: str
    target: str
    port: int
    drop: int = 0
    keep: int = 0
    stop_after: int = 0


@dataclass(frozen=True)
class Task:
    """Units and engines under names that mean something inside the task only."""

    origin: tuple[str, ...]  # nodes of the model
    title: str
    units: Mapping[str, UnitConfig]
    engines: Mapping[str, EngineUse]
    wires: tuple[Wire, ...]
    purpose: Purpose = Purpose.COMPUTE
    cost: int = 0  # elements of its longest stream, roughly: the longest task of a group comes first

    def readers(self) -> tuple[EngineUse, ...]:
        return self._readers

    def writers(self) -> tuple[EngineUse, ...]:
        return self._writers

    @derived
    def _readers(self) -> tuple[EngineUse, ...]:
        return tuple([use for use in self.engines.values() if not use.config.to_memory])

    @derived
    def _writers(self) -> tuple[EngineUse, ...]:
        return tuple([use for use in self.engines.values() if use.config.to_memory])

    def kinds(self) -> list[str]:
        return [config.KIND for config in self.units.values()]

    def __str__(self) -> str:
        sources, targets = ("; ".join(map(str, uses)) for uses in (self.readers(), self.writers()))
        return f"{self.title}: {sources} -> {' '.join(self.kinds())} -> {targets}"


@dataclass(frozen=True)
class TaskGroup:
    """Tasks of one operator that do not depend on each other; all of them come before those of its next group."""

    tasks: tuple[Task, ...]
    band: int = 0  # of rows, from 1 on, where several operators compute their rows in turn
    flow: TaskFlow | None = None  # what they make together of what flows through them, said by the recipe; None: unsaid

    @staticmethod
    def of(*tasks: Task) -> TaskGroup:
        return TaskGroup(tasks)

    def longer(self, became: Mapping[int, Task]) -> TaskGroup:
        """With tasks that do more in the place of some, which are named by their ids: what all do together is unsaid
        then."""
        same = became.keys().isdisjoint(map(id, self.tasks))
        tasks = tuple(became.get(id(task), task) for task in self.tasks)
        return replace(self, tasks=tasks, flow=self.flow if same else None)


def tasks_of(groups: Iterable[TaskGroup]) -> list[Task]:
    return [task for group in groups for task in group.tasks]
