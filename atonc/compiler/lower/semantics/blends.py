"""Linear resizing: weighted neighbours along the lines with 16 bits, then along the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.lower.semantics.arithmetic import Ints, clipped, ints, pair
from atonc.compiler.lower.units.affine import AffinePair

if TYPE_CHECKING:
    from atonc.compiler.lower.resize.linear import Ends, ResizePiece

ONE = 256  # of the weights


def along(x: Any, axis: int, size: int, pieces: Sequence[ResizePiece], ends: Ends) -> Ints:
    """One axis, straight to codes."""

    def codes(piece: ResizePiece, low: Ints, high: Ints) -> Ints:
        return clipped(pair(ends.pair(piece), low, high), ends.clip)

    return _gathered(ints(x), axis, size, pieces, codes)


def between(x: Any, axis: int, size: int, pieces: Sequence[ResizePiece]) -> Ints:
    """One axis, with 8 fractional bits."""

    def sums(piece: ResizePiece, low: Ints, high: Ints) -> Ints:
        return pair(AffinePair(1, piece.weight, 0, 0, 0, 0, 0, 2), low * (ONE - piece.weight), high)

    return _gathered(ints(x), axis, size, pieces, sums)


def _gathered(x: Ints, axis: int, size: int, pieces: Sequence[ResizePiece], blend: Any) -> Ints:
    moved = np.moveaxis(x, axis, 0)
    result = np.zeros((size, *moved.shape[1:]), np.int64)
    for piece in pieces:
        steps = np.arange(piece.count)
        low, high = moved[piece.low + steps * piece.step], moved[piece.high + steps * piece.step]
        result[piece.start + steps * piece.ahead] = blend(piece, low, high)
    return np.moveaxis(result, 0, axis)
