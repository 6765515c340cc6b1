"""Figures of comparison on values where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compare import metrics
from atonc.machine.base.errors import InputError

A = np.array([[1, 2, 3], [4, 9, 6]], np.int8)
B = np.array([[1, 3, 3], [4, 5, 7]], np.int8)


def test_codes() -> None:
    assert metrics.lsb_histogram(A, B) == {-1: 2, 0: 3, 4: 1}
    assert metrics.within_percent(A, B, 0) == 50.0
    assert metrics.within_percent(A, B) == pytest.approx(100 * 5 / 6)


def test_cosine() -> None:
    assert metrics.cosine(A, A) == pytest.approx(1.0)
    assert metrics.cosine(np.array([1, 0]), np.array([0, 1])) == 0.0
    assert metrics.cosine(np.zeros(3), np.zeros(3)) == 1.0
    assert metrics.cosine(np.zeros(3), np.ones(3)) == 0.0


def test_the_figures_of_validation_reports() -> None:
    row = metrics.measure(A, B)
    assert row.rmse == pytest.approx(np.sqrt(18 / 6))
    assert row.mae == pytest.approx(1.0)
    assert row.l2r == pytest.approx(np.sqrt(18 / 147))
    assert row.mean == pytest.approx(2 / 6)
    assert row.nse == pytest.approx(1 - 18 / np.sum((A - A.mean()) ** 2))
    assert row.acc == 0.0
    assert metrics.acc(A, A) == 1.0
    assert metrics.nse(np.ones(3), np.ones(3)) == 1.0


def test_sizes_must_agree() -> None:
    with pytest.raises(InputError):
        metrics.cosine(A, B[:1])
    with pytest.raises(InputError):
        metrics.acc(A, B.T)
