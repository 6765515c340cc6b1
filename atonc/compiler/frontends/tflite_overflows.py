"""Where the integers of TFLite's own kernels overflow: no number of theirs is right there. Operators that always do are
refused; where single sums do, exact arithmetic holds and their kernels are no reference."""

from __future__ import annotations

import numpy as np

from atonc.compiler.ir import Tensor
from atonc.compiler.ops.rounding import Multiplier
from atonc.machine.base.errors import UnsupportedError

BYTES = ("int8", "uint8")
HUGE_BIAS = 1 << 30  # below, only layers with more than ten thousand inputs per value could overflow
LARGEST = (1 << 31) - 1


def require_division(x: Tensor, divisor: Tensor, y: Tensor, where: str) -> None:
    """Small numerators are shifted up as far as they go, and the quotient back by that and by the bits of the divisor.
    A shift by more than 31 bits is undefined; in practice the quotient -1/95 becomes the lowest code."""
    if not all(t.dtype in BYTES and t.quant is not None and t.quant.is_per_tensor for t in (x, divisor, y)):
        return
    largest = int(np.abs(_centred(divisor)).max(initial=1))
    # both signs of a numerator of 1 occur, unless zero is the lowest code and no divisor is negative
    signed = _centred(x).min() < 0 or _centred(divisor).min() < 0
    up, factor = 31 if signed else 30, Multiplier.of(x.scale / (divisor.scale * y.scale))
    back = up + largest.bit_length() - 1 - factor.exponent
    if back > 31:
        raise UnsupportedError(
            f"DIV by up to {largest} codes into a scale of {y.scale:.6g}: TFLite's kernel shifts by {back:g} bits",
            where=where,
            rule="shifts by more than 31 bits are undefined, and TFLite's quotients of small numbers are wrong",
            remedy="multiply by the reciprocal instead, or give the result a finer scale",
        )


def _centred(tensor: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Codes less their zero point: those of a constant, else the lowest and the highest."""
    codes = np.array(tensor.code_range) if tensor.data is None else tensor.data.astype(np.int64)
    return codes - tensor.zero_point


def require_sums(x: Tensor, weights: Tensor, bias: Tensor | None, where: str) -> None:
    """Sums of products start from the bias, in 32 bits."""
    if bias is None or bias.data is None or bias.dtype != "int32" or x.dtype not in BYTES:
        return
    largest = int(np.abs(bias.data.astype(np.int64)).max(initial=0))
    if largest < HUGE_BIAS or weights.data is None:
        return
    per_output = weights.elements // max(1, bias.elements)
    most = largest + per_output * int(np.abs(weights.data.astype(np.int64)).max(initial=0)) * int(
        np.abs(_centred(x)).max()
    )
    if most > LARGEST:
        raise UnsupportedError(
            f"a bias of {largest} with sums of {per_output} products",
            where=where,
            rule="TFLite sums in 32 bits and overflows without a word",
            remedy="quantise the weights with a larger scale, so that the bias gets a smaller number",
        )


def shifts_overflow(x: Tensor, weights: Tensor, bias: Tensor | None, y: Tensor) -> bool:
    """Whether sums of 32 bits may overflow when a scale above 1 shifts them up: TFLite multiplies by 2^n first."""
    quantised = all(t.dtype in BYTES and t.quant is not None for t in (x, weights, y))
    if not quantised or weights.data is None or weights.quant is None:
        return False
    up = np.maximum(np.frexp(x.scale * weights.quant.scales / y.scale)[1], 0)
    if not up.any():
        return False
    codes = weights.data.astype(np.int64).reshape(weights.shape[0], -1) - weights.quant.zero_points.reshape(-1, 1)
    sums = np.abs(codes).sum(axis=1) * int(np.abs(_centred(x)).max())
    if bias is not None and bias.data is not None:
        sums = sums + np.abs(bias.data.astype(np.int64)).reshape(-1)
    return bool((sums.astype(np.float64) * 2.0**up > LARGEST).any())
