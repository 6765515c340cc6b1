"""Lifetimes of real models, tensor by tensor: the packer meets the lower bound."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from atonc.compiler.frontends import onnx_qdq, tflite
from atonc.compiler.ir import Graph
from atonc.compiler.lower.context import item_bytes
from atonc.compiler.place import board, place
from atonc.compiler.place.check import check
from atonc.compiler.plan.types import Buffer, BufferKind, CpuPlan, Planned, StepPlan

CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "models"
SMALL = [
    "centerface.tflite",
    "mobilenet_v1_0.25_96_tfs_int8.tflite",
    "person_detect.tflite",
    "st_yolo_x_nano_480_1.0_0.25_3_st_int8.tflite",
    "stft_tcnn_medium_sigmoid_nonorm_qdq_pc_ff_257x40_*.onnx",
]
EVERY = bool(os.environ.get("ATONC_WHOLE_CORPUS"))


def names() -> list[str]:
    if not EVERY:
        return SMALL
    return sorted(p.name for p in CORPUS.glob("*") if p.suffix in (".tflite", ".onnx") and "lstm" not in p.name)


def steps_of(graph: Graph) -> tuple[list[StepPlan], dict[str, Buffer]]:
    """One step per operator."""
    plans: list[StepPlan] = []
    buffers: dict[str, Buffer] = {}
    for op in graph.ops:
        reads, writes = (tuple(dict.fromkeys(n for n in names if n)) for names in (op.inputs, op.outputs))
        plans.append(CpuPlan((op.name,), op.name, op.name, reads, writes))
        for name in (*reads, *writes):
            tensor = graph.tensors[name]
            kind = BufferKind.CONSTANT if tensor.is_constant else BufferKind.ACTIVATION
            buffers[name] = Buffer(name, max(1, tensor.elements * item_bytes(tensor)), kind)
    return plans, buffers


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus (set ATONC_CORPUS)")
@pytest.mark.parametrize("name", names())
def test_models_meet_the_lower_bound(name: str) -> None:
    matches = sorted(CORPUS.glob(name))
    if not matches:
        pytest.skip(f"{name} is not in this corpus")
    graph = (tflite if name.endswith(".tflite") else onnx_qdq).read_file(matches[0])
    plans, buffers = steps_of(graph)
    dk = board("stm32n6570-dk")
    layout = place(Planned(plans, buffers, {}, graph.inputs, graph.outputs), dk)
    assert check(layout.placed, plans, dk, {}, graph.inputs, graph.outputs) == []
    assert layout.spilled_bytes or layout.peak_bytes == layout.lower_bound_bytes
