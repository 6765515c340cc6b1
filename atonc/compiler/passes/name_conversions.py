"""Changes of number format get the name that says what they do.

quantize: real numbers to codes; dequantize: codes to real numbers; requantize: codes to codes. Plain bytes that are
only cast to real numbers are codes of scale 1.
"""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.passes.edit import Editor, rewrite


def name_conversions(graph: Graph) -> Graph:
    return rewrite(_give_scale_to_bytes(graph), _rename)


def _rename(op: Op, editor: Editor) -> list[Op] | None:
    if op.kind == "cast" and _is_plain_cast(op, editor.graph):
        return [replace(op, kind="dequantize")]
    if op.kind not in ("quantize", "dequantize", "requantize", "identity"):
        return None
    kind = conversion_kind(editor.tensor(op.inputs[0]), editor.tensor(op.outputs[0]))
    return [replace(op, kind=kind)]


def conversion_kind(x: Tensor, y: Tensor) -> str:
    if x.quant is not None:
        return "requantize" if y.quant is not None else "dequantize"
    return "quantize" if y.quant is not None else "identity"


def _is_plain_cast(op: Op, graph: Graph) -> bool:
    x, y = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    unit = x.quant is not None and x.quant.is_per_tensor and x.scale == 1.0 and x.zero_point == 0
    return y.is_float and unit


def _give_scale_to_bytes(graph: Graph) -> Graph:
    tensors = dict(graph.tensors)
    for name in graph.inputs:
        tensor = tensors[name]
        readers = graph.consumers.get(name, [])
        casts = all(op.kind == "cast" and tensors[op.outputs[0]].is_float for op in readers)
        if tensor.quant is None and tensor.dtype in ("int8", "uint8") and readers and casts:
            tensors[name] = replace(tensor, quant=Quantisation.per_tensor(1.0, 0))
    return replace(graph, tensors=tensors)
