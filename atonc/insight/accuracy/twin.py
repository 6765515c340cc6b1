"""The network without rounding: the operators of the quantised graph on real numbers, with its weights as they are.

ONNX tools leave a ReLU out where the range of the following format begins at zero. Such a limit belongs to the network
and stays, unless the float model shows that values below zero exist there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.frontends.tails import SCORES
from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.ops import is_move, run_op
from atonc.compiler.ops.conv import accumulate, channel_last, restore_layout
from atonc.compiler.ops.elementwise import activation_bounds
from atonc.compiler.ops.rounding import ATTRIBUTE
from atonc.insight.quantizing.from_tflite import FIRST
from atonc.machine.base.errors import InputError
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

    def run(
        self, inputs: Mapping[str, Any], change: Change | None = None, known: Mapping[str, Any] | None = None
    ) -> Values:
        """Every tensor; those in `known` are not computed again, so only what lies behind other values is."""
        known = known or {}
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
    # how codes are rounded is of no interest to real numbers
    ops = tuple(replace(op, attrs={key: v for key, v in op.attrs.items() if key != ATTRIBUTE}) for op in graph.ops)
    formats = {name: tensor for name, tensor in graph.tensors.items() if is_format(tensor)}
    free = {name for op in graph.ops if op.kind != "quantize" for name in op.outputs} - set(signed)
    limits = {n: _limit(t) for n, t in formats.items() if n in free and t.zero_point == t.code_range[0]}
    return Twin(replace(graph, tensors=tensors, ops=ops), formats, limits)


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


def _limit(tensor: Tensor) -> tuple[float, float]:
    low, high = real_range(tensor)
    return low, (SIX if abs(high - SIX) < NEAR * SIX else np.inf)


_WEIGHTED = ("conv", "dense", "transpose_conv")
# what quantisers put into the layer before: its result is then the result of these
_ABSORBED = ("relu", "relu6", "clip", "batch_norm", "relu_n1_to_1", "relu_0_to_1")


def match(quantised: Graph, real: Graph) -> dict[str, str]:
    """Tensor of the quantised graph -> tensor of the float model with as many elements: by name, else by the order of
    the layers."""
    names, ends = _names(quantised), _ends(quantised, real)
    _require_same_edges(quantised, real, ends)
    found: dict[str, str] = dict(zip(quantised.inputs, real.inputs, strict=True))
    for name, tensor in quantised.tensors.items():
        if is_format(tensor):
            same = [other for other in names[name] if other in real.tensors and not real.tensors[other].is_constant]
            if same and real.tensors[same[0]].elements == tensor.elements:
                found[name] = same[0]
    for op in quantised.ops:
        if op.kind == "quantize" and op.inputs[0] in quantised.inputs:
            found[op.outputs[0]] = found[op.inputs[0]]
    for name, other in _by_order(quantised, real).items():
        found.setdefault(_with_activation(quantised, real, name, other), other)
    for ours, theirs in zip(quantised.outputs, ends, strict=True):
        producer = quantised.producers.get(ours)
        source = producer.inputs[0] if producer is not None and producer.kind == "dequantize" else ours
        found[source] = theirs
    _follow(quantised, real, found)
    taken = set(found.values())
    makers = {name: quantised.producers.get(name) for name in found}
    computed = {name for name, maker in makers.items() if maker is not None and maker.kind != "quantize"}
    return {name: _absorbing(real, other, taken) if name in computed else other for name, other in found.items()}


def _ends(quantised: Graph, real: Graph) -> list[str]:
    """Tensors of the float model that are its outputs for this comparison: where `quantize` left the function of the
    scores to the application, too, what that function reads."""
    tail, known = quantised.tail, {name for one in quantised.outputs for name in _names(quantised)[one]}
    if tail is None or not any(row.kind in SCORES for row in tail.operators):
        return list(real.outputs)
    found = []
    for name in real.outputs:
        maker = real.producers.get(name)
        while maker is not None and is_move(maker.kind):
            maker = real.producers.get(maker.inputs[0])
        moved = name not in known and maker is not None and maker.kind in ("logistic", "softmax")
        found.append(maker.inputs[0] if moved and maker is not None else name)
    return list(dict.fromkeys(found))


def _follow(quantised: Graph, real: Graph, found: dict[str, str]) -> None:
    """Operators of one kind on the same values give the same value."""
    known = {(op.kind, _data(real, op)): op.outputs[0] for op in real.ops}
    for op in quantised.ops:
        name, data = op.outputs[0], _data(quantised, op)
        if name not in found and data and all(one in found for one in data):
            other = known.get((op.kind, tuple(found[one] for one in data)), "")
            if other and real.tensors[other].elements == quantised.tensors[name].elements:
                found[name] = other


def _data(graph: Graph, op: Op) -> tuple[str, ...]:
    return tuple(name for name in op.inputs if name and not graph.tensors[name].is_constant)


def _require_same_edges(quantised: Graph, real: Graph, ends: Sequence[str]) -> None:
    for side, ours, theirs in (("inputs", quantised.inputs, real.inputs), ("outputs", quantised.outputs, ends)):
        sizes = [[prod(g.tensors[n].shape) for n in names] for g, names in ((quantised, ours), (real, theirs))]
        if sizes[0] != sizes[1]:
            raise InputError(
                f"the float model has {side} of {sizes[1]} elements, the quantised one of {sizes[0]}",
                where=real.name,
                remedy="give the float model that this one was quantised from",
            )


def _names(graph: Graph) -> Mapping[str, list[str]]:
    """Every name that the source has for a tensor; also without what our quantiser adds to those of TFLite."""
    found = {name: [name] for name in graph.tensors}
    for name, held in graph.aliases.items():
        if held in found:
            found[held] += [name, name.removesuffix(FIRST)] if name.endswith(FIRST) else [name]
    return found


def in_order_of_tflite(quantised: Graph) -> frozenset[str]:
    """Tensors with the channels last, of an ONNX file that our quantiser made from TFLite: it marks the others."""
    names = _names(quantised)
    turned = {name for name, known in names.items() if any(one.endswith(FIRST) for one in known)}
    return frozenset(names.keys() - turned if turned else ())


def _absorbing(real: Graph, name: str, taken: set[str]) -> str:
    """The last of the operators that went into the layer: each the only reader of the one before, and found nowhere."""
    while name not in real.outputs:
        readers = real.consumers.get(name, [])
        if len(readers) != 1 or readers[0].kind not in _ABSORBED or readers[0].outputs[0] in taken:
            break
        name = readers[0].outputs[0]
    return name


def _by_order(quantised: Graph, real: Graph) -> dict[str, str]:
    """Layers with weights of equal shapes in equal order; names may be anything."""
    ours, theirs = ([op for op in graph.ops if op.kind in _WEIGHTED] for graph in (quantised, real))
    keys = [_key(quantised, op) for op in ours], [_key(real, op) for op in theirs]
    found = {}
    for a, b, size in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_matching_blocks():
        for k in range(size):
            found[ours[a + k].outputs[0]] = theirs[b + k].outputs[0]
    return found


def _with_activation(quantised: Graph, real: Graph, name: str, other: str) -> str:
    """Behind its ReLU, where that is a part of the layer in the float model and nothing is rounded before it."""
    maker, readers = real.producers[other], quantised.consumers.get(name, [])
    if maker.attrs.get("activation", "none") == "none" or is_format(quantised.tensors[name]) or len(readers) != 1:
        return name
    return readers[0].outputs[0] if readers[0].kind in _ABSORBED else name


def _key(graph: Graph, op: Op) -> tuple[object, ...]:
    return op.kind, graph.tensors[op.inputs[1]].shape, graph.tensors[op.outputs[0]].elements
