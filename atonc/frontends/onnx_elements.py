"""ONNX nodes that work element by element, move values or reduce."""

from __future__ import annotations

from typing import Any

import numpy as np

from atonc.errors import ModelError, UnsupportedError
from atonc.frontends.onnx_node import Node, translates
from atonc.ir import Tensor

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

INT64_EDGE = (1 << 63) - 2


@translates(*UNARY)
def unary(node: Node) -> None:
    kind = UNARY[node.kind]
    if kind == "identity":
        node.builder.bind(node.outputs[0], node.input(0))
        return
    node.result(kind, [node.input(0)], dtype="bool" if kind in COMPARISONS else None)


@translates(*BINARY)
def binary(node: Node) -> None:
    kind = BINARY[node.kind]
    node.result(kind, [node.input(0), node.input(1)], dtype="bool" if kind in COMPARISONS else None)


@translates("Min", "Max", "Sum")
def variadic(node: Node) -> None:
    if len(node.inputs) != 2:
        raise UnsupportedError(f"{node.kind} of {len(node.inputs)} inputs", where=node.name)
    kind = {"Min": "minimum", "Max": "maximum", "Sum": "add"}[node.kind]
    node.result(kind, [node.input(0), node.input(1)])


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
    x, dtype = node.input(0), ELEMENT_TYPES[code]
    if x.quant is not None and not dtype.startswith("float"):
        raise UnsupportedError("Cast of quantised values", where=node.name)
    node.result("identity" if x.quant is not None else "cast", [x], dtype=dtype)


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
    x = node.input(0)
    axis = node.axis(node.integer("axis", 0), len(x.shape))
    if node.integer("select_last_index", 0):
        raise UnsupportedError(f"{node.kind} that takes the last index", where=node.name)
    kept = [1] if node.integer("keepdims", 1) else []
    shape = (*x.shape[:axis], *kept, *x.shape[axis + 1 :])
    kind = "arg_max" if node.kind == "ArgMax" else "arg_min"
    node.result(kind, [x], {"axis": axis}, shape=shape, dtype="int64")


# --- shapes ----------------------------------------------------------------------------------------------------


@translates("Constant")
def constant(node: Node) -> None:
    value = next((node.attrs[key] for key in ("value", "value_float", "value_int", "value_floats", "value_ints")
                  if key in node.attrs), None)  # fmt: skip
    if value is None:
        raise UnsupportedError("Constant without a plain value", where=node.name)
    data = np.asarray(value)
    if data.dtype == np.float64:
        data = data.astype(np.float32)
    node.builder.bind(node.outputs[0], node.builder.constant(node.outputs[0], data))


@translates("ConstantOfShape")
def constant_of_shape(node: Node) -> None:
    shape = tuple(node.integers(0, "shape"))
    value = np.asarray(node.attrs.get("value", np.zeros(1, np.float32))).reshape(-1)
    if min(shape, default=0) < 0 or int(np.prod(shape, dtype=np.float64)) > 1 << 24 or value.size != 1:
        raise ModelError(f"constant of shape {shape}", where=node.name)
    node.builder.bind(node.outputs[0], node.builder.constant(node.outputs[0], np.full(shape, value[0])))


@translates("Shape")
def shape_of(node: Node) -> None:
    dims = node.input(0).shape
    dims = dims[slice(node.integer("start", 0), node.attrs.get("end"))]
    node.builder.bind(node.outputs[0], node.builder.constant(node.outputs[0], np.array(dims, np.int64)))


@translates("Reshape")
def reshape(node: Node) -> None:
    x = node.input(0)
    wanted = node.integers_of("shape", 1)
    if wanted is None:
        raise ModelError("Reshape without a shape", where=node.name)
    if not node.integer("allowzero", 0):
        wanted = [x.shape[i] if dim == 0 and i < len(x.shape) else dim for i, dim in enumerate(wanted)]
    _reshaped(node, x, wanted)


def _reshaped(node: Node, x: Tensor, wanted: list[int]) -> None:
    known = 1
    for dim in wanted:
        known *= dim if dim != -1 else 1
    if wanted.count(-1) == 1 and known > 0:
        wanted = [x.elements // known if dim == -1 else dim for dim in wanted]
    total = 1
    for dim in wanted:
        total *= dim
    if total != x.elements or min(wanted, default=0) < 0:
        raise ModelError(f"{x.shape} cannot become {tuple(wanted)}", where=node.name)
    node.result("reshape", [x], {}, shape=tuple(wanted))


@translates("Flatten")
def flatten(node: Node) -> None:
    x = node.input(0)
    axis = node.integer("axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    _reshaped(node, x, [rows, -1])


@translates("Squeeze")
def squeeze(node: Node) -> None:
    x = node.input(0)
    axes = node.integers_of("axes", 1)
    drop = (
        {i for i, dim in enumerate(x.shape) if dim == 1} if axes is None else {node.axis(a, len(x.shape)) for a in axes}
    )
    _reshaped(node, x, [dim for i, dim in enumerate(x.shape) if i not in drop])


@translates("Unsqueeze")
def unsqueeze(node: Node) -> None:
    x = node.input(0)
    axes = node.integers_of("axes", 1, ())
    rank = len(x.shape) + len(axes or ())
    places = {node.axis(a, rank) for a in axes or ()}
    dims = iter(x.shape)
    _reshaped(node, x, [1 if i in places else next(dims) for i in range(rank)])


@translates("Transpose")
def transpose(node: Node) -> None:
    x = node.input(0)
    perm = node.ints("perm", tuple(reversed(range(len(x.shape)))))
    if sorted(perm) != list(range(len(x.shape))):
        raise ModelError(f"{perm} is not a permutation", where=node.name)
    node.result("transpose", [x], {"perm": perm})


@translates("Concat")
def concat(node: Node) -> None:
    parts = node.all_inputs()
    if not parts:
        raise ModelError("Concat joins nothing", where=node.name)
    node.result("concat", parts, {"axis": node.axis(node.integer("axis", 0), len(parts[0].shape))})


@translates("Split")
def split(node: Node) -> None:
    x = node.input(0)
    axis = node.axis(node.integer("axis", 0), len(x.shape))
    parts = len(node.outputs)
    size = -(-x.shape[axis] // parts)
    default = [size] * (parts - 1) + [x.shape[axis] - size * (parts - 1)]
    sizes = node.integers_of("split", 1, default) or default
    if len(sizes) != parts or sum(sizes) != x.shape[axis] or min(sizes) < 0:
        raise ModelError(f"{x.shape} cannot be split into {sizes} along axis {axis}", where=node.name)
    dtype, quant = node.type_of("split", [x])
    tensors = [
        Tensor(name, (*x.shape[:axis], part, *x.shape[axis + 1 :]), dtype, quant)
        for name, part in zip(node.outputs, sizes, strict=True)
    ]
    for name, made in zip(
        node.outputs, node.builder.emit("split", node.name, [x], tensors, {"axis": axis}), strict=True
    ):
        node.builder.bind(name, made)


@translates("Slice")
def slice_values(node: Node) -> None:
    x = node.input(0)
    rank = len(x.shape)
    starts, stops = node.integers_of("starts", 1), node.integers_of("ends", 2)
    if starts is None or stops is None:
        raise ModelError("Slice without bounds", where=node.name)
    axes = node.integers_of("axes", 3, range(len(starts))) or []
    steps = node.integers_of("steps", 4, [1] * len(starts)) or []
    if not len(starts) == len(stops) == len(axes) == len(steps) or 0 in steps:
        raise ModelError("Slice with bounds of different lengths", where=node.name)
    windows: list[slice] = [slice(None)] * rank
    for start, stop, axis, step in zip(starts, stops, axes, steps, strict=True):
        windows[node.axis(axis, rank)] = slice(_bound(start), _bound(stop), step)
    shape = tuple(len(range(*window.indices(dim))) for window, dim in zip(windows, x.shape, strict=True))
    attrs = {
        "starts": tuple(w.start for w in windows),
        "stops": tuple(w.stop for w in windows),
        "steps": tuple(1 if w.step is None else w.step for w in windows),
    }
    node.result("slice", [x], attrs, shape=shape)


def _bound(value: int) -> int | None:
    """The edges of INT32 and INT64 mean: as far as there is."""
    return None if abs(value) >= INT64_EDGE or value in ((1 << 31) - 1, -(1 << 31)) else value


@translates("Gather")
def gather(node: Node) -> None:
    x = node.input(0)
    axis = node.axis(node.integer("axis", 0), len(x.shape))
    node.result("gather", [x, node.input(1)], {"axis": axis})


@translates("Expand")
def expand(node: Node) -> None:
    x = node.input(0)
    shape = tuple(int(d) for d in np.broadcast_shapes(x.shape, tuple(node.integers(1, "shape"))))
    node.result("expand", [x], {}, shape=shape)


@translates("Tile")
def tile(node: Node) -> None:
    x, repeats = node.input(0), node.integers(1, "repeats")
    if len(repeats) != len(x.shape) or min(repeats, default=0) < 0:
        raise ModelError(f"{repeats} repeats of shape {x.shape}", where=node.name)
    node.result("tile", [x], {}, shape=tuple(n * r for n, r in zip(x.shape, repeats, strict=True)))


@translates("Pad")
def pad(node: Node) -> None:
    x = node.input(0)
    rank = len(x.shape)
    flat = node.integers_of("pads", 1) or []
    axes = node.integers(3, "axes") if node.has(3) else list(range(rank))
    if len(flat) != 2 * len(axes):
        raise ModelError(f"{flat} are no paddings for {len(axes)} axes", where=node.name)
    pads = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pads[node.axis(axis, rank)] = (flat[i], flat[i + len(axes)])
    mode = node.text("mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise UnsupportedError(f"Pad in mode {mode}", where=node.name)
    attrs: dict[str, Any] = {"pads": tuple(pads), "mode": mode, "value": node.number("value", 0.0)}
    if node.has(2):
        attrs["value"] = float(node.constant(2, "value").reshape(-1)[0])
    if node.input(0).quant is not None and attrs["value"] != 0.0:
        dtype, quant = "float32", None  # the value need not be a code of the input
    else:
        dtype, quant = node.type_of("pad", [x])
    node.result("pad", [x], attrs, dtype=dtype, quant=quant)


@translates("Resize", "Upsample")
def resize(node: Node) -> None:
    x = node.input(0)
    old = node.kind == "Upsample" or node.opset < 11
    coordinates = "asymmetric" if old else node.text("coordinate_transformation_mode", "half_pixel")
    mode = node.text("mode", "nearest")
    scales, shape = _resize_target(node, x, 1 if old else 2)
    if mode not in ("nearest", "linear") or node.integer("antialias", 0):
        raise UnsupportedError(f"Resize in mode {mode}", where=node.name)
    attrs: dict[str, Any] = {"coordinates": coordinates, "scales": scales}
    if mode == "nearest":
        attrs["rounding"] = "floor" if old else node.text("nearest_mode", "round_prefer_floor")
    node.result("resize_nearest" if mode == "nearest" else "resize_linear", [x], attrs, shape=shape)


def _resize_target(node: Node, x: Tensor, index: int) -> tuple[tuple[float, ...] | None, tuple[int, ...]]:
    if node.has(index) and node.input(index).elements:
        scales = tuple(float(v) for v in node.constant(index, "scales").reshape(-1))
        if len(scales) != len(x.shape) or not all(0 < s < 1 << 16 for s in scales):
            raise ModelError(f"scales {scales} for shape {x.shape}", where=node.name)
        return scales, tuple(int(np.floor(n * s)) for n, s in zip(x.shape, scales, strict=True))
    sizes = tuple(node.integers(3, "sizes"))
    if len(sizes) != len(x.shape) or min(sizes) < 1:
        raise ModelError(f"sizes {sizes} for shape {x.shape}", where=node.name)
    return None, sizes


@translates("DepthToSpace", "SpaceToDepth")
def space_depth(node: Node) -> None:
    attrs = {"block": node.integer("blocksize", 1), "layout": "NCHW", "order": node.text("mode", "DCR")}
    if attrs["block"] < 1:  # type: ignore[operator]
        raise ModelError(f"block size {attrs['block']}", where=node.name)
    kind = "depth_to_space" if node.kind == "DepthToSpace" else "space_to_depth"
    node.result(kind, [node.input(0)], attrs)
