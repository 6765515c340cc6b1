"""What `atonc validate` says of every corpus model, and how far the reference's own kernels are from each other.

Models whose activations take more than 2 MB get two samples.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.insight.validating import judging, validating
from atonc.insight.validating.judging import OutputResult
from atonc.insight.validating.references import References
from atonc.machine.base.errors import AtoncError
from benchmarks.shared import tables
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import FRESH, KEEP, MODEL_FILES, ONLY, SAMPLES, WRITE, Report
from benchmarks.shared.kept import Kept

GROUP = "truth"
ARGUMENTS = (SAMPLES.but(default=10), MODEL_FILES, ONLY, KEEP, FRESH, WRITE)

LARGE_BYTES, FEW = 2 << 20, 2

Record = dict[str, Any]


def judge(model: Path, samples: int) -> Record:
    started = time.perf_counter()
    try:
        with References(model) as references:
            compiled = compile_file(model, Options(verify=False))
            count = FEW if compiled.layout.peak_bytes > LARGE_BYTES else samples
            found = validating.validate(references, compiled, validating.synthetic_samples(compiled.source, count))
    except AtoncError as error:
        return {"refused": error.one_line}
    outputs = [_output(output) for output in found.outputs]
    return {
        "samples": count,
        "outputs": outputs,
        "layer": max((layer.max_diff for layer in found.layers), default=0.0),
        "operator": max((check.max_diff for check in found.reading), default=0.0),
        "operators": len(found.reading),
        "complaints": list(judging.complaints(found)),
        "notes": list(found.notes),
        "seconds": round(time.perf_counter() - started, 1),
    }


def _output(output: OutputResult) -> Record:
    widest = judging.widest(output)
    return {
        "verdict": judging.judge(output),
        "cos": output.metrics.cos,
        "kernels": min((s.metrics.cos for s in output.spread), default=1.0),
        "ratio": output.metrics.rmse / widest if widest else None,
    }


def row(name: str, record: Record) -> str:
    if "refused" in record:
        return f"| {name} | | | | | | | refused: {record['refused'][:90]} | |"
    worst = min(record["outputs"], key=lambda o: o["cos"])
    ratio = "" if worst["ratio"] is None else f"{worst['ratio']:.2f}"
    verdict = "; ".join(record["complaints"])[:160] or worst["verdict"]
    cells = [record["samples"], f"{worst['cos']:.5f}", f"{worst['kernels']:.5f}", ratio, f"{record['layer']:g}"]
    cells += [f"{record['operator']:g} of {record['operators']}", verdict, record["seconds"]]
    return tables.row((name, *cells))


def report(records: dict[str, Record]) -> str:
    run = [record for record in records.values() if "refused" not in record]
    outputs = [output for record in run for output in record["outputs"]]
    spread = [o for o in outputs if o["verdict"] == judging.SPREAD]
    lines = [
        "# `atonc validate` over the corpus",
        "",
        "Reference: TFLite's reference kernels; onnxruntime without optimisation. *cosine*: worst output of the",
        "program to the reference; *kernels*: the same for the reference's furthest sibling (TFLite's optimised or",
        "XNNPACK kernels, onnxruntime with optimisation). *ratio*: root mean square distance of the program to that of",
        "the sibling. *layer*: largest difference of a layer from exact arithmetic on the inputs it really had, codes;",
        "*operator*: largest difference of an operator as read from the reference's on the same inputs, and how many.",
        "",
        f"{len(records)} models: {sum(not r['complaints'] for r in run)} pass, "
        f"{sum(bool(r['complaints']) for r in run)} fail, {len(records) - len(run)} refused. {len(outputs)} outputs: "
        f"{sum(o['verdict'] == judging.CLOSE for o in outputs)} close by themselves, {len(spread)} within "
        f"{judging.MARGIN} times the kernels' spread (largest ratio "
        f"{max((o['ratio'] for o in spread), default=0.0):.2f}), "
        f"{sum(o['verdict'] == judging.FAR for o in outputs)} too far.",
        "",
        "| model | samples | cosine | kernels | ratio | layer | operator | verdict | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *(row(name, record) for name, record in records.items()), ""])


def run(arguments: argparse.Namespace) -> Report:
    kept, records = Kept(arguments.keep, arguments.fresh), {}
    for model in chosen(arguments):
        records[model.name] = kept.of(model.name, partial(judge, model, arguments.samples))
        print(row(model.name, records[model.name]), file=sys.stderr, flush=True)
    return Report(report(records))
