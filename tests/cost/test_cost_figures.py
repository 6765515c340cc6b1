"""Figures of a cost that views show: each from steps whose numbers all differ."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.ops.shapes import macs
from atonc.compiler.price import program
from atonc.machine.cost import network
from atonc.machine.cost.band import band_of
from atonc.machine.cost.network import NetworkCost, StepCost, cpu_cost
from atonc.machine.hw.cycles import doubts
from atonc.machine.hw.cycles.work import unit_macs
from atonc.machine.hw.machine import stm32n6
from tests.hw import cycles_epochs as e


@dataclass(frozen=True)
class Call:
    """What a call of the CPU's library costs."""

    cpu_cycles: int
    npu_cycles: int = 0
    known: bool = True
    by_release: bool = False


def step(cycles: int, bound_by: str, cpu_ms: float = 0.0) -> StepCost:
    return StepCost(10 * cycles, "st", cycles, bound_by, cycles / 1e6, cpu_ms, "")


STEPS = step(1_000_000, "feature"), step(3_000_000, "cpu", cpu_ms=3.0), step(500_000, "feature")
COST = NetworkCost(STEPS, 1000, 800, ())


def test_the_parts_of_the_latency() -> None:
    assert (COST.latency_ms, COST.cpu_ms, COST.npu_ms) == (4.5, 3.0, 1.5)
    assert (COST.cycles, COST.st_cycles) == (4_500_000, 45_000_000)


def test_shares_are_shares_of_the_time() -> None:
    assert list(COST.bound_by.items()) == [("cpu", pytest.approx(2 / 3)), ("feature", pytest.approx(1 / 3))]


def test_a_step_of_the_processor() -> None:
    """800 cycles of the CPU are 1,000 of the NPU; a hybrid one waits for the NPU on top."""
    machine = stm32n6()
    found = cpu_cost([Call(800), Call(1600, 500)], machine, "both")
    assert (found.cycles, found.milliseconds, found.cpu_ms) == (3500, 0.0035, 0.003)
    assert found.known and not cpu_cost([Call(800), Call(800, known=False)], machine, "").known


def test_no_band_reaches_down_to_nothing() -> None:
    """Turns that may be hidden altogether, and the model's own three percent on top."""
    hidden = replace(step(1000, "read"), doubts={doubts.LONG_TURNS: 1000.0})
    found = band_of([(False, hidden)])
    assert found.low == -0.9 and found.high > 0.03
    assert found.relative == max(0.9, found.high)


def test_st_s_own_figure_is_taken_where_its_file_has_one() -> None:
    info: Any = SimpleNamespace(by_epoch={3: SimpleNamespace(max_cycles=77, title="conv x")})
    steps: list[Any] = [SimpleNamespace(number=n, calls=calls) for n, calls in ((3, ()), (3, (1,)), (4, ()))]
    assert [network._listed(one, step(5, ""), info).st_cycles for one in steps] == [77, 50, 50]
    assert network._listed(steps[0], step(5, ""), None).st_cycles == 50


def test_only_operators_without_a_measured_constant_are_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    from atonc.compiler.emit.program import Program, ProgramStep
    from atonc.compiler.ir import Graph
    from atonc.compiler.plan.types import CpuPlan
    from atonc.machine.hw.target import Target

    ops = tuple(Op(kind, kind, ("x",), ("x",)) for kind in ("known", "guessed"))
    plans = [CpuPlan((op.name,), op.name, op.name, ("x",), ("x",)) for op in ops]
    steps = tuple(ProgramStep(number, plan) for number, plan in enumerate(plans, 1))
    monkeypatch.setattr(program, "_cpu_costs", lambda ops, *_: {name: Call(8, known=name == "known") for name in ops})
    graph = Graph({"x": Tensor("x", (1,), "int8")}, ops, ("x",), ("x",))
    found = program.program_cost(Program(steps, {}, (), ()), graph, (), Target(stm32n6()))
    assert found.unknown == ("guessed",) and [one.known for one in found.steps] == [True, False]


def tensor(name: str, *shape: int) -> Tensor:
    return Tensor(name, shape, "int8")


Shape = tuple[int, ...]


def multiplied(kind: str, source: Shape, weights: Shape, target: Shape, **attrs: Any) -> int:
    tensors = {"x": tensor("x", *source), "w": tensor("w", *weights), "y": tensor("y", *target)}
    return macs(Op(kind, "o", ("x", "w"), ("y",), attrs), tensors)


def test_multiplications_of_an_operator() -> None:
    assert multiplied("conv", (1, 8, 8, 4), (6, 3, 3, 4), (1, 8, 8, 6)) == 8 * 8 * 6 * 9 * 4
    assert multiplied("transpose_conv", (1, 4, 4, 6), (8, 2, 2, 6), (1, 8, 8, 8)) == 4 * 4 * 6 * 8 * 4
    assert multiplied("transpose_conv", (1, 4, 4, 6), (8, 2, 2, 6), (1, 8, 8, 8), groups=2) == 4 * 4 * 6 * 8 * 4 // 2
    assert multiplied("matmul", (1, 5, 7), (1, 7, 3), (1, 5, 3)) == 5 * 3 * 7
    assert multiplied("matmul", (1, 7, 5), (1, 7, 3), (1, 5, 3), transpose_a=True) == 5 * 3 * 7
    assert multiplied("relu", (1, 5), (1, 5), (1, 5)) == 0


def test_multiplications_of_a_unit() -> None:
    assert unit_macs(e.conv(8, 8, 4, 6, 3), 100) == 100 * 9 * 4
