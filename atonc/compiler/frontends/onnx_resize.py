"""ONNX Resize and Upsample.

onnxruntime works out where an output pixel lies in the input in single precision, and that decides which pixel is the
nearest. Where plain arithmetic finds the same pixels, the node is one operator; otherwise nearest pixels are gathered
by constant indices, and everything that blends pixels is a product with a constant matrix along each axis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.frontends.onnx_moves import padded
from atonc.compiler.frontends.onnx_node import Node, translates
from atonc.compiler.ir import Array, Tensor
from atonc.compiler.ops.resize import nearest_index, source_positions
from atonc.machine.base.errors import ModelError, UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

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
def resize(node: Node) -> None:
    old = node.kind == "Upsample" or node.opset < 11
    mode = node.text("mode", "nearest")
    coordinates = "asymmetric" if old else node.text("coordinate_transformation_mode", "half_pixel")
    x = node.stored(0) if mode == "nearest" else node.input(0)
    axes = _axes(node, x, 1 if old else 2, coordinates)
    if mode == "nearest":
        rounding = "simple" if old else node.text("nearest_mode", "round_prefer_floor")
        made = _nearest(node, x, axes, coordinates, rounding)
    elif mode in ("linear", "cubic"):
        made = _blended(node, x, axes, coordinates, mode)
    else:
        raise UnsupportedError(f"Resize in mode {mode}", where=node.name)
    if coordinates == "tf_crop_and_resize":
        made = _extrapolated(node, made, axes)
    node.bind(node.outputs[0], made)


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
    attrs = {"coordinates": coordinates, "scales": tuple(scales), "rounding": rounding.replace("simple", "floor")}
    if all(np.array_equal(indices[axis.number], _by_operator(axis, attrs)) for axis in axes):
        return node.step("resize_nearest", [x], attrs, shape)
    for number, index in indices.items():
        picked = node.builder.constant(f"{node.name}:pixels", index)
        x = node.step("gather", [x, picked], {"axis": number})
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
        attrs = {"coordinates": coordinates, "scales": tuple(scales)}
        made = node.step("resize_linear", [x], attrs, tuple(shape), dtype)
    else:
        made = x
        for axis in axes:
            made = _product(node, made, axis, _weights(node, axis, coordinates, mode), dtype)
    return node.step("cast", [made], {}, dtype=x.dtype) if integers and axes else made


def _product(node: Node, x: Tensor, axis: ResizeAxis, weights: Array, dtype: str) -> Tensor:
    """The matrix [out, in] times every column along an axis."""
    before, behind = x.shape[: axis.number], x.shape[axis.number + 1 :]
    outer, inner = (int(np.prod(part, dtype=np.int64)) for part in (before, behind))
    matrix = node.builder.constant(f"{node.name}:weights", weights.astype(np.float32))
    columns = node.step("reshape", [x], {}, (outer, axis.size_in, inner))
    made = node.step("matmul", [matrix, columns], {}, dtype=dtype)
    return node.step("reshape", [made], {}, (*before, axis.size_out, *behind))


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
    starts, stops, pads = [0] * len(x.shape), list(x.shape), [(0, 0)] * len(x.shape)
    for axis in axes:
        at = positions(axis, "tf_crop_and_resize", node.name)
        inside = np.flatnonzero((at >= 0) & (at <= axis.size_in - 1))
        if not inside.size:
            raise UnsupportedError("Resize of a region outside its input", where=node.name)
        first, last = int(inside[0]), int(inside[-1]) + 1
        starts[axis.number], stops[axis.number] = first, last
        pads[axis.number] = (first, axis.size_out - last)
    if not any(sum(both) for both in pads):
        return x
    attrs = {"starts": tuple(starts), "stops": tuple(stops), "steps": (1,) * len(starts)}
    shape = tuple(stop - start for start, stop in zip(starts, stops, strict=True))
    return padded(node, node.step("slice", [x], attrs, shape), pads, node.number("extrapolation_value", 0.0))
