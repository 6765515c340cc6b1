"""Small models with unusual attributes, shapes and scales: each is right, or refused with a reason.

Without folders: `onnx` and `tflite` of $ATONC_TRIALS or of the trials beside the corpus. One process compiles all of
them, which takes a minute; where TFLite's interpreter aborts, another process goes on behind that model.

A model is **right** if for natural inputs and for noise every output of the program on the emulator has the shape and
the element type of the reference (onnxruntime without optimisation, TFLite's reference kernels) and lies within one
code of it: codes by one, indices and other plain integers not at all, floats by the scale of the codes that they come
from. **refused** is an error of `atonc.errors` while compiling; **reference** means that the reference itself cannot
run the model. Everything else is **wrong** or a **traceback**.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compare.layers import code_size
from atonc.compiler.compare.reference import run_onnx, run_tflite
from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.inputs.inputs import program_inputs
from atonc.compiler.ir import Array, Graph, Tensor
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.corpus import asked_for, models_in, trials_dir
from benchmarks.shared.declare import FOLDERS, ONLY, WRITE, Report

GROUP = "truth"
ARGUMENTS = (
    FOLDERS.but(nargs="*", default=[trials_dir() / kind for kind in ("onnx", "tflite")]),
    ONLY,
    WRITE,
)

OUTCOMES = ("right", "refused", "wrong", "traceback", "reference")
LIMIT = 1.0 + 1e-3  # codes; onnxruntime computes in single precision


@dataclass(frozen=True)
class Trial:
    """What came of one model."""

    name: str
    outcome: str  # one of OUTCOMES
    detail: str = ""


# --------------------------------------------------------------------------------------------------------- one model


def judge(model: Path) -> Trial:
    name = f"{model.parent.name}/{model.name}"
    try:
        compiled = compile_file(model, Options(allow_float=True))
    except AtoncError as error:
        return Trial(name, "refused", str(error))
    except Exception:
        return Trial(name, "traceback", _last_lines())
    try:
        references = [(sample, _reference(model, compiled, sample)) for sample in samples(compiled.source)]
    except Exception as error:
        return Trial(name, "reference", f"{type(error).__name__}: {str(error)[:200]}")
    try:
        emulation = Emulation(compiled.program, compiled.graph)
        runs = [(emulation.run(program_inputs(compiled, sample)), wanted) for sample, wanted in references]
        complaints = [text for got, wanted in runs if (text := compare(compiled.graph, got, wanted))]
    except Exception:
        return Trial(name, "traceback", _last_lines())
    return Trial(name, "wrong", complaints[0]) if complaints else Trial(name, "right")


def judge_all(models: Sequence[Path]) -> Iterator[Trial]:
    worker = ProcessPoolExecutor(1)
    for model in models:
        try:
            yield worker.submit(judge, model).result()
        except BrokenProcessPool:
            yield Trial(f"{model.parent.name}/{model.name}", "reference", "the interpreter aborts")
            worker = ProcessPoolExecutor(1)
    worker.shutdown()


def samples(source: Graph) -> list[dict[str, Array]]:
    """Two natural inputs and one of noise over the same range."""
    natural = [make_inputs(source, seed) for seed in (0, 1)]
    rng = np.random.default_rng(0)
    return [*natural, {name: _noise(value, rng) for name, value in natural[0].items()}]


def _noise(like: Array, rng: np.random.Generator) -> Array:
    if like.dtype == np.bool_ or not like.size:
        return like
    if like.dtype in (np.int8, np.uint8):
        info = np.iinfo(like.dtype)
        return rng.integers(info.min, info.max + 1, like.shape).astype(like.dtype)
    return rng.uniform(float(like.min()), float(like.max()), like.shape).astype(like.dtype)


def _reference(model: Path, compiled: Compiled, sample: Mapping[str, Array]) -> list[Array]:
    """In the order of the model's outputs."""
    if model.suffix == ".onnx":
        return list(run_onnx(model, sample).values())
    return list(run_tflite(model, [sample[name] for name in compiled.source.inputs]).values())


def compare(graph: Graph, got: Mapping[str, Array], wanted: Sequence[Array]) -> str:
    """The first complaint about an output, empty if there is none."""
    if len(wanted) != len(graph.outputs):
        return f"{len(graph.outputs)} outputs, the reference has {len(wanted)}"
    for name, expected in zip(graph.outputs, wanted, strict=True):
        found = got[name]
        if found.shape != expected.shape or found.dtype != stored_type(expected):
            return f"{name}: {found.dtype}{found.shape}, the reference gives {expected.dtype}{expected.shape}"
        distance, limit = _distance(graph, graph.tensors[name], found, expected)
        if not distance <= limit:
            where = "codes" if limit else "of a plain integer"
            return f"{name}: off by {distance:.4g} {where}: {_values(found)} for {_values(expected)}"
    return ""


def stored_type(expected: Array) -> np.dtype[np.generic]:
    return np.dtype(np.uint8) if expected.dtype == np.bool_ else expected.dtype


def _distance(graph: Graph, tensor: Tensor, found: Array, expected: Array) -> tuple[float, float]:
    """Largest difference and what is allowed, in codes; what is not a number in both sides agrees."""
    a, b = found.astype(np.float64), expected.astype(np.float64)
    if not tensor.is_float:
        return float(np.abs(a - b).max(initial=0.0)), LIMIT if tensor.quant is not None else 0.0
    with np.errstate(invalid="ignore"):
        difference = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    finite = np.where(np.isfinite(b), b, 0.0)
    return float(difference.max(initial=0.0)) / code_size(graph, tensor, finite), LIMIT


def _values(values: Array) -> str:
    return " ".join(f"{v:.4g}" for v in values.reshape(-1)[:4].tolist())


def _last_lines() -> str:
    return " / ".join(line.strip() for line in traceback.format_exc().strip().splitlines()[-3:])[-300:]


# ------------------------------------------------------------------------------------------------------------- report


def report(trials: Sequence[Trial]) -> str:
    folders: dict[str, Counter[str]] = defaultdict(Counter)
    for trial in trials:
        folders[trial.name.split("/")[0]][trial.outcome] += 1
    folders["all"] = Counter(trial.outcome for trial in trials)
    lines = [
        "# Trials: small models against the reference interpreters",
        "",
        "One thread. What the columns mean: `python -m benchmarks trials --help`; the models are not part of this",
        "repository.",
        "",
        "| folder | models | " + " | ".join(OUTCOMES) + " |",
        "|---" * (2 + len(OUTCOMES)) + "|",
    ]
    for folder, counts in folders.items():
        cells = [str(sum(counts.values())), *(str(counts[outcome]) for outcome in OUTCOMES)]
        lines.append(f"| {folder} | " + " | ".join(cells) + " |")
    lines += ["", "## Refusals by reason", "", *_by_reason(trials)]
    bad = [trial for trial in trials if trial.outcome not in ("right", "refused")]
    if bad:
        lines += ["", "## Not right", "", *(f"- {t.name}: {t.outcome}: {t.detail}" for t in bad)]
    return "\n".join([*lines, ""])


def _by_reason(trials: Sequence[Trial]) -> list[str]:
    """One line per sentence; `where` comes before the first colon and differs from model to model."""
    models: dict[str, list[str]] = defaultdict(list)
    for trial in trials:
        if trial.outcome == "refused":
            models[trial.detail.split(": ", 1)[-1]].append(trial.name)
    return [f"- {reason} ({len(names)}: {', '.join(names)})" for reason, names in sorted(models.items())] or ["None."]


def run(arguments: argparse.Namespace) -> Report:
    models = [path for folder in arguments.folders for path in models_in(folder)]
    trials, started = [], time.perf_counter()
    for trial in judge_all([m for m in models if asked_for(arguments.only, m.name)]):
        trials.append(trial)
        if trial.outcome != "right":
            print(trial.name, trial.outcome, trial.detail, sep=" | ", file=sys.stderr, flush=True)
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)
    return Report(report(trials), failed=any(trial.outcome in ("wrong", "traceback") for trial in trials))
