"""Synthetic inputs: deterministic, in range, different per seed, and with structure."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compare.inputs import float_range, make_input, make_inputs, make_noise, unit_values
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.inputs.images import pixel_codes
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from tests.frontends.tflite_models import chain_model


@pytest.mark.parametrize("kind", ["photo", "portrait", "audio"])
@pytest.mark.parametrize(
    ("shape", "layout"), [((1, 48, 64, 3), "NHWC"), ((1, 3, 48, 64), "NCHW"), ((1, 64, 96, 1), "NHWC")]
)
def test_values(kind: str, shape: tuple[int, ...], layout: str) -> None:
    first, again, other = (unit_values(shape, seed, layout, kind) for seed in (1, 1, 2))
    assert first.shape == shape
    assert 0.0 <= first.min() < first.max() <= 1.0
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).mean() > 0.01


def test_pictures_are_smooth_and_not_flat() -> None:
    picture = unit_values((1, 96, 96, 3), 3, "NHWC")[0]
    assert picture.std() > 0.1
    assert np.abs(np.diff(picture, axis=1)).mean() < 0.05  # neighbours are alike


def test_planar_inputs_of_tflite_models() -> None:
    planar, last = unit_values((1, 3, 40, 40), 1, "NHWC"), unit_values((1, 40, 40, 3), 1, "NHWC")
    assert planar.shape == (1, 3, 40, 40)
    assert np.abs(np.diff(planar, axis=3)).mean() < 0.05
    assert last.shape == (1, 40, 40, 3)


def test_codes_fill_the_range() -> None:
    tensor = Tensor("x", (1, 64, 64, 3), "int8", Quantisation.per_tensor(0.02, -5))
    codes = make_input(tensor, 1)
    assert codes.dtype == np.int8
    assert codes.min() < -60
    assert codes.max() > 60
    assert make_input(Tensor("v", (1, 12), "uint8"), 1).dtype == np.uint8


def test_codes_of_16_bits_fill_theirs() -> None:
    tensor = Tensor("x", (1, 64, 64, 3), "int16", Quantisation.per_tensor(1e-4, 0))
    codes = make_input(tensor, 1)
    noise = make_noise({"x": codes}, 1)["x"]
    assert codes.dtype == noise.dtype == np.int16
    assert codes.min() < -15_000 and codes.max() > 15_000
    assert noise.min() < -32_000 and noise.max() > 32_000


def test_pixels_fill_the_range_of_every_format() -> None:
    pixels = np.arange(256, dtype=np.uint8)
    for dtype in ("uint8", "int8", "int16"):
        codes, limits = pixel_codes(pixels, dtype), np.iinfo(dtype)
        assert codes.dtype == dtype and (codes[0], codes[-1]) == (limits.min, limits.max)
        assert len(set(np.diff(codes.astype(int)))) == 1


def test_graph_inputs() -> None:
    graph = read_tflite(chain_model())
    made = make_inputs(graph, 4)
    assert made["pixels"].shape == (1, 8, 8, 3)
    assert made["pixels"].dtype == np.uint8


def test_float_inputs_cover_the_range_that_they_are_quantised_to() -> None:
    x = Tensor("x", (1, 3, 8, 8), "float32")
    turned = Tensor("t", (1, 8, 8, 3), "float32")
    codes = Tensor("q", (1, 8, 8, 3), "int8", Quantisation.per_tensor(1.0, -128))
    ops = (
        Op("transpose", "t", ("x",), ("t",), {"perm": (0, 2, 3, 1)}),
        Op("quantize", "q", ("t",), ("q",)),
    )
    graph = Graph({t.name: t for t in (x, turned, codes)}, ops, ("x",), ("q",), source="onnx")
    assert float_range(graph, "x") == (0.0, 255.0)
    wide = Tensor("q", (1, 8, 8, 3), "int16", Quantisation.per_tensor(0.5, 0))
    assert float_range(Graph(graph.tensors | {"q": wide}, ops, ("x",), ("q",)), "x") == (-16384.0, 16383.5)
    assert make_inputs(graph, 1)["x"].max() > 100
    assert float_range(Graph({"x": x}, (), ("x",), ("x",)), "x") == (0.0, 1.0)


def test_inputs_of_one_shape_differ() -> None:
    """Else nobody would see two of them exchanged."""
    names = ("a", "b", "c")
    graph = Graph({name: Tensor(name, (1, 6, 6, 3), "float32") for name in names}, (), names, names)
    made = make_inputs(graph, 5)
    assert list(made) == list(names) and not np.array_equal(made["a"], made["b"])
    assert not np.array_equal(made["b"], made["c"]) and not np.array_equal(made["a"], make_inputs(graph, 6)["a"])
    alone = make_inputs(Graph({"a": graph.tensors["a"]}, (), ("a",), ("a",)), 5)
    assert np.array_equal(made["a"], alone["a"])
