"""A real browser for pages, and what a page did in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium: install the Debian package chromium")
    with sync_api.sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run"]
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield running
        running.close()


class Window:
    """A page, and everything it complained about."""

    def __init__(
        self, browser: Any, file: Path, size: tuple[int, int], ready: str = "#timeline-plot rect.mark", **options: Any
    ) -> None:
        self.context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector(ready)

    def __enter__(self) -> Any:
        return self.page

    def __exit__(self, *failed: object) -> None:
        wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        self.context.close()
        if failed[0] is None:
            assert wide <= 1, "the page is wider than the window"
            assert not self.complaints
