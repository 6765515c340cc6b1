"""What a probe is: a small program in one form, with the bytes that are expected of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from atonc.compiler.plan.types import Buffer, EpochPlan
from atonc.machine.base.frozen import dataclass

INPUT, OUTPUT = "input", "output"


@dataclass(frozen=True)
class Answer:
    """One outcome that the silicon may show, where the emulator does not know which."""

    name: str  # a word with underscores
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class ProbeEpochs:
    """Epochs from one input to one output. What no writer touches of the output must survive, so it counts too."""

    plans: tuple[EpochPlan, ...]
    buffers: tuple[Buffer, ...]
    stimulus: bytes = field(repr=False)  # contents of the input
    keep_tables: bool = False  # coefficients that are still in a unit are not loaded again
    homes: Mapping[str, str] = field(default_factory=dict)  # buffer -> memory, where it matters which
    answers: tuple[Answer, ...] = ()  # instead of the emulator's, for settings that it does not model
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

    @property
    def is_control(self) -> bool:
        return not self.control
