"""What `atonc validate` says of every corpus model, and how far the reference's own kernels are from each other.

    OMP_NUM_THREADS=1 python benchmarks/validate_corpus.py [--only TEXT] [--samples N] [--cache FILE] [--write]

The corpus is $ATONC_CORPUS or ../shared/corpus. Models whose activations take more than 2 MB get two samples. The
cache keeps what was measured, so that a run can go on where another one ended.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from atonc.app import judging, validating
from atonc.app.distances import OutputResult
from atonc.app.references import References
from atonc.errors import AtoncError
from atonc.options import Options
from atonc.pipeline import compile_file

CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))
RESULTS = Path(__file__).parent / "results" / "validate.md"
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
        return {"refused": str(error)}
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
    return "| " + " | ".join(map(str, (name, *cells))) + " |"


def report(records: dict[str, Record]) -> str:
    run = [record for record in records.values() if "refused" not in record]
    outputs = [output for record in run for output in record["outputs"]]
    spread = [o for o in outputs if o["verdict"] == judging.SPREAD]
    lines = [
        "# `atonc validate` over the corpus",
        "",
        "Date 2026-11-15, 2-core aarch64 Linux, shared with other work. Script: `benchmarks/validate_corpus.py`.",
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    records: dict[str, Record] = {}
    if options.cache and options.cache.exists():
        records = json.loads(options.cache.read_text())
    for model in sorted((CORPUS / "models").iterdir()):
        if options.only in model.name and model.name not in records:
            records[model.name] = judge(model, options.samples)
            print(row(model.name, records[model.name]), file=sys.stderr, flush=True)
            if options.cache:
                options.cache.write_text(json.dumps(records))
    text = report(dict(sorted(records.items())))
    print(text)
    if options.write:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
