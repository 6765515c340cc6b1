"""Pictures of all pages in Chromium: two window sizes, light and dark, and what is printed as PDF. Look at them.

    python tools/screenshots.py OUT [MODEL]

MODEL (the digits of the examples without one) is compiled for the report, once more with its weights in RAM for the
comparison, and with every pair of two options for the sweep. Evaluation and quantisation are of the digits and of a
small float model; the service runs with jobs of the examples. Each page is also looked at by the machine: wider than
its window, a complaint of the browser, or a serious finding of axe-core (where the package axe-playwright-python is
installed) ends with code 1.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.doors.cli.cli import main as atonc
from atonc.insight.explain.compare import compare
from atonc.insight.explain.ours import network_view
from atonc.insight.report import history_text
from atonc.insight.report.html import compare_page, html_page, sweep_page
from atonc.insight.report.html.page import document_page
from atonc.insight.sweeping.row import figures_of
from atonc.insight.sweeping.run import Sweep, SweepResult, on_front

DIGITS = Path(__file__).parent.parent / "examples" / "digits"
SIZES = {"wide": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
ALL = tuple((size, scheme) for size in SIZES for scheme in SCHEMES)
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run"]
SERIOUS = ("serious", "critical")
# what scripts draw when the server has answered
READY = {
    "service-home": ".job",
    "service-build": "iframe",
    "service-explain": "iframe",
    "service-evaluate": "iframe",
    "service-models": "#scatter circle",
    "service-compare": "#figures tbody tr",
    "service-api": "#options summary",
}
_PAUSE, _TRIES = 0.2, 3000


def pages(model: Path) -> Mapping[str, bytes]:
    """All pages that are files, by name."""
    return {**builds(model), "evaluate": evaluation(), "quantize": quantisation()}


def builds(model: Path) -> Mapping[str, bytes]:
    views = {
        (prefer, resident): generating.analyze(model, Options(verify=False, prefer=prefer, resident=resident))
        for prefer in ("speed", "memory")
        for resident in ("", "all")
    }
    default, in_ram = (network_view(views["speed", resident]) for resident in ("", "all"))
    rows = [
        SweepResult(model.name, "stm32n6570-dk", "", {"prefer": prefer, "resident": resident}, figures_of(view))
        for (prefer, resident), view in views.items()
    ]
    best = on_front([row.figures for row in rows], [row.model for row in rows])
    marked = tuple(replace(row, on_front=mark) for row, mark in zip(rows, best, strict=True))
    return {
        "report": html_page(default),
        "compare": compare_page(compare(default, in_ram)),
        "history": document_page(history_text.document([_build(row) for row in rows])),
        "sweep": sweep_page(Sweep("sweep.toml", marked, ("prefer", "resident"), False, 0)),
    }


def _build(row: SweepResult) -> history_text.BuildRow:
    figures = row.figures or {}
    known = {"latency": (figures["latency_ms"], "ms", False), "RAM": (figures["ram_bytes"], "bytes", False)}
    bounds = figures["latency_low_ms"], figures["latency_high_ms"]
    return history_text.BuildRow(" ".join(filter(None, map(str, row.options.values()))), known, bounds)


def evaluation(samples: int = 100) -> bytes:
    """Evaluates the digits with more noise than they were taught, so that there is something to see."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder, np.load(DIGITS / "test.npz") as given:
        image, data = given["image"][:samples].astype(np.int32), Path(folder) / "noisy.npz"
        noise = np.random.default_rng(1).normal(0, 48, image.shape)
        np.savez(data, image=np.clip(image + noise, -128, 127).astype(np.int8), labels=given["labels"][:samples])
        _said("evaluate", DIGITS / "digits.tflite", "--data", data, "-o", folder, "--processes", "1")
        return (Path(folder) / "evaluation.html").read_bytes()


def quantisation(*options: str) -> bytes:
    import numpy as np
    from onnx import save

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        save(float_model(), str(place / "small.onnx"))
        np.savez(place / "samples.npz", x=np.random.default_rng(2).normal(size=(16, 3, 12, 12)).astype(np.float32))
        words = ("--data", place / "samples.npz", "-o", place / "small_int8.onnx", "--page", place / "quantize.html")
        _said("quantize", place / "small.onnx", *words, *options)
        return (place / "quantize.html").read_bytes()


def float_model() -> Any:
    """A convolution, a depthwise one and a dense layer, with random weights."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(1)
    shapes = {"w1": (8, 3, 3, 3), "w2": (8, 1, 3, 3), "w3": (8, 4)}
    constants = [numpy_helper.from_array(random.normal(0, 0.4, s).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["first"], "first", pads=[1] * 4, kernel_shape=[3, 3]),
        helper.make_node("Relu", ["first"], ["kept"]),
        helper.make_node("Conv", ["kept", "w2"], ["second"], "second", pads=[1] * 4, kernel_shape=[3, 3], group=8),
        helper.make_node("Relu", ["second"], ["active"]),
        helper.make_node("GlobalAveragePool", ["active"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w3"], ["scores"]),
    ]
    start, end = (helper.make_tensor_value_info(*edge) for edge in (
        ("x", TensorProto.FLOAT, (1, 3, 12, 12)), ("scores", TensorProto.FLOAT, None)))  # fmt: skip
    graph = helper.make_graph(nodes, "small", [start], [end], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def _said(*words: object) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as complaints:
        code = atonc(list(map(str, words)))
    if code:
        raise SystemExit(f"atonc {' '.join(map(str, words))}: code {code}\n{complaints.getvalue()}")


# --------------------------------------------------------------------------------------------------------- the service


@contextlib.contextmanager
def service(few: bool = False) -> Iterator[dict[str, str]]:
    """Addresses of its views by name, with jobs of every kind in its history; `few`: no more than what differs."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "atonc", "serve", "--port", "0", "--folder", folder]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[0].rstrip("/")
            wishes: list[tuple[str, dict[str, Any]]] = [("generate", {}), ("generate", {"resident": True})]
            wishes += [("evaluate", {"limit": 20})]
            wishes += [] if few else [("explain", {"no-prices": True}), ("explain", {"layer": "nobody"})]
            made = [_asked(f"{url}/api/examples/digits.tflite", {"verb": v, "options": o})["id"] for v, o in wishes]
            for job in made:
                _until_ended(url, job)
            yield {name: f"{url}/{view}" for name, view in _views(made)}
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _views(made: Sequence[str]) -> Iterator[tuple[str, str]]:
    first, second, evaluated, *more = made
    yield from (("service-home", ""), ("service-build", f"#/build/{first}"))
    yield from (("service-evaluate", f"#/build/{evaluated}"), ("service-models", "#/models"))
    yield "service-compare", f"#/compare/{first}/{second}"
    if more:
        yield from (("service-explain", f"#/build/{more[0]}"), ("service-api", "api"))


def _asked(address: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address, data)) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _until_ended(url: str, job: str) -> None:
    for _ in range(_TRIES):
        if _asked(f"{url}/api/jobs/{job}")["state"] in ("done", "failed"):
            return
        time.sleep(_PAUSE)
    raise SystemExit(f"job {job} of the service does not end")


# ------------------------------------------------------------------------------------------------------------- pictures


def axe_file() -> Path | None:
    """axe-core, where somebody has it."""
    package = importlib.util.find_spec("axe_playwright_python")
    inside = Path(package.origin).parent / "axe.min.js" if package is not None and package.origin else None
    places = (os.environ.get("ATONC_AXE"), inside, "/usr/share/javascript/axe-core/axe.min.js")
    return next((Path(place) for place in places if place and Path(place).is_file()), None)


def shoot(browser: Browser, address: str, out: Path, looks: Sequence[tuple[str, str]] = ALL) -> list[str]:
    """Pictures `out`-SIZE-SCHEME.png; what is wrong with the page."""
    found = []
    for size, scheme in looks:
        # the page's own policy would forbid what axe does
        context = browser.new_context(viewport=SIZES[size], color_scheme=scheme, bypass_csp=True)
        tab = context.new_page()
        said: list[str] = []
        tab.on("console", lambda message, said=said: said.append(message.text))
        tab.on("pageerror", lambda error, said=said: said.append(str(error)))
        tab.goto(address)
        tab.wait_for_load_state("load")
        for ready in (words for view, words in READY.items() if out.name == view):
            tab.wait_for_selector(ready)
        tab.screenshot(path=out.with_name(f"{out.name}-{size}-{scheme}.png"), full_page=True)
        found += [f"{out.name}, {size}, {scheme}: {text}" for text in (*said, *complaints(tab))]
        context.close()
    return found


def printed(browser: Browser, address: str, out: Path) -> None:
    tab = browser.new_page()
    tab.goto(address)
    tab.pdf(path=out.with_name(f"{out.name}.pdf"), format="A4")
    tab.close()


def complaints(tab: Page) -> Iterator[str]:
    """What does not need an eye."""
    wide = tab.evaluate("document.documentElement.scrollWidth - innerWidth")
    if wide > 1:
        yield f"{wide} pixels wider than the window"
    axe = axe_file()
    if axe is None:
        return
    tab.add_script_tag(path=str(axe))
    # frames have an origin of their own, and are pages of their own here
    for one in tab.evaluate("axe.run({exclude: [['iframe']]}, {iframes: false}).then(r => r.violations)"):
        if one["impact"] in SERIOUS:
            yield f"{one['id']}: {one['nodes'][0]['html'][:160]}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="pictures of all pages")
    parser.add_argument("out", type=Path)
    parser.add_argument("model", type=Path, nargs="?", default=DIGITS / "digits.tflite")
    given = parser.parse_args(words)
    given.out.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, content in pages(given.model).items():
            file = given.out / f"{name}.html"
            file.write_bytes(content)
            wrong += shoot(browser, file.resolve().as_uri(), given.out / name)
            printed(browser, file.resolve().as_uri(), given.out / name)
        with service() as views:
            for name, address in views.items():
                wrong += shoot(browser, address, given.out / name)
        browser.close()
    looked = "" if axe_file() else "; without axe-core, which was not found"
    print("\n".join([*wrong, f"{len(list(given.out.glob('*.png')))} pictures in {given.out}{looked}"]))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
