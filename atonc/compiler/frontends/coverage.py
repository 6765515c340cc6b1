"""How much of a model is quantised, and what to do about the rest."""

from __future__ import annotations

from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.ops import is_move
from atonc.compiler.ops.functions import RANGES
from atonc.machine.base.errors import ModelError
from atonc.machine.base.frozen import dataclass

_SHOWN = 3
CONVERSIONS = ("quantize", "dequantize", "requantize", "identity", "cast", "shape")
CLAMPS = (*RANGES, "clip")
WEIGHTED = ("conv", "dense", "transpose_conv", "matmul")
QUANTISERS = {
    "tflite": "atonc quantize MODEL --data SAMPLES; or with tf.lite.TFLiteConverter: Optimize.DEFAULT, a "
    "representative_dataset and OpsSet.TFLITE_BUILTINS_INT8",
    "onnx": "atonc quantize MODEL --data SAMPLES; or with onnxruntime.quantization.quantize_static: "
    "quant_format=QDQ, activation_type=QInt8, weight_type=QInt8, per_channel=True",
}


@dataclass(frozen=True)
class FloatNode:
    """An operator that computes with real numbers."""

    name: str
    kind: str
    size_bytes: int  # of its activations and weights, as float
    why: str


@dataclass(frozen=True)
class Coverage:
    quantised: int  # operators that compute on codes
    quantised_bytes: int  # their activations and weights
    float_nodes: tuple[FloatNode, ...]

    @property
    def float_bytes(self) -> int:
        return sum(node.size_bytes for node in self.float_nodes)

    @property
    def percent(self) -> float:
        """Share of the computing operators that are quantised."""
        total = self.quantised + len(self.float_nodes)
        return 100.0 * self.quantised / total if total else 100.0


def coverage(graph: Graph, compiled: Graph | None = None) -> Coverage:
    """Counts what is quantised in a graph as the front end read it; conversions and moves count for neither side.
    `compiled`: what was made of it; where that computes on codes alone, real values between codes are no loss."""
    quantised, quantised_bytes = 0, 0
    nodes: list[FloatNode] = []
    fused, whole = _fused(graph), compiled is not None and not any(_on_floats(op, compiled) for op in compiled.ops)
    for op in graph.ops:
        if op.kind in CONVERSIONS or is_move(op.kind):
            continue
        why = "" if whole or set(op.outputs) <= fused else _why_float(op, graph)
        if why:
            nodes.append(FloatNode(op.name, op.kind, sum(t.elements for t in _tensors(op, graph)) * 4, why))
        elif whole or any(t.quant is not None and not t.is_constant for t in _tensors(op, graph)):
            quantised += 1
            quantised_bytes += sum(t.elements for t in _tensors(op, graph))
    return Coverage(quantised, quantised_bytes, tuple(nodes))


def _on_floats(op: Op, graph: Graph) -> bool:
    computes = op.kind not in CONVERSIONS and not is_move(op.kind)
    return computes and any(tensor.is_float and not tensor.is_constant for tensor in _tensors(op, graph))


def _fused(graph: Graph) -> set[str]:
    """Real values that no step computes: an operator on codes, its clamps and the quantiser behind them become one."""
    found: set[str] = set()
    for op in graph.ops:
        if op.kind != "quantize" and not (op.kind in CLAMPS and graph.tensors[op.outputs[0]].quant is not None):
            continue
        way, name = [op.outputs[0]], op.inputs[0]
        while (maker := graph.producers.get(name)) is not None:
            if len(graph.consumers.get(name, ())) != 1 or name in graph.outputs:
                break  # others want the real values
            if graph.tensors[name].quant is not None:
                break  # codes already, computed by a step of their own
            way.append(name)
            if maker.kind not in CLAMPS:
                found |= set(way) if _takes_codes(maker, graph) else set()
                break
            name = maker.inputs[0]
    return found


def _takes_codes(op: Op, graph: Graph) -> bool:
    inputs = [graph.tensors[name] for name in op.inputs if name]
    weights = inputs[1:2] if op.kind in WEIGHTED else []
    live = [tensor for tensor in inputs if not tensor.is_constant]
    return bool(live) and all(tensor.quant is not None for tensor in (*live, *weights))


def _tensors(op: Op, graph: Graph) -> list[Tensor]:
    return [graph.tensors[name] for name in dict.fromkeys((*op.inputs, *op.outputs)) if name]


def _why_float(op: Op, graph: Graph) -> str:
    """One sentence, empty for operators on codes."""
    inputs = [graph.tensors[name] for name in op.inputs if name]
    floats = [tensor for tensor in inputs if tensor.is_float and not tensor.is_constant]
    outputs = [graph.tensors[name] for name in op.outputs if graph.tensors[name].is_float]
    weights = inputs[1] if op.kind in WEIGHTED and len(inputs) > 1 and inputs[1].is_constant else None
    if floats and weights is not None and weights.quant is not None:
        return f"only its weights are quantised, its input {floats[0].name!r} is float (dynamic range quantisation)"
    if floats:
        return f"its input {floats[0].name!r} is float"
    if weights is not None and weights.is_float:
        return f"its weights {weights.name!r} are float"
    if outputs and not all(name in graph.outputs for name in op.outputs):
        return f"its output {outputs[0].name!r} is not quantised"
    return ""


def require_quantised(graph: Graph) -> Coverage:
    """Raises if nothing in the model is quantised, neither activations nor weights; otherwise the coverage.

    Partly quantised models are accepted: what is float runs on the CPU, and the report lists it.
    """
    found = coverage(graph)
    if not found.float_nodes or any(tensor.quant is not None for tensor in graph.tensors.values()):
        return found
    largest = sorted(found.float_nodes, key=lambda node: -node.size_bytes)[:_SHOWN]
    many = len(found.float_nodes)
    computes = f"all {many} operators compute" if many > 1 else "its operator computes"
    named = ", ".join(f"{node.name} ({node.kind}, {node.size_bytes:,} bytes)" for node in largest)
    raise ModelError(
        f"the model is not quantised: {computes} in float",
        where=graph.name,
        rule=f"the NPU computes on int8 with known scales; the largest float layers are {named}",
        remedy=f"{quantiser(graph)}; --allow-float compiles it for the CPU alone",
    )


def quantiser(graph: Graph) -> str:
    """How to quantise a model of this kind."""
    return QUANTISERS.get(graph.source, QUANTISERS["onnx"])
