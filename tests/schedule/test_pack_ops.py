"""Epochs of different operators become one where nothing depends on their order, memory stays, and it is faster."""

from __future__ import annotations

from functools import partial

from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.plan.types import Buffer, BufferKind, CpuPlan, EpochPlan
from atonc.compiler.schedule import schedule
from atonc.compiler.schedule.assign import assign
from atonc.compiler.schedule.check import check
from atonc.compiler.schedule.lives import Lives
from atonc.compiler.schedule.pack_ops import TaskNetwork
from atonc.compiler.schedule.shares import shares
from atonc.compiler.schedule.types import EpochOfTasks, LoweredOperator
from atonc.compiler.select.cycles import epoch_cycles
from atonc.insight.explain.decide import of_schedule
from tests.lower.harness import TARGET
from tests.schedule.small import convolution, move, table, total

SLACK = LoweredOperator("slack", call=CpuPlan(("slack",), "softmax", "slack", ("large",), ("larger",)))


def work(name: str, *tasks: Task) -> LoweredOperator:
    return LoweredOperator(name, tuple(map(TaskGroup.of, tasks)))


def network(works: list[LoweredOperator], aliases: dict[str, str] | None = None, **sizes: int) -> TaskNetwork:
    """All buffers of 64 bytes, but for those that are named and those of `SLACK`."""
    sizes = {"large": 1000, **sizes}
    tasks = [task for one in works for group in one.groups for task in group.tasks]
    names = {use.buffer for task in tasks for use in task.engines.values()}
    names |= {name for one in works if one.call for name in (*one.call.inputs, *one.call.outputs)}
    found = {name: Buffer(name, sizes.get(name, 64), BufferKind.ACTIVATION) for name in sorted(names)}
    return TaskNetwork(found, aliases or {}, partial(epoch_cycles, buffers=found, target=TARGET))


def packed(works: list[LoweredOperator], aliases: dict[str, str] | None = None, **sizes: int) -> list[str]:
    """The operators of every step; what comes out is sound. The last step has the most memory, and is not shown."""
    works = [*works, SLACK]
    found = schedule(works, network(works, aliases, **sizes))
    assert check(works, found, assign(found), aliases or {}) == []
    return ["+".join(step.ops) if isinstance(step, EpochOfTasks) else step.op for step in found.steps[:-1]]


def test_branches_run_side_by_side() -> None:
    works = [work("one", move("x", "a")), work("other", table("x", "b")), work("sum", total("a", "b", "y"))]
    assert packed(works) == ["one+other", "sum"]
    assert [len(step.tasks) for step in schedule(works).steps] == [1, 1, 1]  # type: ignore[union-attr]
    assert schedule(works, network(works), without=["pack"]) == schedule(works)


def test_who_runs_beside_whom_is_told() -> None:
    works = [work("one", move("x", "a")), work("other", table("x", "b")), work("sum", total("a", "b", "y"))]
    found = schedule([*works, SLACK], network([*works, SLACK]))
    assert [(one.ops, one.others) for one in found.co_scheduled] == [(("other",), ("one",))]
    assert found.co_scheduled[0].saved_cycles > 0
    for op, other in (("one", "other"), ("other", "one")):
        said = [(d.rule.id, d.seen) for d in of_schedule(op, found)]
        assert said == [("PACK-BESIDE", f"beside {other}: {found.co_scheduled[0].saved_cycles:,} cycles less")]
    assert not list(of_schedule("sum", found))


def test_two_chains_of_operators_run_in_step() -> None:
    works = [
        *(work("a1", move("x", "a")), work("a2", move("a", "aa"))),
        *(work("b1", table("x", "b")), work("b2", table("b", "bb"))),
        work("sum", total("aa", "bb", "y")),
    ]
    assert packed(works) == ["a1+b1", "a2+b2", "sum"]


def test_one_epoch_for_all_that_fits() -> None:
    works = [work(f"t{n}", table("x", f"y{n}")) for n in range(3)]
    assert packed(works) == ["t0+t1", "t2"]  # two ACTIV units


def test_what_reads_the_result_waits() -> None:
    works = [work("one", move("x", "a")), work("other", move("a", "b"))]
    assert packed(works) == ["one", "other"]


def test_what_overwrites_waits_for_the_reader() -> None:
    works = [work("reader", move("x", "a")), work("writer", move("z", "x"))]
    assert packed(works) == ["reader", "writer"]
    renamed = [work("reader", move("x", "a")), work("writer", move("z", "x2"))]
    assert packed(renamed, {"x2": "x"}) == ["reader", "writer"]  # one memory under two names


def test_writers_share_a_buffer_but_no_word() -> None:
    apart = [work("one", move("x", "y", 0, 8)), work("other", move("x", "y", 8, 8))]
    assert packed(apart) == ["one+other"]
    inside = [work("one", move("x", "y", 0, 4)), work("other", move("x", "y", 4, 4))]
    assert packed(inside) == ["one", "other"]


def test_nothing_moves_past_the_cpu() -> None:
    call = LoweredOperator("cpu", call=CpuPlan(("cpu",), "softmax", "cpu", ("s",), ("t",)))
    works = [work("one", move("x", "a")), call, work("other", table("x", "b"))]
    assert packed(works) == ["one", "cpu", "other"]


def test_the_peak_of_live_bytes_does_not_rise() -> None:
    """`big` would live beside `a` and `aa`, for the sake of one epoch less."""
    works = [
        *(work("a1", move("x", "a")), work("a2", move("a", "aa")), work("a3", move("aa", "aaa"))),
        *(work("b1", table("x", "big")), work("b2", table("big", "b"))),
    ]
    assert packed(works) == ["a1+b1", "a2+b2", "a3"]
    assert packed(works, a=4000, aa=4000, big=4000) == ["a1", "a2", "a3", "b1", "b2"]


def test_units_of_a_shared_epoch_belong_to_their_operators() -> None:
    works = [work("conv", convolution("x", "a")), work("table", table("x", "b")), SLACK]
    found = schedule(works, network(works))
    plan = assign(found)[0]
    assert isinstance(plan, EpochPlan) and len(found.steps) == 2
    conv, other = shares(found.steps[0], plan)
    assert (conv.op, other.op) == ("conv", "table")
    assert {"CONVACC0", "ARITH0"} < conv.units and "ACTIV0" in other.units and not conv.units & other.units
    assert conv.units | other.units == {*plan.units, *plan.engines}


def test_side_by_side_takes_less_than_one_after_the_other() -> None:
    one, other = move("x", "a"), table("x", "b")
    cycles = network([work("both", one, other)]).cycles
    assert cycles([one, other]) < cycles([one]) + cycles([other])


def test_outputs_live_until_the_application_reads_them() -> None:
    """And inputs from the beginning, whoever touches them first and last."""
    sizes = {"big": 900, "a": 500, "b": 500, "x": 64, "y": 64}
    kinds = {"x": BufferKind.INPUT, "a": BufferKind.OUTPUT, "b": BufferKind.OUTPUT}
    found = {n: Buffer(n, size, kinds.get(n, BufferKind.ACTIVATION)) for n, size in sizes.items()}
    lives = Lives([["x", "big"], ["big", "a"], ["x", "b"], ["y"]], found, {})
    assert lives.bytes.tolist() == [964, 1464, 1064, 1064]
    assert lives.first["x"] == 0
    later = Lives([["y"], ["x", "big"]], found, {})
    assert later.bytes.tolist() == [128, 1028 - 64]
