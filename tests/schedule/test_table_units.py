"""Where tables may stay, a task gets the ARITH that holds its own; a new one goes where the old one is needed last."""

from __future__ import annotations

import numpy as np

from atonc.compiler.lower.units.arith import Affine, affine_unit
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.task import Task
from atonc.compiler.plan.types import CpuPlan, EpochPlan
from atonc.compiler.schedule.assign import assign
from atonc.compiler.schedule.types import EpochOfTasks, Schedule

CALL = CpuPlan(("call",), "call", "call", ("a",), ("b",))


def task(table: int) -> Task:
    """0: a single factor."""
    b = TaskBuilder((f"table {table}",), f"table {table}")
    factors = np.array([9000]) if not table else 9000 + table + np.arange(8)
    unit = affine_unit(Affine(factors, np.zeros(factors.size, np.int64), 14), 64)
    b.write(b.unit(unit, b.read("a", contiguous(64))), "b", contiguous(64, write=True))
    return b.done()


def units(*steps: tuple[int, ...] | None) -> list[list[str]]:
    """The ARITHs of each epoch, task by task; None is a call of the CPU."""
    made = [EpochOfTasks(tuple(map(task, s)), ("op",) * len(s)) if s is not None else CALL for s in steps]
    plans = assign(Schedule(tuple(made)), keep_tables=True)
    return [[n for n in plan.units if n.startswith("ARITH")] for plan in plans if isinstance(plan, EpochPlan)]


def test_the_holder_is_taken() -> None:
    assert units((1, 2), (2, 1), (2,)) == [["ARITH0", "ARITH1"], ["ARITH1", "ARITH0"], ["ARITH1"]]


def test_lanes_share_a_table_in_units_of_their_own() -> None:
    assert units((1, 1), (2,), (1, 1)) == [["ARITH0", "ARITH1"], ["ARITH2"], ["ARITH0", "ARITH1"]]


def test_what_is_needed_last_makes_room() -> None:
    assert units((1, 2, 3, 4), (5,), (1,), (2,), (4,)) == [
        ["ARITH0", "ARITH1", "ARITH2", "ARITH3"],
        ["ARITH2"],  # nobody wants the third table again
        ["ARITH0"],
        ["ARITH1"],
        ["ARITH3"],
    ]


def test_single_factors_leave_the_tables_where_they_are() -> None:
    assert units((1,), (0, 0, 0, 0), (1,)) == [["ARITH0"], ["ARITH1", "ARITH2", "ARITH3", "ARITH0"], ["ARITH0"]]


def test_another_program_begins_behind_the_cpu() -> None:
    assert units((0, 1), None, (0, 1)) == [["ARITH1", "ARITH0"], ["ARITH1", "ARITH0"]]
