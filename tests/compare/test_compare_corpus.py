"""Real models, where they are at hand: they are read, run, and each layer is close to TFLite's or ONNX's."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compare.reference import run_onnx, run_tflite
from atonc.compiler.frontends import onnx_qdq, tflite
from atonc.compiler.ops import run_op, start_values

CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "models"
SMALL = [
    "mobilenet_v1_0.25_96_tfs_int8.tflite",
    "blazeface_front_128_quant_pc_ff_od_wider_face.tflite",
    "closed__kai_jiang__code__kws__K1_BOARD_V1.0__models__kws_ref_model.onnx",
]
EVERY = bool(os.environ.get("ATONC_WHOLE_CORPUS"))
NO_REFERENCE = ("lstm", "person_detect", "weight_quant")  # no kernel here, none there, hybrid kernels that round inputs


def names() -> list[str]:
    if not EVERY:
        return SMALL
    found = sorted(path.name for path in CORPUS.glob("*") if path.suffix in (".tflite", ".onnx"))
    return [name for name in found if not any(part in name for part in NO_REFERENCE)]


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus (set ATONC_CORPUS)")
@pytest.mark.parametrize("name", names())
def test_layers_are_close_to_the_reference(name: str) -> None:
    pytest.importorskip("ai_edge_litert" if name.endswith(".tflite") else "onnxruntime", exc_type=ImportError)
    path = CORPUS / name
    graph = (tflite if path.suffix == ".tflite" else onnx_qdq).read_file(path)
    inputs = make_inputs(graph, 1)
    if path.suffix == ".tflite":
        expected = run_tflite(path, [inputs[n] for n in graph.inputs], all_tensors=True)
    else:
        expected = run_onnx(path, inputs, all_tensors=True)
    values = start_values(graph, inputs)
    compared = differing = 0
    for op in graph.ops:
        for output, result in zip(op.outputs, run_op(graph, op, values), strict=True):
            tensor, other = graph.tensors[output], expected.get(output)
            values[output] = result.codes
            if other is None or tensor.is_float or other.dtype.kind == "f":
                continue
            difference = np.abs(result.codes.astype(int) - other.astype(int))
            assert difference.max(initial=0) <= 1, op.name
            compared, differing = compared + difference.size, differing + int((difference > 0).sum())
            values[output] = other
    assert compared
    assert differing / compared < 0.05
