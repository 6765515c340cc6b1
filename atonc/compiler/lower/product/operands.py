"""The two factors of a product as lists of matrices: rows of features, and kernels, both along the summed axis."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.strided_views import StridedView
from atonc.compiler.select.rules import INT8_CODES, PRODUCT_SHAPE
from atonc.machine.base.frozen import dataclass

MOST_MATRICES = 64  # of one product: each is a convolution with kernels of its own


@dataclass(frozen=True)
class Matrices:
    """`left` [rows, depth] and `right` [columns, depth] of every batch, in the order of the results."""

    left: tuple[StridedView, ...]
    right: tuple[StridedView, ...]
    rows: int
    depth: int
    columns: int


def matrices_of(op: Op, context: Context) -> Matrices:
    a, b = (context.tensor(name) for name in op.inputs)
    for tensor in (a, b, context.tensor(op.outputs[0])):
        _require_codes(tensor)
    if min(len(a.shape), len(b.shape)) < 2:
        raise Refusal(PRODUCT_SHAPE, f"shapes {a.shape} and {b.shape}", "two matrices", "reshape the vector")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if np.prod(batch, dtype=int) > MOST_MATRICES:
        raise Refusal(PRODUCT_SHAPE, f"{batch} products", f"{MOST_MATRICES} at a time", "fewer heads or batches")
    left, right = _view(a, context), _view(b, context)
    left = _turned(left) if op.attrs.get("transpose_a") else left
    right = right if op.attrs.get("transpose_b") else _turned(right)
    lefts, rights = (tuple(_each(view, batch)) for view in (left, right))
    (rows, depth), (columns, _) = lefts[0].shape, rights[0].shape
    return Matrices(lefts, rights, rows, depth, columns)


def _require_codes(tensor: Tensor) -> None:
    if tensor.dtype != "int8" or tensor.quant is None or not tensor.quant.is_per_tensor:
        raise Refusal(INT8_CODES, f"{tensor.name} of type {tensor.dtype}", "int8 with one scale", "quantise it")


def _view(tensor: Tensor, context: Context) -> StridedView:
    return StridedView.whole(context.buffer(tensor.name), tensor.shape)


def _turned(view: StridedView) -> StridedView:
    axes = range(len(view.shape))
    return view.transpose((*axes[:-2], axes[-1], axes[-2]))


def _each(view: StridedView, batch: tuple[int, ...]) -> Iterator[StridedView]:
    """The matrix of every batch; axes of one turn, and axes that are missing in front, are the same for all."""
    own = len(view.shape) - 2
    for place in np.ndindex(*batch):
        found = view
        for size, index in zip(view.shape[:own], place[len(batch) - own :], strict=True):
            found = found.pick(0, index if size > 1 else 0)
        yield found
