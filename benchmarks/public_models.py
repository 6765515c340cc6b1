"""Compiles quantised models that are not in the corpus, and says what came of each.

    OMP_NUM_THREADS=1 python benchmarks/public_models.py FOLDER... [--only TEXT] [--cache DIR] [--fresh]
                                                         [--limit SECONDS] [--write]

Each FOLDER holds .tflite and .onnx files and manifest.csv (file, where it is published): nothing is downloaded. Files
with the same content count once. Each model is generated with verification in a process of its own, then compared with
the reference kernels.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import median

from compile_corpus import figures, kernels_of, layers, outputs, references, sensitivity
from corpus_report import NOISE, Record

from atonc import validating
from atonc.emulation import Emulation
from atonc.errors import AtoncError
from atonc.generating import analyze, generate
from atonc.options import Options

RESULTS = Path(__file__).parent / "results" / "public_models.md"
INPUTS, NOISY = 4, 2
CLOSE, OF_KERNELS = 0.999, 0.003
HEAD = """# Public models outside the corpus

Date 2026-11-15, 2-core x86-64 Linux that others used too, one thread. Script: `benchmarks/public_models.py`; the models
are not part of this repository.

- *outcome*: **verified**: `atonc generate` wrote its files, every layer of the program is within its limit of exact
  arithmetic on the emulator, and the outputs are close to the reference; **differs**: not so; **refused**: exit code 2
  with the message below the table; **failed**: none of these.
- *epochs*: on the NPU; *CPU ops* with the rule that sent them there; *ms*: predicted, CPU included, never measured.
- *layer max*: each layer on the inputs it really had against exact arithmetic, in codes.
- *cosine*: worst output over {inputs} inputs to TFLite's reference kernels (onnxruntime without optimisation);
  *kernels*: the same for the reference's other kernel sets, whichever is further. Where the reference cannot run the
  model, exact arithmetic takes its place.
- *s*, *MB*: `generate` with verification and all files, seconds on the clock and largest resident memory.

"""


# --------------------------------------------------------------------------------------------------------- one model


def judge(model: Path) -> Record:
    started = time.perf_counter()
    try:
        view = analyze(model, Options())
        with tempfile.TemporaryDirectory() as folder:
            generate(view, Path(folder))
    except AtoncError as error:
        return {"refused": str(error), "error": type(error).__name__, "seconds": time.perf_counter() - started}
    compiled = view.compiled
    record = figures(compiled) | {"seconds": time.perf_counter() - started, "megabytes": _megabytes()}
    record["why"] = sorted(Counter(f"{reason.op}: {reason.rule}" for reason in compiled.mapped.reasons).items())
    samples = validating.synthetic_samples(compiled.source, INPUTS)
    emulation = Emulation(compiled.program, compiled.graph)
    record["layers"] = layers(compiled, emulation, samples[:1])
    expected = [references(model, compiled, sample) for sample in samples]
    runs = [emulation.run(validating.program_inputs(compiled, sample)) for sample in samples]
    record["reference"] = kernels_of(model).yardstick
    record["outputs"] = outputs(compiled, runs, expected)
    if not all(map(close, record["outputs"])):
        found = sensitivity(compiled, samples[:NOISY], expected[:NOISY])
        record["outputs"] = [output | more for output, more in zip(record["outputs"], found, strict=True)]
    return record


def _megabytes() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def collect(model: Path, options: argparse.Namespace) -> Record:
    """From the cache, or in a process of its own."""
    kept = options.cache / f"{model.name}-{fingerprint(model)}.json"
    if kept.exists() and not options.fresh:
        return dict(json.loads(kept.read_text()))
    command = [sys.executable, __file__, str(model), "--one"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit, check=False)
        record = dict(json.loads(done.stdout)) if done.returncode == 0 else {"failed": _last_lines(done.stderr)}
    except subprocess.TimeoutExpired:
        record = {"failed": f"more than {options.limit:.0f} s"}
    kept.write_text(json.dumps(record))
    return record


def fingerprint(model: Path) -> str:
    """Of the content: what a reader needs to see whether he has the same file."""
    return hashlib.sha256(model.read_bytes()).hexdigest()[:12]


def distinct(folders: list[Path]) -> tuple[dict[str, Path], dict[str, str]]:
    """Models by name, small ones first, each content once; and where each is published, with its fingerprint."""
    found, published, seen = dict[str, Path](), dict[str, str](), set[str]()
    for folder in folders:
        manifest = folder / "manifest.csv"
        sources = {line[0]: line[1] for line in csv.reader(manifest.open())} if manifest.exists() else {}
        for path in sorted(folder.iterdir()):
            if path.suffix not in (".tflite", ".onnx") or (mark := fingerprint(path)) in seen:
                continue
            name = path.name if path.name not in found else f"{path.stem}_{mark}{path.suffix}"
            seen.add(mark)
            found[name], published[name] = path, f"{sources.get(path.name, folder.name)} (sha256 {mark})"
    return dict(sorted(found.items(), key=lambda item: item[1].stat().st_size)), published


def _last_lines(text: str) -> str:
    return " / ".join(line.strip() for line in text.strip().splitlines()[-4:])[-600:] or "no output"


# ------------------------------------------------------------------------------------------------------------- report


def outcome(record: Record) -> str:
    if "failed" in record:
        return "failed"
    if "refused" in record:
        return "refused"
    return "verified" if not record["layers"]["bad"] and all(map(close, record["outputs"])) else "differs"


def close(output: Record) -> bool:
    return bool(output["cosine"] >= min(CLOSE, output["spread"] - OF_KERNELS))


def row(name: str, where: str, record: Record) -> str:
    if "outputs" not in record:
        return f"| {name} | {where} | {outcome(record)} | | | | | | | {record.get('seconds', 0):.1f} | |"
    cosines = [output["cosine"] for output in record["outputs"]]
    others = [output["spread"] for output in record["outputs"]]
    cells = [
        name,
        where,
        outcome(record),
        record["npu"],
        ", ".join(f"{count} {why}" for why, count in record["why"]) or "none",
        f"{record['latency_ms']:.2f}",
        f"{record['layers']['max_diff']:g}",
        f"{min(cosines):.5f}",
        f"{min(others):.5f}",
        f"{record['seconds']:.1f}",
        record["megabytes"],
    ]
    return f"| {' | '.join(map(str, cells))} |"


def report(records: dict[str, Record], published: dict[str, str]) -> str:
    counts = Counter(map(outcome, records.values()))
    run = [r for r in records.values() if "outputs" in r]
    lines = [
        f"{len(records)} models: " + ", ".join(f"{count} {what}" for what, count in counts.most_common()) + ".",
        f"Outputs at cosine {CLOSE} or as close as the reference's other kernels less {OF_KERNELS}: "
        f"{sum(close(o) for r in run for o in r['outputs'])} of {sum(len(r['outputs']) for r in run)}. "
        f"Models without a layer above its limit: {sum(not r['layers']['bad'] for r in run)} of {len(run)}.",
        f"Seconds: median {median(_all(run, 'seconds')):.1f}, largest {max(_all(run, 'seconds')):.1f}. "
        f"Memory: at most {max(_all(run, 'megabytes')):.0f} MB.",
        "",
        "| model | published in | outcome | epochs | CPU ops: rule | ms | layer max | cosine | kernels | s | MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(row(name, published.get(name, ""), record) for name, record in records.items()),
        "",
        "## Refused or failed",
        "",
        *(f"- {name}: {_one_line(r)}" for name, r in records.items() if "outputs" not in r),
        "",
        "## Outputs that are not close",
        "",
        f"*noise*: cosine of exact arithmetic to itself with {100 * NOISE:g} % of the values of every convolution one "
        "code off, which is what any other rounding of the same model gives.",
        "",
        *(f"- {name}: {_distance(o)}" for name, r in records.items() for o in r.get("outputs", ()) if not close(o)),
        "",
        "## Layers above their limit",
        "",
        *(f"- {name}: {bad}" for name, r in records.items() if "outputs" in r for bad in r["layers"]["bad"]),
    ]
    return HEAD.format(inputs=INPUTS) + "\n".join(lines) + "\n"


def _distance(output: Record) -> str:
    return f"{output['name']}: cosine {output['cosine']:.5f}, kernels {output['spread']:.5f}, " + (
        f"noise {output['noise']:.5f}" if "noise" in output else ""
    )


def _all(records: list[Record], what: str) -> list[float]:
    return [record[what] for record in records] or [0.0]


def _one_line(record: Record) -> str:
    return " ".join(str(record.get("refused", record.get("failed"))).split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "atonc_public_models")
    parser.add_argument("--fresh", action="store_true", help="do not use results in the cache")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds per model")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(judge(options.folders[0])))
        return
    options.cache.mkdir(parents=True, exist_ok=True)
    models, published = distinct(options.folders)
    records = {}
    for name, model in models.items():
        if options.only in name:
            records[name] = collect(model, options)
            print(row(name, "", records[name]), file=sys.stderr, flush=True)
            if "outputs" not in records[name]:
                print("    ", _one_line(records[name]), file=sys.stderr, flush=True)
    text = report(dict(sorted(records.items())), published)
    if options.write:
        RESULTS.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
