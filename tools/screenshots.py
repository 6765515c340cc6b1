"""Pictures of all pages in Chromium: two window sizes, light and dark, and what is printed as PDF. Look at them.

    python tools/screenshots.py OUT [MODEL]

MODEL (the digits of the examples without one) is compiled for the report, once more with its weights in RAM for the
comparison, and with every pair of two options for the sweep.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.explain.compare import compare
from atonc.insight.explain.ours import network_view
from atonc.insight.report.html import compare_page, html_page, sweep_page
from atonc.insight.sweeping.front import on_front
from atonc.insight.sweeping.row import figures_of
from atonc.insight.sweeping.run import Sweep, SweepResult

DIGITS = Path(__file__).parent.parent / "examples" / "digits" / "digits.tflite"
SIZES = {"wide": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
SCHEMES = ("light", "dark")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run"]


def pages(model: Path) -> Mapping[str, bytes]:
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
        "sweep": sweep_page(Sweep("sweep.toml", marked, ("prefer", "resident"), False, 0)),
    }


def shoot(browser: Browser, page: Path, out: Path) -> None:
    for size, viewport in SIZES.items():
        for scheme in SCHEMES:
            context = browser.new_context(viewport=viewport, color_scheme=scheme)
            tab = context.new_page()
            tab.goto(page.as_uri())
            tab.screenshot(path=out / f"{page.stem}-{size}-{scheme}.png", full_page=True)
            if size == "wide" and scheme == "light":
                tab.pdf(path=out / f"{page.stem}.pdf", format="A4")
            context.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="pictures of all pages")
    parser.add_argument("out", type=Path)
    parser.add_argument("model", type=Path, nargs="?", default=DIGITS)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, content in pages(given.model).items():
            file = given.out / f"{name}.html"
            file.write_bytes(content)
            shoot(browser, file.resolve(), given.out)
        browser.close()
    print(f"{len(list(given.out.glob('*.png')))} pictures in {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
