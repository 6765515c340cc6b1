"""What a probe is, a small program in one form with the bytes that are expected of it; and a bench that builds one:
numbered random bytes, buffers and one epoch at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.lower.units.arith import Affine, affine_unit
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.task import ENGINE, EngineUse
from atonc.compiler.plan.types import Buffer, BufferKind, EpochPlan
from atonc.compiler.schedule.assign import assign_epoch
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

INPUT, OUTPUT = "input", "output"


@dataclass(frozen=True)
class Answer:
    """One outcome that the silicon may show, where the emulator does not know which."""

    name: str  # a word with underscores
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Transfer:
    """Bytes that the chip's DMA moves beside the program: from a constant into a buffer, from this byte on."""

    source: str
    target: str
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class ProbeEpochs:
    """Epochs from one input to one output. What no writer touches of the output must survive, so it counts too."""

    plans: tuple[EpochPlan, ...]
    buffers: tuple[Buffer, ...]
    stimulus: bytes = field(repr=False)  # contents of the input
    keep_tables: bool = False  # coefficients that are still in a unit are not loaded again
    homes: Mapping[str, str] = field(default_factory=dict)  # buffer -> memory, where it matters which
    answers: tuple[Answer, ...] = ()  # instead of the emulator's, for settings that it does not model
    transfer: Transfer | None = None
    must_differ: bool = False  # from the one answer: nobody knows which bytes come, only which must not


@dataclass(frozen=True)
class Probe:
    """One question to the silicon, and what its answer settles.

    A timing constant follows from two probes: (cycles of this one - cycles of `baseline`) / `units`. A speed (a name
    that ends in `_mb_per_s`) is the other way round: units are bytes, and it is units / cycles x NPU clock in MHz. What
    no constant of the machine says is a `rate`: units a cycle, of which the model expects so many."""

    name: str
    form: str  # what the program does that the question is about
    known: str  # what published programs show of it
    build: Callable[[], ProbeEpochs]
    control: str = ""  # the probe that must pass first, else this one says nothing
    argument: str = ""  # the id of the argument of `docs/silicon.md` that stands or falls with it
    measures: str = ""  # the constant of the machine's [timing] or [clocks] that its cycles give
    units: float = 0  # how many of what that constant counts it has more than its baseline
    baseline: str = ""  # the probe whose cycles are subtracted; empty: nothing is
    rate: str = ""  # what its units are called
    expects: float = 0
    of_configuration: bool = True  # False: others have its configurations too, and a failure refutes none of them

    @property
    def is_control(self) -> bool:
        return not self.control


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

    def add(self, epoch: TaskBuilder, engines: Sequence[int] = ()) -> ProbeBuilder:
        """`engines`: numbers of the stream engines in the order in which the epoch took them, where they matter."""
        plan = assign_epoch([epoch.done()])
        self.plans.append(_on_engines(plan, epoch, engines) if engines else plan)
        return self

    def chain(
        self,
        title: str,
        reader: StrengConfig,
        writer: StrengConfig,
        unit: UnitConfig | None = None,
        source: str = INPUT,
        target: str = OUTPUT,
        engines: Sequence[int] = (),
    ) -> ProbeBuilder:
        """An epoch that reads, lets one unit compute or none, and writes."""
        b = self.epoch(title)
        stream = b.read(source, reader)
        b.write(stream if unit is None else b.unit(unit, stream), target, writer)
        return self.add(b, engines)

    def done(self) -> ProbeEpochs:
        given = Buffer(INPUT, self.stimulus.size, BufferKind.INPUT, INPUT)
        wanted = Buffer(OUTPUT, self.output_bytes, BufferKind.OUTPUT, OUTPUT)
        return ProbeEpochs(
            tuple(self.plans),
            (given, wanted, *self.constants, *self.scratches),
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
    links = [
        replace(one, source=names.get(one.source, one.source), destination=names.get(one.destination, one.destination))
        for one in plan.links
    ]
    return replace(plan, engines={names[name]: use for name, use in plan.engines.items()}, links=tuple(links))


def to_codes(shift: int, elements: int) -> ArithConfig:
    """16-bit sums to codes, in the setting that ends nearly every published convolution."""
    return affine_unit(Affine(_ONE, _NOTHING, _UNIT_BITS + shift), elements, in_bytes=2)


def same_codes(bits: int = 0) -> ArithConfig:
    """Codes as they are, or so many bits smaller: most published writers stand behind an ARITH."""
    return affine_unit(Affine(_ONE, _NOTHING, _UNIT_BITS + bits), 1)
