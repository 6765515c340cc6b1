"""What is assumed of a model that nobody has trained or quantised: codes of 8 bits where `atonc quantize` puts them,
and weights that sum to nothing special. What a program costs follows from sizes; of values it needs only that they are
no extremes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isqrt, log2, prod, sqrt
from typing import Any

import numpy as np

from atonc.compiler.ir import Array, Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.registry import recipe_for
from atonc.compiler.ops import is_move
from atonc.compiler.ops.functions import FUNCTIONS, RANGES
from atonc.machine.base.frozen import replace

WEIGHTED = ("conv", "dense", "transpose_conv", "matmul")
JOINS = ("add", "sub", "mul", "div", "minimum", "maximum")
# with constants: gains and offsets, which go into the weights before them
WIDENS = ("affine", "batch_norm", "add", "sub", "mul", "div")
CLAMPS = (*RANGES, "clip")
KEEPS = ("max_pool", "average_pool", "mean", "resize_nearest", "resize_linear")  # codes of the result like the input's
SIGNED, UNSIGNED, SHARE = (0.031, -5), (0.0235, -128), (1 / 256, -128)  # scale and zero point: +-4, 0 to 6, 0 to 1
PICKS = ("arg_max", "arg_min")  # the same place, whether of codes or of real values
LARGEST, QUIET = 127, 8
MIDDLE = 32  # codes: zero points farther from 0 make sums larger
REAL, EXACT = ":real", ":exact"


def is_float(graph: Graph) -> bool:
    """Whether a graph has weights and no codes anywhere."""
    return not any(tensor.quant is not None for tensor in graph.tensors.values())


def has_shifted_weights(graph: Graph) -> bool:
    """Whether weights have zero points away from the middle of their codes, as those of old uint8 models: they may take
    nine bits, and one scale serves channels of every size."""
    weights = (graph.tensors[op.inputs[1]] for op in graph.ops if op.kind in WEIGHTED and len(op.inputs) > 1)
    return any(
        one.is_constant and one.quant is not None and (one.quant.zero_points != _middle(one)).any() for one in weights
    )


def _middle(weights: Tensor) -> int:
    low, high = weights.code_range
    return 0 if low < 0 else (high + 1) // 2


def with_codes(graph: Graph) -> Graph:
    """A float graph as if it were quantised: what flows between layers are codes. An activation stays with the layer
    before it, a function of one value is one table, and what the NPU has no form for computes on real values."""
    return _Coded(graph).graph()


class _Coded:
    def __init__(self, source: Graph) -> None:
        self.source = source
        self.tensors = dict(source.tensors)
        self.ops: list[Op] = []
        self.inner = _inner(source)
        self.formats: dict[str, tuple[float, int]] = {}

    def graph(self) -> Graph:
        for name in self.source.inputs:
            if self._flows(name):
                self._code(name, SIGNED)
                self._read(name)
        for op in self.source.ops:
            self._add(op)
        return replace(self.source, tensors=self.tensors, ops=tuple(self.ops))

    def _flows(self, name: str) -> bool:
        tensor = self.source.tensors[name]
        return tensor.dtype == "float32" and not tensor.is_constant

    def _add(self, op: Op) -> None:
        real = op.kind not in PICKS
        inputs = [f"{name}{REAL}" if real and name in self.formats else name for name in op.inputs]
        if op.kind in WEIGHTED and self._is_real_constant(op.inputs[1]):
            inputs[1] = self._coded_weights(inputs[1])
        coded = [name for name in op.outputs if name and self._flows(name) and name not in self.inner]
        if not _has_codes(op):
            coded = [name for name in coded if name not in self.source.outputs]
        written = tuple(f"{name}{EXACT}" if name in coded else name for name in op.outputs)
        self.ops.append(replace(op, inputs=tuple(inputs), outputs=written))
        for name in coded:
            self.tensors[f"{name}{EXACT}"] = replace(self.source.tensors[name], name=f"{name}{EXACT}")
            self._code(name, self._format(op, name))
            self.ops.append(Op("quantize", f"{name}:codes", (f"{name}{EXACT}",), (name,)))
            self._read(name)

    def _code(self, name: str, form: tuple[float, int]) -> None:
        self.formats[name] = form
        self.tensors[name] = replace(self.source.tensors[name], dtype="int8", quant=Quantisation.per_tensor(*form))

    def _read(self, name: str) -> None:
        if name in self.source.consumers:
            real = replace(self.source.tensors[name], name=f"{name}{REAL}")
            self.tensors[real.name] = real
            self.ops.append(Op("dequantize", real.name, (name,), (real.name,)))

    def _is_real_constant(self, name: str) -> bool:
        return self.source.tensors[name].is_constant and self.source.tensors[name].dtype == "float32"

    def _coded_weights(self, name: str) -> str:
        tensor = self.source.tensors[name]
        codes = np.broadcast_to(np.int8(1), tensor.shape)
        quant = Quantisation.per_tensor(0.01)
        self.tensors[f"{name}:codes"] = replace(tensor, name=f"{name}:codes", dtype="int8", quant=quant, data=codes)
        return f"{name}:codes"

    def _format(self, op: Op, name: str) -> tuple[float, int]:
        """Moves and pools keep the codes of what they read; no two sums have one scale."""
        if (is_move(op.kind) or op.kind in KEEPS) and op.inputs[0] in self.formats:
            return self.formats[op.inputs[0]]
        activation = op.attrs.get("activation", "none")
        if op.kind in ("logistic", "hard_sigmoid", "softmax"):
            return SHARE
        if op.kind in CLAMPS or activation in CLAMPS:
            return UNSIGNED
        scale, zero = SIGNED
        return scale * (1 + len(self.formats) % 5 / 8), zero


def _has_codes(op: Op) -> bool:
    return recipe_for(op.kind) is not None or op.kind in (*FUNCTIONS, *WIDENS, *WEIGHTED, "softmax")


def _inner(graph: Graph) -> set[str]:
    """Values that nobody rounds: between a layer, its gains and offsets and its activation, and inside a function of
    one value, however many operators it is written with."""
    open_layers, found = set[str](), set[str]()  # results that gains and clamps still go into
    root: dict[str, str] = {}  # result -> value of which it is a function
    for op in graph.ops:
        y, live = op.outputs[0], [n for n in dict.fromkeys(op.inputs) if n and not graph.tensors[n].is_constant]
        alone = len(live) == 1 and len(graph.consumers[live[0]]) == 1 and live[0] not in graph.outputs
        computed = alone and live[0] in graph.producers and not is_move(graph.producers[live[0]].kind)
        clamped = op.attrs.get("activation", "none") != "none"
        if op.kind in WEIGHTED and not clamped:
            open_layers.add(y)
        elif op.kind in WIDENS and alone and live[0] in open_layers and not _is_power(op, graph):
            found.add(live[0])
            open_layers |= set() if clamped else {y}
        elif op.kind in CLAMPS and computed and live[0] not in root:
            found.add(live[0])
        elif op.kind in FUNCTIONS or (op.kind in JOINS and live and _constants_are_numbers(op, graph)):
            roots = {root.get(name, name) for name in live}
            if len(roots) == 1:
                root[y] = roots.pop()
    for name, of in root.items():
        readers = graph.consumers.get(name, ())
        if readers and name not in graph.outputs and all(root.get(reader.outputs[0]) == of for reader in readers):
            found.add(name)
    return found


def _is_power(op: Op, graph: Graph) -> bool:
    """A constant that is no number and no row of channels cannot go into weights."""
    constants = [graph.tensors[n] for n in op.inputs if n and graph.tensors[n].is_constant]
    return op.kind in JOINS and any(sum(dim > 1 for dim in constant.shape) > 1 for constant in constants)


def _constants_are_numbers(op: Op, graph: Graph) -> bool:
    return all(graph.tensors[n].elements == 1 for n in op.inputs if n and graph.tensors[n].is_constant)


def with_plain_values(graph: Graph) -> Graph:
    """Every layer of the canonical graph with small random weights, the same for the same shape, scaled so that results
    fill their range, and equal sums: no channel needs anything of its own. Zero points near 0 are one and the same, so
    that layers look alike."""
    tensors = {name: _with_usual_zero(tensor) for name, tensor in graph.tensors.items()}
    for op in graph.ops:
        if op.kind in WEIGHTED and len(op.inputs) > 1:
            tensors |= _plain_layer(op, tensors)
    return replace(graph, tensors=tensors)


def _with_usual_zero(tensor: Tensor) -> Tensor:
    codes = tensor.dtype == "int8" and not tensor.is_constant and tensor.quant is not None
    if not codes or tensor.zero_point in (SIGNED[1], 0) or abs(tensor.zero_point) > MIDDLE:
        return tensor
    return replace(tensor, quant=Quantisation.per_tensor(tensor.scale, SIGNED[1]))


def _plain_layer(op: Op, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    x, weights, y = (tensors[name] for name in (*op.inputs[:2], op.outputs[0]))
    if weights.data is None or weights.quant is None or x.quant is None or y.quant is None or not weights.elements:
        return {}
    count, zero = prod(weights.shape[1:]), _middle(weights)
    small = weights.dtype == "int8" and not zero  # the numbers are the codes
    kind: type[np.signedinteger[Any]] = np.int8 if small else np.int16
    rows = np.ones((weights.shape[0], count), kind)
    half = (count - isqrt(count)) // 2  # of signs, the same turned round, and ones for sums as large as usual
    bits = np.frombuffer(np.random.default_rng(weights.shape).bytes(len(rows) * half), np.uint8)
    signs = (bits & 2).reshape(len(rows), half).astype(kind) - 1
    rows[:, :half], rows[:, count - half :] = signs, -signs[:, ::-1]
    rows[:, 0] *= LARGEST
    rows[:, -1] *= LARGEST
    codes = rows if small else np.clip(rows + zero, *weights.code_range).astype(weights.data.dtype)
    scale = y.scale / x.scale * 2.0 ** -round(log2(LARGEST + sqrt(count)))
    quant = Quantisation.per_tensor(scale, zero)
    found = {weights.name: replace(weights, data=codes.reshape(weights.shape), quant=quant)}
    bias = tensors[op.inputs[2]] if len(op.inputs) > 2 and op.inputs[2] else None
    if bias is not None and bias.data is not None:
        of_bias = None if bias.quant is None else Quantisation.per_tensor(scale * x.scale)
        found[bias.name] = replace(bias, data=np.zeros_like(bias.data), quant=of_bias)
    return found


class QuietRun(Mapping[str, Array]):
    """Values of all tensors that stay near zero: for whoever asks how far typical inputs take sums."""

    def __init__(self, graph: Graph) -> None:
        self.tensors = graph.tensors

    def __getitem__(self, name: str) -> Array:
        tensor = self.tensors[name]
        low, high = tensor.code_range
        return np.full(tensor.shape, min(max(tensor.zero_point + QUIET, low), high), tensor.dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)
