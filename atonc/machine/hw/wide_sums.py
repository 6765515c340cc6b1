"""Sums of a CONVACC beyond 24 bits: what a unit may make of them.

Between units sums are 24 bits, saturated. Inside a unit no published program comes near that, so nobody knows how wide
its register is: sums may be kept, saturate or wrap. A board can tell (`atonc probe conv-sums-beyond-24-bits`); without
its answer the emulator refuses such a sum, and the compiler proves that none occurs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

KEPT, SATURATED, WRAPPED = ANSWERS = ("kept", "saturated", "wrapped")
_KEY = "wide_sums"  # in the evidence of a board
_BITS = 24
_HALF = 1 << (_BITS - 1)


def saturated(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.clip(sums, -_HALF, _HALF - 1)


def wrapped(sums: NDArray[np.int64]) -> NDArray[np.int64]:
    return (sums + _HALF & (2 * _HALF - 1)) - _HALF


def saved_row(answer: str) -> dict[str, Any]:
    """What an evidence file keeps: nothing where the board did not say."""
    return {_KEY: answer} if answer else {}


def answer_in(row: Mapping[str, Any]) -> str:
    """Empty where it does not say; ValueError where it is damaged."""
    answer = row.get(_KEY, "")
    if answer not in ("", *ANSWERS):
        raise ValueError(f"{_KEY} is one of {', '.join(ANSWERS)}")
    return str(answer)
