"""Tasks share epochs as long as units last and no two of them write into the same word of the bus; then they get
numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from atonc.compiler.lower.move.copies import SAME
from atonc.compiler.lower.units.wiring import Wiring, pack
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import Area, Frames, contiguous, engine
from atonc.compiler.plan.task import Order, Task, TaskGroup
from atonc.compiler.plan.types import CpuPlan, EpochPlan
from atonc.compiler.schedule import schedule
from atonc.compiler.schedule.assign import assign, assign_epoch
from atonc.compiler.schedule.pack import packed
from atonc.compiler.schedule.types import EpochOfTasks, LoweredOperator
from atonc.machine.hw import regs
from atonc.machine.hw.safety.evidence import PUBLISHED, Trust
from atonc.machine.hw.safety.evidence.epochs import MANY
from tests.schedule.small import move, table


def copies(*slices: tuple[int, int], pixel: int = 16, cost: int = 0) -> list[Wiring]:
    """Each fills some channels (first, count) of a picture of 3 x 5 pixels."""

    def build(area: Area, epoch: TaskBuilder) -> None:
        stream = epoch.unit(SAME[0], epoch.read("source", contiguous(15 * area.channels)))
        epoch.write(stream, "target", engine(area, write=True, looped=True))

    whole = Area.whole(3, 5, pixel)
    return [Wiring(partial(build, whole.channels_from(*part)), cost) for part in slices]


def writes(groups: list[TaskGroup], trust: Trust = PUBLISHED) -> list[list[tuple[int, int]]]:
    """First channel and channels that each epoch writes."""
    epochs = packed(groups, trust)
    return [[(use.config.address, use.config.depth) for task in tasks for use in task.writers()] for tasks in epochs]


def test_slices_in_words_of_their_own_share_an_epoch() -> None:
    assert writes(pack(copies((0, 8), (8, 4)), ("a",), "t")) == [[(0, 8), (8, 4)]]


def test_slices_in_the_same_words_take_turns() -> None:
    found = writes(pack(copies((0, 4), (4, 4), (8, 4), (12, 4)), ("a",), "t"))
    assert found == [[(0, 4), (8, 4)], [(4, 4), (12, 4)]]


def test_pixels_that_end_inside_of_words_keep_slices_apart() -> None:
    assert writes(pack(copies((0, 8), (8, 4), pixel=12), ("a",), "t")) == [[(0, 8)], [(8, 4)]]


def test_no_more_units_than_there_are() -> None:
    plans = pack(copies(*((8 * k, 8) for k in range(6)), pixel=48), ("a",), "t")
    assert [len(epoch) for epoch in writes(plans, Trust(asked=MANY))] == [4, 2]  # ARITHs


def test_two_writers_of_a_buffer_unless_more_are_asked_for() -> None:
    slices = pack(copies(*((16 * k, 16) for k in range(3)), pixel=48), ("a",), "t")
    sizes = [[len(epoch) for epoch in writes(slices, trust)] for trust in (PUBLISHED, Trust(asked=MANY))]
    assert sizes == [[2, 1], [3]]


def test_tasks_side_by_side_get_units_of_their_own_and_keep_their_wiring() -> None:
    def loop() -> Task:
        b = TaskBuilder(("a",), "t")
        first = b.unit(SAME[0], b.read("source", contiguous(8)), drop=2, keep=1)
        writer = b.write(first, "sums", contiguous(8, write=True))
        b.read("sums", contiguous(8), follows=writer)
        return b.done()

    plan = assign_epoch([loop(), loop()])
    assert list(plan.units) == ["ARITH0", "ARITH1"] and len(plan.engines) == 6
    mine, theirs = plan.links[:2], plan.links[2:]
    reader, writer, again, *others = plan.engines  # task by task
    assert [(k.source, k.destination) for k in mine] == [(reader, "ARITH0"), ("ARITH0", writer)]
    assert [(k.source, k.destination) for k in theirs] == [(others[0], "ARITH1"), ("ARITH1", others[1])]
    assert [k.other_source for k in plan.links] == [regs.SOURCES[reader], 0, regs.SOURCES[others[0]], 0]
    assert [replace(k, source="", destination="", other_source=0) for k in mine] == [
        replace(k, source="", destination="", other_source=0) for k in theirs
    ]
    assert [f"STRENG{plan.engines[name].config.sync_source}" for name in (again, others[2])] == [writer, others[1]]


def test_the_longest_tasks_come_first() -> None:
    tasks = tuple(replace(move("x", f"y{n}"), cost=n) for n in range(6))
    (epochs,) = [packed([TaskGroup(tasks)])]
    assert [[task.cost for task in epoch] for epoch in epochs] == [[5, 4, 3, 2], [1, 0]]


def test_operators_keep_the_order_of_the_graph() -> None:
    call = CpuPlan(("cpu",), "softmax", "cpu", ("b",), ("c",))
    groups = TaskGroup.of(move("x", "a")), TaskGroup.of(table("a", "b"))
    found = schedule(
        [
            LoweredOperator("first", groups),
            LoweredOperator("nothing"),
            LoweredOperator("cpu", call=call),
            LoweredOperator("last", groups[:1]),
        ]
    )
    assert found.owners == ("first", "first", "cpu", "last")
    assert [type(step) for step in found.steps] == [EpochOfTasks, EpochOfTasks, CpuPlan, EpochOfTasks]
    plans = assign(found)
    assert plans[2] is call and isinstance(plans[0], EpochPlan) and plans[0].title == "a from x"


def test_a_task_says_what_streams_it_has() -> None:
    area = Area.whole(4, 6, 16).channels_from(8, 4)
    b = TaskBuilder(("op",), "slice")
    b.write(b.unit(SAME[0], b.read("x", engine(area, Frames(2, 4)))), "y", contiguous(192, write=True))
    task = b.done()
    assert [use.order for use in task.readers()] == [Order(2, 4, 6, 4, 1)]
    assert str(task) == "slice: x (2 x 4x6x4, 8 bits) -> ARITH -> y (1 x 1x1x192, 8 bits)"
    assert not any(name[-1].isdigit() for name in (*task.units, *task.engines))
