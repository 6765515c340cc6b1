"""The network without rounding: the operators of the quantised graph on real numbers, with its weights as they are.

ONNX tools leave a ReLU out where the range of the following format begins at zero. Such a limit belongs to the network
and stays, unless the float model shows that values below zero exist there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.ops import run_op
from atonc.compiler.ops.conv import accumulate, channel_last, restore_layout
from atonc.compiler.ops.elementwise import activation_bounds
from atonc.compiler.ops.rounding import ATTRIBUTE
from atonc.machine.base.frozen import dataclass

Real = NDArray[np.float64]
Values = dict[str, Any]
Change = Callable[[str, Real], Real]  # tensor, its value -> the value that the rest sees
SIX, NEAR = 6.0, 0.01  # a range that ends there was a ReLU6
SUMMED = ("conv", "dense")


@dataclass(frozen=True, eq=False)
class Twin:
    """`graph` has real tensors only; `formats` are those of the quantised ones, `limits` what ranges stand for."""

    graph: Graph
    formats: Mapping[str, Tensor]
    limits: Mapping[str, tuple[float, float]]

    def run(self, inputs: Mapping[str, Any], change: Change | None = None) -> Values:
        return self.run_from({}, inputs, change=change)

    def run_from(self, known: Mapping[str, Any], inputs: Mapping[str, Any], change: Change | None = None) -> Values:
        """Every tensor; those in `known` are not computed again, so only what lies behind other values is."""
        values: Values = {name: t.data for name, t in self.graph.tensors.items() if t.data is not None}
        values |= {name: np.asarray(inputs[name], np.float64) for name in self.graph.inputs}
        values |= known
        for op in self.graph.ops:
            if all(name in known for name in op.outputs):
                continue
            for name, result in zip(op.outputs, run_real(self.graph, op, values), strict=True):
                value = np.clip(result, *self.limits[name]) if name in self.limits else result
                values[name] = value if change is None else change(name, value)
        return values

    def behind(self, tensor: str) -> set[str]:
        """Everything that depends on a tensor."""
        found = {tensor}
        for op in self.graph.ops:
            if found & set(op.inputs):
                found |= set(op.outputs)
        return found - {tensor}


def run_real(graph: Graph, op: Op, values: Mapping[str, Any]) -> list[Real]:
    """Sums in single precision and in any order: 120 dB away from what is looked for, and many times faster."""
    if op.kind == "recode":  # other codes of the same numbers
        bounds = activation_bounds(op.attrs, graph.tensors[op.outputs[0]])
        return [values[op.inputs[0]] if bounds is None else np.clip(values[op.inputs[0]], *bounds)]
    if op.kind not in SUMMED:
        return [np.asarray(result.codes, np.float64) for result in run_op(graph, op, values)]
    x, weights = (np.asarray(values[name], np.float32) for name in op.inputs[:2])
    out = graph.tensors[op.outputs[0]]
    if op.kind == "conv":
        sums = accumulate(channel_last(x, op.attrs["layout"]), weights, op.attrs)
    else:
        sums = x.reshape(-1, weights.shape[1]) @ weights.T
    bias = values[op.inputs[2]].reshape(-1) if len(op.inputs) > 2 and op.inputs[2] else 0.0
    total = sums.astype(np.float64) + bias
    total = restore_layout(total, op.attrs["layout"], x.ndim) if op.kind == "conv" else total.reshape(out.shape)
    bounds = activation_bounds(op.attrs, out)
    return [total if bounds is None else np.clip(total, *bounds)]


def is_format(tensor: Tensor) -> bool:
    """An activation in few bits."""
    return tensor.quant is not None and not tensor.is_constant and tensor.dtype in ("int8", "uint8", "int16", "int4")


def fake(tensor: Tensor, value: Real) -> Real:
    """Rounded and limited as the format does."""
    low, high = tensor.code_range
    codes = np.clip(np.rint(value / tensor.scale) + tensor.zero_point, low, high)
    return (codes - tensor.zero_point) * tensor.scale


def real_range(tensor: Tensor) -> tuple[float, float]:
    low, high = tensor.code_range
    return (low - tensor.zero_point) * tensor.scale, (high - tensor.zero_point) * tensor.scale


def dequantised(tensor: Tensor) -> Real:
    assert tensor.data is not None
    codes = np.asarray(tensor.data, np.float64)
    if tensor.quant is None:
        return codes
    quant = tensor.quant
    return (codes - quant.along(quant.zero_points, codes.ndim)) * quant.along(quant.scales, codes.ndim)


def make_twin(graph: Graph, signed: Collection[str] = ()) -> Twin:
    """`signed`: tensors that are known to have values below zero, whatever their format says."""
    biases = _plain_biases(graph)
    tensors = {}
    for name, tensor in graph.tensors.items():
        if tensor.quant is None and name not in biases:
            tensors[name] = replace(tensor, dtype="float64") if tensor.is_float else tensor
            continue
        data = None if tensor.data is None else biases[name] if name in biases else dequantised(tensor)
        tensors[name] = replace(tensor, dtype="float64", quant=None, data=data)
    ops = tuple(_plain(op) for op in graph.ops)
    formats = {name: tensor for name, tensor in graph.tensors.items() if is_format(tensor)}
    limits = {name: found for name, t in formats.items() if name not in signed and (found := _limit(t)) is not None}
    produced = {name for op in graph.ops if op.kind != "quantize" for name in op.outputs}
    return Twin(replace(graph, tensors=tensors, ops=ops), formats, {n: v for n, v in limits.items() if n in produced})


def real_twin(graph: Graph) -> Twin:
    """Makes the twin of a float model, which has no formats."""
    return Twin(graph, {}, {})


def _plain(op: Op) -> Op:
    """How codes are rounded is of no interest to real numbers."""
    return replace(op, attrs={key: value for key, value in op.attrs.items() if key != ATTRIBUTE})


def _plain_biases(graph: Graph) -> dict[str, Real]:
    """Biases that count in units of the accumulator, in real numbers."""
    found = {}
    for op in graph.ops:
        if op.kind not in (*SUMMED, "transpose_conv") or len(op.inputs) < 3 or not op.inputs[2]:
            continue
        bias, x, weights = (graph.tensors[op.inputs[k]] for k in (2, 0, 1))
        if bias.data is not None and bias.quant is None and not bias.is_float and weights.quant is not None:
            found[bias.name] = np.asarray(bias.data, np.float64).reshape(-1) * (x.scale * weights.quant.scales)
    return found


def _limit(tensor: Tensor) -> tuple[float, float] | None:
    low, high = real_range(tensor)
    if tensor.zero_point != tensor.code_range[0]:
        return None
    return low, (SIX if abs(high - SIX) < NEAR * SIX else np.inf)
