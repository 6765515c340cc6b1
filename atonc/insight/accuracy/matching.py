"""Which tensor of the float model a tensor of the quantised one is: by name, else by the order of the layers."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher
from math import prod

from atonc.compiler.ir import Graph, Op
from atonc.insight.accuracy.twin import is_format
from atonc.insight.quantizing.from_tflite import FIRST
from atonc.machine.base.errors import InputError

_WEIGHTED = ("conv", "dense", "transpose_conv")
# what quantisers put into the layer before: its result is then the result of these
_ABSORBED = ("relu", "relu6", "clip", "batch_norm", "relu_n1_to_1", "relu_0_to_1")


def match(quantised: Graph, real: Graph) -> dict[str, str]:
    """Tensor of the quantised graph -> tensor of the float model with as many elements."""
    _require_same_edges(quantised, real)
    names = _names(quantised)
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
    for ours, theirs in zip(quantised.outputs, real.outputs, strict=True):
        producer = quantised.producers.get(ours)
        source = producer.inputs[0] if producer is not None and producer.kind == "dequantize" else ours
        found[source] = theirs
    _follow(quantised, real, found)
    taken = set(found.values())
    computed = {name for name in found if _is_computed(quantised, name)}
    return {name: _absorbing(real, other, taken) if name in computed else other for name, other in found.items()}


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


def _require_same_edges(quantised: Graph, real: Graph) -> None:
    for side, ours, theirs in (("inputs", quantised.inputs, real.inputs), ("outputs", quantised.outputs, real.outputs)):
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


def _is_computed(graph: Graph, name: str) -> bool:
    producer = graph.producers.get(name)
    return producer is not None and producer.kind != "quantize"


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
    ours, theirs = (_weighted(graph) for graph in (quantised, real))
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


def _weighted(graph: Graph) -> list[Op]:
    return [op for op in graph.ops if op.kind in _WEIGHTED]


def _key(graph: Graph, op: Op) -> tuple[object, ...]:
    return op.kind, graph.tensors[op.inputs[1]].shape, graph.tensors[op.outputs[0]].elements
