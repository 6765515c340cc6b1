"""How fast are our programs: against ST's published figures, against our own programs of before, lever by lever.

One record a model and variant, kept in FILE as they come (so that runs can be interrupted and split): by default
results/schedule.json, from which `tools/gen_reference.py` fills the figures of the documents. `--before` names such a
file of an earlier commit; without it there are no such columns. Times are the calibrated model's on every side but
ST's, which are the best that ST published for the same file with any release.
"""

from __future__ import annotations

import argparse
import csv
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.machine.base.errors import AtoncError
from atonc.machine.hw.ec import ec_program
from benchmarks.shared import kept as records_of
from benchmarks.shared import tables
from benchmarks.shared.corpus import chosen, corpus_dir
from benchmarks.shared.declare import BEFORE, FEW, FRESH, KEEP, MODEL_FILES, ONLY, SHARD, WRITE, Report, argument
from benchmarks.shared.pages import RESULTS

FIGURE = re.compile(r"([\d.]+):([\d.]+)ms(?:/[\d.]*\+([\d.]*)KiB)?")  # release, ms, KiB of external RAM
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "memory": {"prefer": "memory"},
    "resident": {"resident": "all"},
    "prefetch": {"schedule_with": ("prefetch",)},
    "resident and prefetch": {"resident": "all", "schedule_with": ("prefetch",)},
    "memory and resident": {"prefer": "memory", "resident": "all"},
}
RECORDS = RESULTS / "schedule.json"
GROUP = "speed"
ARGUMENTS = (
    argument("--variant", nargs="+", default=["default"], choices=list(VARIANTS)),
    MODEL_FILES,
    ONLY,
    FEW,
    argument("--facts", action="store_true", help="only the models of the facts"),
    SHARD,
    KEEP.but(default=RECORDS),
    BEFORE,
    FRESH,
    WRITE,
)
FACTS = (  # the twelve models whose room per lever was measured before anything was built
    "st_yolo_x_nano_480_1.0_0.25_3_st_int8",
    "033_hand_landmark_full_quant_pc_uf_handl",
    "yolov8n_256_quant_pc_uf_pose_coco-st",
    "ImageNet__mobilenet_v2_1.0_224_int8",
    "blazeface_front_128_quant_pc_ff_od_wider_face",
    "face_landmark_ptq",
    "centerface",
    "deeplab_v3_mobilenetv2_05_16_320_fft_qdq_int8",
    "st_movenet_lightning_heatmaps_192_int8_pc",
    "yamnet_1024_64x96_tl_qdq_int8",
    "person_detect",
    "yolov8n_micro_224_int8",  # for another YOLOv8n that is not in the corpus
)
INPUTS: Mapping[str, Mapping[str, Any]] = {  # of the type that ST's figure used
    "yunetn_320_qdq_int8.onnx": {"input_type": "uint8"},  # ST's activations are smaller than its input in floats
}
Record = dict[str, Any]
Records = Mapping[str, Record]


def measure(model: Path, changes: Mapping[str, Any]) -> Record:
    options = Options(verify=False, **INPUTS.get(model.name, {}), **changes)
    start = time.process_time()
    try:
        compiled = compile_file(model, options)
    except AtoncError as error:
        return {"refused": error.one_line}
    seconds = time.process_time() - start
    cost = compiled.cost
    low, high = cost.band.around(cost.latency_ms)
    npu = sum(c.cycles for s, c in zip(compiled.program.steps, cost.steps, strict=True) if s.epoch is not None)
    return {
        "ms": round(cost.latency_ms, 6),
        "low_ms": round(low, 6),
        "high_ms": round(high, 6),
        "npu_cycles": npu,
        "epochs": len(compiled.program.epochs),
        "cpu_steps": len(compiled.choices.reasons),
        "peak_bytes": compiled.layout.peak_bytes,
        "resident_bytes": compiled.layout.memory.resident_bytes,
        "prefetched_bytes": compiled.layout.memory.prefetched_bytes,
        "words": len(ec_program.words(compiled.program.epochs)),
        "seconds": round(seconds, 2),
    }


@dataclass(frozen=True)
class Published:
    """A figure of ST's."""

    ms: float
    release: str
    external_kib: float  # of activations: the network did not fit on the chip


def published() -> dict[str, Published]:
    """By file: the best figure of any release."""
    with (corpus_dir() / "models.csv").open() as file:
        rows = [(row["file"], FIGURE.findall(row["st_ms"])) for row in csv.DictReader(file)]
    best = {name: min(figures, key=lambda figure: float(figure[1])) for name, figures in rows if figures}
    return {name: Published(float(ms), release, float(ram or 0)) for name, (release, ms, ram) in best.items()}


def of_facts(name: str) -> bool:
    return name.rsplit(".", 1)[0] in FACTS


def mean(ratios: Iterable[float]) -> str:
    found = list(ratios)
    return f"{tables.geometric_mean(found):.3f} on {len(found)}" if found else "none"


def ratio(new: Record, old: Record | None, key: str) -> float | None:
    return new[key] / old[key] if old and old.get(key) and new.get(key) else None


def cell(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def default_lines(now: Mapping[str, Record], before: Mapping[str, Record]) -> Iterator[str]:
    best = published()
    rows = {name: record for name, record in sorted(now.items()) if "ms" in record}
    st = {name: record["ms"] / best[name].ms for name, record in rows.items() if name in best}
    changed = {name: found for name, record in rows.items() if (found := ratio(record, before.get(name), "ms"))}
    inside = [ratio for name, ratio in st.items() if not best[name].external_kib]
    yield f"* Against ST's best published figure: geometric mean {mean(st.values())} models; above 1.00: {above(st)}."
    yield f"* Without those that ST puts into external RAM: {mean(inside)}. Against its newest release: against_st.md."
    if before:
        yield f"* Against our programs of before: mean {mean(changed.values())}; above 1.00: {above(changed)}."
        yield f"* The same on the models of the facts: {mean(v for n, v in changed.items() if of_facts(n))}."
        for key, said in (("words", "program words"), ("peak_bytes", "bytes of activations")):
            found = {name: r for name, record in rows.items() if (r := ratio(record, before.get(name), key))}
            yield f"* {said.capitalize()} against before: {mean(found.values())}; above 1.00: {above(found)}."
    yield ""
    older = "ms before | to before | words to before | RAM to before | " if before else ""
    yield f"| model | ms | may be | ST ms | release | to ST | {older}epochs | words | activations | CPU steps | s |"
    yield "|---|---:|---:|---:|---|---:|" + "---:|" * (older.count("|") + 5)
    for name, record in rows.items():
        old, st_best = before.get(name), best.get(name)
        cells = [name, f"{record['ms']:.3f}", f"{record['low_ms']:.3f} to {record['high_ms']:.3f}"]
        cells += [f"{st_best.ms:g}", st_best.release, cell(st.get(name))] if st_best else ["", "", ""]
        if before:
            was = f"{old['ms']:.3f}" if old and "ms" in old else ""
            cells += [was, cell(changed.get(name)), *(cell(ratio(record, old, key)) for key in ("words", "peak_bytes"))]
        cells += [_pair(record, old, "epochs"), f"{record['words']:,}", f"{record['peak_bytes']:,}"]
        yield tables.row([*cells, record["cpu_steps"], record["seconds"]])
    for name, record in sorted(now.items()):
        if "refused" in record:
            yield f"\n{name}: {record['refused']}"


def _pair(new: Record, old: Record | None, key: str) -> str:
    return f"{old[key]} → {new[key]}" if old and key in old else str(new[key])


def above(ratios: Mapping[str, float]) -> str:
    found = sorted(((value, name) for name, value in ratios.items() if value > 1.0005), reverse=True)
    return ", ".join(f"{name} {value:.3f}" for value, name in found) or "none"


def variant_lines(variant: str, now: Mapping[str, Record], default: Records, before: Records) -> Iterator[str]:
    """A variant against the default of the same commit, and against before."""
    compared = "to default | to before" if before else "to default"
    yield f"| model | ms | {compared} | activations | {compared} | weights in RAM |"
    yield "|---|---:|---:|---:|---:|---:|" + "---:|" * (2 if before else 0)
    times, older, sizes, smaller = {}, {}, {}, {}
    for name, record in sorted(now.items()):
        if "ms" not in record:
            yield f"| {name} | refused: {record['refused'][:120]} |"
            continue
        plain = default.get(name)
        times[name], sizes[name] = ratio(record, plain, "ms"), ratio(record, plain, "peak_bytes")
        older[name], smaller[name] = (ratio(record, before.get(name), key) for key in ("ms", "peak_bytes"))
        weights = record.get("resident_bytes", 0) + record.get("prefetched_bytes", 0)
        was, less = ([cell(older[name])], [cell(smaller[name])]) if before else ([], [])
        cells = [name, f"{record['ms']:.3f}", cell(times[name]), *was, f"{record['peak_bytes']:,}"]
        yield tables.row([*cells, cell(sizes[name]), *less, f"{weights:,}"])
    yield ""
    against = [f"{what} {mean(v for v in found.values() if v)}" for what, found in
               (("time to default", times), ("to before", older), ("activations to default", sizes),
                ("to before", smaller)) if before or what != "to before"]  # fmt: skip
    yield f"{variant}: {', '.join(against)}."


def report(records: Mapping[str, Mapping[str, Record]], before: Mapping[str, Mapping[str, Record]]) -> str:
    default = records.get("default", {})
    said = "Times are predicted by the calibrated model, ST's are published; nothing of ours has run on a board."
    lines = ["# Speed of our programs", "", said, ""]
    lines += ["## As by default", "", *default_lines(default, before.get("default", {}))]
    for variant in VARIANTS:
        if variant != "default" and records.get(variant):
            rows = variant_lines(variant, records[variant], default, before.get("default", {}))
            lines += ["", f"## {variant}", "", *rows]
    return "\n".join(lines) + "\n"


def run(arguments: argparse.Namespace) -> Report:
    records: dict[str, dict[str, Record]] = records_of.read(arguments.keep)
    models = [p for p in chosen(arguments) if of_facts(p.name) or not arguments.facts]
    for variant in arguments.variant:
        kept = records.setdefault(variant, {})
        for model in models:
            if arguments.fresh or model.name not in kept:
                kept[model.name] = measure(model, VARIANTS[variant])
                records_of.write(arguments.keep, records)
                print(variant, model.name, kept[model.name], flush=True)
    return Report(report(records, records_of.read(arguments.before)))
