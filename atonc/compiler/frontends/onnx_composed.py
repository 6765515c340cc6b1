"""ONNX nodes that are a few operators in a row. On codes they become one table again (passes/make_tables.py)."""

from __future__ import annotations

import numpy as np

from atonc.compiler.frontends.onnx_node import Node, translates
from atonc.compiler.ir import Tensor
from atonc.machine.base.errors import UnsupportedError

SELU = (1.67326319217681884765625, 1.05070102214813232421875)


def number(node: Node, value: float, like: Tensor) -> Tensor:
    """A constant of the type that the node computes with."""
    dtype = "float32" if like.quant is not None else like.dtype
    return node.builder.constant(f"{node.name}:number", np.array(value, dtype))


@translates("Selu")
def selu(node: Node) -> None:
    alpha, gamma = node.number("alpha", SELU[0]), node.number("gamma", SELU[1])
    made = node.step("elu", [node.input(0)], {"alpha": alpha})
    node.result("mul", [made, number(node, gamma, made)])


@translates("Celu")
def celu(node: Node) -> None:
    """alpha * elu(x / alpha)"""
    x, alpha = node.input(0), node.number("alpha", 1.0)
    made = node.step("div", [x, number(node, alpha, x)], {})
    made = node.step("elu", [made], {"alpha": 1.0})
    node.result("mul", [made, number(node, alpha, made)])


@translates("Swish")
def swish(node: Node) -> None:
    x, alpha = node.input(0), node.number("alpha", 1.0)
    if alpha == 1.0:
        node.result("silu", [x])
        return
    made = node.step("logistic", [node.step("mul", [x, number(node, alpha, x)], {})], {})
    node.result("mul", [x, made])


@translates("ThresholdedRelu")
def thresholded_relu(node: Node) -> None:
    x = node.input(0)
    above = node.step("greater", [x, number(node, node.number("alpha", 1.0), x)], {}, dtype="bool")
    choose(node, above, x, number(node, 0.0, x))


def choose(node: Node, condition: Tensor, a: Tensor, b: Tensor) -> None:
    dtype, quant = node.type_of("select", [a, b])
    node.result("select", [condition, a, b], dtype=dtype, quant=quant)


@translates("Shrink")
def shrink(node: Node) -> None:
    x, bias, limit = node.input(0), node.number("bias", 0.0), node.number("lambd", 0.5)
    if not x.is_float and x.quant is None:
        raise UnsupportedError("Shrink of integers", where=node.name)
    high = node.step("greater", [x, number(node, limit, x)], {}, dtype="bool")
    low = node.step("less", [x, number(node, -limit, x)], {}, dtype="bool")
    lower, upper = (node.step("add", [x, number(node, sign * bias, x)], {}) for sign in (1, -1))
    inner = node.step("select", [high, upper, number(node, 0.0, upper)], {}, dtype=upper.dtype)
    choose(node, low, lower, inner)


@translates("Softsign")
def softsign(node: Node) -> None:
    x = node.input(0)
    size = node.step("abs", [x], {})
    node.result("div", [x, node.step("add", [size, number(node, 1.0, size)], {})])


@translates("IsNaN")
def is_nan(node: Node) -> None:
    node.result("not_equal", [node.input(0), node.input(0)], dtype="bool")


@translates("IsInf")
def is_inf(node: Node) -> None:
    """What is equal to itself but has no difference to itself."""
    x = node.input(0)
    rest = node.step("sub", [x, x], {})
    parts = [
        node.step("not_equal", [rest, rest], {}, dtype="bool"),
        node.step("equal", [x, x], {}, dtype="bool"),
    ]
    for key, kind in (("detect_positive", "less"), ("detect_negative", "greater")):
        if not node.integer(key, 1):
            parts.append(node.step(kind, [x, number(node, 0.0, x)], {}, dtype="bool"))
    made = parts[0]
    for part in parts[1:]:
        made = node.step("logical_and", [made, part], {}, dtype="bool")
    node.bind(node.outputs[0], made)


@translates("Mod")
def remainder(node: Node) -> None:
    """Translates a remainder with the sign of the divisor, or with `fmod` that of the dividend."""
    a, b = node.input(0), node.input(1)
    node.result("fmod" if node.integer("fmod", 0) else "floor_mod", [a, b])


@translates("Pow")
def power(node: Node) -> None:
    a, b = node.input(0), node.input(1)
    whole = not a.is_float and a.quant is None
    if whole and (b.is_float or b.quant is not None):
        raise UnsupportedError("Pow of integers to a float power", where=node.name)
    exponent = float(b.data.reshape(-1)[0]) if b.data is not None and b.elements == 1 and b.quant is None else None
    kind = {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}.get(exponent or 0.0)
    if kind is not None and not whole and len(b.shape) <= len(a.shape):
        node.result(kind, [a])
        return
    node.result("pow", [a, b], dtype=a.dtype if a.is_float or whole else "float32")


@translates("Hardmax")
def hardmax(node: Node) -> None:
    """1 at the first largest value, else 0."""
    x = node.input(0)
    axis = node.axis(node.integer("axis", 1 if node.opset < 13 else -1), len(x.shape))
    if node.opset < 13 and any(dim != 1 for dim in x.shape[axis + 1 :]):
        raise UnsupportedError("Hardmax over several axes (opset below 13)", where=node.name)
    shape = tuple(1 if k == axis else dim for k, dim in enumerate(x.shape))
    found = node.step("arg_max", [x], {"axis": axis}, shape, dtype="int64")
    places = np.arange(x.shape[axis]).reshape(tuple(-1 if k == axis else 1 for k in range(len(x.shape))))
    there = node.step("equal", [found, node.builder.constant(f"{node.name}:places", places)], {}, dtype="bool")
    node.result("cast", [there], dtype=x.dtype if x.is_float else "float32")
