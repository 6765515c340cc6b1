"""CPU operators of real models with the values that they meet there: C, emulator and exact arithmetic byte for byte."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.frontends.read import read
from atonc.compiler.ops import run_graph
from atonc.compiler.passes import order
from tests.kernels.three_ways import same_three_ways

CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).resolve().parents[3] / "shared" / "corpus")) / "models"
BYTES = ("int8", "uint8")
MODELS = (
    "ds_cnn_quantized.tflite",  # 16-bit activations: convolutions, mean, dense, softmax
    "face_detection_front_128_weight_quant.tflite",  # float activations with byte weights
    "kws_ref_model.tflite",
    "mnist_int8_io_i8.tflite",
    "force_int_quant.tflite",
    "closed__kai_jiang__code__kws__K1_BOARD_V1.0__models__kws_ref_model.onnx",  # softmax of floats
)


@pytest.mark.parametrize("name", MODELS)
def test_operators_that_never_run_on_the_npu(name: str) -> None:
    if not (CORPUS / name).exists():
        pytest.skip("the model corpus is not here")
    graph = order.run(read(CORPUS / name))
    values = run_graph(graph, make_inputs(graph, 3))
    count = 0
    for op in graph.ops:
        flowing = [n for n in (*op.inputs, *op.outputs) if n and graph.tensors[n].data is None]
        if op.kind == "softmax" or any(graph.tensors[n].dtype not in BYTES for n in flowing):
            same_three_ways(graph, op, {n: values[n] for n in op.inputs if n and graph.tensors[n].data is None})
            count += 1
    assert count


@pytest.mark.parametrize("name", ["kws_ref_model.tflite", "mnist_int8_io_i8.tflite", "pretrainedResnet_quant.tflite"])
def test_every_operator_could_run_on_the_cpu(name: str) -> None:
    if not (CORPUS / name).exists():
        pytest.skip("the model corpus is not here")
    graph = order.run(read(CORPUS / name))
    values = run_graph(graph, make_inputs(graph, 3))
    for op in graph.ops:
        inputs = {n: np.asarray(values[n]) for n in op.inputs if n and graph.tensors[n].data is None}
        same_three_ways(graph, op, inputs)
