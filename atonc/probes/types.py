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
    """One question to the silicon."""

    name: str
    form: str  # what the program does that the question is about
    known: str  # what published programs show of it
    build: Callable[[], ProbeEpochs]
    control: str = ""  # the probe that must pass first, else this one says nothing

    @property
    def is_control(self) -> bool:
        return not self.control
