"""A bench for probes: numbered random bytes, buffers and one epoch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.lower.units.arith import Affine, affine_unit
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.task import ENGINE, EngineUse
from atonc.compiler.plan.types import Buffer, BufferKind, EpochPlan
from atonc.compiler.schedule.assign import assign_epoch
from atonc.delivery.probes.types import INPUT, OUTPUT, Answer, ProbeEpochs
from atonc.machine.hw.units.arith import ArithConfig

_UNIT_BITS = 14  # of a factor of one, as published units have it
_ONE, _NOTHING = np.array([1 << _UNIT_BITS], np.int64), np.zeros(1, np.int64)
_SEED = 20261115  # any number: the same bytes every time


class ProbeBuilder:
    """Collects what a probe needs. `homes` names the memory of buffers for which it matters."""

    def __init__(self, input_bytes: int, output_bytes: int) -> None:
        self.rng = np.random.default_rng(_SEED)
        self.stimulus = self.codes(input_bytes)
        self.output_bytes = output_bytes
        self.constants: list[Buffer] = []
        self.scratches: list[Buffer] = []
        self.plans: list[EpochPlan] = []
        self.homes: dict[str, str] = {}
        self.answers: list[Answer] = []

    def codes(self, count: int) -> Array:
        return self.rng.integers(-128, 128, count, np.int8)

    def weights(self, *shape: int) -> Array:
        return self.rng.integers(-64, 65, shape, np.int8)

    def constant(self, data: bytes, memory: str = "") -> str:
        name = f"constant {len(self.constants)}"
        self.constants.append(Buffer(name, len(data), BufferKind.CONSTANT, data=data))
        return self._at_home(name, memory)

    def scratch(self, size_bytes: int, memory: str = "") -> str:
        """What one epoch writes and a later one reads, or nobody."""
        name = f"scratch {len(self.scratches)}"
        self.scratches.append(Buffer(name, size_bytes, BufferKind.SCRATCH))
        return self._at_home(name, memory)

    def _at_home(self, name: str, memory: str) -> str:
        if memory:
            self.homes[name] = memory
        return name

    def epoch(self, title: str) -> TaskBuilder:
        return TaskBuilder((title,), title)

    def add(self, epoch: TaskBuilder, engines: Sequence[int] = ()) -> None:
        """`engines`: numbers of the stream engines in the order in which the epoch took them, where they matter."""
        plan = assign_epoch([epoch.done()])
        self.plans.append(_on_engines(plan, epoch, engines) if engines else plan)

    def done(self) -> ProbeEpochs:
        edges = (
            Buffer(INPUT, self.stimulus.size, BufferKind.INPUT, INPUT),
            Buffer(OUTPUT, self.output_bytes, BufferKind.OUTPUT, OUTPUT),
        )
        return ProbeEpochs(
            tuple(self.plans),
            (*edges, *self.constants, *self.scratches),
            self.stimulus.tobytes(),
            homes=self.homes,
            answers=tuple(self.answers),
        )


def _on_engines(plan: EpochPlan, epoch: TaskBuilder, numbers: Sequence[int]) -> EpochPlan:
    """The same epoch with other numbers of its stream engines; no reader of a probe follows a writer."""
    found: dict[EngineUse, list[str]] = {}
    for name, use in plan.engines.items():
        found.setdefault(use, []).append(name)
    names = {found[use].pop(0): f"{ENGINE}{n}" for use, n in zip(epoch.engines.values(), numbers, strict=True)}
    return replace(
        plan,
        engines={names[name]: use for name, use in plan.engines.items()},
        links=tuple(
            replace(
                link,
                source=names.get(link.source, link.source),
                destination=names.get(link.destination, link.destination),
            )
            for link in plan.links
        ),
    )


def to_codes(shift: int, elements: int) -> ArithConfig:
    """16-bit sums to codes, in the setting that ends nearly every published convolution."""
    return affine_unit(Affine(_ONE, _NOTHING, _UNIT_BITS + shift), elements, in_bytes=2)


def quarter_codes() -> ArithConfig:
    return affine_unit(Affine(_ONE, _NOTHING, _UNIT_BITS + 2), 1)


def same_codes() -> ArithConfig:
    """Codes as they are: most published writers stand behind an ARITH."""
    return affine_unit(Affine(_ONE, _NOTHING, _UNIT_BITS), 1)
