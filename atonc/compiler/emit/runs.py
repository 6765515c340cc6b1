"""Which steps the epoch controller runs without help: one program for each such run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from atonc.compiler.emit.program import Program, ProgramStep
from atonc.machine.base.errors import InternalError
from atonc.machine.hw import epoch as tables
from atonc.machine.hw.ec import ec_program

MOST_WORDS = 116_383  # of a program, in an application that ST ships; several in a row occur as well


def npu_runs(program: Program) -> list[list[ProgramStep]]:
    """The steps between CPU steps, in programs no longer than those that are known to work."""
    found: list[list[ProgramStep]] = []
    for on_npu, steps in groupby(program.steps, lambda step: step.epoch is not None):
        found += _cut(list(steps)) if on_npu else []
    for run in found:
        _require_tables(run)
    return found


def _cut(steps: list[ProgramStep]) -> list[list[ProgramStep]]:
    found: list[list[ProgramStep]] = [[]]
    room = _most_words()
    for step in steps:
        size = ec_program.written_words(step.epoch) if step.epoch is not None else 0
        if found[-1] and size > room:
            found.append([])
            room = _most_words()
        found[-1].append(step)
        room -= size
    return found


def _most_words() -> int:
    """Without what ends a program."""
    return MOST_WORDS - len(ec_program.words([]))


def keep_tables(program: Program) -> Program:
    """The same without loading coefficients that are still there. A program of the controller begins without any, so it
    may run again, or after another network; where it must be cut, the next one loads its own."""
    steps: list[ProgramStep] = []
    held: tables.Held = {}
    room = whole = _most_words()
    for step in program.steps:
        if step.epoch is None:
            held, room = {}, whole
        else:
            epoch = tables.keep_tables(step.epoch, held)
            if ec_program.written_words(epoch) > room and room < whole:
                held, room = {}, whole
                epoch = tables.keep_tables(step.epoch, held)
            room -= ec_program.written_words(epoch)
            step = replace(step, epoch=epoch)
        steps.append(step)
    return replace(program, steps=tuple(steps))


def _require_tables(run: Sequence[ProgramStep]) -> None:
    """What an epoch does not load, an earlier one of the same program has."""
    epochs = [step.epoch for step in run if step.epoch is not None]
    missing = tables.never_loaded(epochs) if any(epoch.kept for epoch in epochs) else []
    if missing:
        number, unit = missing[0]
        raise InternalError(
            f"{unit} relies on coefficients that its program has not loaded",
            where=f"epoch {number}",
            rule="a program of the epoch controller loads every table that it uses",
            remedy="report the model; without --schedule-with tables every epoch loads its own",
        )
