"""ONNX nodes that work element by element or reduce."""

from __future__ import annotations

import numpy as np

from atonc.errors import UnsupportedError
from atonc.frontends.onnx_node import Node, translates
from atonc.ir import Tensor
from atonc.ops.shapes import broadcast

UNARY = {
    "Sigmoid": "logistic", "Tanh": "tanh", "HardSwish": "hard_swish", "Mish": "mish", "Softplus": "softplus",
    "Exp": "exp", "Log": "log", "Sqrt": "sqrt", "Abs": "abs", "Neg": "neg", "Sign": "sign", "Floor": "floor",
    "Ceil": "ceil", "Round": "round", "Sin": "sin", "Cos": "cos", "Erf": "erf", "Reciprocal": "reciprocal",
    "Relu": "relu", "Not": "logical_not", "Identity": "identity", "Dropout": "identity",
}  # fmt: skip

BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Pow": "pow", "PRelu": "prelu", "Less": "less",
    "LessOrEqual": "less_equal", "Greater": "greater", "GreaterOrEqual": "greater_equal", "Equal": "equal",
    "And": "logical_and", "Or": "logical_or",
}  # fmt: skip

COMPARISONS = {"less", "less_equal", "greater", "greater_equal", "equal", "logical_and", "logical_or", "logical_not"}

REDUCTIONS = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "reduce_max", "ReduceMin": "reduce_min",
              "ReduceProd": "reduce_prod"}  # fmt: skip

ELEMENT_TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
                 10: "float16", 11: "float64", 12: "uint32", 13: "uint64"}  # fmt: skip


@translates(*UNARY)
def unary(node: Node) -> None:
    kind = UNARY[node.kind]
    if kind == "identity":
        node.bind(node.outputs[0], node.stored(0))
        return
    node.result(kind, [node.input(0)], dtype="bool" if kind in COMPARISONS else None)


@translates(*BINARY)
def binary(node: Node) -> None:
    kind = BINARY[node.kind]
    node.result(kind, [node.input(0), node.input(1)], dtype="bool" if kind in COMPARISONS else None)


@translates("Min", "Max", "Sum")
def variadic(node: Node) -> None:
    """More than two inputs are taken one after the other; real numbers in between lose nothing."""
    kind = {"Min": "minimum", "Max": "maximum", "Sum": "add"}[node.kind]
    inputs = node.all_inputs()
    if len(inputs) == 1:
        node.builder.bind(node.outputs[0], inputs[0])
        return
    total = inputs[0]
    for index, value in enumerate(inputs[1:-1], start=1):
        shape = broadcast([total.shape, value.shape])
        dtype, quant = node.type_of(kind, [total, value])
        made = Tensor(f"{node.outputs[0]}:{index}", shape, dtype, quant)
        total = node.builder.emit(kind, f"{node.name}:{index}", [total, value], [made], {})[0]
    node.result(kind, [total, inputs[-1]])


@translates("Clip")
def clip(node: Node) -> None:
    bounds = [node.number("min", -np.inf), node.number("max", np.inf)]
    for i in (1, 2):
        if node.has(i):
            bounds[i - 1] = float(node.constant(i, "bounds").reshape(-1)[0])
    node.result("clip", [node.input(0)], {"low": bounds[0], "high": bounds[1]})


@translates("LeakyRelu")
def leaky_relu(node: Node) -> None:
    node.result("leaky_relu", [node.input(0)], {"alpha": node.number("alpha", 0.01)})


@translates("Elu")
def elu(node: Node) -> None:
    node.result("elu", [node.input(0)], {"alpha": node.number("alpha", 1.0)})


@translates("Swish")
def swish(node: Node) -> None:
    if node.number("alpha", 1.0) != 1.0:
        raise UnsupportedError("Swish with alpha", where=node.name)
    node.result("silu", [node.input(0)])


@translates("HardSigmoid")
def hard_sigmoid(node: Node) -> None:
    node.result("hard_sigmoid", [node.input(0)], {"alpha": node.number("alpha", 0.2), "beta": node.number("beta", 0.5)})


@translates("Gelu", "com.microsoft.Gelu")
def gelu(node: Node) -> None:
    node.result("gelu", [node.input(0)], {"approximate": node.text("approximate", "none") == "tanh"})


@translates("Softmax", "LogSoftmax")
def softmax(node: Node) -> None:
    x = node.input(0)
    axis = node.axis(node.integer("axis", 1 if node.opset < 13 else -1), len(x.shape))
    if node.opset < 13 and axis != len(x.shape) - 1 and any(dim != 1 for dim in x.shape[axis + 1 :]):
        raise UnsupportedError("Softmax over several axes (opset below 13)", where=node.name)
    kind = "softmax" if node.kind == "Softmax" else "log_softmax"
    node.result(kind, [x], {"axis": axis, "beta": 1.0})


@translates("BatchNormalization")
def batch_norm(node: Node) -> None:
    attrs = {"axis": 1, "epsilon": node.number("epsilon", 1e-5)}
    node.result("batch_norm", [node.input(i) for i in range(5)], attrs)


@translates("Where")
def where(node: Node) -> None:
    inputs = [node.input(i) for i in range(3)]
    dtype, quant = node.type_of("select", inputs[1:])
    node.result("select", inputs, dtype=dtype, quant=quant)


@translates("Cast")
def cast(node: Node) -> None:
    code = node.integer("to", 0)
    if code not in ELEMENT_TYPES:
        raise UnsupportedError(f"Cast to element type {code}", where=node.name)
    x, dtype = node.stored(0), ELEMENT_TYPES[code]
    if x.quant is not None and dtype == x.dtype and node.reads_codes:
        node.bind(node.outputs[0], x)  # PyTorch writes such casts of codes
        return
    node.result("cast", [x if node.reads_codes else node.builder.unquantised(x)], dtype=dtype)


@translates(*REDUCTIONS)
def reduce(node: Node) -> None:
    x = node.input(0)
    axes = node.integers_of("axes", 1)
    if not axes:
        if node.integer("noop_with_empty_axes", 0):
            raise UnsupportedError(f"{node.kind} without axes", where=node.name)
        axes = list(range(len(x.shape)))
    attrs = {
        "axes": tuple(sorted({node.axis(a, len(x.shape)) for a in axes})),
        "keepdims": bool(node.integer("keepdims", 1)),
    }
    node.result(REDUCTIONS[node.kind], [x], attrs)


@translates("ArgMax", "ArgMin")
def arg_extreme(node: Node) -> None:
    x = node.stored(0)
    axis = node.axis(node.integer("axis", 0), len(x.shape))
    if node.integer("select_last_index", 0):
        raise UnsupportedError(f"{node.kind} that takes the last index", where=node.name)
    kept = [1] if node.integer("keepdims", 1) else []
    shape = (*x.shape[:axis], *kept, *x.shape[axis + 1 :])
    kind = "arg_max" if node.kind == "ArgMax" else "arg_min"
    node.result(kind, [x], {"axis": axis}, shape=shape, dtype="int64")
