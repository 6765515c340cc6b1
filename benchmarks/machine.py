"""Do programs follow the machine of the options? Two checkouts compile the same models for other clocks and another
flash; both programs are priced on that machine.

The builds of each checkout run in a process of their own. Cycles are predicted. Forms: operators on
the NPU whose units or engines differ from those that the same checkout gives them on the default machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from atonc.compiler.request.options import Options
from atonc.delivery.generate.generating import analyze
from benchmarks.shared.children import run_again
from benchmarks.shared.corpus import ROOT, chosen
from benchmarks.shared.declare import BEFORE, MODEL_FILES, ONLY, WRITE, Report, hidden

GROUP = "speed"
ARGUMENTS = (
    BEFORE.but(required=True, metavar="CHECKOUT", help="the other one"),
    MODEL_FILES,
    ONLY,
    WRITE,
    hidden("--child", nargs="+", type=Path),
)

DEFAULT = "default"
MACHINES: dict[str, dict[str, float]] = {
    DEFAULT: {},
    "NPU 400 MHz": {"npu_mhz": 400.0},
    "flash 99 MB/s": {"flash_mbps": 99.0},
    "both": {"npu_mhz": 400.0, "flash_mbps": 99.0},
}
MODELS = (
    "blazeface_front_128_quant_pc_ff_od_wider_face.tflite",
    "cifar10__resnet_v1_8_32_tfs_int8.tflite",
    "coco_2017_person__st_yolo_x_nano_192_0.33_0.25_int8.tflite",
    "fomo_face_detection.tflite",
    "food-101__st_efficientnet_lc_v1_128_tfs_int8.tflite",
    "ImageNet__mobilenet_v2_0.35_128_int8.tflite",
    "kws_ref_model.tflite",
    "mobilefacenet__PerChannel_quant.onnx",
    "mobilenet_v1_0.25_96_tfs_int8.tflite",
    "person_detect.tflite",
    "pretrainedResnet_quant.tflite",
    "vww_96_int8.tflite",
    "yunetn_320_qdq_int8.onnx",
)


@dataclass(frozen=True)
class Built:
    """One model of one checkout on one machine."""

    cycles: int
    forms: dict[str, str]  # operator -> what its units and engines are set to


def build(model: Path, machine: str) -> Built:
    view = analyze(model, Options(verify=False, **MACHINES[machine]))  # type: ignore[arg-type]
    forms = {name: sha256(_settings(form).encode()).hexdigest() for name, form in view.compiled.mapped.forms.items()}
    return Built(view.cost.cycles, forms)


def _settings(form: Any) -> str:
    """Describes all tasks, without names of buffers, which are counted."""
    tasks = [task for group in form.groups for task in group.tasks]
    return repr([(dict(task.units), [use.config for use in task.engines.values()], task.wires) for task in tasks])


def built_by(checkout: Path, models: list[Path]) -> dict[str, dict[str, Built]]:
    """By model and machine."""
    done = run_again("machine", "--before", checkout, "--child", *models, tree=checkout, check=True)
    rows = json.loads(done.stdout.splitlines()[-1])
    return {model: {machine: Built(**row) for machine, row in found.items()} for model, found in rows.items()}


def table(before: dict[str, dict[str, Built]], after: dict[str, dict[str, Built]]) -> Iterator[str]:
    yield "| model | machine | before | now | now / before | other forms than by default: before | now |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for model, machines in after.items():
        for machine, now in machines.items():
            then = before[model][machine]
            counts = [others(found[model], machine) for found in (before, after)]
            ratio = now.cycles / then.cycles
            figures = f"{then.cycles:,} | {now.cycles:,} | {ratio:.3f} | {counts[0]} | {counts[1]}"
            yield f"| {model.rpartition('.')[0]} | {machine} | {figures} |"


def others(machines: dict[str, Built], machine: str) -> str:
    usual, found = machines[DEFAULT].forms, machines[machine].forms
    return f"{sum(usual.get(op) != form for op, form in found.items())} of {len(found)}"


def summary(before: dict[str, dict[str, Built]], after: dict[str, dict[str, Built]]) -> Iterator[str]:
    for machine in MACHINES:
        ratios = sorted(after[m][machine].cycles / before[m][machine].cycles for m in after)
        faster = sum(ratio <= 0.98 for ratio in ratios)
        yield (
            f"* {machine}: {faster} of {len(ratios)} models at least 2 % faster; "
            f"ratios from {ratios[0]:.3f} to {ratios[-1]:.3f}, median {ratios[len(ratios) // 2]:.3f}"
        )


def page(before: dict[str, dict[str, Built]], after: dict[str, dict[str, Built]]) -> str:
    lines = [
        "# Programs for another machine, before and after choices were made for it",
        "",
        "Before: f623736, which chose forms, chains, cuts and copies for the default",
        "machine (NPU 1000 MHz, flash 400 MB/s) whatever the options said. Cycles of both are predicted on the machine",
        "of the row; none of it was run on a board. Rows above 1: a form that is closer to exact arithmetic became",
        "worth its cycles (person_detect: 0.23 codes of error before, 0.01 now), or candidates were ranked by a bound,",
        "before there were tasks to price.",
        "",
        *summary(before, after),
        "",
        *table(before, after),
    ]
    return "\n".join(lines) + "\n"


def run(arguments: argparse.Namespace) -> Report:
    if arguments.child:
        rows = {model.name: {name: vars(build(model, name)) for name in MACHINES} for model in arguments.child}
        print(json.dumps(rows))
        return Report()
    models = chosen(arguments, MODELS)
    text = page(*(built_by(checkout.resolve(), models) for checkout in (arguments.before, ROOT)))
    return Report(text)
