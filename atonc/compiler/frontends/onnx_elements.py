"""ONNX nodes that work element by element."""

from __future__ import annotations

import numpy as np

from atonc.compiler.frontends.onnx_node import Node, translates
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.machine.base.errors import UnsupportedError

UNARY = {row.onnx: row for row in FUNCTIONS.values() if row.onnx}

BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "PRelu": "prelu", "Less": "less",
    "LessOrEqual": "less_equal", "Greater": "greater", "GreaterOrEqual": "greater_equal", "Equal": "equal",
    "And": "logical_and", "Or": "logical_or", "Xor": "not_equal",
}  # fmt: skip

COMPARISONS = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_and", "logical_or"}

ELEMENT_TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
                 10: "float16", 11: "float64", 12: "uint32", 13: "uint64"}  # fmt: skip


OTHER_TYPES = {8: "string", 14: "complex64", 15: "complex128", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz",
               19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0",
               25: "uint2", 26: "int2"}  # fmt: skip


def type_name(code: int) -> str:
    """Names an element type, as ONNX numbers them."""
    return ELEMENT_TYPES.get(code) or OTHER_TYPES.get(code) or f"number {code}"


@translates(*UNARY)
def unary(node: Node) -> None:
    row = UNARY[node.kind]
    attrs = {key: node.number(key, default) for key, default in row.attrs.items()}
    node.result(row.kind, [node.input(0)], attrs, dtype="bool" if row.boolean else None)


@translates("Identity")
def identity(node: Node) -> None:
    node.bind(node.outputs[0], node.stored(0))


@translates(*BINARY)
def binary(node: Node) -> None:
    kind = BINARY[node.kind]
    node.result(kind, [node.input(0), node.input(1)], dtype="bool" if kind in COMPARISONS else None)


@translates("Min", "Max", "Sum", "Mean")
def variadic(node: Node) -> None:
    """More than two inputs are taken one after the other; real numbers in between lose nothing."""
    kind = {"Min": "minimum", "Max": "maximum"}.get(node.kind, "add")
    total, *rest = node.all_inputs()
    for value in rest:
        total = node.step(kind, [total, value], {})
    if node.kind == "Mean" and rest:
        count = node.builder.constant(f"{node.name}:count", np.array(len(node.inputs), total.dtype))
        total = node.step("div", [total, count], {})
    node.bind(node.outputs[0], total)


@translates("Dropout")
def dropout(node: Node) -> None:
    """Nothing is dropped outside training."""
    if node.has(2) and bool(node.constant(2, "training_mode").any()):
        raise UnsupportedError("Dropout in training", where=node.name)
    x = node.stored(0)
    node.bind(node.outputs[0], x)
    if len(node.outputs) > 1 and node.outputs[1]:
        kept = node.builder.constant(node.outputs[1], np.ones(x.shape, np.bool_))
        node.builder.bind(node.outputs[1], kept)


@translates("Clip")
def clip(node: Node) -> None:
    """Bounds that are computed are taken one after the other."""
    x, bounds = node.input(0), {"low": node.number("min", -np.inf), "high": node.number("max", np.inf)}
    for index, (key, kind) in enumerate((("low", "maximum"), ("high", "minimum")), start=1):
        if not node.has(index):
            continue
        if node.input(index).is_constant:
            bounds[key] = float(node.constant(index, "bounds").reshape(-1)[0])
        else:
            x = node.step(kind, [x, node.input(index)], {})
    if any(np.isfinite(bound) for bound in bounds.values()):
        x = node.step("clip", [x], bounds)
    node.bind(node.outputs[0], x)


@translates("Gelu", "com.microsoft.Gelu")
def gelu(node: Node) -> None:
    node.result("gelu", [node.input(0)], {"approximate": node.text("approximate", "none") == "tanh"})


@translates("Softmax", "LogSoftmax")
def softmax(node: Node) -> None:
    """Before opset 13 over all axes from the given one on."""
    x = node.input(0)
    kind = "softmax" if node.kind == "Softmax" else "log_softmax"
    axis = node.axis(node.integer("axis", 1 if node.opset < 13 else -1), len(x.shape))
    if node.opset >= 13 or all(dim == 1 for dim in x.shape[axis + 1 :]):
        node.result(kind, [x], {"axis": axis, "beta": 1.0})
        return
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    flat = node.step("reshape", [x], {}, (rows, x.elements // max(1, rows)))
    made = node.step(kind, [flat], {"axis": 1, "beta": 1.0})
    node.bind(node.outputs[0], node.step("reshape", [made], {}, x.shape))


@translates("Where")
def where(node: Node) -> None:
    inputs = [node.input(i) for i in range(3)]
    dtype, quant = node.type_of("select", inputs[1:])
    node.result("select", inputs, dtype=dtype, quant=quant)


@translates("Cast")
def cast(node: Node) -> None:
    code = node.integer("to", 0)
    if code not in ELEMENT_TYPES:
        raise UnsupportedError(f"Cast to {type_name(code)}", where=node.name)
    _cast(node, ELEMENT_TYPES[code])


@translates("CastLike")
def cast_like(node: Node) -> None:
    like = node.stored(1)
    real = like.quant is not None and node.inputs[1] not in node.builder.codes
    _cast(node, "float32" if real else like.dtype)


def _cast(node: Node, dtype: str) -> None:
    x = node.stored(0)
    if x.quant is not None and dtype == x.dtype and node.reads_codes:
        node.bind(node.outputs[0], x)  # PyTorch writes such casts of codes
        return
    node.result("cast", [node.builder.unquantised(node.input(0))], dtype=dtype)


@translates("ArgMax", "ArgMin")
def arg_extreme(node: Node) -> None:
    x = node.stored(0)
    axis = node.axis(node.integer("axis", 0), len(x.shape))
    kept = [1] if node.integer("keepdims", 1) else []
    shape = (*x.shape[:axis], *kept, *x.shape[axis + 1 :])
    kind = "arg_max" if node.kind == "ArgMax" else "arg_min"
    if not node.integer("select_last_index", 0):
        node.result(kind, [x], {"axis": axis}, shape=shape, dtype="int64")
        return
    turned = node.step("reverse", [x], {"axes": (axis,)})
    found = node.step(kind, [turned], {"axis": axis}, shape, dtype="int64")
    last = node.builder.constant(f"{node.name}:last", np.array(x.shape[axis] - 1, np.int64))
    node.bind(node.outputs[0], node.step("sub", [last, found], {}, dtype="int64"))
