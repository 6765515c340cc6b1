"""ONNX nodes that move, cut or resize values, and constants.

onnxruntime works out where an output pixel of Resize lies in the input in single precision, and that decides which
pixel is the nearest. Where plain arithmetic finds the same pixels, the node is one operator; otherwise nearest pixels
are gathered by constant indices, and everything that blends pixels is a product with a constant matrix along each axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.frontends import limits
from atonc.compiler.frontends.onnx_builder import MAX_FOLDED_ELEMENTS, Node, translates
from atonc.compiler.frontends.onnx_elements import ELEMENT_TYPES
from atonc.compiler.ir import Array, Tensor
from atonc.compiler.ops.movement import nearest_index, source_positions
from atonc.compiler.ops.values import same_codes
from atonc.machine.base.errors import ModelError, UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

INT64_EDGE = (1 << 63) - 2


@translates("Constant")
def constant(node: Node) -> Tensor:
    value = next((node.attrs[key] for key in ("value", "value_float", "value_int", "value_floats", "value_ints")
                  if key in node.attrs), None)  # fmt: skip
    if value is None:
        raise UnsupportedError("Constant without a plain value", where=node.name)
    data = np.asarray(value)
    if data.dtype == np.float64:
        data = data.astype(np.float32)
    return node.builder.constant(node.outputs[0], data)


@translates("ConstantOfShape")
def constant_of_shape(node: Node) -> Tensor:
    shape = tuple(node.integers(0, "shape"))
    value = np.asarray(node.attrs.get("value", np.zeros(1, np.float32))).reshape(-1)
    if min(shape, default=0) < 0 or int(np.prod(shape, dtype=np.float64)) > 1 << 24 or value.size != 1:
        raise ModelError(f"constant of shape {shape}", where=node.name)
    return node.builder.constant(node.outputs[0], np.full(shape, value[0]))


@translates("Shape")
def shape_of(node: Node) -> Tensor:
    dims = node.stored(0).shape
    dims = dims[slice(node.integer("start", 0), node.attrs.get("end"))]
    return node.builder.constant(node.outputs[0], np.array(dims, np.int64))


@translates("Size")
def size_of(node: Node) -> Tensor:
    return node.builder.constant(node.outputs[0], np.array(node.stored(0).elements, np.int64))


@translates("Range")
def number_range(node: Node) -> Tensor:
    start, limit, delta = (node.constant(k, "bounds").reshape(-1)[0] for k in range(3))
    count = max(0, math.ceil((float(limit) - float(start)) / float(delta))) if delta else -1
    if not 0 <= count <= 1 << 24:
        raise ModelError(f"Range from {start} to {limit} in steps of {delta}", where=node.name)
    values = (start + np.arange(count) * delta).astype(start.dtype)
    return node.builder.constant(node.outputs[0], values)


@translates("EyeLike")
def eye_like(node: Node) -> Tensor:
    x = node.stored(0)
    dtype = ELEMENT_TYPES.get(node.integer("dtype", 0), x.dtype if x.quant is None else "float32")
    if len(x.shape) != 2 or x.elements > 1 << 24:
        raise ModelError(f"EyeLike of shape {x.shape}", where=node.name)
    values = np.eye(*x.shape, k=node.integer("k", 0), dtype=dtype)
    return node.builder.constant(node.outputs[0], values)


@translates("Trilu")
def triangle(node: Node) -> Tensor:
    """Zeros below a diagonal, or above it."""
    x = node.input(0)
    if len(x.shape) < 2:
        raise ModelError(f"Trilu of shape {x.shape}", where=node.name)
    k = node.integers(1, "a diagonal")[0] if node.has(1) else 0
    cut = np.triu if node.integer("upper", 1) else np.tril
    mask = node.builder.constant(f"{node.name}:mask", cut(np.ones(x.shape[-2:], np.bool_), k))
    dtype, _ = node.type_of("select", [x])
    zero = node.builder.constant(f"{node.name}:zero", np.zeros((), dtype))
    return node.step("select", mask, x, zero, dtype=dtype)


@translates("Reshape")
def reshape(node: Node) -> Tensor:
    x = node.stored(0)
    wanted = node.integers_of("shape", 1)
    if wanted is None:
        raise ModelError("Reshape without a shape", where=node.name)
    if not node.integer("allowzero", 0):
        wanted = [x.shape[i] if dim == 0 and i < len(x.shape) else dim for i, dim in enumerate(wanted)]
    return _reshaped(node, x, wanted)


def _reshaped(node: Node, x: Tensor, wanted: list[int]) -> Tensor:
    known = math.prod(dim for dim in wanted if dim != -1)
    if wanted.count(-1) == 1 and known > 0:
        wanted = [x.elements // known if dim == -1 else dim for dim in wanted]
    if math.prod(wanted) != x.elements or min(wanted, default=0) < 0:
        raise ModelError(f"{x.shape} cannot become {tuple(wanted)}", where=node.name)
    return node.step("reshape", x, shape=tuple(wanted))


@translates("Flatten")
def flatten(node: Node) -> Tensor:
    x = node.stored(0)
    axis = node.integer("axis", 1)
    axis = axis + len(x.shape) if axis < 0 else axis
    rows = int(np.prod(x.shape[:axis], dtype=np.int64))
    return _reshaped(node, x, [rows, -1])


@translates("Squeeze")
def squeeze(node: Node) -> Tensor:
    x = node.stored(0)
    axes = node.integers_of("axes", 1)
    drop = (
        {i for i, dim in enumerate(x.shape) if dim == 1} if axes is None else {node.axis(a, len(x.shape)) for a in axes}
    )
    return _reshaped(node, x, [dim for i, dim in enumerate(x.shape) if i not in drop])


@translates("Unsqueeze")
def unsqueeze(node: Node) -> Tensor:
    x = node.stored(0)
    axes = node.integers_of("axes", 1, ())
    rank = len(x.shape) + len(axes or ())
    places = {node.axis(a, rank) for a in axes or ()}
    dims = iter(x.shape)
    return _reshaped(node, x, [1 if i in places else next(dims) for i in range(rank)])


@translates("Transpose")
def transpose(node: Node) -> Tensor:
    x = node.stored(0)
    perm = node.ints("perm", tuple(reversed(range(len(x.shape)))))
    if sorted(perm) != list(range(len(x.shape))):
        raise ModelError(f"{perm} is not a permutation", where=node.name)
    return node.step("transpose", x, perm=perm)


@translates("Concat")
def concat(node: Node) -> Tensor:
    parts = node.joined()
    if not parts:
        raise ModelError("Concat joins nothing", where=node.name)
    parts = [part for part in parts if part.elements] or parts[:1]
    axis = node.axis(node.integer("axis", 0), len(parts[0].shape))
    return node.step("concat", *parts, axis=axis) if len(parts) > 1 else parts[0]


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
    if 0 in sizes:
        whole, ends = [slice(0, size) for size in x.shape], np.cumsum(sizes).tolist()
        for name, size, end in zip(node.outputs, sizes, ends, strict=True):
            node.bind(name, node.sliced(x, [*whole[:axis], slice(end - size, end), *whole[axis + 1 :]]))
        return
    dtype, quant = node.type_of("split", [x])
    shapes = [(*x.shape[:axis], part, *x.shape[axis + 1 :]) for part in sizes]
    tensors = [Tensor(name, shape, dtype, quant) for name, shape in zip(node.outputs, shapes, strict=True)]
    made = node.builder.emit("split", node.name, [x], tensors, {"axis": axis})
    for name, part in zip(node.outputs, made, strict=True):
        node.bind(name, part)


@translates("Slice")
def slice_values(node: Node) -> Tensor:
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
    return node.sliced(x, windows)


def _bound(value: int) -> int | None:
    """The edges of INT32 and INT64 mean: as far as there is."""
    return None if abs(value) >= INT64_EDGE or value in ((1 << 31) - 1, -(1 << 31)) else value


@translates("Gather")
def gather(node: Node) -> Tensor:
    x = node.stored(0)
    axis = node.axis(node.integer("axis", 0), len(x.shape))
    require_inside(node, node.input(1), (x.shape[axis],))
    return node.step("gather", x, node.input(1), axis=axis)


@translates("ScatterND", "ScatterElements")
def scatter(node: Node) -> Tensor:
    """With constant indices values are put where others were: a block as slices that are joined, others picked from
    the old and the new behind each other."""
    x, new = node.stored(0), node.stored(2)
    if not same_codes(x, new):
        x, new = node.input(0), node.input(2)
    if node.text("reduction", "none") != "none":
        raise UnsupportedError(
            f"{node.kind} with the reduction {node.text('reduction', '')}",
            where=node.name,
            rule="values are replaced, not added or compared",
            remedy="export it without a reduction, and add or compare in a node of its own",
        )
    indices = node.constant(1, "indices")
    if not indices.ndim or (node.kind == "ScatterND" and indices.shape[-1] > len(x.shape)):
        raise ModelError(f"{node.kind} with indices {indices.shape} for shape {x.shape}", where=node.name)
    require_inside(node, node.input(1), x.shape[: indices.shape[-1]] if node.kind == "ScatterND" else (
        x.shape[node.axis(node.integer("axis", 0), len(x.shape))],))  # fmt: skip
    limits.count(x.elements + new.elements, MAX_FOLDED_ELEMENTS, "values of a ScatterND")
    places = _scattered(node, x, new, indices.astype(np.int64))
    if not places.size:
        return x
    if np.unique(places).size < places.size:
        raise UnsupportedError(
            f"{node.kind} that writes a value twice",
            where=node.name,
            rule="ONNX leaves open which of both stays",
            remedy="make the indices differ",
        )
    corners = [np.unravel_index(int(at), x.shape) for at in (places.min(), places.max())]
    box = tuple(slice(int(first), int(last) + 1) for first, last in zip(*corners, strict=True))
    inside = np.arange(x.elements).reshape(x.shape)[box]
    if not np.array_equal(places.reshape(-1), inside.reshape(-1)):
        both = node.step("concat", *(node.reshaped(one, (one.elements,)) for one in (x, new)), axis=0)
        chosen = np.arange(x.elements)
        chosen[places.reshape(-1)] = x.elements + np.arange(places.size)
        picks = node.builder.constant(f"{node.name}:places", chosen)
        return node.reshaped(node.step("gather", both, picks, axis=0), x.shape)
    made = node.reshaped(new, inside.shape)
    for axis in reversed(range(len(x.shape))):
        ends = (slice(0, box[axis].start), slice(box[axis].stop, x.shape[axis]))
        whole = [slice(None)] * (len(x.shape) - axis - 1)
        parts = [node.sliced(x, [*box[:axis], end, *whole]) if end.start < end.stop else None for end in ends]
        joined = [part for part in (parts[0], made, parts[1]) if part is not None]
        made = node.step("concat", *joined, axis=axis) if len(joined) > 1 else made
    return made


def _scattered(node: Node, x: Tensor, new: Tensor, indices: Array) -> Array:
    """Where each of the new values goes in the flat tensor."""
    numbers = np.arange(x.elements).reshape(x.shape)
    if node.kind == "ScatterND":
        depth = indices.shape[-1]
        expected = indices.shape[:-1] + x.shape[depth:]
        found = numbers[tuple(np.moveaxis(indices, -1, 0))]
    else:
        axis, expected = node.axis(node.integer("axis", 0), len(x.shape)), indices.shape
        fits = len(indices.shape) == len(x.shape) and all(
            n <= size for k, (n, size) in enumerate(zip(indices.shape, x.shape, strict=True)) if k != axis
        )
        grid: list[Array] = list(np.indices(indices.shape, sparse=True))
        found = numbers[tuple(indices if k == axis else along for k, along in enumerate(grid))] if fits else numbers
    if expected != new.shape or found.shape != new.shape:
        raise ModelError(f"{node.kind} of {new.shape} at indices {indices.shape} of {x.shape}", where=node.name)
    return found


def require_inside(node: Node, indices: Tensor, sizes: tuple[int, ...]) -> None:
    """Indices that are known; `sizes` of one axis, or of as many as the last axis of the indices picks from."""
    if indices.data is None or np.all((indices.data >= -np.array(sizes)) & (indices.data < np.array(sizes))):
        return
    found = f"indices {int(indices.data.min())} to {int(indices.data.max())}"
    raise ModelError(f"{node.kind} with {found} along {' x '.join(map(str, sizes))} values", where=node.name)


@translates("GatherElements")
def gather_elements(node: Node) -> Tensor:
    """Every index picks along one axis, at its own place along all others: positions in the flat tensor."""
    x, indices = node.stored(0), node.input(1)
    axis = node.axis(node.integer("axis", 0), len(x.shape))
    if len(indices.shape) != len(x.shape):
        raise ModelError(f"indices {indices.shape} for shape {x.shape}", where=node.name)
    require_inside(node, indices, (x.shape[axis],))
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
    wide = node.step("cast", indices, dtype="int64")
    negative = node.step("less", wide, zero, dtype="bool")  # counts from the end
    inside = node.step("select", negative, node.step("add", wide, size), wide, dtype="int64")
    offset = node.builder.constant(f"{node.name}:places", np.asarray(places, np.int64))
    at = node.step("add", node.step("mul", inside, step), offset)
    flat = node.step("reshape", x, shape=(x.elements,))
    return node.step("gather", flat, at, axis=0)


@translates("GatherND")
def gather_nd(node: Node) -> Tensor:
    x, indices = node.stored(0), node.input(1)
    if not indices.shape:
        raise ModelError("GatherND with a single number as indices", where=node.name)
    if batches := node.integer("batch_dims", 0):
        indices = _with_batches(node, x, indices, batches)
    if not 1 <= indices.shape[-1] <= len(x.shape):
        raise ModelError(f"indices {indices.shape} for shape {x.shape}", where=node.name)
    require_inside(node, indices, x.shape[: indices.shape[-1]])
    shape = (*indices.shape[:-1], *x.shape[indices.shape[-1] :])
    return node.step("gather_nd", x, indices, shape=shape)


def _with_batches(node: Node, x: Tensor, indices: Tensor, batches: int) -> Tensor:
    """Every tuple of indices with the place of its batch in front: then there are no batches any more."""
    rows = indices.shape[:-1]
    if not 0 < batches <= len(rows) or rows[:batches] != x.shape[:batches]:
        raise ModelError(f"{batches} batch dimensions of {x.shape} and {indices.shape}", where=node.name)
    places = np.indices(rows)[:batches]
    grid = np.ascontiguousarray(np.moveaxis(places, 0, -1).astype(indices.dtype))
    if indices.data is not None:
        return node.builder.constant(f"{node.name}:indices", np.concatenate([grid, indices.data], axis=-1))
    return node.step("concat", node.builder.constant(f"{node.name}:batches", grid), indices, axis=len(rows))


@translates("Expand")
def expand(node: Node) -> Tensor:
    x = node.stored(0)
    shape = tuple(int(d) for d in np.broadcast_shapes(x.shape, tuple(node.integers(1, "shape"))))
    return node.step("expand", x, shape=shape)


@translates("Tile")
def tile(node: Node) -> Tensor:
    x, repeats = node.stored(0), node.integers(1, "repeats")
    if len(repeats) != len(x.shape) or min(repeats, default=0) < 0:
        raise ModelError(f"{repeats} repeats of shape {x.shape}", where=node.name)
    return node.step("tile", x, shape=tuple(n * r for n, r in zip(x.shape, repeats, strict=True)))


@translates("Pad")
def pad(node: Node) -> Tensor:
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
        return _wrapped(node, x, pads)
    if mode in ("reflect", "edge"):
        return node.step("pad", x, pads=tuple(pads), mode=mode)
    if mode != "constant":
        raise UnsupportedError(f"Pad in mode {mode}", where=node.name)
    value = float(node.constant(2, "value").reshape(-1)[0]) if node.has(2) else node.number("value", 0.0)
    return padded(node, x, pads, value)


def padded(node: Node, x: Tensor, pads: Sequence[tuple[int, int]], value: float) -> Tensor:
    """With a constant: a code if the node reads codes, else a number that need not be a code of the input."""
    codes = x.quant is not None and x.quant.is_per_tensor and node.reads_codes
    real = (value - x.zero_point) * x.scale if codes else value
    dtype, quant = node.type_of("pad", [x])
    if x.quant is not None and real != 0.0 and not codes:
        dtype, quant = "float32", None
    return node.step("pad", x, dtype=dtype, quant=quant, pads=tuple(pads), mode="constant", value=real)


def _wrapped(node: Node, x: Tensor, pads: Sequence[tuple[int, int]]) -> Tensor:
    """The other end follows behind each end; what is cut off is gone before that."""
    for axis, (before, after) in enumerate(pads):
        if before or after:
            kept = np.arange(x.shape[axis])[max(0, -before) : x.shape[axis] + min(0, after)]
            index = kept[np.arange(-max(0, before), kept.size + max(0, after)) % max(1, kept.size)]
            picked = node.builder.constant(f"{node.name}:index", index)
            x = node.step("gather", x, picked, axis=axis)
    return x


@translates("DepthToSpace", "SpaceToDepth")
def space_depth(node: Node) -> Tensor:
    block, order = node.integer("blocksize", 1), node.text("mode", "DCR")
    if block < 1:
        raise ModelError(f"block size {block}", where=node.name)
    kind = "depth_to_space" if node.kind == "DepthToSpace" else "space_to_depth"
    return node.step(kind, node.stored(0), block=block, layout="NCHW", order=order)


PLAIN = ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel", "tf_half_pixel_for_nn")
POLICIES = ("stretch", "not_larger", "not_smaller")
A_TIE = 1e-6  # so near to the middle of two pixels, onnxruntime takes a position for the middle
Single = NDArray[np.float32]


@dataclass(frozen=True)
class ResizeAxis:
    """One axis of the input."""

    number: int
    size_in: int
    size_out: int
    scale: float  # output per input, a number of single precision
    start: float = 0.0  # of the part that is resized, in tf_crop_and_resize
    end: float = 1.0

    def stays(self) -> bool:
        return self.size_in == self.size_out and self.scale == 1.0 and (self.start, self.end) == (0.0, 1.0)


@translates("Resize", "Upsample")
def resize(node: Node) -> Tensor:
    old = node.kind == "Upsample" or node.opset < 11
    mode = node.text("mode", "nearest")
    coordinates = "asymmetric" if old else node.text("coordinate_transformation_mode", "half_pixel")
    x = node.stored(0) if mode == "nearest" else node.input(0)
    axes = _axes(node, x, 1 if old else 2, coordinates)
    if mode == "nearest":
        rounding = "simple" if old else node.text("nearest_mode", "round_prefer_floor")
        made = _nearest(node, x, axes, coordinates, rounding)
    elif mode in ("linear", "cubic"):
        cut = [axis for axis in axes if np.float32(axis.size_in) * np.float32(axis.scale) != axis.size_out]
        if coordinates == "align_corners" and cut and not node.has(3):
            raise UnsupportedError(
                f"Resize with align_corners by {cut[0].scale}, which is no whole size",
                where=node.name,
                rule="onnxruntime aligns the corners of the size cut off, the standard does not",
                remedy="give sizes in place of scales",
            )
        made = _blended(node, x, axes, coordinates, mode)
    else:
        raise UnsupportedError(f"Resize in mode {mode}", where=node.name)
    if coordinates == "tf_crop_and_resize":
        made = _extrapolated(node, made, axes)
    return made


# --- sizes and positions -------------------------------------------------------------------------------------------


def _axes(node: Node, x: Tensor, index: int, coordinates: str) -> list[ResizeAxis]:
    """Those that change."""
    chosen = [node.axis(a, len(x.shape)) for a in node.ints("axes", range(len(x.shape)))]
    scales, sizes = _scales(node, x, chosen, index)
    parts = _parts(node, chosen) if coordinates == "tf_crop_and_resize" else [(0.0, 1.0)] * len(chosen)
    axes = [
        ResizeAxis(number, x.shape[number], size, scale, *part)
        for number, size, scale, part in zip(chosen, sizes, scales, parts, strict=True)
    ]
    if min(sizes, default=1) < 1:
        raise ModelError(f"Resize of shape {x.shape} by {scales} leaves nothing", where=node.name)
    changed = [axis for axis in axes if not axis.stays()]
    same = [axis for axis in changed if axis.size_in == axis.size_out]
    if same and (len(same) == len(changed) or coordinates == "tf_crop_and_resize" or node.integer("antialias", 0)):
        raise UnsupportedError(
            f"Resize that computes axis {same[0].number} anew and keeps its size",
            where=node.name,
            rule="onnxruntime copies such axes, the standard does not",
        )
    return changed


def _scales(node: Node, x: Tensor, axes: list[int], index: int) -> tuple[list[float], list[int]]:
    """And the sizes that they give."""
    if "scales" in node.attrs:  # Upsample before opset 9
        given = [float(v) for v in node.attrs["scales"]]
    elif node.has(index) and node.input(index).elements:
        given = [float(v) for v in node.constant(index, "scales").reshape(-1)]
    else:
        return _from_sizes(node, x, axes)
    if len(given) != len(axes) or not all(0 < scale < 1 << 16 for scale in given):
        raise ModelError(f"scales {given} for {count(len(axes), 'axis', 'axes')}", where=node.name)
    scales = [np.float32(scale) for scale in given]
    sizes = [int(np.floor(np.float32(x.shape[axis]) * scale)) for axis, scale in zip(axes, scales, strict=True)]
    return [float(scale) for scale in scales], sizes


def _from_sizes(node: Node, x: Tensor, axes: list[int]) -> tuple[list[float], list[int]]:
    """Scales and sizes of these axes."""
    sizes = node.integers(3, "sizes") if node.has(3) else []
    if len(sizes) != len(axes) or min(sizes, default=1) < 1 or not x.elements:
        raise ModelError(f"sizes {sizes} for {count(len(axes), 'axis', 'axes')} of shape {x.shape}", where=node.name)
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    if policy not in POLICIES:
        raise ModelError(f"keep_aspect_ratio_policy {policy}", where=node.name)
    scales = [float(np.float32(size) / np.float32(x.shape[axis])) for size, axis in zip(sizes, axes, strict=True)]
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        return [scale] * len(axes), [int(np.floor(np.float32(scale * x.shape[axis]) + 0.5)) for axis in axes]
    return scales, sizes


def _parts(node: Node, axes: list[int]) -> list[tuple[float, float]]:
    """The part of each axis that is resized, from 0 to 1; all of it unless a region is given."""
    if not node.has(1) or not node.input(1).elements:
        return [(0.0, 1.0)] * len(axes)
    region = [float(v) for v in node.constant(1, "a region").reshape(-1)]
    if len(region) != 2 * len(axes):
        what = f"a region of {count(len(region), 'number')} for {count(len(axes), 'axis', 'axes')}"
        raise ModelError(what, where=node.name)
    return list(zip(region[: len(axes)], region[len(axes) :], strict=True))


def positions(axis: ResizeAxis, coordinates: str, node: str) -> Single:
    """Where every output index lies in the input, computed as onnxruntime does."""
    single, half = np.float32, np.float32(0.5)
    index, scale = np.arange(axis.size_out, dtype=single), single(axis.scale)
    last_in, last_out = single(axis.size_in - 1), single(axis.size_out - 1)
    if coordinates == "asymmetric":
        return index / scale
    if coordinates == "tf_half_pixel_for_nn":
        return (index + half) / scale
    if coordinates == "half_pixel" or (coordinates == "pytorch_half_pixel" and axis.size_out > 1):
        return (index + half) / scale - half
    if coordinates == "half_pixel_symmetric":
        adjustment = single(axis.size_out) / (scale * single(axis.size_in))
        offset = single(axis.size_in) / single(2) * (single(1) - adjustment)
        return (float(offset) + (index.astype(np.float64) + 0.5) / float(scale) - 0.5).astype(single)
    if coordinates == "tf_crop_and_resize":
        start, end = single(axis.start), single(axis.end)
        if axis.size_out > 1:
            return start * last_in + index * (end - start) * last_in / last_out
        return np.full(1, half * (start + end) * last_in, single)
    if coordinates == "align_corners" and axis.size_out > 1:
        return index * last_in / last_out
    if coordinates in PLAIN:
        return np.zeros(axis.size_out, single)
    raise UnsupportedError(f"Resize with coordinates {coordinates}", where=node)


# --- nearest pixels ------------------------------------------------------------------------------------------------


def _nearest(node: Node, x: Tensor, axes: list[ResizeAxis], coordinates: str, rounding: str) -> Tensor:
    indices = {axis.number: _nearest_pixels(axis, coordinates, rounding, node.name) for axis in axes}
    shape = tuple(len(indices[k]) if k in indices else n for k, n in enumerate(x.shape))
    scales = [1.0] * len(x.shape)
    for axis in axes:
        scales[axis.number] = axis.scale
    plain = rounding.replace("simple", "floor")
    attrs: dict[str, Any] = {"coordinates": coordinates, "scales": tuple(scales), "rounding": plain}
    if all(np.array_equal(indices[axis.number], _by_operator(axis, attrs)) for axis in axes):
        return node.step("resize_nearest", x, shape=shape, **attrs)
    for number, index in indices.items():
        picked = node.builder.constant(f"{node.name}:pixels", index)
        x = node.step("gather", x, picked, axis=number)
    return x


def _nearest_pixels(axis: ResizeAxis, coordinates: str, rounding: str, node: str) -> Array:
    at = positions(axis, coordinates, node).astype(np.float64)
    if rounding == "simple":
        found = np.ceil(at) if axis.scale < 1.0 else np.floor(at)
    elif rounding == "round_prefer_floor":
        found = np.ceil(at - 0.5 - A_TIE)
    elif rounding == "round_prefer_ceil":
        found = np.floor(at + 0.5 + A_TIE)
    elif rounding in ("floor", "ceil"):
        found = np.floor(at) if rounding == "floor" else np.ceil(at)
    else:
        raise UnsupportedError(f"Resize with nearest_mode {rounding}", where=node)
    return np.clip(found, 0, axis.size_in - 1).astype(np.int64)


def _by_operator(axis: ResizeAxis, attrs: dict[str, Any]) -> Array:
    if attrs["coordinates"] not in PLAIN:
        return np.empty(0)
    at = source_positions(axis.size_in, axis.size_out, axis.scale, attrs["coordinates"])
    return np.clip(nearest_index(at, attrs["rounding"]), 0, axis.size_in - 1).astype(np.int64)


# --- blends --------------------------------------------------------------------------------------------------------


def _blended(node: Node, x: Tensor, axes: list[ResizeAxis], coordinates: str, mode: str) -> Tensor:
    """Linear or cubic; integers are cut off behind the point."""
    integers = x.quant is None and not x.is_float
    dtype = "float32" if integers else node.type_of("resize_linear", [x])[0]
    if mode == "linear" and coordinates in PLAIN and not node.integer("antialias", 0):
        shape, scales = list(x.shape), [1.0] * len(x.shape)
        for axis in axes:
            shape[axis.number], scales[axis.number] = axis.size_out, axis.scale
        made = node.step(
            "resize_linear", x, shape=tuple(shape), dtype=dtype, coordinates=coordinates, scales=tuple(scales)
        )
    else:
        made = x
        for axis in axes:
            made = _product(node, made, axis, _weights(node, axis, coordinates, mode), dtype)
    return node.step("cast", made, dtype=x.dtype) if integers and axes else made


def _product(node: Node, x: Tensor, axis: ResizeAxis, weights: Array, dtype: str) -> Tensor:
    """The matrix [out, in] times every column along an axis."""
    before, behind = x.shape[: axis.number], x.shape[axis.number + 1 :]
    outer, inner = (int(np.prod(part, dtype=np.int64)) for part in (before, behind))
    matrix = node.builder.constant(f"{node.name}:weights", weights.astype(np.float32))
    columns = node.step("reshape", x, shape=(outer, axis.size_in, inner))
    made = node.step("matmul", matrix, columns, dtype=dtype)
    return node.step("reshape", made, shape=(*before, axis.size_out, *behind))


def _weights(node: Node, axis: ResizeAxis, coordinates: str, mode: str) -> Array:
    """How much of every input pixel is in every output pixel."""
    at = positions(axis, coordinates, node.name).astype(np.float64)
    antialias, outside = bool(node.integer("antialias", 0)), bool(node.integer("exclude_outside", 0))
    if mode == "linear" and not antialias:
        at, outside = np.clip(at, 0, axis.size_in - 1), False
    stretch = min(1.0, axis.scale) if antialias else 1.0
    reach = int(np.ceil((1 if mode == "linear" else 2) / stretch)) + 1
    taps = np.floor(at).astype(np.int64)[:, None] + np.arange(-reach, reach + 1)
    distance = np.abs(taps - at[:, None]) * stretch
    share = _cubic(distance, node.number("cubic_coeff_a", -0.75)) if mode == "cubic" else np.clip(1 - distance, 0, 1)
    if outside:
        share = np.where((taps >= 0) & (taps < axis.size_in), share, 0.0)
    if outside or antialias:
        total = share.sum(axis=1, keepdims=True)  # 0 far outside the picture
        share = share / np.where(total == 0, 1.0, total)
    weights = np.zeros((axis.size_out, axis.size_in))
    rows = np.broadcast_to(np.arange(axis.size_out)[:, None], taps.shape)
    np.add.at(weights, (rows, np.clip(taps, 0, axis.size_in - 1)), share)
    return weights


def _cubic(distance: NDArray[np.float64], a: float) -> NDArray[np.float64]:
    """The usual kernel of four taps."""
    d = distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


# --- beyond the edges ----------------------------------------------------------------------------------------------


def _extrapolated(node: Node, x: Tensor, axes: list[ResizeAxis]) -> Tensor:
    """Pixels outside the picture have a value of their own; they lie in front of the others and behind them."""
    windows, pads = [slice(0, size) for size in x.shape], [(0, 0)] * len(x.shape)
    for axis in axes:
        at = positions(axis, "tf_crop_and_resize", node.name)
        inside = np.flatnonzero((at >= 0) & (at <= axis.size_in - 1))
        if not inside.size:
            raise UnsupportedError("Resize of a region outside its input", where=node.name)
        first, last = int(inside[0]), int(inside[-1]) + 1
        windows[axis.number] = slice(first, last)
        pads[axis.number] = (first, axis.size_out - last)
    if not any(sum(both) for both in pads):
        return x
    return padded(node, node.sliced(x, windows), pads, node.number("extrapolation_value", 0.0))
