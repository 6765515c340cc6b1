"""Do the C code of `generate --post` and its twin in Python find the same boxes, and what does the C code take?

Made outputs of every family as quantised values and as floats, hostile ones among them, and outputs of the corpus's
detectors on the emulator: C compiled for this machine against Python, every word of every box. Then the same C code on
the virtual board, with outputs in which nothing is found and with 1 % of the scores above the bound.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from atonc.compiler.request.options import Options
from atonc.delivery.firmware import building
from atonc.delivery.generate import generating, post
from atonc.delivery.generate.post import PostProcessing
from atonc.doors.python.compilation import Compilation
from atonc.insight.evaluating.options import PostOptions
from atonc.machine.emu.board import VirtualBoard, read_firmware
from benchmarks.shared import tables
from benchmarks.shared.corpus import corpus_dir
from benchmarks.shared.declare import SAMPLES, WRITE, Report
from tests.post import detectors
from tests.post.test_post_processing import MAIN

GROUP = "truth"
ARGUMENTS = (SAMPLES.but(default=20), WRITE)
TIMED = {
    "st_yolo_x, 192 x 192, 1 class": ("st_yolox", [(1, 24, 24, 6), (1, 12, 12, 6), (1, 6, 6, 6)], (192, 192), []),
    "BlazeFace, 128 x 128": detectors.CASES["blazeface"],
    "YOLOv8, 256 x 256, 1 class": ("yolov8", [(1, 5, 1344)], (256, 256), []),
    "YOLOv8, 224 x 224, 80 classes": ("yolov8", [(1, 84, 1029)], (224, 224), []),
}  # fmt: skip
CORPUS = ("st_yolo_x_nano_192_0.33_0.25", "st_ssd_mobilenet_v1_025", "blazeface", "face_detection_front_128_integer")


def compared(given: PostProcessing, samples: list[list[np.ndarray]]) -> tuple[int, int, int]:
    """Outputs, boxes, outputs whose boxes differ."""
    boxes = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        loaded = detectors.library(given, Path(folder))
        for outputs in samples:
            wanted = detectors.as_words(post.boxes_of(given, outputs))
            found = detectors.found_in_c(loaded, given, outputs, given.decoder.limits.most)
            boxes, wrong = boxes + len(wanted), wrong + (not np.array_equal(found, wanted))
    return len(samples), boxes, wrong


def of_corpus(file: Path, count: int) -> tuple[int, int, int]:
    network = Compilation(generating.analyze(file, Options(verify=False), "network"))
    given = post.post_processing(network.view, PostOptions(post="auto", post_score=0.02))
    random = np.random.default_rng(1)
    samples = []
    for _ in range(count):
        pictures = {
            t.name: random.integers(0, 256, t.shape).astype(t.dtype) if t.dtype == "uint8" else random.random(t.shape)
            for t in network.inputs
        }
        outputs = network.run(pictures)
        samples.append([outputs[name] for name in network.graph.outputs])
    return compared(given, samples)


def rows(count: int) -> Iterator[tuple[str, int, int, int]]:
    for case in detectors.CASES:
        total = np.zeros(3, np.int64)
        for type_ in detectors.NUMPY:
            for limits in (detectors.USUAL, detectors.FEW):
                given = detectors.made(case, type_, limits)
                total += compared(given, list(detectors.samples(given)))
        yield f"made: {case}", *total.tolist()
    for file in sorted((corpus_dir() / "models").glob("*")):
        if any(name in file.name for name in CORPUS):
            yield file.name, *of_corpus(file, count)


def cycles(case: str, type_: str, share: float) -> tuple[int, int]:
    """Cycles that the virtual board counts, and boxes."""
    given, random = detectors.made(case, type_), np.random.default_rng(0)
    tables_of, low, high = [], -110 if type_ == "INT8" else -6.0, 100 if type_ == "INT8" else 3.0
    for k, info in enumerate(given.outputs):
        values = np.where(random.random(info.mem_shape) < share, high, low).ravel().tolist()
        kind = "int8_t" if type_ == "INT8" else "float"
        numbers = ", ".join(str(int(v) if type_ == "INT8" else v) for v in values)
        tables_of.append(f"static const {kind} o{k}[] = {{{numbers}}};")
    names = ", ".join(f"o{k}" for k in range(len(given.outputs)))
    text = MAIN.replace("@TABLES@", "\n".join(tables_of)).replace("@OUTPUTS@", names)
    head, _, _ = text.partition("  const uint32_t count")
    text = f"""{head}
  const uint32_t start = board_cycles(), count = net_post(outputs, boxes, 20), took = board_cycles() - start;
  board_print_number(took);
  board_print(" ");
  board_print_number(count);
  board_print("\\n");
  return 0;
}}
"""
    with tempfile.TemporaryDirectory() as name:
        folder, harness, chain = Path(name), building.runtime_folder("harness"), building.find_toolchain()
        (folder / "main.c").write_text(text)
        sources = (folder / "main.c", detectors.written(given, folder))
        frame = (harness / "startup.c", harness / "board_io.c")
        units = [building.CompileUnit(frame, (harness,)), building.CompileUnit(sources, (harness, folder))]
        objects = building.compile_units(chain, units, folder, cpu="cortex-m55")
        elf = building.link(chain, objects, folder / "program.elf", cpu="cortex-m55")
        board = VirtualBoard(read_firmware(elf))
        board.run()
    took, found = map(int, board.serial.lines[0].split())
    return took, found


def run(arguments: argparse.Namespace) -> Report:
    found = list(rows(arguments.samples))
    wrong = sum(row[3] for row in found)
    detectors.CASES.update(TIMED)
    timed = []
    for case in TIMED:
        for type_ in ("INT8", "FLOAT"):
            (idle, _), (busy, boxes) = cycles(case, type_, 0.0), cycles(case, type_, 0.01)
            timed.append([case, type_, f"{idle:,}", f"{busy:,}", str(boxes)])
    lines = [
        "# Boxes of detectors: C against Python",
        "",
        f"{sum(row[1] for row in found):,} samples, {sum(row[2] for row in found):,} boxes; in {wrong} a bit differs.",
        "",
        *tables.table(["outputs of", ">samples", ">boxes", ">differ"], [[row[0], *map(str, row[1:])] for row in found]),
        "",
        "On the virtual board (code for the Cortex-M55): instructions counted, without waits for memory. *Busy*: 1 %",
        "of all values are large. Not run on hardware.",
        "",
        *tables.table(["detector", "outputs", ">nothing found", ">busy", ">boxes of busy"], timed),
    ]
    return Report("\n".join(lines), failed=wrong > 0)
