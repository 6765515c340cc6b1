"""Layer by layer: what a model that `quantize` has made loses against the float model, on samples that judged it."""

from __future__ import annotations

from pathlib import Path

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.request.options import Options
from atonc.insight.accuracy.explain import examine
from atonc.insight.explain.types import AccuracyReport
from atonc.insight.quantizing.loading import read
from atonc.insight.quantizing.samples import read_samples
from atonc.insight.quantizing.types import QuantizeOptions

MEASURED = 4  # samples: layers differ by more than samples do


def examine_quantised(compiled: Compiled, model: Path, data: Path, settings: QuantizeOptions) -> AccuracyReport:
    """`compiled`: of the int8 model; `model` and `data`: what it was made of. No remedies: quantising tried its own."""
    exported = read(model, settings.fixed_shapes, settings.cut_outputs)
    original = read_onnx(exported.SerializeToString(), model.name)
    samples = read_samples(data, {name: original.tensors[name].shape for name in original.inputs}, settings)
    _, held = samples.split()
    return examine(compiled, original, held[:MEASURED], Options(verify=False), remedies=False)
