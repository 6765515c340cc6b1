"""ST's driver calls as register programs: networks compiled without epoch controller run like blobs."""

from __future__ import annotations

from atonc.machine.hw.ll.generation import GENERATIONS, Generation, generation_of
from atonc.machine.hw.ll.program import EvaluatedCall, driver_program, epoch_program, is_driver_call, merged

__all__ = [
    "GENERATIONS",
    "EvaluatedCall",
    "Generation",
    "driver_program",
    "epoch_program",
    "generation_of",
    "is_driver_call",
    "merged",
]
