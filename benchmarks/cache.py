"""What does `generate` take when it finds results of a former run, with one option changed, and are the bytes the same?

Models and options were chosen before anything was measured."""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from atonc.machine.base.cache import OFF, VARIABLE
from benchmarks.shared.children import Usage, measure
from benchmarks.shared.corpus import by_size, chosen
from benchmarks.shared.declare import FRESH, KEEP, MODEL_FILES, WRITE, Report
from benchmarks.shared.kept import HOME, Kept

GROUP = "tools"
ARGUMENTS = (MODEL_FILES, KEEP.but(default=HOME / "atonc_cache.json"), FRESH, WRITE)

MODELS = (
    "ds_cnn_quantized.tflite",
    "vww_96_int8.tflite",
    "cifar10__resnet_v1_8_32_tfs_int8.tflite",
    "yunetn_320_qdq_int8.onnx",
    "blazeface_front_128_quant_pc_ff_od_wider_face.tflite",
    "ssd_mobilenet_v3_int8.tflite",
    "yamnet_1024_64x96_tl_qdq_int8.onnx",
    "st_movenet_lightning_heatmaps_192_int8_pc.tflite",
    "ImageNet__mobilenet_v2_1.0_224_int8.tflite",
    "coco_2017_person__st_yolo_x_nano_192_0.33_0.25_qdq_int8.onnx",
    "mobilefacenet_int8_faces.onnx",
    "stft_tcnn_medium_sigmoid_nonorm_qdq_pc_ff_257x40_int8.onnx",
)
OPTIONS = (("-n", "detector"), ("--max-latency", "1000"), ("--stai",), ("--resident",))
ASKED = 1 / 3  # of the first run's processor time
HEAD = """# Results of former runs

One thread, whole processes, seconds of the processor. *first*: `atonc generate MODEL` with an empty cache. Columns of
options: the same with one option changed and the cache that the first run left, as a part of *first*; in brackets the
same command without a cache, also as a part of *first*. *bytes*: files with and without a cache are the same.

"""


def generate(model: Path, folder: Path, cache: Path | str, *more: str) -> Usage:
    words = [sys.executable, "-m", "atonc", "generate", str(model), "-o", str(folder), "-q", *more]
    return measure(words, **{VARIABLE: str(cache)})


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def model_row(model: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        row: dict[str, Any] = {"first": generate(model, home / "first", home / "cache").cpu_seconds}
        for words in OPTIONS:
            with_cache = generate(model, home / "with", home / "cache", *words)
            without = generate(model, home / "without", OFF, *words)
            same = with_cache.code == without.code == 0 and contents(home / "with") == contents(home / "without")
            row[" ".join(words)] = [with_cache.cpu_seconds, without.cpu_seconds, same]
    return row


def line(name: str, row: dict[str, Any]) -> str:
    cells = [f"{used / row['first']:.2f} ({alone / row['first']:.2f})" for used, alone, _ in found(row)]
    return f"| {name} | {row['first']:.2f} | {' | '.join(cells)} | {'same' if same(row) else 'DIFFER'} |"


def found(row: dict[str, Any]) -> list[tuple[float, float, bool]]:
    return [row[" ".join(words)] for words in OPTIONS]


def same(row: dict[str, Any]) -> bool:
    return all(alike for _, _, alike in found(row))


def run(arguments: argparse.Namespace) -> Report:
    kept = Kept(arguments.keep, arguments.fresh)
    rows: dict[str, dict[str, Any]] = {}
    for model in by_size(chosen(arguments, MODELS)):
        rows[model.name] = kept.of(model.name, partial(model_row, model))
        print(line(model.name, rows[model.name]), file=sys.stderr, flush=True)
    columns = [" ".join(words) for words in OPTIONS]
    shares = {one: median(row[one][0] / row["first"] for row in rows.values()) for one in columns}
    every = median(used / row["first"] for row in rows.values() for used, _, _ in found(row))
    alike = sum(map(same, rows.values()))
    verdict = "met" if every <= ASKED else "missed"
    text = f"{HEAD}Median of all: **{every:.2f}** (asked: at most {ASKED:.2f}, {verdict}); "
    text += ", ".join(f"`{words}` {share:.2f}" for words, share in shares.items())
    text += f". Same bytes: {alike} of {len(rows)} models. "
    text += f"Measured: {len(rows)} of the {len(MODELS)} that were chosen.\n\n"
    text += f"| model | first, s | {' | '.join(f'`{one}` (alone)' for one in columns)} | bytes |\n"
    text += "|---" * (len(columns) + 3) + "|\n" + "".join(f"{line(name, row)}\n" for name, row in rows.items())
    return Report(text, failed=alike != len(rows))
