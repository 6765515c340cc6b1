"""Norms and softmax in the spellings of exporters become operators; with codes between their parts they stay parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from atonc.compiler.ops.shapes import infer_shape
from atonc.compiler.passes.spellings import name_spellings
from tests.passes.small_graphs import Small, equal_after, kinds

SHAPE, EPSILON = (2, 5, 8), 1e-3


class Parts(Small):
    """Real numbers; every step is named by its result."""

    def step(self, kind: str, *inputs: str, **attrs: object) -> str:
        attrs |= {"keepdims": True} if "axes" in attrs else {}
        shape = infer_shape(kind, attrs, [self.tensors[name].shape for name in inputs])
        assert shape is not None
        name = self.value(f"t{len(self.ops)}", shape, "float32")
        self.op(kind, list(inputs), name, **attrs)
        return name

    def mean(self, x: str) -> str:
        return self.step("mean", x, axes=(2,))

    def number(self, value: float) -> str:
        return self.const(f"c{len(self.tensors)}", np.float32(value))

    def column(self, seed: int = 0) -> str:
        return self.const(f"g{len(self.tensors)}", np.random.default_rng(seed).normal(size=8).astype(np.float32))

    def variance(self, d: str) -> str:
        return self.step("add", self.mean(self.step("square", d)), self.number(EPSILON))


def centred(s: Parts, x: str) -> str:
    return s.step("sub", x, s.mean(x))


def torch(s: Parts, x: str) -> None:
    d = centred(s, x)
    made = s.step("div", d, s.step("sqrt", s.variance(d)))
    s.step("add", s.step("mul", made, s.column()), s.column(1))


def twice(s: Parts, x: str) -> None:
    """The difference is computed twice, the square is a product, the gain stands left."""
    d, e = centred(s, x), centred(s, x)
    total = s.step("add", s.number(EPSILON), s.mean(s.step("mul", d, d)))
    s.step("mul", s.column(), s.step("mul", s.step("rsqrt", total), e))


def keras(s: Parts, x: str) -> None:
    mean = s.mean(x)
    total = s.step("add", s.mean(s.step("squared_difference", x, mean)), s.number(EPSILON))
    factor = s.step("mul", s.step("rsqrt", total), s.column())
    s.step("add", s.step("mul", x, factor), s.step("sub", s.column(1), s.step("mul", mean, factor)))


def inverted(s: Parts, x: str) -> None:
    d = centred(s, x)
    s.step("mul", d, s.step("div", s.number(1.0), s.step("sqrt", s.variance(d))))


def rms(s: Parts, x: str) -> None:
    s.step("mul", s.step("mul", x, s.step("reciprocal", s.step("sqrt", s.variance(x)))), s.column())


def shares(s: Parts, x: str) -> None:
    e = s.step("exp", s.step("sub", x, s.step("reduce_max", x, axes=(2,))))
    s.step("div", e, s.step("sum", e, axes=(2,)))


def plain_shares(s: Parts, x: str) -> None:
    e = s.step("exp", x)
    s.step("mul", s.step("reciprocal", s.step("sum", e, axes=(2,))), e)


@pytest.mark.parametrize(
    ("spelling", "kind", "inputs"),
    [
        (torch, "layer_norm", 3), (twice, "layer_norm", 2), (keras, "layer_norm", 3), (inverted, "layer_norm", 1),
        (rms, "rms_norm", 2), (shares, "softmax", 1), (plain_shares, "softmax", 1),
    ],
)  # fmt: skip
def test_spellings(spelling: Callable[[Parts, str], None], kind: str, inputs: int) -> None:
    s = Parts("onnx")
    spelling(s, s.input(SHAPE, dtype="float32"))
    graph = s.graph(s.ops[-1].outputs[0])
    made = equal_after(graph, name_spellings)
    assert [(op.kind, len(op.inputs)) for op in made.ops] == [(kind, inputs)]
    assert made.ops[0].attrs["axis"] == 2 and made.ops[0].attrs.get("epsilon", EPSILON) == pytest.approx(EPSILON)
    assert {name for op in graph.ops for name in op.origin} >= set(made.ops[0].origin) > {graph.ops[-1].name}


def test_the_same_of_something_else_stays() -> None:
    """The mean of one tensor does not centre another one; the deviation of x is not that of its double."""
    for other in ("mean", "square"):
        s = Parts("onnx")
        x = s.input(SHAPE, dtype="float32")
        double = s.step("mul", x, s.number(2.0))
        d = s.step("sub", x, s.mean(double if other == "mean" else x))
        s.step("div", d, s.step("sqrt", s.variance(double if other == "square" else d)))
        made = kinds(equal_after(s.graph(s.ops[-1].outputs[0]), name_spellings))
        assert "layer_norm" not in made and made.count("rms_norm") == (other == "mean")


def test_parts_with_codes_between_them_stay() -> None:
    s = Parts("onnx")
    x = s.input(SHAPE, dtype="float32")
    d = centred(s, x)
    total = s.variance(d)
    s.value(total, (*SHAPE[:2], 1), scale=0.1)
    s.step("div", d, s.step("sqrt", total))
    graph = s.graph(s.ops[-1].outputs[0])
    assert kinds(name_spellings(graph)) == kinds(graph)
