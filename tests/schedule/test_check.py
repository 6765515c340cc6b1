"""The checker of schedules finds every planted fault, and nothing in what the scheduler makes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import atonc.compiler.schedule.check as checker
import atonc.compiler.schedule.check_means as check_means
import atonc.compiler.schedule.check_merges as check_merges
import atonc.compiler.schedule.check_pools as check_pools
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.task import EngineUse, Task, TaskGroup
from atonc.compiler.plan.types import CpuPlan
from atonc.compiler.schedule import schedule
from atonc.compiler.schedule.check import require_sound
from atonc.compiler.schedule.types import EpochOfTasks, LoweredOperator
from atonc.machine.base.errors import InternalError
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.switch import Link
from tests.schedule.small import SUMS, WHOLE, Case, convolution, move, table, total

SLICES, CONV, TABLE, COPY, SUM, CPU = range(6)  # steps of the sound schedule
Plant = Callable[[Case], Case]


def test_the_small_network_is_sound() -> None:
    case = Case.sound()
    assert [len(step.tasks) if isinstance(step, EpochOfTasks) else 0 for step in case.steps] == [2, 1, 1, 1, 1, 0]
    assert case.findings() == []
    require_sound(case.findings())


def swapped(one: int, other: int) -> Plant:
    def plant(case: Case) -> Case:
        steps = case.steps
        steps[one], steps[other] = steps[other], steps[one]
        return case.planned(steps)

    return plant


def together(*numbers: int) -> Plant:
    """Several epochs as one."""

    def plant(case: Case) -> Case:
        epochs = [case.epoch(n) for n in numbers]
        joined = EpochOfTasks(tuple(t for e in epochs for t in e.tasks), tuple(op for e in epochs for op in e.ops))
        rest = [step for n, step in enumerate(case.steps) if n not in numbers]
        rest.insert(numbers[0], joined)
        return case.planned(rest)

    return plant


def lost(number: int) -> Plant:
    return lambda case: case.planned([step for n, step in enumerate(case.steps) if n != number])


def one_slice_lost(case: Case) -> Case:
    epoch = case.epoch(SLICES)
    return case.planned([EpochOfTasks(epoch.tasks[:1], epoch.ops[:1]), *case.steps[1:]])


def twice(number: int) -> Plant:
    return lambda case: case.planned([*case.steps[: number + 1], *case.steps[number:]])


def of_nobody(case: Case) -> Case:
    return case.planned([*case.steps, EpochOfTasks((move("x", "z"),), ("nobody",))])


def of_another_operator(case: Case) -> Case:
    steps = case.steps
    steps[CONV] = replace(case.epoch(CONV), ops=("table",))
    return case.planned(steps)


def overwritten_early(case: Case) -> Case:
    """Write after read: a later operator writes into what an earlier one reads, and comes before it."""
    case.works.insert(4, LoweredOperator("again", (TaskGroup.of(move("x", "a", title="a again")),)))
    steps = list(schedule(case.works).steps)
    steps.insert(CONV, steps.pop(5))
    return case.planned(steps)


def overwritten_beside(case: Case) -> Case:
    """Write after read inside an epoch."""
    case.works.insert(4, LoweredOperator("again", (TaskGroup.of(move("x", "b", title="b again")),)))
    steps = list(schedule(case.works).steps)
    last, again = steps[SUM], steps[SUM + 1]
    assert isinstance(last, EpochOfTasks) and isinstance(again, EpochOfTasks)
    both = EpochOfTasks((*last.tasks, *again.tasks), (*last.ops, *again.ops))
    return case.planned([*steps[:SUM], both, *steps[SUM + 2 :]])


def overlapping_writers(case: Case) -> Case:
    """Write after write inside an epoch: the second slice begins a channel too early."""
    slices = TaskGroup.of(move("x", "a", 0, 8), move("x", "a", 7, 9))
    case.works[0] = LoweredOperator("slices", (slices,))
    steps = case.steps
    steps[SLICES] = EpochOfTasks(slices.tasks, ("slices", "slices"))
    return case.planned(steps)


def renamed_memory(case: Case) -> Case:
    """Two names of one memory: the table's result lies where the convolution reads."""
    case.aliases["c"] = "a"
    return together(CONV, TABLE)(case)


def in_place(case: Case) -> Case:
    return case.with_task(2, 1, move("c", "c", title="in place"))


def read_back_elsewhere(case: Case) -> Case:
    """The sums come back from another place than where they are written."""
    task = convolution("a", "b")
    engines = {
        name: replace(use, config=replace(use.config, address=2)) if use.follows else use
        for name, use in task.engines.items()
    }
    return case.with_task(1, 0, replace(task, engines=engines))


def read_back_as_features(case: Case) -> Case:
    b = TaskBuilder(("c",), "table c")
    writer = b.write(b.unit(ActivConfig(), b.read("a", WHOLE)), "c", contiguous(64, write=True))
    b.write(b.unit(ArithConfig(), b.read("c", WHOLE, follows=writer)), "d2", contiguous(64, write=True))
    return case.with_task(2, 0, b.done())


def shared_unit(case: Case) -> Case:
    """Both slices go through one ARITH."""
    plan = case.plan(SLICES)
    case.plans[SLICES] = replace(
        plan, units={"ARITH0": plan.units["ARITH0"]}, links=renamed(plan.links, "ARITH1", "ARITH0")
    )
    return case


def renamed(links: tuple[Link, ...], old: str, new: str) -> tuple[Link, ...]:
    return tuple(
        replace(k, source=k.source.replace(old, new), destination=k.destination.replace(old, new)) for k in links
    )


def shared_engine(case: Case) -> Case:
    plan = case.plan(SLICES)
    first, second = (name for name, use in plan.engines.items() if not use.config.to_memory)
    engines = {name: use for name, use in plan.engines.items() if name != second}
    links = tuple(replace(k, source=first) if k.source == second else k for k in plan.links)
    case.plans[SLICES] = replace(plan, engines=engines, links=links)
    return case


def crossed_wires(case: Case) -> Case:
    """The second slice is written by the first one's ARITH."""
    plan = case.plan(SLICES)
    links = tuple(replace(k, source="ARITH0") if k.source == "ARITH1" else k for k in plan.links)
    case.plans[SLICES] = replace(plan, links=links)
    return case


def no_such_unit(case: Case) -> Case:
    plan = case.plan(COPY)
    links = renamed(plan.links, "ARITH0", "ARITH4")
    case.plans[COPY] = replace(plan, units={"ARITH4": plan.units["ARITH0"]}, links=links)
    return case


def other_configuration(case: Case) -> Case:
    plan = case.plan(SUM)
    case.plans[SUM] = replace(plan, units={"ARITH0": ArithConfig(dual_input=1, a=3)})
    return case


def other_buffer(case: Case) -> Case:
    plan = case.plan(SUM)
    case.plans[SUM] = replace(plan, engines={**plan.engines, "STRENG0": EngineUse("x", WHOLE)})
    return case


def waits_for_another(case: Case) -> Case:
    plan = case.plan(CONV)
    engines = {
        name: replace(use, config=replace(use.config, sync_source=0)) if use.config.sync else use
        for name, use in plan.engines.items()
    }
    case.plans[CONV] = replace(plan, engines=engines)
    return case


def waits_for_nobody(case: Case) -> Case:
    plan = case.plan(CONV)
    engines = {name: replace(use, config=replace(use.config, sync=0)) for name, use in plan.engines.items()}
    case.plans[CONV] = replace(plan, engines=engines)
    return case


def beside_each_other(case: Case, tasks: list[Task]) -> Case:
    """More tasks in one epoch."""
    case.works.append(LoweredOperator("more", (TaskGroup(tuple(tasks)),)))
    return case.planned([*case.steps, EpochOfTasks(tuple(tasks), ("more",) * len(tasks))])


def too_many_units(case: Case) -> Case:
    return beside_each_other(case, [table("x", f"t{n}") for n in range(3)])


def too_many_readers(case: Case) -> Case:
    return beside_each_other(case, [total("x", "x", f"t{n}") for n in range(5)])


def unproven_chain(case: Case) -> Case:
    """ACTIV behind a CONVACC without an ARITH between them hangs."""
    b = TaskBuilder(("c",), "table c")
    task = convolution("a", "b")
    b.units, b.engines, b.wires = dict(task.units), dict(task.engines), list(task.wires)
    convacc = next(iter(b.units))
    b.write(b.unit(ActivConfig(), convacc), "c", contiguous(64, write=True))
    return case.with_task(2, 0, b.done())


def pool_before_a_table(case: Case) -> Case:
    b = TaskBuilder(("c",), "table c")
    pooled = b.unit(PoolConfig(), b.read("a", WHOLE))
    b.write(b.unit(ActivConfig(), pooled), "c", contiguous(64, write=True))
    return case.with_task(2, 0, b.done())


def writers_in_one_word(case: Case) -> Case:
    """Four channels each of a pixel: no byte in common, but words."""
    return beside_each_other(case, [move("x", "w", 0, 4), move("x", "w", 4, 4)])


def two_chains_in_a_task(case: Case) -> Case:
    b = TaskBuilder(("c",), "table c")
    b.write(b.unit(ActivConfig(), b.read("a", WHOLE)), "c", contiguous(64, write=True))
    b.write(b.unit(ArithConfig(), b.read("a", WHOLE)), "c2", contiguous(64, write=True))
    return case.with_task(2, 0, b.done())


def step_without_numbers(case: Case) -> Case:
    del case.plans[SUM]
    return case


def another_call(case: Case) -> Case:
    call = case.schedule.steps[CPU]
    assert isinstance(call, CpuPlan)
    case.plans[CPU] = replace(call, outputs=("z",))
    return case


FAULTS: list[tuple[str, Plant, str]] = [
    ("a consumer before its producer", swapped(SLICES, CONV), checker.TOPOLOGICAL),
    ("tasks of one operator the wrong way round", swapped(TABLE, COPY), checker.TOPOLOGICAL),
    ("the CPU before the NPU", swapped(SUM, CPU), checker.TOPOLOGICAL),
    ("overwritten before it was read", overwritten_early, checker.TOPOLOGICAL),
    ("read in the epoch that writes it", together(SLICES, TABLE), checker.HAZARD),
    ("tasks of one operator in one epoch", together(TABLE, COPY), checker.HAZARD),
    ("overwritten in the epoch that reads it", overwritten_beside, checker.HAZARD),
    ("two writers of one byte", overlapping_writers, checker.HAZARD),
    ("two writers of one word", writers_in_one_word, checker.OWN_WORDS),
    ("two names of one memory", renamed_memory, checker.HAZARD),
    ("in place", in_place, checker.READ_BACK),
    ("sums from another place", read_back_elsewhere, checker.READ_BACK),
    ("read back by another unit", read_back_as_features, checker.READ_BACK),
    ("a lost step", lost(TABLE), checker.ONCE),
    ("a lost task of an epoch", one_slice_lost, checker.ONCE),
    ("a lost call", lost(CPU), checker.ONCE),
    ("a step that runs twice", twice(CONV), checker.ONCE),
    ("a task of no operator", of_nobody, checker.ONCE),
    ("a step without numbers", step_without_numbers, checker.ONCE),
    ("another call than the schedule has", another_call, checker.ONCE),
    ("a task that serves another operator", of_another_operator, checker.SERVES),
    ("a unit for two tasks", shared_unit, checker.OWN_UNITS),
    ("an engine for two tasks", shared_engine, checker.OWN_UNITS),
    ("crossed wires", crossed_wires, checker.OWN_UNITS),
    ("a unit that the chip does not have", no_such_unit, checker.OWN_UNITS),
    ("another configuration", other_configuration, checker.OWN_UNITS),
    ("another buffer", other_buffer, checker.OWN_UNITS),
    ("a reader that waits for another engine", waits_for_another, checker.FOLLOWED),
    ("a reader that does not wait", waits_for_nobody, checker.FOLLOWED),
    ("more units than there are", too_many_units, checker.COUNTS),
    ("more readers than were seen", too_many_readers, checker.COUNTS),
    ("a chain that hangs", unproven_chain, checker.PROVEN),
    ("a chain that nobody has seen", pool_before_a_table, checker.PROVEN),
    ("two chains in one task", two_chains_in_a_task, checker.PROVEN),
]


@pytest.mark.parametrize("plant, rule", [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_planted_faults_are_found(plant: Plant, rule: str) -> None:
    found = plant(Case.sound()).findings()
    assert rule in {one.rule for one in found}
    with pytest.raises(InternalError):
        require_sound(found)


def test_users_may_allow_unproven_chains_but_nothing_else() -> None:
    require_sound(pool_before_a_table(Case.sound()).findings(), allow_unproven=True)
    with pytest.raises(InternalError):
        require_sound(in_place(Case.sound()).findings(), allow_unproven=True)


def test_moves_that_change_nothing_are_allowed() -> None:
    """Independent tasks in another order, and in one epoch."""
    assert swapped(CONV, TABLE)(Case.sound()).findings() == []
    assert together(CONV, TABLE)(Case.sound()).findings() == []
    assert SUMS.frames == 4  # the sums that come back are read four times


def shifted(source: int, target: int) -> Task:
    b = TaskBuilder(("c",), "moved")
    b.write(b.read("c", contiguous(32, offset=source)), "c", contiguous(32, write=True, offset=target))
    return b.done()


def test_rows_move_down_only() -> None:
    """Up, the first of them would be overwritten before it is read."""
    assert Case.sound().with_task(2, 1, shifted(16, 0)).findings() == []
    assert {one.rule for one in Case.sound().with_task(2, 1, shifted(0, 16)).findings()} == {checker.READ_BACK}


def test_the_checker_is_independent() -> None:
    imported = set()
    for module in (checker, check_merges, check_means, check_pools):
        tree = ast.parse(Path(module.__file__).read_text())
        imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    own = {name for name in imported if name and name.startswith("atonc.compiler.schedule")}
    assert own == {
        f"atonc.compiler.schedule.{name}" for name in ("types", "check_merges", "check_means", "check_pools")
    }
