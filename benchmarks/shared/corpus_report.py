"""The table of the corpus, from what `corpus` found out about each model."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.shared import tables as markdown
from benchmarks.shared.corpus import corpus_dir

INPUTS = 12
FEW_INPUTS = 2  # for models whose activations are large
ENOUGH, MOST_INPUTS = 1200, 100  # output values, and inputs for models with few of them
LARGE_BYTES = 2 << 20
NOISE = 0.0001  # of the values
Record = dict[str, Any]


def exact(rows: list[Record]) -> float:
    """The share of all output values together: some models have outputs of one value beside others of thousands."""
    return float(np.average([row["exact"] for row in rows], weights=[row["values"] for row in rows]))


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
    return markdown.row(cells)


def table(records: dict[str, Record]) -> list[str]:
    head = ["model", "epochs", "CPU ops", "ST est. cycles", "NPU cycles", "ms", "activations", "ratio", "layer max"]
    head += ["above limit", "cosine", "kernels", "outputs close", "exact %", "with 2.x", "top-1", "compile s"]
    lines = [markdown.row(head), "|" + "---|" * len(head)]
    return lines + [row(name, r) for name, r in records.items() if "outputs" in r]


def baseline(records: dict[str, Record]) -> list[str]:
    lines = [
        "| model | ST tool | ST cycles | ours | ours / ST | ST activations | ours | ST CPU epochs | ours |",
        "|" + "---|" * 9,
    ]
    ratios = []
    with (corpus_dir() / "st" / "BASELINE.csv").open() as file:
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
        mean = markdown.geometric_mean(ratios)
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
            others = " and ".join(map(str, r["top1"]["others"]))
            lines.append(
                f"- {name}: the same class on {r['top1']['same']} of {r['top1']['of']} inputs (kernels {others}, exact "
                f"arithmetic {r['top1']['exact']})"
            )
        far = [o for o in r["outputs"] if not close_enough(o)]
        for o in far:
            lines.append(
                f"- {name}, output {o['name'][:60]}: {o['cosine']:.5f}, kernels {o['spread']:.5f}, exact arithmetic "
                f"{o['exact_cosine']:.5f}, noise {o['noise']:.5f}"
            )
    return lines


NOTE = (
    "*exact arithmetic*: the interpreter of the model, with one exact rounding where the source has one (TFLite's two",
    "where it has two), against the reference. *noise*: the cosine that it has to itself when one value in 10,000 of",
    "every convolution is one code off; the NPU's 16-bit stages change 10 to 40. Where that is below the mark, nothing",
    "but the very same numbers in every layer comes closer, and no form that was seen on this NPU has them.",
    "",
)


def report(records: dict[str, Record], numerics: str) -> str:
    intro = f"""# The corpus, compiled

Numerics {numerics}, one thread. Every program ran on the emulator with
{INPUTS} to {MOST_INPUTS} inputs, most of them where outputs have few values ({FEW_INPUTS} where activations take more
than {LARGE_BYTES >> 20} MB).

- *epochs*: on the NPU; *CPU ops* by kind. *ST est. cycles*: NPU epochs by the estimate of ST's compiler; *NPU cycles*:
  by the hardware model; *ms*: predicted, CPU included; never measured on a board.
- *ratio*: activations to the largest sum of live bytes, which no layout can go below.
- *layer max*: each layer on the inputs it really had against exact arithmetic, in codes; *above limit*: layers beyond
  what the compiler declares (1, function tables 2, more where sums are rounded several times).
- *cosine*: worst output, free running, over all inputs together, to TFLite's reference kernels (onnxruntime without
  optimisation); *kernels*: the same for TFLite's own optimised and XNNPACK kernels, whichever is further (onnxruntime
  with optimisation). *outputs close*: cosine at least 0.999 or *kernels* - 0.003.
- *exact %*: output values equal to the reference's; *with 2.x*: the same with `--numerics 2.x`. *top-1*: classifiers,
  inputs on which both name the same class (of classes with equal scores either is right).
- *compile s*: file to placed and checked program, without verification, in seconds of processor time.
"""
    parts = [intro, *summary(records), "", *table(records), "", "## Against ST's compiler", "", *baseline(records)]
    return "\n".join([*parts, "", "## Exceptions", "", *NOTE, *exceptions(records), ""])
