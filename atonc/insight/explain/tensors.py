"""Tensors and operators in words: shapes, types, ranges of weights, attributes, and the names people know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from atonc.compiler.ir import Array, Op, Tensor
from atonc.compiler.ops.conv import pair
from atonc.compiler.ops.functions import RANGES
from atonc.insight.explain.types import OperatorView, Spread, TensorView

_OURS = ("rounded", "layout")  # how the compiler reads the operator, nothing that the model says
_WEIGHTED = ("conv", "dense", "transpose_conv")
BINS = 32  # of a histogram, over the codes of a byte
MOST_ROWS = 32  # channels; of more, neighbours share a row
LEVELS = 9  # a row is a string of digits: 0 nothing, 9 as many codes as the fullest bin of the row
ACTIVATION = "activation"  # name of the attribute
_LONG = 60  # characters of one attribute


def tensor_view(tensor: Tensor) -> TensorView:
    count = 0 if tensor.quant is None else int(tensor.quant.scales.size)
    scale, zero = (tensor.scale, tensor.zero_point) if count == 1 else (None, None)
    low, high = _range(tensor)
    return TensorView(tensor.name, tensor.shape, tensor.dtype, scale, zero, max(1, count), low, high)


def _range(tensor: Tensor) -> tuple[float | None, float | None]:
    """Real values of a constant, smallest and largest."""
    data = tensor.data
    if data is None or not data.size or data.dtype == bool:
        return None, None
    low, high = (_real(tensor, edge(data, axis=_others(tensor))) for edge in (np.min, np.max))
    return float(low.min()), float(high.max())


def _others(tensor: Tensor) -> tuple[int, ...]:
    """All axes but the one along which scales differ."""
    axis = tensor.quant.axis if tensor.quant is not None and not tensor.quant.is_per_tensor else None
    return tuple(i for i in range(len(tensor.shape)) if i != axis)


def _real(tensor: Tensor, codes: Array) -> Array:
    if tensor.quant is None:
        return np.atleast_1d(codes).astype(np.float64)
    return (np.atleast_1d(codes).astype(np.float64) - tensor.quant.zero_points) * tensor.quant.scales


def label(op: Op, tensors: Mapping[str, Tensor]) -> str:
    """The operator as people call it: `depthwise conv 3x3 /2`."""
    name = op.kind.replace("_", " ")
    window: Sequence[int] = ()
    if op.kind in ("conv", "transpose_conv") and len(op.inputs) > 1:
        weights = tensors[op.inputs[1]].shape
        window, groups = weights[1:3], int(op.attrs.get("groups", 1))
        name = grouped(name, groups, groups * weights[3] if len(weights) > 3 else groups)
    elif "window" in op.attrs:
        window = pair(op.attrs["window"])
    size = f" {window[0]}x{window[1]}" if len(window) == 2 else ""
    stride = tuple(pair(op.attrs.get("stride", (1, 1)))) if window else (1, 1)
    step = "" if stride == (1, 1) else f" /{stride[0]}" if stride[0] == stride[1] else f" /{stride[0]}x{stride[1]}"
    return f"{name}{size}{step}"


def grouped(name: str, groups: int, channels: int) -> str:
    """Convolutions whose channels do not meet have names of their own."""
    if groups <= 1:
        return name
    return f"depthwise {name}" if groups == channels else f"grouped {name}"


def attributes(op: Op) -> dict[str, str]:
    return {name: _text(value)[:_LONG] for name, value in sorted(op.attrs.items()) if name not in _OURS}


def fused(op: Op, source: Mapping[str, Op]) -> dict[str, str]:
    """The activation that the model has behind the operator, `source`: operators of the model by node. Nothing else in
    the canonical operator tells it: it is in the range of the codes."""
    nodes = [source[node] for node in op.origin if node in source]
    inside = [str(one.attrs.get("activation", "none")) for one in nodes]
    behind = [one.kind for one in nodes if one.kind != op.kind and (one.kind in RANGES or one.kind == "clip")]
    found = [name for name in (*inside, *behind) if name != "none"]
    return {ACTIVATION: found[-1]} if found and op.kind != found[-1] else {}


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {'x'.join(map(str, value.shape))}" if value.size > 8 else _text(value.tolist())
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(one) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def weights(op: Op, tensors: Mapping[str, Tensor]) -> tuple[TensorView, ...]:
    found = [tensors[name] for name in op.inputs if name and tensors[name].is_constant]
    return tuple(replace(tensor_view(tensor), spread=spread(tensor)) for tensor in found)


def operator(kind: str, node: str, held: Sequence[TensorView]) -> OperatorView:
    """The operator of a layer of ours; weights are [outputs, rows, columns, inputs] or [outputs, inputs]."""
    shape = held[0].shape if held and kind in _WEIGHTED else ()
    kernel = (*shape[:3], 1, 1)[:3] if len(shape) != 2 else (shape[0], 1, 1)
    return OperatorView(node, kind, kernel if shape else ())


def spread(tensor: Tensor) -> Spread | None:
    """None for what has no codes of a byte: biases, floats, single values."""
    data = tensor.data
    if data is None or tensor.dtype not in ("int8", "uint8") or data.size < BINS or data.ndim < 2:
        return None
    axis = tensor.quant.axis if tensor.quant is not None and not tensor.quant.is_per_tensor else 0
    codes = np.moveaxis(data, axis or 0, 0).reshape(data.shape[axis or 0], -1).astype(np.int64)
    low, high = tensor.code_range
    group = -(-len(codes) // MOST_ROWS)
    starts = np.arange(0, len(codes), group)
    return Spread(
        channels=len(codes),
        rows=tuple(_digits(codes[start : start + group] - low) for start in starts),
        lows=tuple(np.minimum.reduceat(codes.min(axis=1), starts).tolist()),
        highs=tuple(np.maximum.reduceat(codes.max(axis=1), starts).tolist()),
        saturated=int(np.count_nonzero((codes <= low + (low < 0)) | (codes == high))),
        elements=int(codes.size),
    )


def _digits(above: Array) -> str:
    """`above`: codes from zero on. What occurs at all is not nothing."""
    counts = np.bincount(above.ravel() * BINS // 256, minlength=BINS)
    levels = np.where(counts > 0, np.maximum(1, counts * LEVELS // counts.max()), 0)
    return "".join(map(str, levels.tolist()))
