"""Real models, where they are at hand: the canonical graph gives the outputs of the model as it was read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.frontends.read import read
from atonc.compiler.ops import run_graph
from atonc.compiler.passes import run

CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "models"
SMALL = [
    "blazeface_front_128_quant_pc_ff_od_wider_face.tflite",
    "mobilenet_v1_0.25_128_quant.tflite",
    "kws_ref_model.tflite",
    "stft_tcnn_medium_sigmoid_nonorm_qdq_pc_ff_257x40_int8.onnx",
    "coco_2017_person__st_yolo_x_nano_192_0.33_0.25_qdq_int8.onnx",
    "mobilefacenet_int8_faces.onnx",
]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus (set ATONC_CORPUS)")
@pytest.mark.parametrize("name", SMALL)
def test_canonical_graphs_equal_the_models(name: str) -> None:
    graph = read(CORPUS / name)
    canonical = run(graph)
    inputs = make_inputs(graph, 1)
    before, after = run_graph(graph, inputs), run_graph(canonical, inputs)
    for output in graph.outputs:
        if graph.tensors[output].is_float:
            np.testing.assert_allclose(after[output], before[output], rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(after[output], before[output])
    assert all(op.attrs.get("layout", "NHWC") == "NHWC" for op in canonical.ops)
