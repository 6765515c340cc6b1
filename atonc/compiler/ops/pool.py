"""Pooling and reductions. Sums are integers until the division."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from atonc.compiler.ir import Array
from atonc.compiler.ops.conv import Geometry, channel_last, pair, restore_layout
from atonc.compiler.ops.elementwise import fused_activation
from atonc.compiler.ops.portable import larger, ordered_sum, smaller
from atonc.compiler.ops.registry import computes
from atonc.compiler.ops.values import OpCall, Real

Fold = Callable[[Real, Real], Real]
FOLDS: dict[str, tuple[Fold, float]] = {
    "reduce_max": (larger, -np.inf),
    "reduce_min": (smaller, np.inf),
    "reduce_prod": (np.multiply, 1.0),
}
EXTREMES: dict[str, np.ufunc] = {"reduce_max": np.maximum, "reduce_min": np.minimum}


@computes("max_pool")
def max_pool(call: OpCall) -> list[Real]:
    x, layout = call.arg(0), call.attrs["layout"]
    geometry = Geometry.of(call.attrs, pair(call.attrs["window"]))
    picture = channel_last(x.real, layout)
    size = geometry.output_size(picture.shape[1], picture.shape[2])
    result = np.full((picture.shape[0], *size, picture.shape[3]), -np.inf)
    if not x.tensor.is_float:
        result = geometry.fold(picture, size, np.maximum, -np.inf)
    else:
        for _, _, tap in geometry.taps(geometry.pad(picture, -np.inf), size):
            result = larger(result, tap)
    return [fused_activation(restore_layout(result, layout, x.codes.ndim), call)]


@computes("average_pool")
def average_pool(call: OpCall) -> list[Real]:
    """Padding counts as values only with `count_include_pad`."""
    x, layout = call.arg(0), call.attrs["layout"]
    geometry = Geometry.of(call.attrs, pair(call.attrs["window"]))
    picture = channel_last(x.centred, layout)
    size = geometry.output_size(picture.shape[1], picture.shape[2])
    total = _window_sum(geometry, picture, size, x.tensor.is_float)
    count: Array | int = geometry.kernel[0] * geometry.kernel[1]
    if not call.attrs.get("count_include_pad", False):
        count = _window_sum(geometry, np.ones((1, *picture.shape[1:3], 1)), size)
    real = restore_layout(total / count, layout, x.codes.ndim) * x.scales[0]
    return [fused_activation(real, call)]


def _window_sum(geometry: Geometry, picture: Array, size: tuple[int, int], in_order: bool = False) -> Real:
    """`in_order`: row by row of the window, which matters to floats."""
    if not in_order:
        return geometry.fold(picture, size, np.add, 0.0)
    padded = geometry.pad(picture, 0)
    total = np.zeros((picture.shape[0], *size, picture.shape[3]))
    for _, _, tap in geometry.taps(padded, size):
        total += tap
    return total


@computes("mean", "sum", "reduce_max", "reduce_min", "reduce_prod")
def reduce(call: OpCall) -> list[Real]:
    x, axes = call.arg(0), tuple(call.attrs["axes"])
    keep = call.attrs.get("keepdims", False)
    if call.op.kind in ("mean", "sum"):
        exact = ordered_sum(x.centred, axes) if x.tensor.is_float else x.centred.sum(axis=axes)
        total = _kept(exact, axes, keep) * x.scales[0]
        return [total / prod(x.codes.shape[axis] for axis in axes) if call.op.kind == "mean" else total]
    if call.op.kind in EXTREMES and not x.tensor.is_float:  # codes have no -0.0 and no NaN: any order will do
        return [_kept(EXTREMES[call.op.kind].reduce(x.real, axis=axes), axes, keep)]
    return [_kept(_folded(call.op.kind, x.real, axes), axes, keep)]


def _kept(values: Real, axes: tuple[int, ...], keep: bool) -> Real:
    return np.expand_dims(values, axes) if keep else np.asarray(values)


def _folded(kind: str, values: Real, axes: tuple[int, ...]) -> Real:
    """One value after the other, in the order of memory."""
    front = np.moveaxis(values, sorted(axis % values.ndim for axis in axes), range(len(axes)))
    rest = front.shape[len(axes) :]
    fold, start = FOLDS[kind]
    result = np.full(rest, start)
    for part in front.reshape(-1, *rest):
        result = fold(result, part)
    return result


@computes("arg_max", "arg_min")
def arg_extreme(call: OpCall) -> list[Real]:
    """The first of equal values wins."""
    function = np.argmax if call.op.kind == "arg_max" else np.argmin
    found = function(call.arg(0).codes, axis=call.attrs["axis"])
    return [found.reshape(call.out.shape).astype(np.float64)]


@computes("l2_norm")
def l2_norm(call: OpCall) -> list[Real]:
    x = call.arg(0).real
    squares = ordered_sum(np.square(x), (-1,))[..., None]
    return [x / np.sqrt(larger(squares, np.full(squares.shape, 1e-12)))]


@computes("layer_norm", "rms_norm")
def norm(call: OpCall) -> list[Real]:
    """Along one axis, less the mean (layer_norm only), by the root of the mean of squares + epsilon; without inputs 1
    and 2 the gain is 1, the offset 0. Codes stay whole numbers on the way: epsilon is divided by their scale's square.
    """
    x, axis = call.arg(0), call.attrs["axis"]
    values, scale = (x.centred, x.scales[0]) if x.scales.size == 1 else (x.real, 1.0)
    size, centred = float(values.shape[axis]), call.op.kind == "layer_norm"
    total, squares = (np.expand_dims(ordered_sum(part, (axis,)), axis) for part in (values, np.square(values)))
    values = values - total / size if centred else values
    if centred and x.tensor.dtype in ("int8", "uint8") and x.scales.size == 1:  # both sums are exact
        squares = (size * squares - total * total) / size
    elif centred:
        squares = np.expand_dims(ordered_sum(np.square(values), (axis,)), axis)
    result = values / np.sqrt(squares / size + call.attrs["epsilon"] / (scale * scale))
    shape = [-1 if k == axis % values.ndim else 1 for k in range(values.ndim)]
    gain, offset = call.optional(1), call.optional(2)
    result = result if gain is None else result * gain.real.reshape(shape)
    return [result if offset is None else result + offset.real.reshape(shape)]
