"""Faults planted into a network of ST's model zoo: which line of `atonc explain --accuracy` finds each?

The int8 model's own numbers without rounding are the float model; every fault goes into an early, a middle and a late
layer. What a fault does to a network without it is nothing, so the first or second line must be the planted one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import Compiled, compile_graph
from atonc.compiler.frontends.read import read
from atonc.compiler.inputs.inputs import real
from atonc.compiler.ir import Graph, Op, Quantisation
from atonc.compiler.request.options import Options
from atonc.insight.accuracy import edits
from atonc.insight.accuracy.explain import examine
from atonc.insight.accuracy.twin import SUMMED, is_format, make_twin
from atonc.insight.explain.types import ACTIVATION, ARITHMETIC, WEIGHTS
from benchmarks.shared.corpus import model
from benchmarks.shared.declare import ONE_MODEL, WRITE, Report
from benchmarks.shared.tables import head

MODEL = "mobilenet_v1_0.25_96_tfs_int8.tflite"
GROUP = "quantising"
ARGUMENTS = (ONE_MODEL.but(default=MODEL), WRITE)

SEEDS = (0, 1)
CLOSING = """The three that are later lines sit in late layers. The model has losses of its own (the dense layer and
DEPTHWISE_CONV_2D_5 are the first lines of the unchanged model); that these come before the planted ones was not
looked at row by row. "Sums saturate" limits a layer's codes in the program that is looked at; the compiler does not
do this by itself."""
Plant = Callable[[Graph, Op], Graph]
Samples = list[dict[str, np.ndarray]]


@dataclass(frozen=True)
class Fault:
    title: str
    part: str
    symptoms: tuple[str, ...]
    plant: Plant
    sites: str = "conv"  # or "input": the network's input; "spatial": a convolution over several inputs


def spanning(low_share: float, high_share: float) -> Plant:
    """The format of the layer's result spans these shares of its largest magnitude (its values are within 0..1, or
    -1..1)."""

    def plant(graph: Graph, op: Op) -> Graph:
        name = op.outputs[0]
        inputs = [{n: real(graph.tensors[n], v) for n, v in make_inputs(graph, seed).items()} for seed in SEEDS]
        peak = max(float(np.abs(make_twin(graph).run(one)[name]).max()) for one in inputs)
        return edits.refit(graph, name, low_share * peak, high_share * peak)

    return plant


def reweighted(change: Callable[[np.ndarray], np.ndarray], per_tensor: bool = False, share: float = 1.0) -> Plant:
    """The layer's weights from changed float ones, with a scale each or one for all."""

    def plant(graph: Graph, op: Op) -> Graph:
        twin = make_twin(graph).graph.tensors
        weights = change(np.asarray(twin[op.inputs[1]].data, np.float64).copy())
        bias = np.asarray(twin[op.inputs[2]].data).reshape(-1)
        if not per_tensor:
            return edits.per_channel(graph, op, weights, bias, share)
        scale = np.abs(weights).max() / 127
        codes = np.clip(np.rint(weights / scale), -127, 127).astype(np.int8)
        old, x = graph.tensors[op.inputs[1]], graph.tensors[op.inputs[0]]
        steps = np.clip(np.rint(bias / (scale * x.scale)), -edits.INT32, edits.INT32).astype(np.int32)
        known = graph.tensors[op.inputs[2]]
        changed = {
            old.name: replace(old, quant=Quantisation.per_tensor(scale), data=codes),
            known.name: replace(known, quant=None, dtype="int32", data=steps.reshape(known.shape)),
        }
        return replace(graph, tensors={**graph.tensors, **changed})

    return plant


def one_sign(weights: np.ndarray) -> np.ndarray:
    weights[:: max(2, len(weights) // 2)] *= -1
    return weights


def overflowing(graph: Graph, op: Op) -> Graph:
    """Weight scales so small that the bias leaves its 32 bits: the weights of half of the channels count nothing."""
    twin = make_twin(graph).graph.tensors
    weights = np.asarray(twin[op.inputs[1]].data, np.float64).copy()
    bias = np.asarray(twin[op.inputs[2]].data).reshape(-1)
    x, known, old = (graph.tensors[op.inputs[k]] for k in (0, 2, 1))
    scales = np.maximum(np.abs(weights).reshape(len(weights), -1).max(axis=1) / 127, 1e-12)
    loud = np.argsort(-np.abs(bias))[: len(bias) // 2]
    scales[loud] = np.abs(bias[loud]) / x.scale / 2.0**33
    codes = np.clip(np.rint(weights / scales.reshape(-1, *[1] * (weights.ndim - 1))), -127, 127).astype(np.int8)
    steps = np.clip(np.rint(bias / (scales * x.scale)), -edits.INT32, edits.INT32).astype(np.int32)
    quant = Quantisation(scales, np.zeros(len(scales), np.int64), 0)
    changed = {
        old.name: replace(old, quant=quant, data=codes),
        known.name: replace(known, quant=None, dtype="int32", data=steps.reshape(known.shape)),
    }
    return replace(graph, tensors={**graph.tensors, **changed})


FAULTS = (
    Fault("clipped at a sixth of its largest value", ACTIVATION, ("clipped",), spanning(0, 1 / 6)),
    Fault("range 60 times too wide", ACTIVATION, ("coarse",), spanning(0, 60)),
    Fault("range 2000 times too wide", ACTIVATION, ("dead",), spanning(0, 2000)),
    Fault("wrong zero point: the range goes from -0.9 to 0.2", ACTIVATION, ("zero-point",), spanning(-0.9, 0.2)),
    Fault("input range / 4", ACTIVATION, ("input-range",), spanning(-0.25, 0.25), "input"),
    Fault("input range x 60", ACTIVATION, ("input-range",), spanning(-60, 60), "input"),
    Fault("one scale for all weights", WEIGHTS, ("unlike-channels", "huge-channel"),
          reweighted(lambda w: w, per_tensor=True), "depthwise"),
    Fault("weights clipped at an eighth", WEIGHTS, ("clipped-weights",),
          reweighted(lambda w: w, share=1 / 8), "spatial"),
    Fault("two channels of another sign", WEIGHTS, ("weights-differ",), reweighted(one_sign)),
    Fault("bias beyond 32 bits", WEIGHTS, ("bias-overflow",), overflowing),
)  # fmt: skip


def sites(graph: Graph, kind: str) -> list[Op]:
    if kind == "input":
        return [Op("input", name, (), (name,)) for name in graph.inputs if is_format(graph.tensors[name])] or [
            op for op in graph.ops if op.kind == "quantize" and op.inputs[0] in graph.inputs
        ]
    found = [op for op in graph.ops if op.kind in SUMMED and len(op.inputs) > 2 and op.outputs[0] not in graph.outputs]
    if kind == "spatial":
        found = [op for op in found if np.prod(graph.tensors[op.inputs[1]].shape[1:]) >= 16]
    if kind == "depthwise":
        found = [op for op in found if int(op.attrs.get("groups", 1)) > 1]
    return [found[len(found) // 8], found[len(found) // 2], found[-2]]


def line_of(source: Graph, original: Graph, fault: Fault, op: Op, inputs: Samples) -> tuple[int, str]:
    options = Options(verify=False)
    compiled = compile_graph(fault.plant(source, op), options)
    return _line(compiled, original, fault.part, op.name, inputs, options)


def _line(
    compiled: Compiled, original: Graph, part: str, name: str, inputs: Samples, options: Options
) -> tuple[int, str]:
    """The number of the line that names this layer and part, 0 if none does, and its symptom."""
    found = examine(compiled, original, inputs, options, remedies=False).findings
    for number, one in enumerate(found, 1):
        if (one.layer, one.part) == (name, part):
            return number, one.symptom
    return 0, ""


def short_table(source: Graph, original: Graph, inputs: Samples) -> list[str]:
    """Faults of the program: the NPU's sums saturate at a quarter of their size in one layer."""
    rows = []
    for op in sites(source, "conv"):
        options = Options(verify=False)
        compiled = compile_graph(source, options)
        meanings = compiled.mapped.context.semantics
        node = next(o for o in compiled.graph.ops if op.name in o.origin and o.name in meanings and o.kind == op.kind)
        whole, zero = meanings[node.name], compiled.graph.tensors[node.outputs[0]].zero_point

        def limited(given: list[np.ndarray], whole=whole, zero=zero) -> list[np.ndarray]:
            return [np.clip(codes, zero - 32, zero + 32) for codes in whole.codes(given)]

        meanings[node.name] = replace(whole, codes=limited)
        line, symptom = _line(compiled, original, ARITHMETIC, op.name, inputs, options)
        rows.append(_row("sums saturate on the NPU", op.name, line, symptom, ("saturation",)))
    return rows


def _row(title: str, name: str, line: int, symptom: str, wanted: tuple[str, ...]) -> str:
    return f"| {title} | {name} | {line or 'not found'} | {symptom} | {'yes' if symptom in wanted else 'no'} |"


def run(arguments: argparse.Namespace) -> Report:
    path = model(arguments.model)
    started = time.process_time()
    source = read(path)
    original = make_twin(source)
    inputs = [{n: real(source.tensors[n], v) for n, v in make_inputs(source, seed).items()} for seed in SEEDS]
    plain = original.graph
    rows = []
    for fault in FAULTS:
        for op in sites(source, fault.sites):
            line, symptom = line_of(source, plain, fault, op, inputs)
            rows.append(_row(fault.title, op.name, line, symptom, fault.symptoms))
    rows += short_table(source, plain, inputs)
    lines = [row.split(" | ")[2] for row in rows]
    top, right = sum(line in ("1", "2") for line in lines), sum(row.endswith("yes |") for row in rows)
    page = [
        f"# Planted faults: {path.name}\n",
        "The float model is the int8 model's own numbers without rounding; two synthetic pictures.\n",
        f"{top} of {len(rows)} are the first or second line of the report, {right} with the symptom that fits;",
        f"{time.process_time() - started:.0f} s of one core.\n",
        *head("fault", "layer", "line", "symptom", "as expected"),
        *rows,
        "",
        CLOSING,
    ]
    return Report("\n".join(page) + "\n", failed=right < len(rows))
