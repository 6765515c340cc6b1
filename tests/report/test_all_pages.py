"""All pages as `tools/screenshots.py` takes them: both sizes, light and dark; nothing hangs over, nobody complains, and
axe finds nothing serious. The pictures are for people: `make screenshots`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.report.browser import browser

pytest.importorskip("playwright", reason="playwright is not installed")
pytest.importorskip("onnxruntime", reason="atonc[quantize] is not installed")
pytest.importorskip("uvicorn", reason="atonc[serve] is not installed")

__all__ = ["browser"]  # a fixture
ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("screenshots", ROOT / "tools" / "screenshots.py")
assert _SPEC and _SPEC.loader
screenshots = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(screenshots)

# every size and every scheme of pages that no other test opens, one of the others: all are for `make screenshots`
LOOKS = (("wide", "light"), ("phone", "dark"))
ONLY_HERE = ("evaluate", "quantize")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("all")
    found = {**screenshots.builds(screenshots.DIGITS / "digits.tflite"), "evaluate": screenshots.evaluation(30)}
    found["quantize"] = screenshots.quantisation("--objective", "accuracy", "--no-rounding", "--no-equalisation")
    for name, content in found.items():
        (folder / f"{name}.html").write_bytes(content)
    return {name: folder / f"{name}.html" for name in found}


@pytest.fixture(scope="module")
def views() -> Iterator[Mapping[str, str]]:
    with screenshots.service(few=True) as found:
        yield found


def test_pages_in_files(browser: Any, pages: Mapping[str, Path], tmp_path: Path) -> None:
    assert set(pages) == {"report", "compare", "history", "sweep", "evaluate", "quantize"}
    urls = {name: file.as_uri() for name, file in pages.items()}
    wrong = []
    for name, url in urls.items():
        wrong += screenshots.shoot(browser, url, tmp_path / name, LOOKS if name in ONLY_HERE else LOOKS[1:])
    assert not wrong
    made = {path.name: path.stat().st_size for path in tmp_path.glob("*.png")}
    assert len(made) == len(pages) + len(ONLY_HERE) and min(made.values()) > 10_000


def test_views_of_the_service(browser: Any, views: Mapping[str, str], tmp_path: Path) -> None:
    assert set(views) <= set(screenshots.READY) and len(views) == 5
    wrong = []
    for number, (name, url) in enumerate(views.items()):
        wrong += screenshots.shoot(browser, url, tmp_path / name, LOOKS[number % 2 :][:1])
    assert not wrong
    assert len(list(tmp_path.glob("*.png"))) == len(views)


def test_a_page_that_is_too_wide_is_found(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "wide.html").write_text("<!doctype html><title>w</title><p style='width:2000px'>x")
    wrong = screenshots.shoot(browser, (tmp_path / "wide.html").as_uri(), tmp_path / "wide", LOOKS[1:])
    assert any("wider than the window" in line for line in wrong)
