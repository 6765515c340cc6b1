"""Compiles quantised models that are not in the corpus, and says what came of each.

    OMP_NUM_THREADS=1 python benchmarks/public_models.py FOLDER... [--only TEXT] [--cache FILE] [--again OUTCOME...]
                                                         [--limit SECONDS] [--seconds TOTAL] [--write]

Each FOLDER holds .tflite and .onnx files, itself or in folders below, beside a manifest.csv (file, repository:path
where it is published, options as JSON): nothing is downloaded. Files with the same content count once, those of the
corpus not at all. Each model is generated with verification in a process of its own, with a limit of time and memory,
then compared with the reference kernels. The cache has a line of JSON for each, so that a run may be stopped and taken
up again; `--again refused failed differs` does once more what a mended compiler may do better.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import importlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NoReturn

from compile_corpus import figures, kernels_of, layers, outputs, references, sensitivity
from corpus_report import CORPUS, Record
from public_models_report import INPUTS, Model, close, one_line, outcome, report, row

import atonc.app.references
from atonc.app import validating
from atonc.app.generating import analyze, generate
from atonc.compare.reference import REFERENCE, Values, Wanted, open_kernels
from atonc.emulation import Emulation
from atonc.errors import AtoncError
from atonc.ir import Array
from atonc.options import Options

RESULTS = Path(__file__).parent / "results" / "public_models.md"
MEMORY_BYTES = 8 << 30  # address space of one model's process
DIED = "its process was ended by a signal"


# --------------------------------------------------------------------------------------------------------- one model


def judge(model: Path, asked: Record) -> Record:
    started = time.perf_counter()
    try:
        view = analyze(model, Options(**{name: tuple(v) if isinstance(v, list) else v for name, v in asked.items()}))
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
        found = sensitivity(compiled, samples, expected)
        record["outputs"] = [output | more for output, more in zip(record["outputs"], found, strict=True)]
    return record


def _megabytes() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


class KernelsHere:
    """In place of a process for the reference kernels: what judges a model is a process of its own already."""

    def run(self, path: Path, inputs: Values, kernels: str = REFERENCE, tensors: Wanted = None) -> dict[str, Array]:
        return open_kernels(path, kernels, tensors)(inputs)

    def close(self) -> None:
        pass


def bounded(model: Model, limit: float) -> Record:
    """In a process of its own, forked so that the libraries are read once. Where kernels of others ended it, once more
    with those kernels in a process of theirs."""
    record = _forked(model, limit, kernels_here=True)
    return _forked(model, limit, kernels_here=False) if record.get("failed") == DIED else record


def _forked(model: Model, limit: float, kernels_here: bool) -> Record:
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if not child:
            _child(model, said, limit, kernels_here)
        _, status = os.waitpid(child, 0)
        said.seek(0)
        text = said.read()
    if os.WIFSIGNALED(status):
        return {"failed": f"more than {limit:.0f} s" if os.WTERMSIG(status) == signal.SIGXCPU else DIED}
    return dict(json.loads(text))


def _child(model: Model, said: IO[str], limit: float, kernels_here: bool) -> NoReturn:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (max(1, round(limit)), resource.RLIM_INFINITY))
    if kernels_here:
        atonc.app.references.ReferenceProcess = KernelsHere  # type: ignore[misc,assignment]
    try:
        record = judge(model.path, model.asked)
    except BaseException as error:  # whatever it is, the table shall name it
        record = {"failed": f"{type(error).__name__}: {error}"[:600]}
    said.write(json.dumps(record))
    said.flush()
    os._exit(0)


# ------------------------------------------------------------------------------------------------------- all models


def fingerprint(model: Path) -> str:
    """Of the content: what a reader needs to see whether he has the same file."""
    return hashlib.sha256(model.read_bytes()).hexdigest()[:12]


def distinct(folders: list[Path]) -> list[Model]:
    """Each content once, small ones first."""
    seen = {fingerprint(path) for path in _models(CORPUS / "models")}
    found = list[Model]()
    for folder in folders:
        for path in _models(folder):
            mark = fingerprint(path)
            if mark not in seen:
                seen.add(mark)
                found.append(Model(path, mark, *_published(path)))
    return sorted(found, key=lambda model: (model.path.stat().st_size, model.mark))


def _models(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.suffix in (".tflite", ".onnx"))


def _published(path: Path) -> tuple[str, Record]:
    """Where the manifest beside a model says it comes from, and the options that it is compiled with."""
    manifest = path.parent / "manifest.csv"
    if manifest.exists():
        with manifest.open(newline="") as file:
            for line in csv.reader(file):
                if line and line[0] == path.name:
                    return line[1], dict(json.loads(line[2])) if len(line) > 2 and line[2] else {}
    return f"{path.parent.name}:{path.name}", {}


def cached(file: Path) -> dict[str, Record]:
    """By fingerprint; a later line replaces an earlier one."""
    lines = file.read_text().splitlines() if file.exists() else []
    return {mark: record for line in lines for mark, record in json.loads(line).items()}


def survey(models: list[Model], options: argparse.Namespace) -> dict[str, Record]:
    for library in ("ai_edge_litert.interpreter", "onnx", "onnxruntime"):  # once for all children
        importlib.import_module(library)
    records, started = cached(options.cache), time.monotonic()
    for model in models:
        known = records.get(model.mark)
        if options.only not in model.source or (known and outcome(known) not in options.again):
            continue
        if time.monotonic() - started > options.seconds:
            break
        records[model.mark] = bounded(model, options.limit)
        with options.cache.open("a") as file:
            file.write(json.dumps({model.mark: records[model.mark]}) + "\n")
        print(row(model, records[model.mark]), file=sys.stderr, flush=True)
        if "outputs" not in records[model.mark]:
            print("    ", one_line(records[model.mark])[:400], file=sys.stderr, flush=True)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--only", default="", help="models whose repository and path contain this")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "atonc_public_models.jsonl")
    parser.add_argument("--again", nargs="*", default=[], metavar="OUTCOME", help="do these of the cache once more")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds of processor time per model")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no model after so many")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    models = distinct(options.folders)
    records = survey(models, options)
    done = {model: records[model.mark] for model in models if model.mark in records and options.only in model.source}
    text = report(done)
    if options.write:
        RESULTS.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
