"""Are the files of two compilations the same bytes, in processes of another hash seed, folder, locale, time zone?"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import tempfile
from pathlib import Path

from benchmarks.shared.corpus import chosen
from benchmarks.shared.declare import MODEL_FILES, WRITE, Report
from tests.compiler.twice import compile_twice

GROUP = "truth"
ARGUMENTS = (MODEL_FILES, WRITE)

MODELS = (
    "ad01_int8.tflite",
    "cifar10__resnet_v1_8_32_tfs_int8.tflite",
    "kws_ref_model.tflite",
    "vww_96_int8.tflite",
    "ImageNet__mobilenet_v2_0.35_128_int8.tflite",
    "blazeface_front_128_quant_pc_ff_od_wider_face.tflite",
    "coco_2017_person__st_yolo_x_nano_192_0.33_0.25_int8.tflite",
    "coco_2017_person__st_yolo_x_nano_192_0.33_0.25_qdq_int8.onnx",
    "yunetn_320_qdq_int8.onnx",
    "mobilefacenet_int8_faces.onnx",
)


def row(model: Path) -> tuple[str, bool]:
    with tempfile.TemporaryDirectory() as work:
        try:
            first, second = compile_twice(model, Path(work))
        except subprocess.CalledProcessError as error:
            return f"| {model.name} | {error.stderr.decode(errors='replace').strip()[:160]} | | |", False
    different = [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]
    together = hashlib.sha256("".join(f"{name}{first[name]}" for name in sorted(first)).encode()).hexdigest()
    verdict = f"differ: {', '.join(sorted(different))}" if different else "identical"
    return f"| {model.name} | {verdict} | {len(first)} | {together[:16]} |", not different


def run(arguments: argparse.Namespace) -> Report:
    rows = []
    for model in chosen(arguments, MODELS):
        rows.append(row(model))
        print(rows[-1][0], flush=True)
    same = sum(good for _, good in rows)
    lines = ["# Two compilations", "", "With another hash seed, folder, locale and"]
    lines += ["time zone; every written file except the report for people is compared byte by byte.", ""]
    lines += [f"{same} of {len(rows)} models give identical files.", ""]
    lines += ["| model | files | number | sha256 of all |", "|---|---|---|---|", *(text for text, _ in rows)]
    return Report("\n".join(lines) + "\n", failed=same != len(rows))
