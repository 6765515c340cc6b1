"""The safety rules applied to runs and to program files."""

from __future__ import annotations

from collections.abc import Sequence

from atonc.programs import NamedProgram
from atonc.reasons import Violation
from atonc.runs import RunResult


def check_run(result: RunResult) -> list[Violation]:
    from atonc.hw import safety

    epochs = [step.epoch for step in result.steps if step.epoch is not None and not step.epoch.empty]
    return safety.check_program(epochs)


def check_programs(programs: Sequence[NamedProgram]) -> list[Violation]:
    from atonc.hw import safety

    return [v for p in programs for v in safety.check_program([e for e in p.epochs() if not e.empty])]
