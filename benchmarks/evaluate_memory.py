"""Does the memory of `atonc evaluate` grow? 2,000 pictures on two processes, their resident memory all the while.

The model takes pictures and has five classes or as many as --classes says. The pictures are made here.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from PIL import Image

from atonc import evaluate
from benchmarks.shared.declare import COUNT, Report, argument

GROUP = "tools"
ARGUMENTS = (
    argument("model", type=Path),
    COUNT.but(default=2000),
    argument("--classes", type=int, default=5),
)


def children() -> list[int]:
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def resident_mb(process: int) -> float:
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS")), 0.0)


def watch(seen: list[tuple[float, float, float]], ended: threading.Event) -> None:
    """Seconds, largest of the workers, this process."""
    started = time.monotonic()
    while not ended.wait(1.0):
        workers = max((resident_mb(process) for process in children()), default=0.0)
        seen.append((time.monotonic() - started, workers, resident_mb(os.getpid())))


def make_pictures(folder: Path, count: int, classes: int) -> None:
    random = np.random.default_rng(1)
    for number in range(classes):
        (folder / f"class_{number}").mkdir(parents=True)
    for number in range(count):
        pixels = random.integers(0, 255, (8, 8, 3)).astype(np.uint8)
        Image.fromarray(pixels).resize((112, 96)).save(folder / f"class_{number % classes}" / f"{number:05d}.png")


def run(arguments: argparse.Namespace) -> Report:
    with tempfile.TemporaryDirectory() as place:
        make_pictures(Path(place, "data"), arguments.count, arguments.classes)
        seen: list[tuple[float, float, float]] = []
        ended = threading.Event()
        watcher = threading.Thread(target=watch, args=(seen, ended))
        watcher.start()
        found = evaluate(arguments.model, Path(place, "data"), output=Path(place, "out"), processes=2, int8=False)
        ended.set()
        watcher.join()
    busy = [row for row in seen if row[1] > 0]
    quarters = [busy[len(busy) * k // 4 : len(busy) * (k + 1) // 4] for k in range(4)]
    print(f"{arguments.model.name}, {found.samples} pictures on two processes, {busy[-1][0]:.0f} s")
    largest = [[f"{max(row[column] for row in quarter):.0f}" for quarter in quarters] for column in (1, 2)]
    print("largest resident MB by quarter of the time, worker: " + " ".join(largest[0]))
    print("the same of the process that adds up: " + " ".join(largest[1]))
    return Report()
