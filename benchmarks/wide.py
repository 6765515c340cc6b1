"""What do activations of 16 bits cost? Twenty networks in 16 bits beside the same networks in 8 bits.

Made networks with random weights (`benchmarks/shared/wide_models.py`), each written with codes of 8 and of 16 bits
between all layers, weights of 8 bits; compiled with integer edges (`--input-data-type`, `--output-data-type`) and with
float edges. Every layer of the programs of 16 bits is verified on the emulator. Times are predicted by the calibrated
model. The public YOLOX nano (TI lite, 320x320, TFLite 16x8 and int8) is looked for in the folder of `--fetched`, and
left out where it is not.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.request.options import Options
from atonc.delivery.generate.generating import analyze
from atonc.insight.quantizing.observe import watch
from benchmarks.shared import wide_models as models
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import FETCHED, KEEP, ONLY, WRITE, Report
from benchmarks.shared.kept import read, write
from benchmarks.shared.tables import geometric_mean, table

GROUP = "quantising"
ARGUMENTS = (FETCHED.but(required=False, default=()), ONLY, KEEP.but(default=Path("wide.json")), WRITE)
SAMPLES = 4
GOALS = {"integer": 2.1, "float": 2.4}
WORST = 4.0
YOLOX = "YOLOX nano 320 (TI lite, public)"
PLACE = "MaxCYCHEN+yolox-ti-lite_tflite_int8/pretrain/tflite_yolox_nano_ti/320/saved_model"
FILES = [f"yolox_nano_320_test_ti_lite_full_integer_quant{end}.tflite" for end in ("", "_with_int16_act")]
COLUMNS = (
    "network", ">8 bits, ms", ">16 bits, ms", ">ratio", ">8 bits, float edges, ms", ">16 bits, float edges, ms",
    ">ratio", ">layers", ">max LSB of 65,536", "16 bits on the CPU: layers, ms",
)  # fmt: skip

Row = dict[str, Any]


def ranges(model: Any, shape: Sequence[int]) -> dict[str, tuple[float, float]]:
    random = np.random.default_rng(1)
    samples = [{"x": random.normal(0, 1, (1, *shape)).clip(-3, 3).astype(np.float32)} for _ in range(SAMPLES)]
    names = ["x", *(name for node in model.graph.node for name in node.output)]
    found = dict.fromkeys(names, (0.0, 0.0))
    for values in watch(model, samples, names, "ranges"):
        found = {n: (min(found[n][0], float(v.min())), max(found[n][1], float(v.max()))) for n, v in values.items()}
    return found


def on_cpu(view: CompileView) -> str:
    kinds = {op.name: op.kind for op in view.compiled.graph.ops}
    spent, count = defaultdict[str, float](float), defaultdict[str, int](int)
    for step, cost in zip(view.compiled.program.steps, view.cost.steps, strict=True):
        if cost.bound_by == "cpu":
            kind = kinds[step.plan.op]  # type: ignore[union-attr]
            spent[kind] += cost.milliseconds
            count[kind] += 1
    by_time = sorted(spent, key=lambda kind: -spent[kind])
    return "; ".join(f"{count[kind]} {kind} {spent[kind]:.3f}" for kind in by_time) or "-"


def measured(narrow: Path, wide: Path, floats: bool) -> Row:
    """`floats`: the files have float edges, which may be integers instead."""
    edges = [({"input_type": kind, "output_type": kind} if floats else {}) for kind in ("int8", "int16")]
    found = analyze(wide, Options(allow_float=True, **edges[1]))
    report = found.compiled.report
    assert report is not None
    row: Row = {"narrow": analyze(narrow, Options(verify=False, allow_float=True, **edges[0])).cost.latency_ms}
    row |= {"wide": found.cost.latency_ms, "cpu": on_cpu(found), "layers": len(found.compiled.graph.ops)}
    row["worst"] = max(check.max_diff for check in report.checks)
    if floats:
        both = (analyze(path, Options(verify=False, allow_float=True)).cost.latency_ms for path in (narrow, wide))
        row["float_narrow"], row["float_wide"] = both
    return row


def cases(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Path, Path, bool]]:
    for name in models.NETWORKS:
        if not asked_for(arguments.only, name):
            continue
        model, paths = models.network(name), [folder / "narrow.onnx", folder / "wide.onnx"]
        seen = ranges(model, models.NETWORKS[name][0])
        for path, is_wide in zip(paths, (False, True), strict=True):
            path.write_bytes(models.coded(model, seen, is_wide))
        yield name, *paths, True
    for root in arguments.fetched:
        paths = [Path(root) / PLACE / file for file in FILES]
        if all(path.is_file() for path in paths) and asked_for(arguments.only, YOLOX):
            digest = hashlib.sha256(paths[1].read_bytes()).hexdigest()[:12]
            yield f"{YOLOX}, {digest}", *paths, False


def run(arguments: argparse.Namespace) -> Report:
    rows: dict[str, Row] = read(arguments.keep) if arguments.keep.is_file() else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, narrow, wide, floats in cases(arguments, Path(folder)):
            if name not in rows:
                rows[name] = measured(narrow, wide, floats)
                write(arguments.keep, rows)
                print(name, rows[name], flush=True)
    return Report(_page(rows))


def _summary(rows: dict[str, Row], narrow: str, wide: str, edges: str) -> str:
    ratios = {name: row[wide] / row[narrow] for name, row in rows.items() if narrow in row and YOLOX not in name}
    if not ratios:  # --only
        return f"With {edges} edges: none of the made networks was asked for."
    mean = geometric_mean(ratios.values())
    last = max(ratios, key=lambda name: ratios[name])
    below = sum(ratio <= WORST for ratio in ratios.values())
    return (
        f"With {edges} edges: geometric mean **{mean:.2f}** (asked for: {GOALS[edges]}), worst {ratios[last]:.2f} "
        f"({last}); {below} of {len(ratios)} at most {WORST:g} times."
    )


def _page(rows: dict[str, Row]) -> str:
    lines = []
    for name, row in rows.items():
        pair = [row.get("float_narrow"), row.get("float_wide")]
        floats = [f"{pair[0]:.3f}", f"{pair[1]:.3f}", f"{pair[1] / pair[0]:.2f}"] if pair[0] and pair[1] else ["-"] * 3
        ratio = f"{row['wide'] / row['narrow']:.2f}"
        made = [f"{row['narrow']:.3f}", f"{row['wide']:.3f}", ratio]
        lines.append([name, *made, *floats, str(row["layers"]), f"{row['worst']:g}", row["cpu"]])
    summary = "\n".join(
        (_summary(rows, "narrow", "wide", "integer"), _summary(rows, "float_narrow", "float_wide", "float"))
    )
    rows_of_text = "\n".join(table(COLUMNS, lines))
    return f"# Activations of 16 bits\n\n{__doc__.strip()}\n\n{summary}\n\n{rows_of_text}\n"
