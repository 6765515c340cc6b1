"""A float ONNX graph to look at and to change: who writes and reads a tensor, its shape, its value if constant; its
layers with weights as matrix products; and which tensors become int8, a plan over the graph.

Functions of one value (SiLU, hard-swish and their like, however many nodes they are written with) stay in float between
one QuantizeLinear and the next: the compiler makes one table of them. A ReLU stays with the layer before it. Tails that
int8 would spoil (softmax, non-maximum suppression) stay in float.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.insight.quantizing.types import Scale
from atonc.machine.base.frozen import dataclass

WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul")
CELLS = ("LSTM", "GRU")  # whose products are written out


class FloatGraph:
    """An index over a model; `model` itself stays the one truth, `set_constant` is the only change."""

    def __init__(self, model: Any) -> None:
        from onnx import TensorProto, helper, numpy_helper

        self.model, graph = model, model.graph
        self.ranges: Mapping[str, Scale] = {}  # that fake quantisation had in training, by tensor
        self.counted: Any = None  # which places of boxes suppression behind it looks at (`parts.CountedPlaces`)
        self.nodes: tuple[Any, ...] = tuple(graph.node)
        self.constants: dict[str, Array] = {p.name: numpy_helper.to_array(p) for p in graph.initializer}
        self.inputs = tuple(v.name for v in graph.input if v.name not in self.constants)
        self.outputs = tuple(v.name for v in graph.output)
        self.producer = {name: node for node in self.nodes for name in node.output if name}
        self.readers: dict[str, list[Any]] = defaultdict(list)
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                if name:
                    self.readers[name].append(node)
        known = [*graph.output, *graph.value_info, *graph.input]  # an output may be an input, and say less of it
        self.shapes = {v.name: tuple(int(d.dim_value) for d in v.type.tensor_type.shape.dim) for v in known}
        self.floats = {v.name for v in known if v.type.tensor_type.elem_type == TensorProto.FLOAT}
        self.types = {v.name: helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for v in graph.input}

    def set_constant(self, name: str, value: Array) -> None:
        from onnx import numpy_helper

        proto = next(p for p in self.model.graph.initializer if p.name == name)
        proto.CopyFrom(numpy_helper.from_array(value.astype(np.float32), name))
        self.constants[name] = value.astype(np.float32)

    def is_activation(self, name: str) -> bool:
        return bool(name) and name in self.floats and name not in self.constants

    def activations(self, node: Any) -> list[str]:
        """Inputs that change from run to run, each once."""
        return [name for name in dict.fromkeys(node.input) if self.is_activation(name)]

    def read_once(self, name: str) -> bool:
        return len(self.readers[name]) == 1 and name not in self.outputs

    def table_of(self, node: Any) -> str:
        """Name of the constant whose rows the node picks, such as an embedding; empty if it picks none."""
        picked = node.input[0] if node.op_type == "Gather" else ""
        return str(picked) if picked in self.constants and self.constants[picked].dtype == np.float32 else ""

    def weights_of(self, node: Any) -> str:
        """Name of the constant that the node multiplies with; empty if it has none."""
        if node.op_type in WEIGHTED and node.input[1] in self.constants:
            return str(node.input[1])
        return ""

    def bias_of(self, node: Any) -> str:
        third = node.input[2] if len(node.input) > 2 else ""
        return str(third) if third in self.constants else ""


def copied(message: Any) -> Any:
    """A model or a node again."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def attribute(node: Any, name: str, default: Any) -> Any:
    from onnx import helper

    found = next((a for a in node.attribute if a.name == name), None)
    return default if found is None else helper.get_attribute_value(found)


def own_constants(model: Any, kinds: Iterable[str]) -> Any:
    """Weights that several nodes share become a copy for each, so that each may be changed alone."""
    taken = set[str]()
    constants = {proto.name: proto for proto in model.graph.initializer}
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            if index and node.op_type in kinds and name in constants:
                if name in taken:
                    copy = model.graph.initializer.add()
                    copy.CopyFrom(constants[name])
                    copy.name = f"{name}:{node.name}"
                    node.input[index] = copy.name
                taken.add(name)
    return model


MOST_INPUTS = 2304  # of one sum; larger layers keep nearest rounding: their moments would take gigabytes


@dataclass(frozen=True)
class LinearLayer:
    """result = weights @ row + bias, for every group."""

    name: str
    kind: str
    source: str
    output: str
    weights: str
    bias: str
    groups: int
    node: Any

    @property
    def axis(self) -> int:
        """The axis of the output channels in the stored weights."""
        if self.kind == "Gemm":
            return 0 if attribute(self.node, "transB", 0) else 1
        return {"Conv": 0, "ConvTranspose": 1, "MatMul": 1}[self.kind]


def layers_of(graph: FloatGraph) -> list[LinearLayer]:
    found = []
    for node in graph.nodes:
        weights = graph.weights_of(node)
        if not weights or not graph.is_activation(node.input[0]):
            continue
        groups = attribute(node, "group", 1)
        bias = graph.bias_of(node)
        found.append(LinearLayer(node.name, node.op_type, node.input[0], node.output[0], weights, bias, groups, node))
    return found


def matrix(layer: LinearLayer, stored: Array) -> Array:
    """Stored weights as group x outputs x inputs of one sum."""
    if layer.kind == "Conv":
        return stored.reshape(layer.groups, stored.shape[0] // layer.groups, -1)
    return (stored if layer.axis == 0 else stored.T)[None]


def stored_form(layer: LinearLayer, values: Array, like: Array) -> Array:
    if layer.kind == "Conv":
        return values.reshape(like.shape)
    return values[0] if layer.axis == 0 else values[0].T


def is_matrix(layer: LinearLayer, stored: Array) -> bool:
    """Whether its rows can be had; a transposed convolution's are not worth it."""
    if layer.kind == "Conv":
        return stored.ndim == 4 and stored[0].size <= MOST_INPUTS
    return layer.kind in ("Gemm", "MatMul") and stored.ndim == 2 and min(stored.shape) > 0 and stored.size < 1 << 24


def rows(layer: LinearLayer, values: Array, stored: Array, random: np.random.Generator, most: int) -> Array:
    """Some of the rows that meet the weights: row x group x input."""
    if layer.kind != "Conv":
        flat = values.reshape(-1, stored.shape[1 if layer.axis == 0 else 0])
        picked = flat if len(flat) <= most else flat[random.integers(0, len(flat), most)]
        return picked[:, None]
    kernel = stored.shape[2:]
    steps = attribute(layer.node, "strides", [1, 1])
    spread = attribute(layer.node, "dilations", [1, 1])
    padded, sizes = _padded(layer, values, kernel, steps, spread)
    places = random.integers(0, sizes[0] * sizes[1], most) if sizes[0] * sizes[1] > most else np.arange(np.prod(sizes))
    top, left = places // sizes[1] * steps[0], places % sizes[1] * steps[1]
    down = top[:, None, None] + (np.arange(kernel[0]) * spread[0])[None, :, None]
    right = left[:, None, None] + (np.arange(kernel[1]) * spread[1])[None, None, :]
    patches = padded[0][:, down, right]  # channel x place x kernel
    return patches.transpose(1, 0, 2, 3).reshape(len(places), layer.groups, -1)


def _padded(
    layer: LinearLayer, values: Array, kernel: tuple[int, ...], steps: list[int], spread: list[int]
) -> tuple[Array, tuple[int, int]]:
    pads = list(attribute(layer.node, "pads", [0, 0, 0, 0]))
    mode = attribute(layer.node, "auto_pad", b"NOTSET")
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        for k in range(2):
            size = values.shape[2 + k]
            extra = max(0, (-(-size // steps[k]) - 1) * steps[k] + (kernel[k] - 1) * spread[k] + 1 - size)
            first = extra // 2 if mode == b"SAME_UPPER" else extra - extra // 2
            pads[k], pads[2 + k] = first, extra - first
    padded = np.pad(values, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    reach = [(kernel[k] - 1) * spread[k] + 1 for k in range(2)]
    high, wide = ((padded.shape[2 + k] - reach[k]) // steps[k] + 1 for k in range(2))
    return padded, (high, wide)


MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "MaxPool", "Identity", "Gather",
         "DepthToSpace", "SpaceToDepth", "Expand", "Tile", "Pad", "Concat", "GlobalMaxPool", "ScatterND")  # fmt: skip
# nodes of one value that the reader makes of others, or that are one with a constant beside it
COMPOSED = ("Clip", "Selu", "Celu", "Gelu", "Softsign", "Pow", "Add", "Sub", "Mul", "Div")
ONE_VALUE = (*(row.onnx for row in FUNCTIONS.values() if row.onnx), *COMPOSED)
ARITHMETIC = ("Add", "Sub", "Mul", "Max", "Min", "Div")
TAILS = ("Softmax",)
DECODING = ("Add", "Sub", "Mul", "Div", "Exp", "Pow")
OTHERS = ("GlobalAveragePool", "AveragePool", "ReduceMean", "Resize", "PRelu", "InstanceNormalization",
          "LayerNormalization", "RMSNormalization")  # fmt: skip
FUSED = ("Relu", "Clip")
A_MASK = -100.0  # values as low as that, added to scores, hide them from a softmax


NO_STATES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class ScalePlan:
    """Tensors that get a scale, in the order of the graph, and which of them must share it."""

    tensors: tuple[str, ...]
    same: tuple[tuple[str, str], ...]  # a move gives its values on: both have one scale
    concats: tuple[tuple[str, tuple[str, ...]], ...]  # output, inputs: one scale would spare a conversion
    adds: tuple[tuple[str, ...], ...]  # operands of sums
    float_nodes: tuple[str, ...]  # left in float


def make_plan(
    graph: FloatGraph, float_tails: bool = True, apart: Iterable[str] = (), states: Mapping[str, str] = NO_STATES
) -> ScalePlan:
    """`apart`: nodes at the end that join tensors, to be left in float. `states`: input -> output with its scale."""
    kept = _float_nodes(graph, float_tails) | set(apart)
    roots = roots_of(graph, kept)
    made = (*graph.inputs, *(name for node in graph.nodes for name in node.output))
    tensors = tuple(name for name in made if _needed(graph, name, roots, kept))
    wanted = set(tensors)
    same, concats, adds = list[tuple[str, str]](), list[tuple[str, tuple[str, ...]]](), list[tuple[str, ...]]()
    for node in graph.nodes:
        live = graph.activations(node)
        if node.name in kept or not wanted.issuperset(live):
            continue
        if node.op_type == "Concat" and node.output[0] in wanted:
            concats.append((node.output[0], tuple(live)))
        elif is_move(node) and live:
            same += [(live[0], name) for name in node.output if name in wanted]
        elif node.op_type == "Add" and len(live) == 2:
            adds.append(tuple(live))
    same += [pair for pair in states.items() if wanted.issuperset(pair)]
    return ScalePlan(tensors, tuple(same), tuple(concats), tuple(adds), tuple(sorted(kept)))


def is_move(node: Any) -> bool:
    return node.op_type in MOVES or (node.op_type == "Resize" and attribute(node, "mode", b"nearest") == b"nearest")


def _float_nodes(graph: FloatGraph, tails: bool) -> set[str]:
    """Nodes that compute in float: of kinds without an int8 form, and what follows such a node up to an output."""
    kept, read_on = set[str](), _read_on(graph) if tails else set[str]()
    for node in graph.nodes:
        known = node.op_type in (*WEIGHTED, *MOVES, *ONE_VALUE, *ARITHMETIC, *OTHERS)
        known = known or (node.op_type in TAILS and (not tails or node.name in read_on))
        no_float = not any(name in graph.floats for name in node.output)
        both_live = node.op_type in WEIGHTED and not graph.weights_of(node)
        if not known or no_float or (both_live and node.op_type != "MatMul"):
            kept.add(node.name)
    if tails:
        for node in graph.nodes:
            writers = [graph.producer.get(name) for name in graph.activations(node)]
            if writers and all(w is not None and w.name in kept for w in writers) and node.op_type not in WEIGHTED:
                kept.add(node.name)
    return kept


def magnitudes(graph: FloatGraph) -> tuple[str, ...]:
    """Nodes of sums of squares under a root, as behind a transform of sound: codes of squares keep nothing of what is
    small, and the root tells apart what is small."""
    found = set[str]()
    for node in graph.nodes:
        if node.op_type == "Sqrt" and (squares := _squares(graph, node.input[0])):
            found |= {node.name, *squares}
    return tuple(node.name for node in graph.nodes if node.name in found)


def decodings(graph: FloatGraph) -> tuple[str, ...]:
    """Nodes that make boxes of what the last layers give: products, sums and exponentials with no layer behind them, on
    the way to the outputs. Each rounds to codes of its own range, a share of a pixel that small boxes feel."""
    read_on, found, made = _read_on(graph), dict[str, str](), set[str]()
    for node in graph.nodes:
        behind = node.op_type in DECODING or made.intersection(node.input)
        if behind and node.name not in read_on and node.op_type not in WEIGHTED:
            found[node.name] = node.op_type
            made.update(node.output)
    sums = [kind for kind in found.values() if kind in DECODING]
    return tuple(found) if len(sums) > 1 and {"Add", "Sub"}.intersection(sums) else ()


def _squares(graph: FloatGraph, name: str) -> set[str]:
    """The nodes of a sum of squares; nothing where something else is added up."""
    node = graph.producer.get(name)
    if node is None:
        return set()
    power = graph.constants.get(node.input[1]) if node.op_type == "Pow" else None
    if (power is not None and np.all(power == 2)) or (node.op_type == "Mul" and node.input[0] == node.input[1]):
        return {node.name}
    live = graph.activations(node) if node.op_type in ("Add", "ReduceSum", "Clip", "Max") else []
    parts = [_squares(graph, one) for one in live]
    return {node.name}.union(*parts) if parts and all(parts) else set()


def _read_on(graph: FloatGraph) -> set[str]:
    """Nodes with a product behind them: a softmax there, as in attention, is no tail."""
    found = set[str]()
    for node in reversed(graph.nodes):
        behind = (reader for name in node.output for reader in graph.readers[name])
        if any(reader.op_type in WEIGHTED or reader.name in found for reader in behind):
            found.add(node.name)
    return found


def is_scalar(graph: FloatGraph, name: str) -> bool:
    return name in graph.constants and graph.constants[name].size == 1


def roots_of(graph: FloatGraph, kept: set[str]) -> dict[str, str]:
    """Tensor -> the tensor that it is a function of, value by value; itself where there is none."""
    roots = {name: name for name in graph.inputs}
    for node in graph.nodes:
        live = graph.activations(node)
        found = {roots[name] for name in live}
        shapes = {graph.shapes.get(name) for name in (*live, *node.output)}
        constants_ok = all(is_scalar(graph, n) for n in node.input if n and n not in live)
        single = node.op_type in ONE_VALUE and len(found) == 1 and len(shapes) == 1 and constants_ok
        for name in node.output:
            fused = single and name and _is_fused(graph, node)
            roots[name] = next(iter(found)) if single and not fused and node.name not in kept else name
    return roots


def _is_fused(graph: FloatGraph, node: Any) -> bool:
    """A ReLU that alone reads a layer's result is part of that layer."""
    source = graph.producer.get(node.input[0])
    if node.op_type not in FUSED or source is None or not graph.read_once(node.input[0]):
        return False
    whole = source.op_type in (*WEIGHTED, "GlobalAveragePool", "AveragePool")
    return whole or (source.op_type in ("Add", "Sub", "Mul") and len(graph.activations(source)) == 2
                     and len(set(map(graph.shapes.get, source.input))) == 1)  # fmt: skip


def _needed(graph: FloatGraph, name: str, roots: dict[str, str], kept: set[str]) -> bool:
    """Whether the tensor gets codes: it is the root of others, or somebody reads it who needs codes."""
    producer, readers = graph.producer.get(name), graph.readers[name]
    if name not in graph.floats or (producer is not None and producer.name in kept and not readers):
        return False
    if producer is not None and producer.name in kept:
        return any(reader.name not in kept for reader in readers)
    if len(readers) == 1 and name not in graph.outputs and _is_fused(graph, readers[0]):
        return False
    if roots[name] == name or name in graph.outputs:
        return True
    return any(roots[output] != roots[name] or reader.name in kept for reader in readers for output in reader.output)
