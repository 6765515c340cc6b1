"""Where TFLite's kernels (LiteRT 2.3) are no reference, and why: each was found by a model that they get wrong.

`tests/compare/test_wrong_kernels.py` shows every one of them, so that a release that mends it is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.frontends import flatbuffer
from atonc.compiler.frontends.flatbuffer import FlatTable
from atonc.compiler.frontends.tflite import operator_name
from atonc.compiler.frontends.tflite_schema import (
    ELEMENT_TYPES,
    ModelField,
    OperatorField,
    SubgraphField,
    TensorField,
)
from atonc.compiler.ir import Graph, Op

# operators that the reference set computes wrongly, and its siblings do not
MISCOUNTED = {"SUM": "adds int8 codes as if they were unsigned"}
MISREAD = (
    "TRANSPOSE_CONV of TFLite's kernels reads the int32 bias of a 16-bit layer as numbers of 64 bits, two biases as "
    "one, so the reference is exact arithmetic of the graph"
)
TABLE_END = "takes e^x from a table that ends at e^-10: each of its {count} inputs may be 2 codes of 16 bits off"
_BIAS = 3  # inputs of TRANSPOSE_CONV: shape, weights, features, bias


def miscounted(data: bytes) -> str:
    """What the reference set gets wrong in a model, or nothing."""
    names = map(operator_name, flatbuffer.root(data, b"TFL3").tables(ModelField.OPERATOR_CODES))
    wrong = next((name for name in names if name in MISCOUNTED), "")
    return f"{wrong} of TFLite's reference kernels {MISCOUNTED[wrong]}, so they are no reference here" if wrong else ""


def misread(data: bytes) -> str:
    """What no set gets right, or nothing."""
    model = flatbuffer.root(data, b"TFL3")
    names = [operator_name(code) for code in model.tables(ModelField.OPERATOR_CODES)]
    if "TRANSPOSE_CONV" not in names:
        return ""
    types = (types for subgraph in model.tables(ModelField.SUBGRAPHS) for types in _types(subgraph, names))
    return MISREAD if ("int16", "int32") in types else ""


def _types(subgraph: FlatTable, names: list[str]) -> Iterator[tuple[str, str]]:
    """Finds the types of features and bias of every transposed convolution that has one."""
    tensors = subgraph.tables(SubgraphField.TENSORS)
    for op in subgraph.tables(SubgraphField.OPERATORS):
        inputs = op.array(OperatorField.INPUTS, "<i4").tolist()
        if names[op.uint32(OperatorField.CODE)] == "TRANSPOSE_CONV" and len(inputs) > _BIAS and inputs[_BIAS] >= 0:
            features, bias = (ELEMENT_TYPES.get(tensors[k].int8(TensorField.TYPE), "") for k in inputs[_BIAS - 1 :])
            yield features, bias


def softmax_codes(source: Graph, op: Op) -> int:
    """How many codes a softmax of 16 bits may be off in TFLite's kernels."""
    y = source.tensors[op.outputs[0]]
    if source.source != "tflite" or op.kind != "softmax" or y.dtype != "int16":
        return 0
    return 2 * y.shape[int(op.attrs.get("axis", -1))]
