"""What a compiled program costs: both cycle models on its epochs, constants measured on boards on its CPU steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from atonc.compiler.emit.program import Program, ProgramStep
from atonc.compiler.ir import Graph, Op
from atonc.compiler.plan.types import CpuPlan
from atonc.machine.cost.network import NetworkCost, StepCost, cpu_cost, epoch_cost, nothing, with_dma
from atonc.machine.hw.machine import Machine, PoolTiming
from atonc.machine.hw.mpool import MemoryPool
from atonc.machine.hw.target import Target

if TYPE_CHECKING:
    from atonc.machine.emu.cpu.cycles import CallCost


def program_cost(
    program: Program, graph: Graph, pools: Iterable[MemoryPool], target: Target, count_runs: bool | None = True
) -> NetworkCost:
    """`count_runs`: estimate as ST's tools from 3.0 on do, which is the figure of all reports; None: not at all."""
    timings, clocks = tuple(pool.timing for pool in pools), target.machine.clocks
    on_cpu = _on_cpu(program, graph)
    cpu_costs = _cpu_costs(on_cpu, graph, target.machine)
    alone = [_step_cost(step, cpu_costs, timings, target, count_runs) for step in program.steps]
    steps = with_dma(alone, [step.dma for step in program.steps], target.machine)
    guessed = {op.kind for name, op in on_cpu.items() if not cpu_costs[name].known}
    return NetworkCost(steps, clocks.npu_mhz, clocks.cpu_mhz, tuple(sorted(guessed)))


def program_cycles(program: Program, graph: Graph, target: Target) -> int:
    """`program_cost(...).cycles`, for those who compare programs and want to know no more."""
    if any(step.dma is not None for step in program.steps):
        return program_cost(program, graph, (), target).cycles
    epochs = [target.with_words(step.epoch) for step in program.steps if step.epoch is not None]
    costs = _cpu_costs(_on_cpu(program, graph), graph, target.machine)
    on_cpu = [costs[step.plan.op] for step in program.steps if isinstance(step.plan, CpuPlan)]
    cycles = sum(target.cycles(epoch).cycles for epoch in epochs)
    return cycles + sum(cpu_cost([one], target.machine, "").cycles for one in on_cpu)


def _on_cpu(program: Program, graph: Graph) -> dict[str, Op]:
    ops = {op.name: op for op in graph.ops}
    return {s.plan.op: ops[s.plan.op] for s in program.steps if isinstance(s.plan, CpuPlan)}


def _cpu_costs(ops: Mapping[str, Op], graph: Graph, machine: Machine) -> dict[str, CallCost]:
    if not ops:
        return {}
    from atonc.compiler.price.cpu_steps import (
        cpu_step_cost,  # and with it the emulator's library: not where nobody asks
    )

    return {name: cpu_step_cost(op, graph, machine) for name, op in ops.items()}


def _step_cost(
    step: ProgramStep,
    cpu_costs: Mapping[str, CallCost],
    pools: tuple[PoolTiming, ...],
    target: Target,
    count_runs: bool | None,
) -> StepCost:
    if isinstance(step.plan, CpuPlan):
        return cpu_cost([cpu_costs[step.plan.op]], target.machine, step.plan.title)
    if step.epoch is None:
        return nothing(step.plan.title)
    return epoch_cost(target.with_words(step.epoch), target, pools, count_runs, step.plan.title)
