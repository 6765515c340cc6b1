"""Tensors that hold nothing but zeros: the layers behind them still have biases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

from atonc.compiler.passes.layers import MOST_BIAS
from atonc.insight.quantizing.layers import LinearLayer
from atonc.insight.quantizing.observe import outputs
from atonc.insight.quantizing.run import quantize
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.insight.quantizing.weights import QuantizedWeights, with_room
from tests.quantizing.float_models import Build, samples, save


def test_a_layer_that_reads_zeros_keeps_its_bias(tmp_path: Path) -> None:
    """Its input has the smallest scale there is; biases in units of that do not fit 32 bits and were cut off."""
    b = Build()
    alive = b.node("Relu", [b.conv("x", "c1", (8, 3, 3, 3))], "r1")
    dead = b.node("Relu", [b.node("Sub", [b.conv(alive, "c2", (8, 8, 1, 1)), b.constant("far", 1e4)], "low")], "r2")
    joined = b.node("Add", [b.conv(dead, "c3", (8, 8, 1, 1)), b.conv(alive, "c4", (8, 8, 1, 1))], "y")
    model = b.model({"x": (1, 3, 12, 12)}, [joined])
    made = quantize(save(tmp_path, model), samples(tmp_path), QuantizeOptions(objective="accuracy", threads=1))
    feeds = [{"x": value[None]} for value in np.load(samples(tmp_path))["x"][:8]]
    exact, coded = (np.stack([y[0] for y in outputs(m, feeds)]) for m in (model, made.model))
    assert np.square(exact - coded).mean() < 1e-3 * np.square(exact).mean()


def test_scales_grow_in_the_channels_that_need_it_alone() -> None:
    layer = LinearLayer("c", "Conv", "x", "y", "w", "b", 1, None)
    weights = QuantizedWeights(np.array([[100, -50], [100, -50]], np.int8), np.full(2, 0.01), np.array([0.0, 4.0]))
    found = with_room(layer, weights, 1e-7)
    assert found.scales[0] == np.float32(0.01) and (found.codes[0] == weights.codes[0]).all()
    assert found.bias[1] / (found.scales[1] * 1e-7) <= MOST_BIAS * 1.001
    assert np.allclose(found.codes[1] * found.scales[1], [1.0, -0.5], atol=found.scales[1])
    assert with_room(layer, weights, 1.0) is weights and with_room.__globals__["MOST_BIAS"] is MOST_BIAS
