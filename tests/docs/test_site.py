"""The documentation as a site: every link leads somewhere, every page is found, nothing is loaded from elsewhere."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
_SPEC = importlib.util.spec_from_file_location("site_of_docs", ROOT / "tools" / "site.py")
assert _SPEC is not None and _SPEC.loader is not None
site = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(site)

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
_LOADED = re.compile(r"""(?:src=|<link[^>]*rel="?(?:stylesheet|preconnect)[^>]*href=)["']?(?:https?:)?//""")
CHROMIUM = shutil.which("chromium")
needs_mkdocs = pytest.mark.skipif(
    importlib.util.find_spec("material") is None or not (ROOT / ".git").exists(),
    reason="the site is built from a git checkout, with MkDocs Material (extra docs)",
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_page_is_in_the_navigation(page: Path) -> None:
    name = page.relative_to(ROOT).as_posix()
    assert any(line.split()[-1:] == [name] for line in (ROOT / "mkdocs.yml").read_text().splitlines())


def test_pictures_are_small() -> None:
    """Whoever clones gets all of them, with every version that there ever was."""
    pictures = [*ROOT.glob("docs/images/*"), *ROOT.glob("*.png")]
    assert pictures and sum(picture.stat().st_size for picture in pictures) < 1_000_000


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("docs")
    site.collect(folder / "pages")
    assert site.build(folder / "pages", folder / "site") == 0
    return folder / "site"


@needs_mkdocs
def test_it_loads_nothing_from_elsewhere(built: Path) -> None:
    pages = list(built.rglob("*.html"))
    assert len(pages) > len(PAGES)
    assert [page.name for page in pages if _LOADED.search(page.read_text())] == []


@needs_mkdocs
def test_results_do_not_hide_the_pages_about_them(built: Path) -> None:
    index = (built / "search" / "search_index.js").read_text()
    assert '"location":"docs/guide.html"' in index and '"location":"benchmarks/results/' not in index


@needs_mkdocs
def test_search_works_from_a_folder(built: Path) -> None:
    """No server, no network: the worker of the search is a frame (docs/site/iframe-worker.js)."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium: install the Debian package chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        window, asked = browser.new_page(), []
        window.on("request", lambda request: asked.append(request.url))
        window.goto((built / "index.html").as_uri())
        window.locator("[data-md-component=search-query]").click()
        window.keyboard.type("resident weights")
        found = window.locator(".md-search-result__link").first.get_attribute("href")
        browser.close()
    assert found is not None and "docs/" in found
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


@needs_mkdocs
def test_a_broken_link_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """To a page, or to a place of a page: one build complains of both, and a complaint is an error."""
    site.collect(tmp_path / "pages")
    with (tmp_path / "pages" / "README.md").open("a") as page:
        page.write("\n[no page](docs/nowhere.md) [no place](docs/guide.md#nowhere)\n")
    assert site.build(tmp_path / "pages", tmp_path / "site") != 0
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("WARNING")]
    assert len(said) == 2 and "'docs/nowhere.md'" in said[0] and "'docs/guide.md#nowhere'" in said[1]
