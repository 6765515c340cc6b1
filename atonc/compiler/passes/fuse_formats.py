"""Dequantize - operator - quantize becomes the operator on codes: kernels compute on real numbers anyway.

Where the model computes in floats its result is rounded once. How TFLite's integer kernels of that kind would round is
no concern of such an operator, also when it is on codes afterwards.
"""

from __future__ import annotations

from dataclasses import replace

from atonc.compiler.ir import Graph, Op
from atonc.compiler.ops import is_move
from atonc.compiler.ops.rounding import ATTRIBUTE, SINGLE, TWICE
from atonc.compiler.passes.edit import Editor, rewrite, with_attrs

OWN_FORMATS = (
    "quantize", "dequantize", "requantize", "identity", "cast", "arg_max", "arg_min", "shape", "fill", "range",
    "uint8_to_int8", "int8_to_uint8", "table", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
    "logical_and", "logical_or", "logical_not",
)  # fmt: skip


def fuse_formats(graph: Graph) -> Graph:
    return rewrite(rewrite(graph, _read_codes), _write_codes)


def _computes(op: Op) -> bool:
    return op.kind not in OWN_FORMATS and not is_move(op.kind)


def _read_codes(op: Op, editor: Editor) -> list[Op] | None:
    """Operators read the codes behind a dequantised value."""
    if not _computes(op) and op.kind != "quantize":
        return None
    inputs = []
    for name in op.inputs:
        source = editor.producer(name) if name else None
        inputs.append(source.inputs[0] if source is not None and source.kind == "dequantize" else name)
    if op.kind == "quantize" and tuple(inputs) != op.inputs:
        single = {ATTRIBUTE: SINGLE} if op.attrs.get(ATTRIBUTE) == TWICE else {}
        return [with_attrs(replace(op, kind="requantize", inputs=tuple(inputs)), (ATTRIBUTE,), **single)]
    return [replace(op, inputs=tuple(inputs))]


def _write_codes(op: Op, editor: Editor) -> list[Op] | None:
    """The producer of a real value that is only quantised writes the codes itself."""
    if op.kind != "quantize":
        return None
    producer = editor.producer(op.inputs[0])
    alone = editor.read_once(op.inputs[0]) and len(producer.outputs if producer else ()) == 1
    if producer is None or not alone or not _computes(producer):
        return None
    joined = with_attrs(replace(producer, outputs=op.outputs, origin=(*producer.origin, *op.origin)), (ATTRIBUTE,))
    editor.replace_op(producer, joined)
    return []
