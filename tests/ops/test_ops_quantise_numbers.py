"""Real numbers become codes as TFLite and onnxruntime do it: divided in single precision, halves by their rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from atonc.compiler.compare.reference import run_onnx, run_tflite
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ops import run_graph
from tests.frontends.onnx_models import Net
from tests.frontends.tflite_models import O, T, build

SCALES = [0.99607843, 1 / 255, 0.0235, 0.0078125, 3.7e-9]


def near_ties(scale: float) -> NDArray[np.float32]:
    """Around all halves, a float below and above, and what saturates."""
    steps = (np.arange(-300, 300) + 0.5).astype(np.float32) * np.float32(scale)
    below, above = np.nextafter(steps, np.float32(-np.inf)), np.nextafter(steps, np.float32(np.inf))
    return np.stack([steps, below, above])


@pytest.mark.parametrize("scale", SCALES)
def test_as_tflite(scale: float, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", exc_type=ImportError)
    values = near_ties(scale)
    tensors = [T("x", values.shape, "float32"), T("y", values.shape, scale=scale, zero=-7)]
    path = tmp_path / "model.tflite"
    path.write_bytes(build(tensors, [O("QUANTIZE", ["x"], ["y"], "QuantizeOptions", {})], ["x"], ["y"]))
    found = run_graph(read_tflite(path.read_bytes()), {"x": values})["y"]
    assert np.array_equal(found, run_tflite(path, [values])["y"])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("scale", SCALES)
def test_as_onnxruntime(scale: float, dtype: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", exc_type=ImportError)
    values, net = near_ties(scale), Net()
    path = tmp_path / "model.onnx"
    path.write_bytes(net.model({"x": values.shape}, [net.qdq("x", scale, 3, dtype)]))
    graph = read_onnx(path.read_bytes())
    (name,) = graph.outputs
    found = run_graph(graph, {"x": values})[name].astype(np.float32)
    assert np.array_equal(found, run_onnx(path, {"x": values})[name])


def test_single_precision_and_halves_count() -> None:
    """What the tests above could not tell otherwise."""
    values = near_ties(SCALES[0])
    single = (values / np.float32(SCALES[0])).astype(np.float64)
    double = values.astype(np.float64) / np.float64(np.float32(SCALES[0]))
    assert (np.floor(single + 0.5) != np.floor(double + 0.5)).any()
    assert (np.floor(single + 0.5) != np.rint(single)).any()
