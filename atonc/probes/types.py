"""What a probe is: a small program in one form, with the bytes that the emulator expects of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from atonc.plan.types import Buffer, EpochPlan

INPUT, OUTPUT = "input", "output"


@dataclass(frozen=True)
class ProbeEpochs:
    """Epochs from one input to one output. What no writer touches of the output must survive, so it counts too."""

    plans: tuple[EpochPlan, ...]
    buffers: tuple[Buffer, ...]
    stimulus: bytes = field(repr=False)  # contents of the input
    keep_tables: bool = False  # coefficients that are still in a unit are not loaded again


@dataclass(frozen=True)
class Probe:
    """One question to the silicon, and what its answer settles.

    A timing constant follows from two probes: (cycles of this one - cycles of `baseline`) / `units`."""

    name: str
    form: str  # what the program does that the question is about
    known: str  # what published programs show of it
    build: Callable[[], ProbeEpochs]
    control: str = ""  # the probe that must pass first, else this one says nothing
    argument: str = ""  # the id of the argument of `docs/silicon.md` that stands or falls with it
    measures: str = ""  # the constant of the machine's [timing] or [clocks] that its cycles give
    units: float = 0  # how many of what that constant counts it has more than its baseline
    baseline: str = ""  # the probe whose cycles are subtracted; empty: nothing is

    @property
    def is_control(self) -> bool:
        return not self.control
