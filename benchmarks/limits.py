"""How near are our programs to what the chip could do: today's cycles by the practical and by the absolute bound.

Two programs of each network: the default, with weights in flash, and the one with all weights in RAM that fit. Bounds
are those of `atonc.insight.explain.limits`; the goal of the second is the bound with all weights in RAM, also where
they do not fit.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from atonc.compiler.compile.compile_view import analyze
from atonc.compiler.request.options import Options
from atonc.insight.explain.ours import network_view
from benchmarks.schedule import VARIANTS
from benchmarks.shared import tables
from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import FRESH, KEEP, MODEL_FILES, ONLY, WRITE, Report
from benchmarks.shared.kept import Kept

GROUP = "speed"
ARGUMENTS = (MODEL_FILES, ONLY, KEEP, FRESH, WRITE)

FLASH, RAM = "default", "resident"
GOALS = {FLASH: 1.30, RAM: 1.90}
NETWORKS = (
    "ImageNet__mobilenet_v1_0.25_224_int8.tflite",
    "mobilenet_v1_0.5_160_quant.tflite",
    "ImageNet__mobilenet_v2_0.35_128_int8.tflite",
    "ImageNet__mobilenet_v2_1.0_224_int8.tflite",
    "custom_dataset_person_13kpts__st_movenet_lightning_heatmaps_192_qdq_int8.onnx",
    "coco_2017_person__st_yolo_x_nano_320_0.33_0.25_int8.tflite",
    "coco_2017_person__st_ssd_mobilenet_v1_025_224_int8.tflite",
    "deeplab_v3_mobilenetv2_05_16_320_fft_qdq_int8.onnx",
    "yolov8n_256_quant_pc_uf_pose_coco-st.tflite",
    "face_landmark_ptq.tflite",
    "food-101__st_efficientnet_lc_v1_128_tfs_int8.tflite",
)
HEAD = """# Today's programs by what the chip could do

Predicted cycles by bounds (`explain/limits.py`; no board has run these programs). *practical*: three lanes of one unit
or two of two, one epoch a convolution with what it takes to program and start it, CPU as it is, other operators free.
*absolute*: four units multiply in every cycle, and weights come from outside once, all of it at the same time. *all in
RAM*: the practical bound if all weights lay in RAM, also where they do not fit. The goals were set on twelve other
files; here a file of the corpus stands for each of eleven of those architectures, at the size that is there, and the
twelfth, OSNet, is missing: the means say how near these eleven are, not whether the goals were met on those.

"""
COLUMNS = (
    *("network", ">default: Mcycles", ">x practical", ">x absolute"),
    *(">resident: Mcycles", ">x practical", ">x all in RAM", ">x absolute"),
)
Row = Mapping[str, Any]


def measured(model: Path, variant: str) -> Row:
    limit = network_view(analyze(model, Options(verify=False, **VARIANTS[variant]))).limit
    if limit is None:
        raise ValueError(f"{model.name} has no convolution on the NPU")
    return {"cycles": limit.cycles, **limit.as_dict(), "times_in_ram": limit.cycles / limit.practical_in_ram}


def cells(name: str, flash: Row, ram: Row) -> list[str]:
    keys = "times_practical", "times_in_ram", "times_absolute"
    first = [f"{flash['cycles'] / 1e6:.2f}", *(f"{flash[key]:.2f}" for key in ("times_practical", "times_absolute"))]
    return [name, *first, f"{ram['cycles'] / 1e6:.2f}", *(f"{ram[key]:.2f}" for key in keys)]


def mean(rows: Iterable[Row], key: str) -> float:
    return tables.geometric_mean(row[key] for row in rows)


def run(arguments: argparse.Namespace) -> Report:
    kept = Kept(arguments.keep, arguments.fresh)
    found = {
        model.name: [kept.of(f"{model.name}, {name}", partial(measured, model, name)) for name in (FLASH, RAM)]
        for model in chosen(arguments, NETWORKS)
    }
    flash, ram = ([both[side] for both in found.values()] for side in (0, 1))
    reached = {FLASH: mean(flash, "times_practical"), RAM: mean(ram, "times_in_ram")}
    last = ["**geometric mean**", "", f"**{reached[FLASH]:.2f}**", f"{mean(flash, 'times_absolute'):.2f}", ""]
    last += [f"{mean(ram, 'times_practical'):.2f}", f"**{reached[RAM]:.2f}**", f"{mean(ram, 'times_absolute'):.2f}"]
    rows = [*(cells(name, *both) for name, both in found.items()), last]
    goals = ", ".join(f"{name} {reached[name]:.2f} (goal {goal:.2f})" for name, goal in GOALS.items())
    page = HEAD + "\n".join(tables.table(COLUMNS, rows)) + f"\n\nGeometric means: {goals}.\n"
    return Report(page, failed=any(reached[name] > goal for name, goal in GOALS.items()))
