"""Independent pipelines, packed into as few epochs as their units allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from atonc.plan.build import EpochBuilder
from atonc.plan.types import StepPlan

_UNITS = {"STRENG": 10, "CONVACC": 4, "ARITH": 4, "ACTIV": 2, "POOL": 2, "readers": 8, "writers": 5}


@dataclass(frozen=True)
class Pipeline:
    """`build` wires it into an epoch; `needs` counts its units, `cost` its cycles, so that equals share an epoch."""

    build: Callable[[EpochBuilder], object]
    needs: Mapping[str, int] = field(default_factory=dict)  # processing units
    readers: int = 1
    cost: int = 0

    @property
    def units(self) -> Counter[str]:
        engines = {"STRENG": self.readers + 1, "readers": self.readers, "writers": 1}
        return Counter(engines) + Counter(dict(self.needs))


def pack(pipelines: Iterable[Pipeline], origin: tuple[str, ...], title: str) -> list[StepPlan]:
    """Epochs of pipelines that do not depend on each other, the longest first."""
    epochs: list[tuple[EpochBuilder, Counter[str]]] = []
    for pipeline in sorted(pipelines, key=lambda p: -p.cost):
        room = next((epoch for epoch in epochs if _fits(pipeline, epoch[1])), None)
        if room is None:
            room = (EpochBuilder(origin, title), Counter())
            epochs.append(room)
        room[1].update(pipeline.units)
        pipeline.build(room[0])
    return [builder.done() for builder, _ in epochs]


def _fits(pipeline: Pipeline, used: Counter[str]) -> bool:
    return all(used[kind] + count <= _UNITS[kind] for kind, count in pipeline.units.items())
