"""Which steps the epoch controller runs without help: one program for each such run."""

from __future__ import annotations

from itertools import groupby

from atonc.emit.program import Program, ProgramStep
from atonc.hw.ec import ec_program

MOST_WORDS = 116_383  # of a program, in an application that ST ships; several in a row occur as well


def npu_runs(program: Program) -> list[list[ProgramStep]]:
    """The steps between CPU steps, in programs no longer than those that are known to work."""
    found: list[list[ProgramStep]] = []
    for on_npu, steps in groupby(program.steps, lambda step: step.epoch is not None):
        found += _cut(list(steps)) if on_npu else []
    return found


def _cut(steps: list[ProgramStep]) -> list[list[ProgramStep]]:
    found: list[list[ProgramStep]] = [[]]
    words = len(ec_program.words([]))  # what ends a program
    room = MOST_WORDS - words
    for step in steps:
        size = ec_program.written_words(step.epoch) if step.epoch is not None else 0
        if found[-1] and size > room:
            found.append([])
            room = MOST_WORDS - words
        found[-1].append(step)
        room -= size
    return found
