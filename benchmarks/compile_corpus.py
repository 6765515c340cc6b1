"""Compiles every model of the corpus and judges the programs: layers, outputs, cycles, memory, time.

    python benchmarks/compile_corpus.py [--only TEXT] [--cache DIR] [--fresh] [--limit SECONDS] [--top1 N]
                                        [--numerics 2.x] [--write]

The corpus is $ATONC_CORPUS or ../shared/corpus. Each model runs in its own process with a time limit; results are kept
in the cache, so that a run can be stopped, taken up again, and shared by several processes.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from atonc import validating
from atonc.compare.metrics import cosine, within_percent
from atonc.compare.subgraph import code_size
from atonc.errors import AtoncError
from atonc.ops import run_graph, run_op, start_values
from atonc.options import Options
from atonc.pipeline import Compiled, compile_file
from atonc.place import board
from atonc.program_costs import program_cost
from atonc.verify import Emulation

RESULTS = Path(__file__).parent / "results" / "corpus.md"
CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))
INPUTS = 6
FEW_INPUTS = 2  # for models whose activations are large
ENOUGH, MOST_INPUTS = 1200, 24  # output values, and inputs for models with few of them
LARGE_BYTES = 2 << 20
NOISE = 0.0001  # of the values
NO_CLASSES = ("mobilefacenet", "ad01", "baseline_conv2d", "spatial_cnn")  # one row of numbers, but no classes
Record = dict[str, Any]


# --------------------------------------------------------------------------------------------------------- one model


def judge(model: Path, numerics: str) -> Record:
    started, computing = time.perf_counter(), time.process_time()
    try:
        compiled = compile_file(model, Options(verify=False, numerics=numerics))
    except AtoncError as error:
        return {"refused": str(error), "error": type(error).__name__}
    record = figures(compiled) | {"seconds": round(time.process_time() - computing, 2)}
    count = inputs_for(compiled)
    samples = validating.synthetic_samples(compiled.source, count)
    emulation = Emulation(compiled.program, compiled.graph)
    expected = [references(model, compiled, sample) for sample in samples]
    runs = [emulation.run(validating.program_inputs(compiled, sample)) for sample in samples]
    record["outputs"] = outputs(compiled, runs, expected)
    if not all(map(close_enough, record["outputs"])):
        for output, noisy in zip(record["outputs"], sensitivity(compiled, samples), strict=True):
            output["noise"] = noisy
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
    """Percentage of exact output values, mean over the outputs, with the lowering of ST's releases 2.x."""
    try:
        compiled = compile_file(model, Options(verify=False, numerics="2.x"))
    except AtoncError:
        return None
    emulation = Emulation(compiled.program, compiled.graph)
    runs = [emulation.run(validating.program_inputs(compiled, sample)) for sample in samples]
    return exact(outputs(compiled, runs, expected))


def exact(rows: list[Record]) -> float:
    return float(np.mean([row["exact"] for row in rows]))


def figures(compiled: Compiled) -> Record:
    steps, layout, pools = compiled.program.steps, compiled.layout, board("stm32n6570-dk").pools
    cost = program_cost(compiled.program, compiled.graph, pools)
    runs = program_cost(compiled.program, compiled.graph, pools, count_runs=True)
    return {
        "npu": sum(s.epoch is not None for s in steps),
        "cpu": sum(s.epoch is None for s in steps),
        "cpu_ops": dict(Counter(r.op for r in compiled.mapped.reasons).most_common()),
        "st_cycles": cost.st_cycles,
        "st_cycles_with_runs": runs.st_cycles,
        "npu_cycles": sum(c.cycles for s, c in zip(steps, cost.steps, strict=True) if s.epoch is not None),
        "latency_ms": cost.latency_ms,
        "activations": layout.peak_bytes,
        "lower_bound": layout.lower_bound_bytes,
        "ratio": layout.ratio,
        "spilled": layout.spilled_bytes,
        "constants": layout.constant_bytes,
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
                "cosine": cosine(value, wanted),
                "spread": min([1.0, *(cosine(other, wanted) for other in others)]),
                "exact": within_percent(value, wanted, 0.5 * unit),
                "within1": within_percent(value, wanted, 1.5 * unit),
            }
        )
    return rows


def _together(values: Iterable[Any]) -> Any:
    return np.concatenate([np.ravel(value) for value in values])


def sensitivity(compiled: Compiled, samples: list[Any]) -> list[float]:
    """Cosine of each output of exact arithmetic to itself with a few values of every convolution one code off: what
    any other rounding of the same model would give."""
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
    return [cosine(*real[name]) for name in graph.outputs]


def references(
    model: Path, compiled: Compiled, sample: Any, others: bool = True
) -> tuple[list[Any], list[list[Any]]]:
    """The reference's outputs, and those of its other kernel sets; exact arithmetic where it cannot run the model."""
    reference, _ = validating.choose_reference(model)
    try:
        expected = validating.reference_outputs(model, compiled, sample, reference)
    except AtoncError:
        return validating.reference_outputs(model, compiled, sample, validating.EXACT), []
    if not others:
        return expected, []
    if reference != validating.TFLITE:
        return expected, [optimised_onnx(model, compiled, sample)]
    sets = ("optimised", "xnnpack")
    return expected, [validating.reference_outputs(model, compiled, sample, reference, kernels) for kernels in sets]


def optimised_onnx(model: Path, compiled: Compiled, sample: Any) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    found = dict(zip([o.name for o in session.get_outputs()], session.run(None, dict(sample)), strict=True))
    tensors = {n: compiled.source.tensors.get(n, compiled.graph.tensors[n]) for n in compiled.graph.outputs}
    return [v.astype(float) if v.dtype.kind == "f" else validating.real(tensors[n], v)
            for n, v in ((n, found[n]) for n in compiled.graph.outputs)]  # fmt: skip


def layers(compiled: Compiled, emulation: Emulation, samples: list[Any]) -> Record:
    found = [layer for sample in samples for layer in validating.check_layers(compiled, emulation, sample)]
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
    """On how many inputs program and reference name the same class."""
    compiled = compile_file(model, Options(verify=False, numerics=numerics))
    emulation, same = Emulation(compiled.program, compiled.graph), 0
    (name,) = compiled.graph.outputs
    for sample in validating.synthetic_samples(compiled.source, count, seed=100):
        got = emulation.run(validating.program_inputs(compiled, sample))[name].reshape(-1)
        (expected,), _ = references(model, compiled, sample, others=False)
        same += bool(np.any((got == got.max()) & (expected.reshape(-1) == expected.max())))  # equal scores are alike
    return {"same": same, "of": count}


# ------------------------------------------------------------------------------------------------------------- corpus


def collect(model: Path, options: argparse.Namespace, top1: int = 0) -> Record:
    """From the cache, or in a process of its own; with `top1` the agreement on so many inputs."""
    kept = options.cache / f"{model.name}{f'.top{top1}' if top1 else ''}.json"
    if kept.exists() and not options.fresh:
        return dict(json.loads(kept.read_text()))
    claim = kept.with_suffix(".claim")
    if not _claimed(claim, options.limit):
        return {"failed": "another process works on it"}
    try:
        command = [sys.executable, __file__, "--one", str(model), "--numerics", options.numerics]
        done = subprocess.run(
            [*command, "--top1", str(top1)], capture_output=True, text=True, timeout=options.limit, check=False
        )
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        record = dict(json.loads(done.stdout)) if done.returncode == 0 else {"failed": last[0][:200]}
    except subprocess.TimeoutExpired:
        record = {"failed": f"more than {options.limit:.0f} s"}
    finally:
        claim.unlink(missing_ok=True)
    partial = kept.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(record))
    partial.replace(kept)
    return record


def _claimed(claim: Path, limit: float) -> bool:
    if claim.exists() and time.time() - claim.stat().st_mtime > limit + 60:
        claim.unlink(missing_ok=True)  # left behind by a process that was killed
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def close_enough(output: Record) -> bool:
    return bool(output["cosine"] >= 0.999 or output["cosine"] >= output["spread"] - 0.003)


# ------------------------------------------------------------------------------------------------------------- report


def row(name: str, r: Record) -> str:
    outs, checked = r["outputs"], r["layers"]
    worst = min(outs, key=lambda o: o["cosine"])
    kinds = ", ".join(f"{n} {k}" for k, n in r["cpu_ops"].items())
    same = exact(outs)
    passes = f"{sum(map(close_enough, outs))} of {len(outs)}"
    top1 = f"{r['top1']['same']} of {r['top1']['of']}" if "same" in r.get("top1", {}) else ""
    cells = [name, r["npu"], kinds or "none", f"{r['st_cycles']:,}", f"{r['npu_cycles']:,}", f"{r['latency_ms']:.2f}"]
    cells += [f"{r['activations']:,}", f"{r['ratio']:.3f}", f"{checked['max_diff']:g}", len(checked["bad"])]
    older = "" if r.get("exact_2x") is None else f"{r['exact_2x']:.1f}"
    cells += [f"{worst['cosine']:.5f}", f"{worst['spread']:.5f}", passes, f"{same:.1f}", older, top1]
    cells += [f"{r['seconds']:.2f}"]
    return "| " + " | ".join(map(str, cells)) + " |"


def table(records: dict[str, Record]) -> list[str]:
    head = ["model", "epochs", "CPU ops", "ST est. cycles", "NPU cycles", "ms", "activations", "ratio", "layer max"]
    head += ["above limit", "cosine", "kernels", "outputs close", "exact %", "with 2.x", "top-1", "compile s"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + [row(name, r) for name, r in records.items() if "outputs" in r]


def baseline(records: dict[str, Record]) -> list[str]:
    lines = [
        "| model | ST tool | ST cycles | ours | ours / ST | ST activations | ours | ST CPU epochs | ours |",
        "|" + "---|" * 9,
    ]
    ratios = []
    with (CORPUS / "st" / "BASELINE.csv").open() as file:
        for entry in csv.DictReader(file):
            found = next((r for n, r in records.items() if Path(n).stem == entry["model"] and "npu" in r), None)
            if found is None:
                continue
            ours = found["st_cycles_with_runs" if entry["tool"] >= "3" else "st_cycles"]
            theirs = int(entry["estimated_cycles"])
            ratios.append(ours / theirs)
            given = f"{int(entry['activations_bytes']):,}" if entry["activations_bytes"] else ""
            on_cpu = int(entry["cpu_epochs"]) + int(entry["hybrid_epochs"])
            lines.append(
                f"| {entry['model']} | {entry['tool']} | {theirs:,} | {ours:,} | {ours / theirs:.3f} | {given} | "
                f"{found['activations']:,} | {on_cpu} | {found['cpu']} |"
            )
    if ratios:
        mean = math.exp(float(np.mean(np.log(ratios))))
        lines += ["", f"Geometric mean {mean:.3f}, largest {max(ratios):.3f}, {len(ratios)} models."]
    return lines


def summary(records: dict[str, Record]) -> list[str]:
    good = [r for r in records.values() if "outputs" in r]
    outs = [o for r in good for o in r["outputs"]]
    refused, failed = (sum(word in r for r in records.values()) for word in ("refused", "failed"))
    clean = sum(not r["layers"]["bad"] for r in good)
    lines = [
        f"{len(records)} models: {len(good)} compiled and run, {refused} refused, {failed} failed. Outputs close "
        f"enough: {sum(map(close_enough, outs))} of {len(outs)}. Models without a layer above its limit: {clean} of "
        f"{len(good)}. Safety findings: {sum(r['findings'] for r in good)}."
    ]
    if good:
        mean = np.mean([exact(r["outputs"]) for r in good])
        lines.append(
            f"Mean over the models: {mean:.2f} % of the output values exact. Compile time: median "
            f"{np.median([r['seconds'] for r in good]):.2f} s, largest {max(r['seconds'] for r in good):.2f} s. "
            f"Placement: largest ratio to the lower bound {max(r['ratio'] for r in good):.3f}. Memory of a process, "
            f"judging included: at most {max(r['megabytes'] for r in good)} MB."
        )
    return lines + against_2x(good) + top1_summary(good)


def against_2x(good: list[Record]) -> list[str]:
    """The default numerics against those of ST's releases 2.x."""
    pairs = [(exact(r["outputs"]), r["exact_2x"]) for r in good if r.get("exact_2x") is not None]
    if not pairs:
        return []
    ours, theirs = np.mean(pairs, axis=0)
    worse = sum(a < b - 1 for a, b in pairs)
    return [
        f"Exact values over the {len(pairs)} models that also compile with `--numerics 2.x`: {ours:.2f} % with the "
        f"default, {theirs:.2f} % with 2.x. Models on which the default is worse by more than 1 point: {worse}."
    ]


def top1_summary(good: list[Record]) -> list[str]:
    found = [r["top1"] for r in good if "same" in r.get("top1", {})]
    if not found:
        return []
    enough = sum(t["same"] >= 0.95 * t["of"] for t in found)
    return [f"Top-1 equal on at least 95 % of {found[0]['of']} inputs: {enough} of {len(found)} classifiers."]


def exceptions(records: dict[str, Record]) -> list[str]:
    lines = []
    for name, r in records.items():
        if "outputs" not in r:
            lines.append(f"- {name}: {'refused' if 'refused' in r else 'failed'}: {r.get('refused') or r['failed']}")
            continue
        lines += [f"- {name}, layer {text}" for text in r["layers"]["bad"][:5]]
        if r.get("exact_2x") is not None and exact(r["outputs"]) < r["exact_2x"] - 1:
            lines.append(f"- {name}: {exact(r['outputs']):.1f} % exact, with 2.x {r['exact_2x']:.1f} %")
        if r.get("top1", {}).get("same", 1) < 0.95 * r.get("top1", {}).get("of", 0):
            lines.append(f"- {name}: the same class on {r['top1']['same']} of {r['top1']['of']} inputs")
        far = [o for o in r["outputs"] if not close_enough(o)]
        for o in far:
            noise = f", noise {o['noise']:.5f}" if "noise" in o else ""
            lines.append(f"- {name}, output {o['name'][:60]}: {o['cosine']:.5f}, kernels {o['spread']:.5f}{noise}")
    return lines


NOTE = (
    "*noise*: the cosine that exact arithmetic has to itself when one value in 10,000 of every convolution is one code",
    "off. Where it is below 0.999, hardly anything but the very same roundings in the very same order comes closer.",
    "",
)


def report(records: dict[str, Record], numerics: str) -> str:
    intro = f"""# The corpus, compiled

Script: `benchmarks/compile_corpus.py` (numerics {numerics}), one thread. Every program ran on the emulator with
{INPUTS} to {MOST_INPUTS} inputs, most of them where outputs have few values ({FEW_INPUTS} where activations take more
than {LARGE_BYTES >> 20} MB).

- *epochs*: on the NPU; *CPU ops* by kind. *ST est. cycles*: NPU epochs by the estimate of ST's compiler; *NPU cycles*:
  by the hardware model; *ms*: predicted, CPU included; never measured on a board.
- *ratio*: activations to the largest sum of live bytes, which no layout can go below.
- *layer max*: each layer on the inputs it really had against exact arithmetic, in codes; *above limit*: layers beyond 1
  (function tables: 2).
- *cosine*: worst output, free running, over all inputs together, to TFLite's reference kernels (onnxruntime without
  optimisation); *kernels*: the same for TFLite's own optimised and XNNPACK kernels, whichever is further (onnxruntime
  with optimisation). *outputs close*: cosine at least 0.999 or *kernels* - 0.003.
- *exact %*: output values equal to the reference's; *with 2.x*: the same with `--numerics
  2.x`. *top-1*: classifiers, inputs on which
  both name the same class (of classes with equal scores either is right).
- *compile s*: file to placed and checked program, without verification, in seconds of processor time.
"""
    parts = [intro, *summary(records), "", *table(records), "", "## Against ST's compiler", "", *baseline(records)]
    return "\n".join([*parts, "", "## Exceptions", "", *NOTE, *exceptions(records), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "atonc_corpus")
    parser.add_argument("--fresh", action="store_true", help="do not use results in the cache")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds per model")
    parser.add_argument("--top1", type=int, default=0, metavar="N", help="inputs for the agreement of classifiers")
    parser.add_argument("--numerics", default="best", choices=["best", "2.x"])
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one, numerics = options.one, options.numerics
        print(json.dumps(agreement(one, numerics, options.top1) if options.top1 else judge(one, numerics)))
        return
    options.cache.mkdir(parents=True, exist_ok=True)
    records: dict[str, Record] = {}
    for model in sorted((CORPUS / "models").iterdir(), key=lambda path: path.stat().st_size):
        if options.only in model.name:
            records[model.name] = collect(model, options)
            if options.top1 and records[model.name].get("classifier"):
                records[model.name]["top1"] = collect(model, options, options.top1)
            short = row(model.name, records[model.name]) if "outputs" in records[model.name] else records[model.name]
            print(short if isinstance(short, str) else f"{model.name}: {short}", file=sys.stderr, flush=True)
    ordered = dict(sorted(records.items()))
    text = report(ordered, options.numerics)
    if options.write:
        RESULTS.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
