"""What a compiled program costs: both cycle models on its epochs, constants measured on boards on its CPU steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from atonc.cost.macs import macs
from atonc.cost.network import NetworkCost, StepCost
from atonc.emit.c.calls import Argument, Pointer, Struct, Table
from atonc.emit.c.cpu_calls import cpu_calls
from atonc.emit.program import Program, ProgramStep
from atonc.emu.cpu import cycles as measured
from atonc.emu.cpu.cycles import CallCost
from atonc.emu.files.types import CValue
from atonc.errors import AtoncError
from atonc.hw.cycles import hardware, st_estimate
from atonc.hw.ec import ec_program
from atonc.hw.machine import Machine, PoolTiming, stm32n6
from atonc.hw.mpool import MemoryPool
from atonc.ir import Graph, Op, Tensor
from atonc.lower.context import item_bytes
from atonc.ops import is_move
from atonc.ops.functions import FUNCTIONS, Work
from atonc.ops.windows import pair
from atonc.plan.types import CpuPlan

WEIGHTED = ("conv", "dense", "transpose_conv")


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
    cpu_costs = {name: cpu_step_cost(op, graph) for name, op in on_cpu.items()}
    steps = tuple(_step_cost(step, cpu_costs, timings, machine, count_runs) for step in program.steps)
    guessed = {op.kind for name, op in on_cpu.items() if not cpu_costs[name].known}
    return NetworkCost(steps, machine.clocks.npu_mhz, machine.clocks.cpu_mhz, tuple(sorted(guessed)))


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
    )


# --------------------------------------------------------------------------------------------------------------- CPU


def cpu_step_cost(op: Op, graph: Graph) -> CallCost:
    """CPU cycles of one operator by our kernels; where there is none, by what ST's library takes for its like."""
    try:
        calls = cpu_calls(op, graph)
    except AtoncError:
        return _library_cost(op, graph.tensors)
    costs = [measured.call_cost(call.function, [_plain(a) for a in call.arguments]) for call in calls]
    return _cost(sum(cost.cpu_cycles for cost in costs), all(cost.known for cost in costs))


def _plain(argument: Argument) -> CValue:
    """An argument as the reader of C would see it; where a buffer lies does not matter."""
    if isinstance(argument, Pointer):
        return 0
    if isinstance(argument, Table):
        return list(argument.values)
    if isinstance(argument, Struct):
        return {name: _plain(member) for name, member in argument.members}
    return argument


def _library_cost(op: Op, tensors: Mapping[str, Tensor]) -> CallCost:
    source, target = tensors[op.inputs[0]], tensors[op.outputs[0]]
    outputs = sum(tensors[name].elements for name in op.outputs)
    if op.kind in ("dequantize", "quantize"):
        return _cost((measured.QUANTIZE if op.kind == "quantize" else measured.DEQUANTIZE) * outputs, True)
    if op.kind == "softmax" and not source.is_float:
        row = source.shape[op.attrs.get("axis", -1)]
        return _cost((measured.SOFTMAX_ONE_ROW if row == source.elements else measured.SOFTMAX) * outputs, True)
    if op.kind == "resize_linear":
        pixels = target.elements // max(1, target.shape[-1])
        return _cost(measured.RESIZE_PIXEL * pixels + measured.RESIZE_ELEMENT * outputs, not target.is_float)
    if op.kind == "sub" and target.is_float:
        return _cost(measured.SUBTRACT * outputs, True)
    if op.kind in WEIGHTED or op.kind == "matmul":
        return _cost(measured.GUESS_MAC * macs(op, tensors), False)
    if op.kind in ("mean", "average_pool", "max_pool"):
        return _cost(measured.GLOBAL_AVERAGE * _visited(op, source, target), False)
    if is_move(op.kind):
        return _cost(measured.CPU_COPY * outputs * item_bytes(target), op.kind == "concat")
    exponential = op.kind in ("softmax", "log_softmax") or (
        op.kind in FUNCTIONS and FUNCTIONS[op.kind].work != Work.PLAIN
    )
    return _cost((measured.GUESS_EXP if exponential else measured.GUESS_ELEMENT) * outputs, False)


def _cost(cycles: float, known: bool) -> CallCost:
    return CallCost(round(cycles), known=known)


def _visited(op: Op, source: Tensor, target: Tensor) -> int:
    """Elements that all windows of a pooling see."""
    return target.elements * prod(pair(op.attrs["window"])) if "window" in op.attrs else source.elements
