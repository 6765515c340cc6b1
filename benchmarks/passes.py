"""The passes on real models: the canonical graph must give the outputs of the model as it was read, bit for bit."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.frontends.read import read
from atonc.compiler.ir import Graph
from atonc.compiler.ops import run_graph
from atonc.compiler.passes import PASSES
from atonc.compiler.passes import run as run_passes
from atonc.machine.base.errors import AtoncError
from benchmarks.shared import tables
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import MODEL_FILES, ONLY, WRITE, Report, argument

GROUP = "truth"
EACH = argument("--each", action="store_true", help="every pass against the graph before it")
ARGUMENTS = (MODEL_FILES, ONLY, EACH, WRITE)

HEAD = """# Operators that remain after the passes

Both graphs run in exact arithmetic on one input; *equal* means every code of every output (real numbers: relative
difference below 1e-5). A kind with :f works on real numbers.

| model | operators read | after | equal | seconds | kinds |
|---|---|---|---|---|---|
"""


def differences(before: Graph, after: Graph, seed: int = 1) -> Iterator[str]:
    inputs = make_inputs(before, seed)
    expected, found = run_graph(before, inputs), run_graph(after, inputs)
    for name in before.outputs:
        a, b = expected[name], found[name]
        if a.shape != b.shape:
            yield f"{name}: shape {b.shape} instead of {a.shape}"
        elif before.tensors[name].is_float:
            if not np.allclose(a, b, rtol=1e-5, atol=1e-6):
                yield f"{name}: real values differ by {np.abs(a - b).max():.3g}"
        elif not np.array_equal(a, b):
            yield f"{name}: {int((a != b).sum())} of {a.size} codes differ"


def kinds(graph: Graph) -> str:
    counts: Counter[str] = Counter()
    for op in graph.ops:
        live = [graph.tensors[n] for n in (*op.inputs, *op.outputs) if n and not graph.tensors[n].is_constant]
        real = op.kind not in ("quantize", "dequantize") and any(t.is_float for t in live)
        counts[f"{op.kind}:f" if real else op.kind] += 1
    return ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items(), key=lambda item: (-item[1], item)))


def check_each(graph: Graph) -> None:
    for step in PASSES:
        after = step(graph)
        for difference in differences(graph, after):
            print(f"    {step.__name__}: {difference}")
        graph = after


def row(path: Path, each: bool) -> str:
    try:
        graph = read(path)
    except AtoncError as error:
        return f"| {path.name} | | | refused | | {error} |"
    started = time.perf_counter()
    canonical = run_passes(graph)
    seconds = time.perf_counter() - started
    if each:
        check_each(graph)
    wrong = "; ".join(differences(graph, canonical)) or "yes"
    cells = (path.name, len(graph.ops), len(canonical.ops), wrong, f"{seconds:.2f}", kinds(canonical))
    return tables.row(cells)


def run(arguments: argparse.Namespace) -> Report:
    rows = []
    for path in chosen(arguments):
        rows.append(row(path, arguments.each))
        print(rows[-1], file=sys.stderr, flush=True)
    return Report(HEAD + "\n".join(rows) + "\n")
