"""What is too large to fold at compile time is computed from the constant on the chip."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compile import pipeline
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor, check
from atonc.compiler.passes import tidy
from atonc.compiler.request.options import Options


def network(kind: str, shape: tuple[int, ...], attrs: dict[str, object]) -> Graph:
    codes = Quantisation.per_tensor(0.1, 3)
    data = np.random.default_rng(1).integers(-100, 100, (1, 4, 6, 8)).astype(np.int8)
    tensors = [
        Tensor("k", data.shape, "int8", codes, data),
        Tensor("z", shape, "int8", codes),
        Tensor("x", shape, "int8", codes),
        Tensor("y", shape, "int8", Quantisation.per_tensor(0.2, 3)),
    ]
    ops = (Op(kind, "kept", ("k",), ("z",), attrs, ("kept",)), Op("add", "sum", ("x", "z"), ("y",), {}, ("sum",)))
    return check(Graph({t.name: t for t in tensors}, ops, ("x",), ("y",)))


@pytest.mark.parametrize(
    ("kind", "shape", "attrs"),
    [
        ("tile", (1, 8, 12, 8), {}),
        ("max_pool", (1, 2, 3, 8), {"window": (2, 2), "stride": (2, 2), "padding": (0, 0, 0, 0), "layout": "NHWC"}),
    ],
)
def test_an_operator_on_a_constant(
    kind: str, shape: tuple[int, ...], attrs: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tidy, "MAX_ELEMENTS", 0)
    compiled = pipeline.compile_graph(network(kind, shape, attrs), Options())
    assert [op.kind for op in compiled.graph.ops] == [kind, "add"]
    assert compiled.report is not None and compiled.report.outputs[0].cosine > 0.999
