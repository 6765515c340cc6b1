"""ONNX nodes that move, cut or resize values, and constants."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from atonc.compiler.frontends.onnx_elements import ELEMENT_TYPES
from atonc.compiler.frontends.onnx_node import Node, translates
from atonc.compiler.ir import Tensor
from atonc.machine.base.errors import ModelError, UnsupportedError
from atonc.machine.base.words import count

INT64_EDGE = (1 << 63) - 2


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
    dims = node.stored(0).shape
    dims = dims[slice(node.integer("start", 0), node.attrs.get("end"))]
    node.builder.bind(node.outputs[0], node.builder.constant(node.outputs[0], np.array(dims, np.int64)))


@translates("Size")
def size_of(node: Node) -> None:
    count = np.array(node.stored(0).elements, np.int64)
    node.builder.bind(node.outputs[0], node.builder.constant(node.outputs[0], count))


@translates("Range")
def number_range(node: Node) -> None:
    start, limit, delta = (node.constant(k, "bounds").reshape(-1)[0] for k in range(3))
    count = max(0, math.ceil((float(limit) - float(start)) / float(delta))) if delta else -1
    if not 0 <= count <= 1 << 24:
        raise ModelError(f"Range from {start} to {limit} in steps of {delta}", where=node.name)
    values = (start + np.arange(count) * delta).astype(start.dtype)
    node.builder.bind(node.outputs[0], node.builder.constant(node.outputs[0], values))


@translates("EyeLike")
def eye_like(node: Node) -> None:
    x = node.stored(0)
    dtype = ELEMENT_TYPES.get(node.integer("dtype", 0), x.dtype if x.quant is None else "float32")
    if len(x.shape) != 2 or x.elements > 1 << 24:
        raise ModelError(f"EyeLike of shape {x.shape}", where=node.name)
    values = np.eye(*x.shape, k=node.integer("k", 0), dtype=dtype)
    node.builder.bind(node.outputs[0], node.builder.constant(node.outputs[0], values))


@translates("Trilu")
def triangle(node: Node) -> None:
    """Zeros below a diagonal, or above it."""
    x = node.input(0)
    if len(x.shape) < 2:
        raise ModelError(f"Trilu of shape {x.shape}", where=node.name)
    k = node.integers(1, "a diagonal")[0] if node.has(1) else 0
    cut = np.triu if node.integer("upper", 1) else np.tril
    mask = node.builder.constant(f"{node.name}:mask", cut(np.ones(x.shape[-2:], np.bool_), k))
    dtype, _ = node.type_of("select", [x])
    zero = node.builder.constant(f"{node.name}:zero", np.zeros((), dtype))
    node.result("select", [mask, x, zero], dtype=dtype)


@translates("Reshape")
def reshape(node: Node) -> None:
    x = node.stored(0)
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
    x = node.stored(0)
    axis = node.integer("axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    _reshaped(node, x, [rows, -1])


@translates("Squeeze")
def squeeze(node: Node) -> None:
    x = node.stored(0)
    axes = node.integers_of("axes", 1)
    drop = (
        {i for i, dim in enumerate(x.shape) if dim == 1} if axes is None else {node.axis(a, len(x.shape)) for a in axes}
    )
    _reshaped(node, x, [dim for i, dim in enumerate(x.shape) if i not in drop])


@translates("Unsqueeze")
def unsqueeze(node: Node) -> None:
    x = node.stored(0)
    axes = node.integers_of("axes", 1, ())
    rank = len(x.shape) + len(axes or ())
    places = {node.axis(a, rank) for a in axes or ()}
    dims = iter(x.shape)
    _reshaped(node, x, [1 if i in places else next(dims) for i in range(rank)])


@translates("Transpose")
def transpose(node: Node) -> None:
    x = node.stored(0)
    perm = node.ints("perm", tuple(reversed(range(len(x.shape)))))
    if sorted(perm) != list(range(len(x.shape))):
        raise ModelError(f"{perm} is not a permutation", where=node.name)
    node.result("transpose", [x], {"perm": perm})


@translates("Concat")
def concat(node: Node) -> None:
    parts = node.joined()
    if not parts:
        raise ModelError("Concat joins nothing", where=node.name)
    node.result("concat", parts, {"axis": node.axis(node.integer("axis", 0), len(parts[0].shape))})


@translates("Split")
def split(node: Node) -> None:
    x = node.stored(0)
    axis = node.axis(node.integer("axis", 0), len(x.shape))
    parts = len(node.outputs)
    size = -(-x.shape[axis] // parts)
    default = [size] * (parts - 1) + [x.shape[axis] - size * (parts - 1)]
    sizes = node.integers_of("split", 1, default) or default
    given = "split" in node.attrs or node.has(1)
    if len(sizes) != parts or sum(sizes) != x.shape[axis] or min(sizes) < (0 if given else 1):
        raise ModelError(f"{x.shape} cannot be split into {sizes} along axis {axis}", where=node.name)
    dtype, quant = node.type_of("split", [x])
    tensors = [
        Tensor(name, (*x.shape[:axis], part, *x.shape[axis + 1 :]), dtype, quant)
        for name, part in zip(node.outputs, sizes, strict=True)
    ]
    for name, made in zip(
        node.outputs, node.builder.emit("split", node.name, [x], tensors, {"axis": axis}), strict=True
    ):
        node.bind(name, made)


@translates("Slice")
def slice_values(node: Node) -> None:
    x = node.stored(0)
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
    x = node.stored(0)
    axis = node.axis(node.integer("axis", 0), len(x.shape))
    _require_inside(node, node.input(1), (x.shape[axis],))
    node.result("gather", [x, node.input(1)], {"axis": axis})


def _require_inside(node: Node, indices: Tensor, sizes: tuple[int, ...]) -> None:
    """Indices that are known; `sizes` of one axis, or of as many as the last axis of the indices picks from."""
    if indices.data is None or np.all((indices.data >= -np.array(sizes)) & (indices.data < np.array(sizes))):
        return
    found = f"indices {int(indices.data.min())} to {int(indices.data.max())}"
    raise ModelError(f"{node.kind} with {found} along {' x '.join(map(str, sizes))} values", where=node.name)


@translates("GatherElements")
def gather_elements(node: Node) -> None:
    """Every index picks along one axis, at its own place along all others: positions in the flat tensor."""
    x, indices = node.stored(0), node.input(1)
    axis = node.axis(node.integer("axis", 0), len(x.shape))
    if len(indices.shape) != len(x.shape):
        raise ModelError(f"indices {indices.shape} for shape {x.shape}", where=node.name)
    _require_inside(node, indices, (x.shape[axis],))
    steps = [int(np.prod(x.shape[k + 1 :], dtype=np.int64)) for k in range(len(x.shape))]
    places = sum(
        np.arange(n).reshape(tuple(-1 if j == k else 1 for j in range(len(x.shape)))) * steps[k]
        for k, n in enumerate(indices.shape)
        if k != axis
    )
    size, step, zero = (
        node.builder.constant(f"{node.name}:{what}", np.array(value, np.int64))
        for what, value in (("size", x.shape[axis]), ("step", steps[axis]), ("zero", 0))
    )
    wide = node.step("cast", [indices], {}, dtype="int64")
    negative = node.step("less", [wide, zero], {}, dtype="bool")  # counts from the end
    inside = node.step("select", [negative, node.step("add", [wide, size], {}), wide], {}, dtype="int64")
    offset = node.builder.constant(f"{node.name}:places", np.asarray(places, np.int64))
    at = node.step("add", [node.step("mul", [inside, step], {}), offset], {})
    flat = node.step("reshape", [x], {}, (x.elements,))
    node.result("gather", [flat, at], {"axis": 0})


@translates("GatherND")
def gather_nd(node: Node) -> None:
    x, indices = node.stored(0), node.input(1)
    if not indices.shape:
        raise ModelError("GatherND with a single number as indices", where=node.name)
    if batches := node.integer("batch_dims", 0):
        indices = _with_batches(node, x, indices, batches)
    if not 1 <= indices.shape[-1] <= len(x.shape):
        raise ModelError(f"indices {indices.shape} for shape {x.shape}", where=node.name)
    _require_inside(node, indices, x.shape[: indices.shape[-1]])
    shape = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
    node.result("gather_nd", [x, indices], {}, shape=shape)


def _with_batches(node: Node, x: Tensor, indices: Tensor, batches: int) -> Tensor:
    """Every tuple of indices with the place of its batch in front: then there are no batches any more."""
    rows = indices.shape[:-1]
    if not 0 < batches <= len(rows) or rows[:batches] != x.shape[:batches]:
        raise ModelError(f"{batches} batch dimensions of {x.shape} and {indices.shape}", where=node.name)
    places = np.indices(rows)[:batches]
    grid = np.ascontiguousarray(np.moveaxis(places, 0, -1).astype(indices.dtype))
    if indices.data is not None:
        return node.builder.constant(f"{node.name}:indices", np.concatenate([grid, indices.data], axis=-1))
    attrs = {"axis": len(rows)}
    return node.step("concat", [node.builder.constant(f"{node.name}:batches", grid), indices], attrs)


@translates("Expand")
def expand(node: Node) -> None:
    x = node.stored(0)
    shape = tuple(int(d) for d in np.broadcast_shapes(x.shape, tuple(node.integers(1, "shape"))))
    node.result("expand", [x], {}, shape=shape)


@translates("Tile")
def tile(node: Node) -> None:
    x, repeats = node.stored(0), node.integers(1, "repeats")
    if len(repeats) != len(x.shape) or min(repeats, default=0) < 0:
        raise ModelError(f"{repeats} repeats of shape {x.shape}", where=node.name)
    node.result("tile", [x], {}, shape=tuple(n * r for n, r in zip(x.shape, repeats, strict=True)))


@translates("Pad")
def pad(node: Node) -> None:
    x = node.stored(0)
    rank = len(x.shape)
    flat = node.integers_of("pads", 1) or []
    axes = node.integers(3, "axes") if node.has(3) else list(range(rank))
    if len(flat) != 2 * len(axes):
        raise ModelError(f"{flat} are no paddings for {count(len(axes), 'axis', 'axes')}", where=node.name)
    pads = [(0, 0)] * rank
    for i, axis in enumerate(axes):
        pads[node.axis(axis, rank)] = (flat[i], flat[i + len(axes)])
    mode = node.text("mode", "constant")
    if mode == "wrap":
        node.bind(node.outputs[0], _wrapped(node, x, pads))
    elif mode in ("reflect", "edge"):
        node.result("pad", [x], {"pads": tuple(pads), "mode": mode})
    elif mode == "constant":
        value = float(node.constant(2, "value").reshape(-1)[0]) if node.has(2) else node.number("value", 0.0)
        node.bind(node.outputs[0], padded(node, x, pads, value))
    else:
        raise UnsupportedError(f"Pad in mode {mode}", where=node.name)


def padded(node: Node, x: Tensor, pads: Sequence[tuple[int, int]], value: float) -> Tensor:
    """With a constant: a code if the node reads codes, else a number that need not be a code of the input."""
    codes = x.quant is not None and x.quant.is_per_tensor and node.reads_codes
    real = (value - x.zero_point) * x.scale if codes else value
    dtype, quant = node.type_of("pad", [x])
    if x.quant is not None and real != 0.0 and not codes:
        dtype, quant = "float32", None
    return node.step("pad", [x], {"pads": tuple(pads), "mode": "constant", "value": real}, dtype=dtype, quant=quant)


def _wrapped(node: Node, x: Tensor, pads: Sequence[tuple[int, int]]) -> Tensor:
    """The other end follows behind each end; what is cut off is gone before that."""
    for axis, (before, after) in enumerate(pads):
        if before or after:
            kept = np.arange(x.shape[axis])[max(0, -before) : x.shape[axis] + min(0, after)]
            index = kept[np.arange(-max(0, before), kept.size + max(0, after)) % max(1, kept.size)]
            picked = node.builder.constant(f"{node.name}:index", index)
            x = node.step("gather", [x, picked], {"axis": axis})
    return x


@translates("DepthToSpace", "SpaceToDepth")
def space_depth(node: Node) -> None:
    attrs = {"block": node.integer("blocksize", 1), "layout": "NCHW", "order": node.text("mode", "DCR")}
    if attrs["block"] < 1:  # type: ignore[operator]
        raise ModelError(f"block size {attrs['block']}", where=node.name)
    kind = "depth_to_space" if node.kind == "DepthToSpace" else "space_to_depth"
    node.result(kind, [node.stored(0)], attrs)
