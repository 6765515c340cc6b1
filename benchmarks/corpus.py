"""Every model of the corpus compiled, and its program judged: layers, outputs, cycles, memory, time.

Each model runs in its own process with a time limit; results are kept
in a folder, so that a run can be stopped, taken up again, and shared by several processes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compare.layers import code_size
from atonc.compiler.compare.metrics import cosine, within_percent
from atonc.compiler.compile.pipeline import Compiled, compile_file
from atonc.compiler.ops import run_graph, run_op, start_values
from atonc.compiler.place import board
from atonc.compiler.price.program import program_cost
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from atonc.compiler.verify.verify import check_program
from atonc.insight.validating import validating
from atonc.insight.validating.references import References, exact_outputs
from atonc.machine.base.errors import AtoncError
from benchmarks.shared.children import run_again
from benchmarks.shared.corpus import by_size, chosen
from benchmarks.shared.corpus_report import (
    ENOUGH,
    FEW_INPUTS,
    INPUTS,
    LARGE_BYTES,
    MOST_INPUTS,
    NOISE,
    Record,
    close_enough,
    exact,
    report,
    row,
)
from benchmarks.shared.declare import FRESH, KEEP, LIMIT, MODEL_FILES, ONLY, WRITE, Report, argument, hidden
from benchmarks.shared.kept import HOME, write

GROUP = "truth"
ARGUMENTS = (
    MODEL_FILES,
    ONLY,
    KEEP.but(default=HOME / "atonc_corpus", metavar="DIR"),
    FRESH,
    LIMIT.but(default=600.0),
    argument("--top1", type=int, default=0, metavar="N", help="inputs for the agreement of classifiers"),
    argument("--numerics", default="best", choices=["best", "2.x"]),
    WRITE,
    hidden("--one", type=Path),
)

NO_CLASSES = ("mobilefacenet", "ad01", "baseline_conv2d", "spatial_cnn")  # one row of numbers, but no classes


# --------------------------------------------------------------------------------------------------------- one model


def judge(model: Path, numerics: str) -> Record:
    started, computing = time.perf_counter(), time.process_time()
    try:
        compiled = compile_file(model, Options(verify=False, numerics=numerics))
    except AtoncError as error:
        return {"refused": error.one_line, "error": type(error).__name__}
    record = figures(compiled) | {"seconds": round(time.process_time() - computing, 2)}
    count = inputs_for(compiled)
    samples = validating.synthetic_samples(compiled.source, count)
    emulation = Emulation(compiled.program, compiled.graph)
    expected = [references(model, compiled, sample) for sample in samples]
    runs = [emulation.run(validating.program_inputs(compiled, sample)) for sample in samples]
    record["outputs"] = outputs(compiled, runs, expected)
    if not all(map(close_enough, record["outputs"])):
        for output, more in zip(record["outputs"], sensitivity(compiled, samples, expected), strict=True):
            output |= more
    record["layers"] = layers(compiled, emulation, samples[:1])
    record["inputs"], record["classifier"] = count, is_classifier(compiled) and not known_otherwise(model)
    record["megabytes"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    if numerics == "best":
        record |= {"exact_2x": exact_with_2x(model, samples, expected)}
    record["judge_seconds"] = round(time.perf_counter() - started, 1)
    return record


def inputs_for(compiled: Compiled) -> int:
    """So many that percentages of output values mean something."""
    if compiled.layout.peak_bytes > LARGE_BYTES:
        return FEW_INPUTS
    values = sum(compiled.graph.tensors[name].elements for name in compiled.graph.outputs)
    return max(INPUTS, min(MOST_INPUTS, -(-ENOUGH // values)))


def exact_with_2x(model: Path, samples: list[Any], expected: list[Any]) -> float | None:
    """Percentage of exact output values with the lowering of ST's releases 2.x."""
    try:
        compiled = compile_file(model, Options(verify=False, numerics="2.x"))
    except AtoncError:
        return None
    emulation = Emulation(compiled.program, compiled.graph)
    runs = [emulation.run(validating.program_inputs(compiled, sample)) for sample in samples]
    return exact(outputs(compiled, runs, expected))


def figures(compiled: Compiled) -> Record:
    steps, layout, pools = compiled.program.steps, compiled.layout, board("stm32n6570-dk").pools
    cost = program_cost(compiled.program, compiled.graph, pools, compiled.target, count_runs=False)
    runs = compiled.cost
    return {
        "npu": sum(s.epoch is not None for s in steps),
        "cpu": sum(s.epoch is None for s in steps),
        "cpu_ops": dict(Counter(r.op for r in compiled.choices.reasons).most_common()),
        "st_cycles": cost.st_cycles,
        "st_cycles_with_runs": runs.st_cycles,
        "npu_cycles": sum(c.cycles for s, c in zip(steps, cost.steps, strict=True) if s.epoch is not None),
        "latency_ms": cost.latency_ms,
        "activations": layout.peak_bytes,
        "lower_bound": layout.lower_bound_bytes,
        "ratio": layout.ratio,
        "spilled": layout.spilled_bytes,
        "constants": layout.memory.weights_bytes,
        "findings": len(compiled.findings),
    }


def outputs(compiled: Compiled, runs: list[Any], expected: list[Any]) -> list[Record]:
    """Per output, over all inputs together: cosine to the reference, the same for the worst of the reference's other
    kernels, percentage of exact values."""
    graph, rows = compiled.graph, []
    for k, name in enumerate(graph.outputs):
        tensor = graph.tensors[name]
        value = _together(validating.real(tensor, run[name]) for run in runs)
        wanted = _together(reference[k] for reference, _ in expected)
        others = [_together(other[number][k] for _, other in expected) for number in range(len(expected[0][1]))]
        unit = tensor.scale if tensor.quant is not None else code_size(graph, tensor, wanted)
        rows.append(
            {
                "name": name,
                "values": int(np.size(wanted)),
                "cosine": cosine(value, wanted),
                "spread": min([1.0, *(cosine(other, wanted) for other in others)]),
                "exact": within_percent(value, wanted, 0.5 * unit),
                "within1": within_percent(value, wanted, 1.5 * unit),
            }
        )
    return rows


def _together(values: Iterable[Any]) -> Any:
    return np.concatenate([np.ravel(value) for value in values])


def sensitivity(compiled: Compiled, samples: list[Any], expected: list[Any]) -> list[Record]:
    """For each output of exact arithmetic: its cosine to the reference, and to itself with a few values of every
    convolution one code off, which is what any other rounding of the same model would give."""
    graph, rng = compiled.graph, np.random.default_rng(0)
    plain, noisy = [], []
    for sample in samples:
        inputs = validating.program_inputs(compiled, sample)
        found = run_graph(graph, inputs)
        plain.append({name: found[name] for name in graph.outputs})
        values = start_values(graph, inputs)
        for op in graph.ops:
            for name, result in zip(op.outputs, run_op(graph, op, values), strict=True):
                values[name] = result.codes
                if op.kind in ("conv", "dense") and values[name].dtype == np.int8:
                    noise = (rng.random(values[name].shape) < NOISE) * rng.choice([-1, 1], values[name].shape)
                    values[name] = np.clip(values[name] + noise, -128, 127).astype(np.int8)
        noisy.append({name: values[name] for name in graph.outputs})
    real = {n: [_together(validating.real(graph.tensors[n], v[n]) for v in side) for side in (plain, noisy)]
            for n in graph.outputs}  # fmt: skip
    wanted = [_together(reference[k] for reference, _ in expected) for k in range(len(graph.outputs))]
    return [
        {"noise": cosine(*real[name]), "exact_cosine": cosine(real[name][0], wanted[k])}
        for k, name in enumerate(graph.outputs)
    ]


@cache
def kernels_of(model: Path) -> References:
    return References(model)


def references(model: Path, compiled: Compiled, sample: Any) -> tuple[list[Any], list[list[Any]]]:
    """The reference's outputs, and those of its other kernel sets; exact arithmetic where it cannot run the model."""
    try:
        expected, *others = kernels_of(model).outputs(compiled, sample).values()
    except AtoncError:
        return exact_outputs(compiled, sample), []
    return expected, others


def layers(compiled: Compiled, emulation: Emulation, samples: list[Any]) -> Record:
    found = [
        layer
        for sample in samples
        for layer in check_program(compiled, emulation, validating.program_inputs(compiled, sample))
    ]
    bad = {layer.tensor: layer for layer in found if layer.bad}
    return {
        "count": len(found) // max(1, len(samples)),
        "max_diff": max((layer.max_diff for layer in found), default=0.0),
        "differ": float(np.mean([layer.differ_percent for layer in found])) if found else 0.0,
        "bad": [f"{b.kind} {b.tensor[:60]} (epoch {b.step}): {b.max_diff:g}" for b in bad.values()],
    }


def known_otherwise(model: Path) -> bool:
    return any(part in model.name for part in NO_CLASSES)


def is_classifier(compiled: Compiled) -> bool:
    if len(compiled.graph.outputs) != 1:
        return False
    tensor = compiled.graph.tensors[compiled.graph.outputs[0]]
    return 2 <= tensor.elements == max(tensor.shape, default=0) <= 1001


def agreement(model: Path, numerics: str, count: int) -> Record:
    """On how many inputs program and reference name the same class; and how many the reference's other kernels do."""
    compiled = compile_file(model, Options(verify=False, numerics=numerics))
    emulation = Emulation(compiled.program, compiled.graph)
    (name,) = compiled.graph.outputs
    votes = []
    for sample in validating.synthetic_samples(compiled.source, count, seed=100):
        got = emulation.run(validating.program_inputs(compiled, sample))[name]
        (expected,), others = references(model, compiled, sample)
        exact_one = run_graph(compiled.graph, validating.program_inputs(compiled, sample))[name]
        votes.append([_same_class(found, expected) for found in (got, exact_one, *(other for (other,) in others))])
    same, by_exact, *others = np.sum(votes, axis=0).tolist()
    return {"same": same, "exact": by_exact, "others": others, "of": count}


def _same_class(got: Any, expected: Any) -> bool:
    """Whether the classes agree; of classes with equal scores either is right."""
    got, expected = np.ravel(got), np.ravel(expected)
    return bool(np.any((got == got.max()) & (expected == expected.max())))


# ------------------------------------------------------------------------------------------------------------- corpus


def collect(model: Path, arguments: argparse.Namespace, top1: int = 0) -> Record:
    """From the cache, or in a process of its own; with `top1` the agreement on so many inputs."""
    kept = arguments.keep / f"{model.name}{f'.top{top1}' if top1 else ''}.json"
    if kept.exists() and not arguments.fresh:
        return dict(json.loads(kept.read_text()))
    claim = kept.with_suffix(".claim")
    if not _claimed(claim, arguments.limit):
        return {"failed": "another process works on it"}
    try:
        words = ("--one", model, "--numerics", arguments.numerics, "--top1", top1)
        done = run_again("corpus", *words, timeout=arguments.limit)
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        record = dict(json.loads(done.stdout)) if done.returncode == 0 else {"failed": last[0][:200]}
    except subprocess.TimeoutExpired:
        record = {"failed": f"more than {arguments.limit:.0f} s"}
    finally:
        claim.unlink(missing_ok=True)
    write(kept, record)
    return record


def _claimed(claim: Path, limit: float) -> bool:
    if claim.exists() and time.time() - claim.stat().st_mtime > limit + 60:
        claim.unlink(missing_ok=True)  # left behind by a process that was killed
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def run(arguments: argparse.Namespace) -> Report:
    if arguments.one:
        one, numerics = arguments.one, arguments.numerics
        print(json.dumps(agreement(one, numerics, arguments.top1) if arguments.top1 else judge(one, numerics)))
        return Report()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    records: dict[str, Record] = {}
    for model in by_size(chosen(arguments)):
        records[model.name] = collect(model, arguments)
        if arguments.top1 and records[model.name].get("classifier"):
            records[model.name]["top1"] = collect(model, arguments, arguments.top1)
        short = row(model.name, records[model.name]) if "outputs" in records[model.name] else records[model.name]
        print(short if isinstance(short, str) else f"{model.name}: {short}", file=sys.stderr, flush=True)
    return Report(report(dict(sorted(records.items())), arguments.numerics))
