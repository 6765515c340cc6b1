"""A kernel in parts before a layer that wants features without sign: sum, scale, bias and shift take two epochs."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compile import pipeline
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor, check
from atonc.compiler.request.options import Options


def network() -> Graph:
    rng = np.random.default_rng(5)
    relu = Quantisation.per_tensor(0.02, -128)
    tensors = [
        Tensor("x", (1, 9, 9, 8), "int8", Quantisation.per_tensor(0.02, 3)),
        Tensor("wide", (1, 9, 9, 256), "int8", relu),
        Tensor("y", (1, 9, 9, 16), "int8", Quantisation.per_tensor(0.05, -4)),
    ]
    shapes = {"k5": (256, 5, 5, 8), "k1": (16, 1, 1, 256)}
    for name, shape in shapes.items():
        data = rng.integers(-60, 60, shape).astype(np.int8)
        tensors.append(Tensor(name, shape, "int8", Quantisation.per_tensor(0.002, 0), data))
    plain = {"stride": (1, 1), "dilation": (1, 1), "layout": "NHWC", "groups": 1}
    ops = (
        Op("conv", "five", ("x", "k5", ""), ("wide",), {**plain, "padding": (2, 2, 2, 2)}, ("five",)),
        Op("conv", "one", ("wide", "k1", ""), ("y",), {**plain, "padding": (0, 0, 0, 0)}, ("one",)),
    )
    return check(Graph({t.name: t for t in tensors}, ops, ("x",), ("y",)))


@pytest.mark.parametrize("numerics", ["2.x", "best"])
def test_all_epochs_have_seen_forms(numerics: str) -> None:
    compiled = pipeline.compile_graph(network(), Options(numerics=numerics))
    assert not compiled.findings and not compiled.choices.reasons
    assert compiled.report is not None and compiled.report.outputs[0].cosine > 0.99
