"""Resize takes the pixels that onnxruntime takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.machine.base.errors import AtoncError, ModelError, UnsupportedError
from tests.frontends.onnx_models import Net, model_of, same

COORDINATES = (
    "asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize",
)  # fmt: skip
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
X = {"x": (TensorProto.FLOAT, (1, 2, 10, 7))}


def values() -> dict[str, Any]:
    return {"x": np.random.default_rng(3).normal(size=(1, 2, 10, 7)).astype(np.float32)}


def resized(scales: Any = None, sizes: Any = None, region: Any = None, **attrs: Any) -> bytes:
    net = Net()
    inputs = ["x", net.const(np.float32(region)) if region else "", net.const(np.float32(scales)) if scales else ""]
    if sizes:
        inputs.append(net.const(np.array(sizes)))
    return model_of(net, X, net.node("Resize", inputs, **attrs))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_sizes_and_scales(mode: str, coordinates: str) -> None:
    pytest.importorskip("onnxruntime")
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates}
    for target in ({"scales": [1, 1, 0.7, 2.4]}, {"scales": [1, 1, 0.6, 0.3]}, {"sizes": [1, 2, 1, 15]}):
        if coordinates == "align_corners" and mode != "nearest" and "scales" in target:
            with pytest.raises(UnsupportedError, match=r"no whole size(?s:.*)onnxruntime aligns"):
                read_onnx(resized(**target, **attrs))
            continue
        for rounding in ROUNDINGS if mode == "nearest" else ("floor",):
            same(resized(**target, **attrs, **({"nearest_mode": rounding} if mode == "nearest" else {})), values())


def test_ten_times_seven_tenths_are_seven() -> None:
    """In single precision; the exact product is less."""
    graph = read_onnx(resized(scales=[1, 1, 0.7, 1]))
    assert graph.tensors[graph.outputs[0]].shape == (1, 2, 7, 7)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_positions_near_the_middle_of_two_pixels(rounding: str) -> None:
    pytest.importorskip("onnxruntime")
    for scale in (2.4, 1.2, 0.9, 2.9):
        attrs = {"coordinate_transformation_mode": "half_pixel_symmetric", "nearest_mode": rounding}
        same(resized(scales=[1, 1, scale, 2], **attrs), values())


def test_regions_with_a_value_outside() -> None:
    pytest.importorskip("onnxruntime")
    region = [0, 0, -0.2, 0.3, 1, 1, 0.8, 1.4]
    for mode in ("nearest", "linear", "cubic"):
        attrs = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": mode, "extrapolation_value": 2.5}
        same(resized(sizes=[1, 2, 6, 9], region=region, **attrs), values())


@pytest.mark.parametrize("attrs", [
    {"mode": "linear", "antialias": 1}, {"mode": "cubic", "antialias": 1},
    {"mode": "linear", "antialias": 1, "exclude_outside": 1}, {"mode": "cubic", "exclude_outside": 1},
    {"mode": "cubic", "cubic_coeff_a": -0.5},
])  # fmt: skip
def test_blends(attrs: dict[str, Any]) -> None:
    pytest.importorskip("onnxruntime")
    same(resized(scales=[1, 1, 0.4, 0.65], **attrs), values())


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_aspect_ratios_are_kept(policy: str) -> None:
    pytest.importorskip("onnxruntime")
    same(resized(sizes=[5, 20], axes=[2, 3], keep_aspect_ratio_policy=policy), values())


def test_codes_are_blended_as_integers() -> None:
    pytest.importorskip("onnxruntime")
    net = Net()
    made = net.node("Resize", [net.q("x", 0.02, 3), "", net.const(np.float32([1, 1, 2, 2]))], mode="linear")[0]
    same(model_of(net, X, [made]), values(), codes=1.0)


@pytest.mark.parametrize(("target", "kind"), [
    ({"scales": [1, 1, 1.03, 1.05]}, UnsupportedError), ({"scales": [1, 1, 0.05, 1]}, ModelError),
    ({"scales": [1, 1, 2]}, ModelError), ({"sizes": [1, 2, 0, 7]}, ModelError),
])  # fmt: skip
def test_refusals(target: dict[str, Any], kind: type[AtoncError]) -> None:
    with pytest.raises(kind):
        read_onnx(resized(**target))
