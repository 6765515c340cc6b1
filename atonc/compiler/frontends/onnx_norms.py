"""ONNX nodes that reduce or normalise: sums along axes, and what is built from them."""

from __future__ import annotations

import numpy as np

from atonc.compiler.frontends.onnx_composed import number
from atonc.compiler.frontends.onnx_node import Node, translates
from atonc.compiler.ir import Tensor
from atonc.machine.base.errors import ModelError, UnsupportedError

REDUCTIONS = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "reduce_max", "ReduceMin": "reduce_min",
              "ReduceProd": "reduce_prod"}  # fmt: skip
BEFORE = {"ReduceL1": "abs", "ReduceL2": "square", "ReduceSumSquare": "square"}
BEHIND = {"ReduceL2": "sqrt", "ReduceLogSum": "log"}


# --- reductions ----------------------------------------------------------------------------------------------------


def _axes(node: Node, rank: int) -> tuple[int, ...]:
    axes = node.integers_of("axes", 1) or list(range(rank))
    return tuple(sorted({node.axis(a, rank) for a in axes}))


def reduced(node: Node, kind: str, x: Tensor, axes: tuple[int, ...], keep: bool = True) -> Tensor:
    return node.step(kind, [x], {"axes": axes, "keepdims": keep})


@translates(*REDUCTIONS)
def reduce(node: Node) -> None:
    x = node.input(0)
    if not node.integers_of("axes", 1) and node.integer("noop_with_empty_axes", 0):
        node.bind(node.outputs[0], node.stored(0))
        return
    _require_values(node, x)
    keep = bool(node.integer("keepdims", 1))
    node.bind(node.outputs[0], reduced(node, REDUCTIONS[node.kind], x, _axes(node, len(x.shape)), keep))


def _require_values(node: Node, x: Tensor) -> None:
    if not x.elements:
        raise UnsupportedError(f"{node.kind} of no values", where=node.name)
    if node.integer("noop_with_empty_axes", 0) and not node.integers_of("axes", 1):
        raise UnsupportedError(f"{node.kind} without axes", where=node.name)


@translates("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum")
def reduce_norm(node: Node) -> None:
    x = node.input(0)
    _require_values(node, x)
    if node.kind in BEHIND and not x.is_float and x.quant is None:
        raise UnsupportedError(f"{node.kind} of integers", where=node.name)
    made = node.step(BEFORE[node.kind], [x], {}) if node.kind in BEFORE else x
    made = reduced(node, "sum", made, _axes(node, len(x.shape)), bool(node.integer("keepdims", 1)))
    node.bind(node.outputs[0], node.step(BEHIND[node.kind], [made], {}) if node.kind in BEHIND else made)


@translates("ReduceLogSumExp")
def reduce_log_sum_exp(node: Node) -> None:
    """The largest value is taken out, so that no power is infinite."""
    x = node.input(0)
    _require_values(node, x)
    if not x.is_float and x.quant is None:
        raise UnsupportedError("ReduceLogSumExp of integers", where=node.name)
    axes, keep = _axes(node, len(x.shape)), bool(node.integer("keepdims", 1))
    largest = reduced(node, "reduce_max", x, axes)
    total = reduced(node, "sum", node.step("exp", [node.step("sub", [x, largest], {})], {}), axes)
    made = node.step("add", [node.step("log", [total], {}), largest], {})
    shape = tuple(dim for axis, dim in enumerate(made.shape) if axis not in axes)
    node.bind(node.outputs[0], made if keep else node.step("reshape", [made], {}, shape))


# --- norms ---------------------------------------------------------------------------------------------------------


def _along(node: Node, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    return values if values.shape == shape else node.step("reshape", [values], {}, shape)


def _scaled(node: Node, x: Tensor, gain: Tensor | None, offset: Tensor | None) -> Tensor:
    if gain is not None:
        x = node.step("mul", [x, gain], {})
    return x if offset is None else node.step("add", [x, offset], {})


def _centred(node: Node, x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The mean, and the differences to it."""
    mean = reduced(node, "mean", x, axes)
    return mean, node.step("sub", [x, mean], {})


def _inverse_length(node: Node, x: Tensor, axes: tuple[int, ...], epsilon: float) -> Tensor:
    """1 / sqrt(mean of squares + epsilon)"""
    mean = reduced(node, "mean", node.step("square", [x], {}), axes)
    return node.step("rsqrt", [node.step("add", [mean, number(node, epsilon, mean)], {})], {})


@translates("LayerNormalization")
def layer_norm(node: Node) -> None:
    x = node.input(0)
    axes = tuple(range(node.axis(node.integer("axis", -1), len(x.shape)), len(x.shape)))
    mean, centred = _centred(node, x, axes)
    inverse = _inverse_length(node, centred, axes, node.number("epsilon", 1e-5))
    made = _scaled(node, node.step("mul", [centred, inverse], {}), node.optional(1), node.optional(2))
    for name, tensor in zip(node.outputs, (made, mean, inverse), strict=False):
        if name:
            node.bind(name, tensor)


@translates("RMSNormalization")
def rms_norm(node: Node) -> None:
    x = node.input(0)
    axes = tuple(range(node.axis(node.integer("axis", -1), len(x.shape)), len(x.shape)))
    inverse = _inverse_length(node, x, axes, node.number("epsilon", 1e-5))
    node.bind(node.outputs[0], _scaled(node, node.step("mul", [x, inverse], {}), node.optional(1), None))


@translates("InstanceNormalization")
def instance_norm(node: Node) -> None:
    x = node.input(0)
    axes = tuple(range(2, len(x.shape)))
    shape = (x.shape[1], *(1 for _ in axes))
    _, centred = _centred(node, x, axes)
    made = node.step("mul", [centred, _inverse_length(node, centred, axes, node.number("epsilon", 1e-5))], {})
    node.bind(node.outputs[0], _scaled(node, made, *(_along(node, node.input(k), shape) for k in (1, 2))))


@translates("GroupNormalization")
def group_norm(node: Node) -> None:
    """Gains and offsets are for channels; before opset 21, for groups."""
    x, groups = node.input(0), node.integer("num_groups", 1)
    if len(x.shape) < 3 or groups < 1 or x.shape[1] % groups:
        raise ModelError(f"{groups} groups in shape {x.shape}", where=node.name)
    whole = (x.shape[0], groups, x.elements // (x.shape[0] * groups))
    _, centred = _centred(node, node.step("reshape", [x], {}, whole), (2,))
    made = node.step("mul", [centred, _inverse_length(node, centred, (2,), node.number("epsilon", 1e-5))], {})
    if node.opset < 21:
        made = _scaled(node, made, *(_along(node, node.input(k), (groups, 1)) for k in (1, 2)))
        node.bind(node.outputs[0], node.step("reshape", [made], {}, x.shape))
        return
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))
    made = node.step("reshape", [made], {}, x.shape)
    node.bind(node.outputs[0], _scaled(node, made, *(_along(node, node.input(k), shape) for k in (1, 2))))


@translates("MeanVarianceNormalization")
def mean_variance_norm(node: Node) -> None:
    x = node.input(0)
    axes = tuple(sorted(node.axis(a, len(x.shape)) for a in node.ints("axes", (0, 2, 3))))
    _, centred = _centred(node, x, axes)
    length = node.step("sqrt", [reduced(node, "mean", node.step("square", [centred], {}), axes)], {})
    node.result("div", [centred, node.step("add", [length, number(node, 1e-9, length)], {})])


@translates("LpNormalization")
def lp_norm(node: Node) -> None:
    """Divided by its length; what has no length stays zero."""
    x, p = node.input(0), node.integer("p", 2)
    if p not in (1, 2):
        raise ModelError(f"LpNormalization with p = {p}", where=node.name)
    axes = (node.axis(node.integer("axis", -1), len(x.shape)),)
    length = reduced(node, "sum", node.step("abs" if p == 1 else "square", [x], {}), axes)
    length = length if p == 1 else node.step("sqrt", [length], {})
    empty = node.step("equal", [length, number(node, 0.0, length)], {}, dtype="bool")
    made = node.step("div", [x, length], {})
    node.result("select", [empty, number(node, 0.0, made), made], dtype=made.dtype)


@translates("BatchNormalization")
def batch_norm(node: Node) -> None:
    x, rest = node.input(0), [node.input(k) for k in range(1, 5)]
    if node.integer("training_mode", 0) or any(node.outputs[1:]) or node.integer("spatial", 1) != 1:
        raise UnsupportedError("BatchNormalization in training", where=node.name)
    epsilon = node.number("epsilon", 1e-5)
    if all(tensor.is_constant for tensor in rest):
        node.result("batch_norm", [x, *rest], {"axis": 1, "epsilon": epsilon})
        return
    shape = (x.shape[1], *(1 for _ in x.shape[2:]))
    gain, offset, mean, variance = (_along(node, tensor, shape) for tensor in rest)
    inverse = node.step("rsqrt", [node.step("add", [variance, number(node, epsilon, variance)], {})], {})
    made = node.step("mul", [node.step("sub", [x, mean], {}), inverse], {})
    node.bind(node.outputs[0], _scaled(node, made, gain, offset))


# --- windows -------------------------------------------------------------------------------------------------------


def root(node: Node, x: Tensor, power: int) -> Tensor:
    if power == 1:
        return x
    if power == 2:
        return node.step("sqrt", [x], {})
    return node.step("pow", [x, number(node, 1.0 / power, x)], {})


@translates("GlobalLpPool")
def global_lp_pool(node: Node) -> None:
    x, power = node.input(0), node.integer("p", 2)
    if power < 1:
        raise ModelError(f"GlobalLpPool with p = {power}", where=node.name)
    made = reduced(node, "sum", powers(node, x, power), tuple(range(2, len(x.shape))))
    node.bind(node.outputs[0], root(node, made, power))


def powers(node: Node, x: Tensor, power: int) -> Tensor:
    """Raises the magnitudes of values to a power."""
    size = node.step("abs", [x], {})
    if power == 1:
        return size
    if power == 2:
        return node.step("square", [x], {})
    return node.step("pow", [size, node.builder.constant(f"{node.name}:p", np.array(power, np.float32))], {})
