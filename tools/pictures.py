"""The pictures of README.md and docs, from a real build: `python tools/pictures.py MODEL` writes them to docs/images.

The report page light and dark in Debian's Chromium (tools/browser.sh), the terminal as rich draws it. The same model,
atonc, browser and fonts give the same pictures but for single pixels of rounded corners. Without MODEL: MoveNet of the
folder that ATONC_CORPUS names.
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
USUAL = "models/st_movenet_lightning_heatmaps_192_int8_pc.tflite"
OPTIONS = ("--input-data-type", "uint8", "--output-data-type", "int8")
COLUMNS, LINES = 100, 32  # of the terminal: what README shows without scrolling
WINDOW = {"width": 1280, "height": 860}
COLOURS = 128  # of a palette; more are not seen, and the files are a third of the size
SHOWN = {"report": "head", "memory": "memory"}  # picture -> the section that stands at its top
# rich would load its font from elsewhere
TERMINAL = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("model", nargs="?", type=Path)
    arguments.add_argument("-o", "--output", type=Path, default=IMAGES)
    asked = arguments.parse_args()
    model = asked.model or Path(os.environ.get("ATONC_CORPUS", ROOT.parent / "shared" / "corpus")) / USUAL
    if not model.is_file():
        arguments.error(f"there is no {model}: name a model")
    if shutil.which("chromium") is None:
        arguments.error("there is no chromium: sh tools/browser.sh")
    asked.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        copied = shutil.copy(model, Path(folder) / model.name)  # so that no path of this machine is in a picture
        shown = _on_terminal(["analyze", copied.name, *OPTIONS], folder)
        (asked.output / "terminal.svg").write_text(_terminal(shown, f"atonc analyze {copied.name}"))
        _on_terminal(["generate", copied.name, "-o", "build", *OPTIONS], folder)
        for name, picture in _screenshots(Path(folder) / "build" / "report.html"):
            (asked.output / name).write_bytes(_smaller(picture))
    return 0


def _on_terminal(words: list[str], folder: str) -> str:
    """What the command prints where its output is a terminal: colours and width as users see them."""
    reader, writer = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "atonc", *words], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(writer)
    found = b"".join(_read(reader))
    _, complaint = process.communicate()
    if process.returncode:
        raise SystemExit(complaint.decode())
    return found.decode().replace("\r\n", "\n")


def _read(reader: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(reader, 65536)
        except OSError:  # how Linux says that the other end is closed
            return
        if not piece:
            return
        yield piece


def _terminal(text: str, title: str) -> str:
    """The last lines: there the summary stands."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(f"[bold]$[/] {title}\n")
    lines = [line for line in text.rstrip().splitlines() if not line.startswith("compiled in")]  # differs every time
    if len(lines) > LINES:
        lines = ["...", *lines[-LINES:]]
    console.print(Text.from_ansi("\n".join(lines)))
    return console.export_svg(title="atonc", theme=MONOKAI, code_format=TERMINAL, unique_id="terminal")


def _screenshots(page: Path) -> Iterator[tuple[str, bytes]]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        for scheme in ("light", "dark"):
            window = browser.new_page(viewport=WINDOW, color_scheme=scheme, reduced_motion="reduce")
            window.goto(page.as_uri())
            for name, section in SHOWN.items():
                yield f"{name}-{scheme}.png", _section(window, section)
        browser.close()


def _section(window: Any, section: str) -> bytes:
    """The window with a section at its top, once two pictures in a row are the same: then everything is drawn."""
    window.evaluate("name => document.getElementById(name).scrollIntoView({behavior: 'instant'})", section)
    before, picture = b"", window.screenshot()
    while picture != before:
        window.wait_for_timeout(500)
        before, picture = picture, window.screenshot()
    return bytes(picture)


def _smaller(picture: bytes) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    image = Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    image.save(file, "png", optimize=True)
    return file.getvalue()


if __name__ == "__main__":
    sys.exit(main())
