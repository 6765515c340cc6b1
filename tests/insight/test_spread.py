"""How the codes of weights are spread: counted by hand, small whatever the tensor, checked when a folder is read."""

from __future__ import annotations

import json

import numpy as np
import pytest

from atonc.compiler.ir import Quantisation, Tensor
from atonc.insight.explain import saved
from atonc.insight.explain.tensors import BINS, MOST_ROWS, Spread, spread
from tests.compiler.golden_graphs import GRAPHS
from tests.insight.views import view


def weights(codes: np.ndarray) -> Tensor:
    quant = Quantisation(np.full(len(codes), 0.1), np.zeros(len(codes), np.int64), 0)
    return Tensor("w", codes.shape, str(codes.dtype), quant, codes)


def test_each_channel_has_its_own_histogram() -> None:
    codes = np.array([[-128, -127, 0, 0, 0, 0, 0, 0, 127] * 4, [8] * 36], np.int8)
    found = spread(weights(codes))
    assert found == Spread(
        channels=2,
        rows=("3" + "0" * 15 + "9" + "0" * 14 + "1", "0" * 17 + "9" + "0" * 14),
        lows=(-128, 8),
        highs=(127, 8),
        saturated=12,  # -127 is an end, too: quantisers of weights use no -128
        elements=72,
    )


def test_many_channels_share_rows() -> None:
    codes = np.random.default_rng(1).integers(-100, 100, (1000, 3, 3, 4)).astype(np.int8)
    found = spread(weights(codes))
    assert found is not None and len(found.rows) <= MOST_ROWS and {len(row) for row in found.rows} == {BINS}
    assert (min(found.lows), max(found.highs), found.saturated) == (codes.min(), codes.max(), 0)


def test_biases_have_none() -> None:
    assert spread(weights(np.arange(64, dtype=np.int32).reshape(8, 8))) is None


def test_a_folder_keeps_it_and_nothing_else_is_read_as_one() -> None:
    layer = next(layer for layer in view(GRAPHS["pointwise"]()).layers if layer.weights and layer.weights[0].spread)
    kept = json.loads(json.dumps(saved._tensor_row(layer.weights[0])))
    assert saved._tensor(kept) == layer.weights[0]
    assert saved._tensor(kept | {"spread": None}).spread is None
    good = kept["spread"]
    for wrong in ({"rows": ["<b>" * 8] * len(good["rows"])}, {"lows": []}, {"rows": ["0"]}, {"channels": "many"}):
        with pytest.raises(ValueError):
            saved._tensor(kept | {"spread": good | wrong})
