"""What comes of quantised models that are not in the corpus?

Each FOLDER holds .tflite and .onnx files, itself or in folders below, beside a manifest.csv (file, repository:path
where it is published, options as JSON): nothing is downloaded. Files with the same content count once, those of the
corpus not at all. Each model is generated with verification in a process of its own, with a limit of time and memory,
then compared with the reference kernels. `--again refused failed differs` does
once more what a mended compiler may do better.
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
from pathlib import Path
from typing import IO, NoReturn

import atonc.insight.validating.references
from atonc.compiler.compare.reference import REFERENCE, Values, Wanted, open_kernels
from atonc.compiler.ir import Array
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.generate.generating import analyze, generate
from atonc.insight.validating import validating
from atonc.machine.base.errors import AtoncError
from benchmarks.corpus import figures, kernels_of, layers, outputs, references, sensitivity
from benchmarks.shared.corpus import asked_for, corpus_dir, models_in
from benchmarks.shared.corpus_report import Record
from benchmarks.shared.declare import FOLDERS, KEEP, LIMIT, ONLY, SECONDS, WRITE, Report, argument
from benchmarks.shared.kept import HOME, KeptLines
from benchmarks.shared.public_models_report import INPUTS, Model, close, one_line, outcome, report, row

GROUP = "truth"
ARGUMENTS = (
    FOLDERS,
    ONLY,
    KEEP.but(default=HOME / "atonc_public_models.jsonl"),
    argument("--again", nargs="*", default=[], metavar="OUTCOME", help="do these of what is kept once more"),
    LIMIT.but(default=240.0),
    SECONDS,
    WRITE,
)

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
        return {"refused": error.one_line, "error": type(error).__name__, "seconds": time.perf_counter() - started}
    compiled = view.compiled
    record = figures(compiled) | {"seconds": time.perf_counter() - started, "megabytes": _megabytes()}
    record["why"] = sorted(Counter(f"{reason.op}: {reason.rule}" for reason in compiled.choices.reasons).items())
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
        atonc.insight.validating.references.ReferenceProcess = KernelsHere  # type: ignore[misc,assignment]
    try:
        record = judge(model.path, model.asked)
    except BaseException as error:  # whatever it is, the table shall name it
        record = {"failed": f"{type(error).__name__}: {error}"[:600]}
    said.write(json.dumps(record))
    said.flush()
    os._exit(0)


# ------------------------------------------------------------------------------------------------------- all models


def fingerprint(model: Path) -> str:
    """Hashes the content, so that readers see whether they have the same file."""
    return hashlib.sha256(model.read_bytes()).hexdigest()[:12]


def distinct(folders: list[Path]) -> list[Model]:
    """Each content once, small ones first."""
    seen = {fingerprint(path) for path in models_in(corpus_dir() / "models")}
    found = list[Model]()
    for folder in folders:
        for path in models_in(folder):
            mark = fingerprint(path)
            if mark not in seen:
                seen.add(mark)
                found.append(Model(path, mark, *_published(path)))
    return sorted(found, key=lambda model: (model.path.stat().st_size, model.mark))


def _published(path: Path) -> tuple[str, Record]:
    """Where the manifest beside a model says it comes from, and the options that it is compiled with."""
    manifest = path.parent / "manifest.csv"
    if manifest.exists():
        with manifest.open(newline="") as file:
            for line in csv.reader(file):
                if line and line[0] == path.name:
                    return line[1], dict(json.loads(line[2])) if len(line) > 2 and line[2] else {}
    return f"{path.parent.name}:{path.name}", {}


def survey(models: list[Model], arguments: argparse.Namespace) -> dict[str, Record]:
    for library in ("ai_edge_litert.interpreter", "onnx", "onnxruntime"):  # once for all children
        importlib.import_module(library)
    records, started = KeptLines(arguments.keep), time.monotonic()
    for model in models:
        known = records.get(model.mark)
        if not asked_for(arguments.only, model.source) or (known and outcome(known) not in arguments.again):
            continue
        if time.monotonic() - started > arguments.seconds:
            break
        records[model.mark] = bounded(model, arguments.limit)
        records.add(model.mark)
        print(row(model, records[model.mark]), file=sys.stderr, flush=True)
        if "outputs" not in records[model.mark]:
            print("    ", one_line(records[model.mark])[:400], file=sys.stderr, flush=True)
    return records


def run(arguments: argparse.Namespace) -> Report:
    models = distinct(arguments.folders)
    records = survey(models, arguments)
    done = [model for model in models if model.mark in records and asked_for(arguments.only, model.source)]
    return Report(report({model: records[model.mark] for model in done}))
