"""Compiles models of the corpus twice, in processes with another hash seed, folder, locale and time zone.

    python benchmarks/determinism.py [MODEL ...] [--write]

The corpus is $ATONC_CORPUS or ../shared/corpus.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.compiler.twice import compile_twice

RESULTS = Path(__file__).parent / "results" / "determinism.md"
CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).parents[2] / "shared" / "corpus"))
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    models = options.models or [CORPUS / "models" / name for name in MODELS]
    rows = []
    for model in models:
        rows.append(row(model))
        print(rows[-1][0], flush=True)
    same = sum(good for _, good in rows)
    lines = ["# Two compilations", "", "Written by `benchmarks/determinism.py`: other hash seed, folder, locale and"]
    lines += ["time zone; every written file except the report for people is compared byte by byte.", ""]
    lines += [f"{same} of {len(rows)} models give identical files.", ""]
    lines += ["| model | files | number | sha256 of all |", "|---|---|---|---|", *(text for text, _ in rows)]
    if options.write:
        RESULTS.write_text("\n".join(lines) + "\n")
    return 0 if same == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
