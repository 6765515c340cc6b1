"""What a compiled program costs: both cycle models on its epochs, constants measured on boards on its CPU steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from atonc.cost.network import NetworkCost, StepCost
from atonc.emit.program import Program, ProgramStep
from atonc.hw.cycles import hardware, st_estimate
from atonc.hw.cycles.doubts import doubts
from atonc.hw.ec import ec_program
from atonc.hw.machine import Machine, PoolTiming, stm32n6
from atonc.hw.mpool import MemoryPool
from atonc.ir import Graph, Op
from atonc.plan.types import CpuPlan

if TYPE_CHECKING:
    from atonc.emu.cpu.cycles import CallCost


def program_cost(
    program: Program,
    graph: Graph,
    pools: Iterable[MemoryPool],
    machine: Machine | None = None,
    count_runs: bool = True,
) -> NetworkCost:
    """`count_runs`: estimate as ST's tools from 3.0 on do, which is the figure of all reports."""
    machine, timings = machine or stm32n6(), tuple(pool.timing for pool in pools)
    ops = {op.name: op for op in graph.ops}
    on_cpu = {s.plan.op: ops[s.plan.op] for s in program.steps if isinstance(s.plan, CpuPlan)}
    cpu_costs = _cpu_costs(on_cpu, graph)
    steps = tuple(_step_cost(step, cpu_costs, timings, machine, count_runs) for step in program.steps)
    guessed = {op.kind for name, op in on_cpu.items() if not cpu_costs[name].known}
    return NetworkCost(steps, machine.clocks.npu_mhz, machine.clocks.cpu_mhz, tuple(sorted(guessed)))


def _cpu_costs(ops: Mapping[str, Op], graph: Graph) -> dict[str, CallCost]:
    if not ops:
        return {}
    from atonc.cost.cpu_steps import cpu_step_cost  # and with it the emulator's library: not where nobody asks

    return {name: cpu_step_cost(op, graph) for name, op in ops.items()}


def _step_cost(
    step: ProgramStep,
    cpu_costs: Mapping[str, CallCost],
    pools: tuple[PoolTiming, ...],
    machine: Machine,
    count_runs: bool,
) -> StepCost:
    if isinstance(step.plan, CpuPlan):
        cost = cpu_costs[step.plan.op]
        milliseconds = cost.cpu_cycles / machine.clocks.cpu_mhz / 1e3
        cycles = round(machine.npu_cycles(cost.cpu_cycles))
        return StepCost(0, "", cycles, "cpu", milliseconds, milliseconds, step.plan.title, cost.known)
    if step.epoch is None:
        return StepCost(0, "", 0, "", 0.0, 0.0, step.plan.title)
    epoch = ec_program.with_words(step.epoch)
    estimate = st_estimate.epoch_cycles(epoch, pools, count_runs)
    real = hardware.epoch_cycles(epoch, machine)
    milliseconds = machine.milliseconds(real.cycles)
    return StepCost(
        estimate.cycles,
        estimate.bound_by,
        real.cycles,
        real.bound_by,
        milliseconds,
        0.0,
        step.plan.title,
        parts=real.detail,
        doubts=doubts(epoch, machine, hardware.CONTROLLER, real),
    )
