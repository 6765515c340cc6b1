"""What does `generate` take when it finds results of a former run, with one option changed, and are the bytes the same?

Models and options were chosen before anything was measured."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from atonc.machine.base.cache import OFF, VARIABLE
from benchmarks.shared.children import Usage, measure
from benchmarks.shared.corpus import ROOT, by_size, chosen
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
WRITTEN = (("-n", "detector"), ("--max-latency", "1000"), ("--stai",))  # the program stays
CHANGED = (("--resident",), ("--no-inputs-allocation",))  # it becomes another
OPTIONS = (*WRITTEN, *CHANGED)
ASKED = 1 / 3  # of the first run's processor time
HARMED, AT_ONCE = 200, 4  # caches that were damaged, half of them by as many runs at the same time
SMALL = ROOT / "examples" / "digits" / "digits.tflite"
HEAD = """# Results of former runs

One thread, whole processes, seconds of the processor. *first*: `atonc generate MODEL` with an empty cache. Columns of
options: the same with one option changed and the cache that the first run left, as a part of *first*; in brackets the
same command without a cache, also as a part of *first*. *bytes*: files with and without a cache are the same. Some
options change only what is written or judged: the program of the first run is found. Others ask for another program,
which is searched and verified as if there was no cache.

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


# ------------------------------------------------------------------------------------------------------ damaged caches


def damage(path: Path, others: Sequence[Path], order: random.Random) -> None:
    """In one of the ways in which files are spoilt; another run may be reading, or may have taken it away."""
    content = bytearray(path.read_bytes())
    way = order.randrange(6)
    if way == 0:
        for _ in range(order.choice((1, 1, 5, 100))):
            content[order.randrange(len(content))] ^= order.randrange(1, 256)
    elif way == 1:
        del content[order.randrange(len(content)) :]
    elif way == 2:
        content = bytearray(order.choice(others).read_bytes())  # another result under this name
    elif way == 3:
        content[128:] = order.choice(others).read_bytes()[128:]  # under this head
    elif way == 4:
        content += content[-order.randrange(1, 500) :]
    else:
        at = order.randrange(len(content))
        content[at:] = bytes(len(content) - at)  # a disk that lost its last blocks
    path.write_bytes(content)


def harmed_run(home: Path, wanted: dict[str, bytes], seed: int) -> tuple[int, bool]:
    """Spoils most files of the cache, compiles, and looks at the bytes; how many files were spoilt."""
    from atonc.compiler.search import known
    from atonc.doors.cli.cli import main

    order, spoilt = random.Random(seed), 0
    os.environ[VARIABLE], known._last = str(home / "cache"), None
    kept = sorted(home.glob("cache/atonc/results/*"))
    for path in kept:
        try:
            if order.random() < 0.7:
                damage(path, kept, order)
                spoilt += 1
        except (OSError, ValueError):  # another run was faster: it is gone, or empty
            continue
    out = home / f"out{os.getpid()}"
    code = main(["generate", str(SMALL), "-o", str(out), "-q"])
    return spoilt, code == 0 and contents(out) == wanted


def harmed() -> dict[str, int]:
    """Runs on one cache, one after the other and several at the same time."""
    found = {"runs": 0, "same": 0, "spoilt": 0}
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        generate(SMALL, home / "wanted", OFF)
        wanted = contents(home / "wanted")
        for at_once in (1, AT_ONCE):
            shutil.rmtree(home / "cache", ignore_errors=True)
            generate(SMALL, home / "first", home / "cache")
            with ProcessPoolExecutor(at_once) as pool:
                seeds = range(at_once * HARMED, at_once * HARMED + HARMED // 2)
                for spoilt, same in pool.map(partial(harmed_run, home, wanted), seeds):
                    found["runs"] += 1
                    found["same"] += same
                    found["spoilt"] += spoilt
    return found


def run(arguments: argparse.Namespace) -> Report:
    kept = Kept(arguments.keep, arguments.fresh)
    hurt = kept.of("damaged caches", harmed)
    rows: dict[str, dict[str, Any]] = {}
    for model in by_size(chosen(arguments, MODELS)):
        rows[model.name] = kept.of(model.name, partial(model_row, model))
        print(line(model.name, rows[model.name]), file=sys.stderr, flush=True)
    columns = [" ".join(words) for words in OPTIONS]
    shares = {one: median(row[one][0] / row["first"] for row in rows.values()) for one in columns}
    alike = sum(map(same, rows.values()))
    text = HEAD
    for what, kind in (("what is written or judged", WRITTEN), ("the program", CHANGED)):
        parts = [row[" ".join(one)][0] / row["first"] for row in rows.values() for one in kind]
        verdict = "met" if median(parts) <= ASKED else "missed"
        each = ", ".join(f"`{' '.join(one)}` {shares[' '.join(one)]:.2f}" for one in kind)
        text += f"Options that change {what}: median **{median(parts):.2f}**, highest {max(parts):.2f} "
        text += f"(asked: at most {ASKED:.2f}, {verdict}); {each}.\n"
    text += f"Same bytes: {alike} of {len(rows)} models. "
    text += f"Measured: {len(rows)} of the {len(MODELS)} that were chosen.\n\n"
    text += f"Caches damaged before each run, half of them by {AT_ONCE} runs at the same time: {hurt['runs']}, with "
    text += f"{hurt['spoilt']} spoilt results; the same bytes as without a cache: {hurt['same']}.\n\n"
    text += f"| model | first, s | {' | '.join(f'`{one}` (alone)' for one in columns)} | bytes |\n"
    text += "|---" * (len(columns) + 3) + "|\n" + "".join(f"{line(name, row)}\n" for name, row in rows.items())
    return Report(text, failed=alike != len(rows) or hurt["same"] != HARMED)
