"""The interpreter of the canonical graph against TFLite's kernels and onnxruntime, free running, value for value.

Operators whose kernels differ are named with the share of values in
which they do when they get the reference's own inputs.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compare.metrics import cosine
from atonc.compiler.compare.reference import run_onnx, run_tflite
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph
from atonc.compiler.ops import evaluate, run_graph
from atonc.compiler.passes import order
from atonc.machine.base.errors import AtoncError
from benchmarks.shared import tables
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import INPUTS, MODEL_FILES, ONLY, WRITE, Report

GROUP = "truth"
ARGUMENTS = (INPUTS.but(default=2), MODEL_FILES, ONLY, WRITE)

FLOAT_STEP = 1e-6  # of the largest value: floats are added in another order


def judge(path: Path, inputs: int) -> list[Any]:
    """Outputs, exact ones, worst percentage of exact values, worst cosine, operators that differ by themselves."""
    source = read(path)
    graph = order.run(source)
    exact: dict[str, list[float]] = defaultdict(list)
    cosines, differing = [], defaultdict(list)
    for seed in range(inputs):
        sample = make_inputs(source, seed)
        tflite = path.suffix == ".tflite"
        tensors = run_tflite(path, sample, all_tensors=True) if tflite else run_onnx(path, sample)
        found = run_graph(graph, sample)
        for name in source.outputs:
            wanted, got = (np.ravel(np.asarray(side[name], np.float64)) for side in (tensors, found))
            near = FLOAT_STEP * float(np.abs(wanted).max(initial=1e-30)) if source.tensors[name].is_float else 0.0
            exact[name].append(100.0 * float(np.mean(np.abs(wanted - got) <= near)))
            cosines.append(float(cosine(wanted, got)))
        if tflite:
            for kind, share in by_operator(source, tensors | sample):
                differing[kind].append(share)
    whole = sum(min(shares) == 100.0 for shares in exact.values())
    kinds = ", ".join(f"{k} {np.mean(v):.3f} %" for k, v in sorted(differing.items()) if np.mean(v) > 0)
    return [len(exact), whole, f"{min(map(min, exact.values())):.2f}", f"{min(cosines):.6f}", kinds or "none"]


def by_operator(graph: Graph, tensors: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Kind and percentage of codes that differ, for every operator on codes; each gets the reference's inputs."""
    found = []
    for op in graph.ops:
        out = graph.tensors[op.outputs[0]]
        data = {n: graph.tensors[n].data for n in op.inputs if n}
        values = [None if not n else data[n] if data[n] is not None else tensors.get(n) for n in op.inputs]
        missing = any(v is None for v, n in zip(values, op.inputs, strict=True) if n)
        if missing or out.is_float or out.name not in tensors:
            continue
        codes = evaluate(graph, op, values)[0].codes
        different = np.asarray(codes).reshape(-1) != np.asarray(tensors[out.name]).reshape(-1)
        found.append((op.kind, 100.0 * float(different.mean())))
    return found


def run(arguments: argparse.Namespace) -> Report:
    rows = []
    for path in chosen(arguments):
        try:
            cells = judge(path, arguments.inputs)
        except AtoncError as error:
            cells = [0, 0, "", "", f"cannot run: {str(error).splitlines()[0][:90]}"]
        rows.append((path.name, *cells))
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    return Report(report(rows, arguments.inputs))


def report(rows: list[tuple[Any, ...]], inputs: int) -> str:
    lines = [
        "# The interpreter against the kernels of the source",
        "",
        f"{inputs} inputs. The canonical graph (after all passes) runs in",
        "the interpreter, the model in TFLite's reference kernels or onnxruntime without optimisation, both from the",
        "same input to the outputs. *exact %*: output values that are equal, worst output and input. *operators*:",
        "TFLite's that give other codes when they get the reference's own inputs, with the share of their values.",
        "",
    ]
    for suffix, title in ((".tflite", "TFLite"), (".onnx", "ONNX (computed in single precision by onnxruntime)")):
        some = [row for row in rows if row[0].endswith(suffix) and row[1]]
        outputs, same = sum(row[1] for row in some), sum(row[2] for row in some)
        lines.append(f"- {title}: {len(some)} models, {same} of {outputs} outputs equal in every value.")
    lines += ["", "| model | outputs | exact | exact % | cosine | operators |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *(tables.row(row) for row in rows), ""])
