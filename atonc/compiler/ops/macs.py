"""Multiplications: what a model asks for, and what the units do for it. Nothing else counts them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.machine.hw.cycles.flow import element_counts
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.units.convacc import ConvaccConfig


def macs(op: Op, tensors: Mapping[str, Tensor]) -> int:
    """Counts the multiplications of one operator."""
    source, target = tensors[op.inputs[0]], tensors[op.outputs[0]]
    if op.kind in ("conv", "dense"):
        return target.elements * prod(tensors[op.inputs[1]].shape[1:])
    if op.kind == "transpose_conv":  # each input value meets all its weights
        weights = tensors[op.inputs[1]].shape
        return source.elements * prod(weights[:-1]) // max(1, op.attrs.get("groups", 1))
    if op.kind == "matmul":
        return target.elements * source.shape[-2 if op.attrs.get("transpose_a") else -1]
    return 0


def graph_macs(graph: Graph) -> int:
    return sum(macs(op, graph.tensors) for op in graph.ops)


def unit_macs(config: ConvaccConfig, outputs: int) -> int:
    """Counts the multiplications of a unit that gives so many elements."""
    return outputs * config.kernel_height * config.kernel_width * config.batch


def epoch_macs(epoch: Epoch) -> int:
    """Counts the multiplications of all units of an epoch, those with weights of zero included."""
    flow = element_counts(epoch)
    units = epoch.units.items()
    return sum(unit_macs(c, flow[name].output.total) for name, c in units if isinstance(c, ConvaccConfig))
