"""A bench for probes: numbered random bytes, buffers and one epoch at a time."""

from __future__ import annotations

import numpy as np

from atonc.hw.units.arith import ArithConfig
from atonc.ir import Array
from atonc.lower.units.affine import Affine
from atonc.lower.units.arith import affine_unit
from atonc.plan.build import TaskBuilder
from atonc.plan.types import Buffer, BufferKind, EpochPlan
from atonc.probes.types import INPUT, OUTPUT, ProbeEpochs
from atonc.schedule.assign import assign_epoch

_UNIT_BITS = 14  # of a factor of one, as published units have it
_ONE, _NOTHING = np.array([1 << _UNIT_BITS], np.int64), np.zeros(1, np.int64)
_SEED = 20261115  # any number: the same bytes every time


class Bench:
    """Collects what a probe needs."""

    def __init__(self, input_bytes: int, output_bytes: int) -> None:
        self.rng = np.random.default_rng(_SEED)
        self.stimulus = self.codes(input_bytes)
        self.output_bytes = output_bytes
        self.constants: list[Buffer] = []
        self.scratches: list[Buffer] = []
        self.plans: list[EpochPlan] = []

    def codes(self, count: int) -> Array:
        return self.rng.integers(-128, 128, count, np.int8)

    def weights(self, *shape: int) -> Array:
        return self.rng.integers(-64, 65, shape, np.int8)

    def constant(self, data: bytes) -> str:
        name = f"constant {len(self.constants)}"
        self.constants.append(Buffer(name, len(data), BufferKind.CONSTANT, data=data))
        return name

    def scratch(self, size_bytes: int) -> str:
        """What one epoch writes and a later one reads."""
        name = f"scratch {len(self.scratches)}"
        self.scratches.append(Buffer(name, size_bytes, BufferKind.SCRATCH))
        return name

    def epoch(self, title: str) -> TaskBuilder:
        return TaskBuilder((title,), title)

    def add(self, epoch: TaskBuilder) -> None:
        self.plans.append(assign_epoch([epoch.done()]))

    def done(self) -> ProbeEpochs:
        edges = (
            Buffer(INPUT, self.stimulus.size, BufferKind.INPUT, INPUT),
            Buffer(OUTPUT, self.output_bytes, BufferKind.OUTPUT, OUTPUT),
        )
        return ProbeEpochs(tuple(self.plans), (*edges, *self.constants, *self.scratches), self.stimulus.tobytes())


def to_codes(shift: int, elements: int) -> ArithConfig:
    """16-bit sums to codes, in the setting that ends nearly every published convolution."""
    return affine_unit(Affine(_ONE, _NOTHING, _UNIT_BITS + shift), elements, in_bytes=2)


def quarter_codes() -> ArithConfig:
    return affine_unit(Affine(_ONE, _NOTHING, _UNIT_BITS + 2), 1)


def same_codes() -> ArithConfig:
    """Codes as they are: most published writers stand behind an ARITH."""
    return affine_unit(Affine(_ONE, _NOTHING, _UNIT_BITS), 1)
