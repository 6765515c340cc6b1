"""GatherND of codes, with and without batch dimensions, with indices that are constants or data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.reference import run_onnx
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.ops import run_graph
from atonc.machine.base.errors import ModelError
from tests.frontends.onnx_models import Net

SHAPE = (2, 3, 4, 5)


def model(indices: np.ndarray, batch_dims: int) -> bytes:
    net = Net(0, opset=14)
    made = net.node("GatherND", [net.qdq("x", 0.02), net.const(indices, "i")], batch_dims=batch_dims)[0]
    return net.model({"x": SHAPE}, [net.qdq(made, 0.02)])


@pytest.mark.parametrize(
    ("rows", "depth", "batch_dims"), [((7,), 2, 0), ((2, 6), 2, 1), ((2, 3), 1, 2), ((2, 1), 3, 1)]
)
def test_equal_to_onnxruntime(rows: tuple[int, ...], depth: int, batch_dims: int, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", exc_type=ImportError)
    rng = np.random.default_rng(4)
    limits = SHAPE[batch_dims : batch_dims + depth]
    indices = np.stack([rng.integers(0, n, rows) for n in limits], axis=-1).astype(np.int64)
    path = tmp_path / "model.onnx"
    path.write_bytes(model(indices, batch_dims))
    graph = read_onnx(path.read_bytes())
    x = rng.normal(size=SHAPE).astype(np.float32)
    expected, got = run_onnx(path, {"x": x}), run_graph(graph, {"x": x})
    for name in graph.outputs:
        assert np.allclose(got[name], expected[name], atol=1e-6)


def test_batches_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ModelError, match="batch dimensions"):
        read_onnx(model(np.zeros((5, 2), np.int64), 1))
