"""The page as a reader meets it: size, time until it can be used, frames a second while the graph is dragged.

Pages: a detector of the corpus as compiled here, that build beside ST's, and a network of 1,000 layers made up here.
Each is opened in Chromium without a graphics card, in a wide window and in a phone's. Seconds of the processor, over
all processes of the browser and of the page's main thread alone, do not depend on what else the machine does. The clock
does: so of a drag the best second is taken, and of loading the best of three. The main thread is what a reader waits
for: what it takes to open is the least time on a machine that does nothing else, and less than 16.7 ms a frame are 60
frames a second.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from atonc.compiler.place.usage import CountedPool, memory_use
from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.explain.compare import compare
from atonc.insight.explain.folder import folder_view
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import (
    BufferView,
    LayerFacts,
    LayerView,
    NetworkView,
    OperatorView,
    PoolView,
    StepView,
    TensorView,
)
from atonc.insight.report.html import compare_page, html_page
from benchmarks.shared import tables
from benchmarks.shared.corpus import corpus_dir
from benchmarks.shared.declare import WRITE, Report

GROUP = "tools"
ARGUMENTS = (WRITE,)

MODEL = corpus_dir() / "models" / "coco_2017_person__st_yolo_x_nano_480_1.0_0.25_3_int8.tflite"
ST = corpus_dir() / "st" / "st_yolo_x_nano_480_1.0_0.25_3_st_int8__3.0.0"
WINDOWS = {"wide": (1400, 900), "phone": (390, 800)}
FRAMES, SECOND = 300, 60  # of a drag
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]

# each frame drags the graph a little further, down and back up, as a hand would
DRAG = """async ([frames, x, y]) => {
  const canvas = document.getElementById("graph-canvas"), gaps = [];
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < frames; i++) {
    const at = y + 160 * Math.sin(i / 14);
    const hand = { pointerId: 1, clientX: x + 30 * Math.sin(i / 9), clientY: at, bubbles: true, buttons: 1 };
    canvas.dispatchEvent(new PointerEvent("pointermove", hand));
    const now = await new Promise(requestAnimationFrame);
    gaps.push(now - last);
    last = now;
  }
  return gaps;
}"""


def made_up(count: int = 1000) -> NetworkView:
    """Residual blocks and concatenations over far layers, as detectors have them."""
    draw = random.Random(1)
    steps, layers = list[StepView](), list[LayerView]()
    tensors = {"image": TensorView("image", (1, 480, 480, 3), "uint8", 0.0039, 0)}
    outputs, block = ["image"], "image"
    for k in range(count):
        kind = ("conv", "conv", "conv", "add")[k % 4] if k % 40 != 39 else "concat"
        second = {"add": block, "concat": outputs[max(0, k - 38)]}.get(kind, outputs[-1])
        sources = tuple(dict.fromkeys((outputs[-1], second)))
        block = outputs[-1] if k % 4 == 3 else block
        name, shape = f"model/stage{k // 40}/block{k // 4}/{kind}_{k}", (1, 60, 60, 8 * (1 + k // 100))
        tensors[name] = TensorView(name, shape, "int8", 0.02, -128)
        cycles = round(10 ** draw.uniform(4, 5.5))
        label = {"conv": ("conv 1x1", "depthwise conv 3x3", "conv 3x3 /2")[k % 3]}.get(kind, kind)
        operator = OperatorView(name, kind, (64, 3, 3) if kind == "conv" else ())
        bound = draw.choice(("feature", "output", "compute", "flash"))
        facts = LayerFacts(
            name=name, kind=kind, nodes=(name,), inputs=sources, outputs=(name,), shape=shape, macs=9 * cycles,
            label=label, attributes={"stride": "1, 1"}, operators=(operator,),
        )  # fmt: skip
        step = StepView(
            number=k + 1, on="npu" if k % 50 else "cpu", title=name, layer=name, cycles=cycles,
            milliseconds=cycles / 1e6, st_cycles=cycles, bound_by=bound,
        )  # fmt: skip
        steps.append(step)
        layers.append(LayerView.of(facts, [step]))
        outputs.append(name)
    buffers = tuple(
        BufferView(one.name, "npuRAM3", 0x34200000 + 4096 * (k % 96), 28800, k + 1, k + 4, "activation", one.name)
        for k, one in enumerate(layers)
    )
    pools = (PoolView("npuRAM3", 0x34200000, 448 << 10, 400 << 10, external=False),)
    memory = memory_use(buffers, [CountedPool("npuRAM3", 0x34200000, 448 << 10, writable=True, external=False)])
    edges = (tensors["image"],), (tensors[outputs[-1]],)
    return NetworkView(
        name="network", model="a thousand layers", tool="atonc", board="stm32n6570-dk", npu_mhz=1000.0, cpu_mhz=800.0,
        steps=tuple(steps), layers=tuple(layers), buffers=buffers, pools=pools, memory=memory,
        inputs=edges[0], outputs=edges[1], tensors=tensors,
    )  # fmt: skip


def pages(folder: Path) -> dict[str, tuple[Path, float]]:
    """Files, and how long the page itself took to make."""
    found: dict[str, tuple[Path, float]] = {}

    def keep(name: str, make: Any) -> None:
        started = time.process_time()
        content = make()
        found[name] = (folder / f"{len(found)}.html", time.process_time() - started)
        found[name][0].write_bytes(content)

    if MODEL.is_file():
        ours = network_view(generating.analyze(MODEL, Options(verify=False)))
        keep("st_yolo_x_nano_480", lambda: html_page(ours))
        if ST.is_dir():
            theirs = folder_view(ST)
            keep("st_yolo_x_nano_480 beside ST's build", lambda: compare_page(compare(ours, theirs)))
    large = made_up()
    keep("1,000 layers", lambda: html_page(large))
    return found


def _processor() -> float:
    """Seconds that all processes started from here have used, the browser's among them; not those of this one."""
    parents, used = dict[int, int](), dict[int, float]()
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # it ended meanwhile
        number = int(place.parent.name)
        parents[number] = int(fields[1])
        used[number] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ours(number: int) -> bool:
        while number in parents and number != os.getpid():
            number = parents[number]
        return number == os.getpid()

    return sum(seconds for number, seconds in used.items() if number != os.getpid() and ours(number))


class Tab:
    def __init__(self, browser: Any, file: Path, size: tuple[int, int]) -> None:
        self.context = browser.new_context(viewport={"width": size[0], "height": size[1]})
        self.page = self.context.new_page()
        self.file = file
        self.session = self.context.new_cdp_session(self.page)
        self.session.send("Performance.enable")

    def main_thread(self) -> float:
        """Seconds of the processor that the page's main thread has used."""
        found = self.session.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in found if one["name"] == "ThreadTime"))

    def load(self) -> tuple[float, float, float]:
        """Seconds by the clock, of the processor, and of the main thread alone until everything is drawn."""
        self.page.goto("about:blank")
        before, mine, started = _processor(), self.main_thread(), time.perf_counter()
        self.page.goto(self.file.as_uri())
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        took = time.perf_counter() - started
        return took, _processor() - before, self.main_thread() - mine

    def drag(self, scale: str) -> tuple[float, float, float]:
        """Frames in the best second, milliseconds of the processor a frame, those of the main thread."""
        page = self.page
        page.locator("#graph-plot").scroll_into_view_if_needed()
        if scale == "whole":
            page.click("#graph-fit")
        box = page.locator("#graph-canvas").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + min(box["height"], 500) / 2
        page.mouse.move(x, y)
        page.mouse.down()
        before, mine = _processor(), self.main_thread()
        gaps = page.evaluate(DRAG, [FRAMES, x, y])
        used, own = _processor() - before, self.main_thread() - mine
        page.mouse.up()
        best = min(sum(gaps[k : k + SECOND]) for k in range(len(gaps) - SECOND + 1))
        return 1000 * SECOND / best, 1000 * used / len(gaps), 1000 * own / len(gaps)


def measure(browser: Any, name: str, file: Path, made: float) -> list[str]:
    rows = []
    for window, size in WINDOWS.items():
        tab = Tab(browser, file, size)
        loads = [tab.load() for _ in range(3)]
        clock = min(one for one, _, _ in loads)
        processor, mine = (statistics.median(one[k] for one in loads) for k in (1, 2))
        cells = [name, window, f"{file.stat().st_size / 1e6:.2f}", f"{made:.2f}", f"{clock:.2f}", f"{processor:.2f}"]
        cells.append(f"{mine:.2f}")
        if tab.page.locator("#graph-canvas").count():
            for scale in ("near", "whole"):
                frames, work, own = tab.drag(scale)
                cells += [f"{frames:.0f}", f"{work:.1f}", f"{own:.1f}"]
        else:
            cells += ["-"] * 6
        rows.append(tables.row(cells))
        tab.context.close()
    return rows


def run(arguments: argparse.Namespace) -> Report:
    from playwright.sync_api import sync_playwright

    rows: list[str] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        files = pages(Path(folder))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, (file, made) in files.items():
            rows += measure(browser, name, file, made)
            print("\n".join(rows[-2:]), flush=True)
        version = browser.version
        browser.close()
    head = [
        "# The page",
        "",
        f"Chromium {version} without a graphics card."
        f" A drag of {FRAMES} frames near, where names can be read, and with the whole graph in sight: frames in",
        "its best second (the screen takes 60, and others used the machine), milliseconds of the processor a frame",
        "over all processes of the browser, and of the main thread alone, which may take 16.7. The clock of a machine",
        "that others use says little (`s to open`); the seconds of the main thread are the least that a reader waits.",
        "",
        "| page | window | MB | s to make | s to open | s of processor | s main thread | near: frames/s | ms/frame "
        "| main thread | whole: frames/s | ms/frame | main thread |",
        "|" + "---|" * 13,
    ]
    text = "\n".join([*head, *rows]) + "\n"
    return Report(text)
