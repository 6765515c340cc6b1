"""What an operator costs on the CPU: instructions and waits for memory, by the constants that the emulator knows."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from atonc.compiler.emit.c.calls import Argument, ConstantTable, Pointer, Struct, Word
from atonc.compiler.emit.c.cpu_calls import cpu_calls
from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.lower.context import item_bytes
from atonc.compiler.ops import is_move
from atonc.compiler.ops.conv import pair
from atonc.compiler.ops.functions import FUNCTIONS, FunctionWork
from atonc.compiler.ops.shapes import macs
from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.cpu import cycles as measured
from atonc.machine.emu.cpu.cycles import CallCost
from atonc.machine.emu.files.types import CValue
from atonc.machine.hw.machine import Machine

WEIGHTED = ("conv", "dense", "transpose_conv")


def cpu_step_cost(op: Op, graph: Graph, machine: Machine | None = None) -> CallCost:
    """CPU cycles of one operator by our kernels, with their waits for the memories of `machine`; where there is none,
    by what ST's library takes for its like."""
    try:
        calls = cpu_calls(op, graph)
    except AtoncError:
        return _library_cost(op, graph.tensors)
    costs = [measured.call_cost(call.function, [_plain(a) for a in call.arguments], machine) for call in calls]
    return _cost(sum(cost.cpu_cycles for cost in costs), all(cost.known for cost in costs))


def _plain(argument: Argument) -> CValue:
    """An argument as the reader of C would see it; where a buffer lies does not matter."""
    if isinstance(argument, Pointer):
        return 0
    if isinstance(argument, ConstantTable):
        return list(argument.values)
    if isinstance(argument, Word):
        return argument.name
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
        op.kind in FUNCTIONS and FUNCTIONS[op.kind].work != FunctionWork.PLAIN
    )
    return _cost((measured.GUESS_EXP if exponential else measured.GUESS_ELEMENT) * outputs, False)


def _cost(cycles: float, known: bool) -> CallCost:
    return CallCost(round(cycles), known=known)


def _visited(op: Op, source: Tensor, target: Tensor) -> int:
    """Elements that all windows of a pooling see."""
    return target.elements * prod(pair(op.attrs["window"])) if "window" in op.attrs else source.elements
