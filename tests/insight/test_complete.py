"""Nothing is left without a reason: layers on the CPU, layers in a slow form, in models of every kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import CPU, NPU, NetworkView
from tests.insight.complete import gaps, unusual
from tests.real_networks import usual

ROOT = Path(__file__).parent.parent.parent
# small ones, chosen for their operators: dense, pooling, split and concat, LSTM, float, uint8, wide kernels, resize
SMALL = (
    "ad01_int8.tflite",
    "baseline_conv2d_32f_5x5_int8.tflite",
    "cifar10__resnet_v1_8_32_tfs_int8.tflite",
    "ds_cnn_quantized.tflite",
    "esc10__miniresnet_1stacks_64x50_tl_int8.tflite",
    "fomo_face_detection.tflite",
    "force_int_quant.tflite",
    "micro_speech_quantized.tflite",
    "split_concat.tflite",
    "yunetn_320_qdq_int8.onnx",
)


def _explained(path: Path) -> NetworkView:
    return network_view(generating.analyze(path, Options(verify=False)))


@pytest.mark.parametrize("name", ["digits.tflite", "digits.onnx"])
def test_the_bundled_models_are_explained(name: str) -> None:
    network = _explained(ROOT / "examples" / "digits" / name)
    assert gaps(network) == []
    assert any(layer.on == CPU for layer in network.layers)
    assert any(layer.on == NPU and unusual(layer) for layer in network.layers)


@pytest.mark.parametrize("name", SMALL)
def test_models_of_the_corpus_are_explained(name: str) -> None:
    assert gaps(network_view(usual(name))) == []


def test_a_gap_is_found() -> None:
    from dataclasses import replace

    options = Options(verify=False, schedule_without=("fuse",))  # then a layer has several epochs
    network = network_view(generating.analyze(ROOT / "examples" / "digits" / "digits.tflite", options))
    bare = tuple(replace(layer, decisions=()) for layer in network.layers)
    found = gaps(replace(network, layers=bare))
    assert any("on the CPU without a rule" in sentence for sentence in found)
    assert any("epochs without a rule" in sentence for sentence in found)
