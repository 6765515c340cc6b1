"""Functions that we write out ourselves, against those of the machine: two units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from atonc.compiler.ops import portable

Array = NDArray[Any]
RANDOM = np.random.default_rng(1).normal(size=20_000) * 10.0 ** np.random.default_rng(2).integers(-8, 3, 20_000)
FEW_ULP = 2 * np.finfo(np.float64).eps

PAIRS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array], Array]] = {
    "exp": (portable.exp, np.exp, np.clip(RANDOM, -700, 700)),
    "expm1": (portable.expm1, np.expm1, np.clip(RANDOM, -700, 700)),
    "log": (portable.log, np.log, np.abs(RANDOM)),
    "tanh": (portable.tanh, np.tanh, RANDOM),
    "softplus": (portable.softplus, lambda x: np.logaddexp(0.0, x), np.clip(RANDOM, -700, 700)),
    "erf": (portable.erf, np.vectorize(math.erf), np.clip(RANDOM[:4000], -9, 9)),
    "logistic": (portable.logistic, lambda x: 1.0 / (1.0 + np.exp(-x)), np.clip(RANDOM, -600, 600)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_close_to_the_machine(name: str) -> None:
    ours, theirs, values = PAIRS[name]
    expected = theirs(values)
    tolerance = (2 if name in ("erf", "expm1", "tanh", "softplus") else 1) * FEW_ULP
    assert np.all(np.abs(ours(values) - expected) <= tolerance * np.abs(expected))


def test_ends_of_the_range() -> None:
    with np.errstate(all="ignore"):
        ends = np.array([np.inf, -np.inf, np.nan, 710.0, -746.0, 0.0])
        np.testing.assert_array_equal(portable.exp(ends), [np.inf, 0.0, np.nan, np.inf, 0.0, 1.0])
        np.testing.assert_array_equal(portable.log(np.array([0.0, -1.0, np.inf, 1.0])), [-np.inf, np.nan, np.inf, 0.0])
        np.testing.assert_array_equal(portable.tanh(np.array([np.inf, -np.inf, 0.0])), [1.0, -1.0, 0.0])


def test_sums_run_in_the_order_of_memory() -> None:
    values = np.random.default_rng(3).normal(size=(40, 50, 3)) * 10.0 ** np.random.default_rng(4).integers(
        -9, 9, (40, 50, 3)
    )
    expected = np.zeros(3)
    for row in values.reshape(-1, 3):
        expected = expected + row
    np.testing.assert_array_equal(portable.ordered_sum(values, (0, 1)), expected)


def test_products_run_in_the_order_of_memory() -> None:
    left, right = np.random.default_rng(5).normal(size=(4, 60)), np.random.default_rng(6).normal(size=(60, 5))
    expected = np.zeros((4, 5))
    for k in range(60):
        expected = expected + np.outer(left[:, k], right[k])
    np.testing.assert_array_equal(portable.ordered_product(left, right), expected)
