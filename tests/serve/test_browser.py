"""The page in a real browser: upload, progress, report, download, history, cancel, comparison; and other origins."""

from __future__ import annotations

import functools
import http.server
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="atonc[serve] is not installed")

from tests.patience import PATIENCE, until
from tests.report.browser import browser
from tests.serve.running import Running, chain_model, endless_model, server, small_model

__all__ = ["browser"]  # a fixture
WAIT = 1000 * PATIENCE


def _page(browser: Any, url: str, complaints: list[str], **context: Any) -> Any:
    page = browser.new_context(viewport={"width": 1400, "height": 900}, **context).new_page()
    page.set_default_timeout(WAIT)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: request.url.startswith((url, "blob:")) or complaints.append(request.url))
    page.goto(url)
    page.wait_for_selector("#compile")
    return page


def _until(page: Any, test: Callable[[], bool]) -> None:
    """Playwright's own way needs eval, which the page forbids."""
    until(test, pause=lambda: page.wait_for_timeout(50))


def _give(page: Any, name: str, content: bytes, target: str = "#files") -> None:
    page.set_input_files(target, {"name": name, "mimeType": "application/octet-stream", "buffer": content})


def _upload(page: Any, name: str, content: bytes) -> None:
    _give(page, name, content)
    page.click("#compile")


def test_from_upload_to_comparison_and_back_after_a_restart(browser: Any, tmp_path: Path) -> None:
    complaints: list[str] = []
    folder = tmp_path / "served"
    with server(folder, "--jobs", "1") as running:
        page = _page(browser, running.url, complaints)
        _upload(page, "small.tflite", chain_model(60))
        _shows_progress(page)
        page.wait_for_selector('.job[data-state="done"]')
        _options(page)
        _until(page, lambda: page.locator(".job[data-state=done]").count() == 2)
        _cancels(page)
        _report_and_files(page, tmp_path)
        _compares(page)
        _scatter(page)
        page.close()
    with server(folder) as running:
        page = _page(browser, running.url, complaints)
        _until(page, lambda: page.locator(".job").count() == 3)
        page.fill("#search", "small numerics")
        _until(page, lambda: page.locator(".job").count() == 1)
        page.fill("#search", "no such model")
        page.wait_for_selector("text=Nothing found")
        page.goto(f"{running.url}/api")
        page.locator("code", has_text="/api/jobs/{id}/cancel").wait_for()
        page.close()
    # the report was made to ask for the jobs, and could not
    assert not [text for text in complaints if "/api/jobs" not in text or "Content Security Policy" not in text]


def _shows_progress(page: Any) -> None:
    """Stages as they come, with a bar that grows."""
    seen, widths = set(), []

    def look() -> None:
        shown = page.evaluate("""() => [...document.querySelectorAll('[data-progress]')].map(
            (found) => [found.querySelector('small').textContent, found.querySelector('i').style.width])""")
        for text, width in shown:
            seen.add(text.split(" · ")[0])
            widths.append(float(width.rstrip("%") or 0))
        page.wait_for_timeout(20)

    until(lambda: page.locator('.job[data-state="done"]').count(), pause=look)
    assert widths == sorted(widths) and len(seen) > 1, (seen, widths)


def _options(page: Any) -> None:
    """The same model once more; one option differs."""
    page.click(".job .who a")
    page.click("text=Again, with other options")
    page.click("summary:has-text('Options')")
    page.click("summary:has-text('How operators are mapped')")
    assert "ST" in page.locator(".option:has([name=numerics]) p").inner_text()
    page.select_option("[name=numerics]", "2.x")
    page.click("#compile")


def _cancels(page: Any) -> None:
    _upload(page, "endless.tflite", endless_model())
    row = page.locator(".job", has_text="endless.tflite")
    page.wait_for_selector('.job[data-state="running"]')
    row.locator("text=Cancel").click()
    page.wait_for_selector('.job[data-state="cancelled"]')
    _until(page, lambda: page.locator("#queue").inner_text() == "idle")


def _report_and_files(page: Any, folder: Path) -> None:
    page.click(".job[data-state=done] .who a")
    report = page.frame_locator("iframe")
    report.locator("h1", has_text="small.tflite").wait_for()
    inside = next(frame for frame in page.frames if frame.url.endswith("/report.html"))
    assert inside.evaluate("window.origin") == "null"  # what a model's names could do there, they do to nobody
    assert inside.evaluate("fetch('/api/jobs').then(() => 'reached', () => 'refused')") == "refused"
    with page.expect_download() as waiting:
        page.click("#zip")
    waiting.value.save_as(folder / "all.zip")
    assert "network.c" in zipfile.ZipFile(folder / "all.zip").namelist()
    assert re.fullmatch(r"small-\d+\.zip", waiting.value.suggested_filename)


def _compares(page: Any) -> None:
    page.click("nav >> text=Builds")
    boxes = page.locator(".job[data-state=done] input[type=checkbox]")
    for k in range(2):
        boxes.nth(k).check()
    page.click("text=Compare the two")
    page.wait_for_selector("#figures >> text=latency")
    assert page.locator("#layers tbody tr").count() > 0


def _scatter(page: Any) -> None:
    page.click("nav >> text=Side by side")
    page.wait_for_selector("#scatter circle.point")
    assert page.locator("#scatter circle.point").count() == page.locator("#models-table tbody tr").count() == 2
    with page.expect_download() as waiting:
        page.click("text=Save as CSV")
    assert waiting.value.path().read_text().startswith("title,latency_ms,")


@pytest.fixture(scope="module")
def again(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With one network compiled, whichever test runs first."""
    with server(tmp_path_factory.mktemp("again")) as running:
        running.ended(running.upload("small.tflite", small_model()).data["id"])
        yield running


def test_a_wrong_value_marks_its_field(browser: Any, again: Running) -> None:
    page = _page(browser, again.url, [])
    _give(page, "small.tflite", chain_model(2))
    page.click("summary:has-text('Options')")
    page.click("summary:has-text('Clocks')")
    page.fill("[name=npu-mhz]", "fast")
    page.click("summary:has-text('Clocks')")
    page.click("#compile")
    page.wait_for_selector("[name=npu-mhz][aria-invalid=true]")
    field = page.locator("[name=npu-mhz]")
    described = (field.get_attribute("aria-describedby") or "").split()
    assert "'fast' is not a number" in page.locator(f"#{described[0]}").inner_text()
    assert page.evaluate("document.activeElement.name") == "npu-mhz" and field.is_visible()
    assert not page.locator(".toast").count()
    field.fill("900")
    assert field.get_attribute("aria-invalid") is None and not page.locator(".wrong").count()
    page.close()


def test_examples_and_clocks_side_by_side(browser: Any, tmp_path: Path) -> None:
    with server(tmp_path) as running:
        page = _page(browser, running.url, [])
        page.click("text=digits.tflite")
        _until(page, lambda: page.locator(".job[data-state=done]").count() == 1)
        page.click("summary:has-text('Options')")
        page.click("summary:has-text('Clocks')")
        page.fill("[name=npu-mhz]", "500")
        page.click(".examples >> text=digits.tflite")
        _until(page, lambda: page.locator(".job[data-state=done]").count() == 2)
        for k in range(2):
            page.locator(".job input[type=checkbox]").nth(k).check()
        page.click("text=Compare the two")
        page.wait_for_selector("#clocks-differ")
        row = page.locator("#figures tr", has_text="NPU clock").inner_text()
        assert "1000 MHz" in row and "500 MHz" in row
        cycles = page.locator("#figures tr", has=page.locator("td:text-is('cycles')"))
        assert not cycles.locator(".better, .worse").count()
        assert page.locator("#figures tr", has_text="latency").locator(".worse").count() == 1
        page.close()


def test_a_float_model_is_quantised_and_compiled(browser: Any, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="atonc[quantize] is not installed")
    from tests.quantizing.float_models import network, samples

    complaints: list[str] = []
    with server(tmp_path) as running:
        page = _page(browser, running.url, complaints)
        page.check("[name=verb][value=quantize]")
        _give(page, "small.onnx", network().SerializeToString())
        assert page.locator("#compile").is_disabled()
        _give(page, "samples.npz", samples(tmp_path, 12).read_bytes(), "#sample-files")
        page.click("#compile")
        page.wait_for_selector('.job[data-state="done"] >> text=signal to noise')
        assert page.locator(".job input[type=checkbox]").is_disabled()
        page.click(".job .who a")
        page.frame_locator("iframe").locator("text=small.onnx").first.wait_for()
        page.click("#compile-it")
        page.wait_for_selector(".card >> text=in the worst output")
        page.frame_locator("iframe").locator(".tile").nth(3).wait_for()
        assert page.locator(".tile").count() == 0, "the report has the tiles"
        assert page.locator("h1").inner_text() == "small_int8.onnx"
        page.close()
    assert not complaints


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_sees_all_of_it(browser: Any, again: Running, scheme: str) -> None:
    """Nothing is wider than the window."""
    complaints: list[str] = []
    page = _page(browser, again.url, complaints, color_scheme=scheme)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_selector(".job")
    first = page.locator(".job .who a").last.get_attribute("href")
    for view, sign in (("#/", ".job"), ("#/models", "#scatter svg"), (first, "iframe"), ("api", ".endpoint")):
        page.goto(f"{again.url}/{view}")
        page.wait_for_selector(sign)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
    page.close()
    assert not complaints


class _Elsewhere(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def test_a_page_of_another_origin_reaches_nothing(browser: Any, again: Running, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html><title>elsewhere</title>")
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Elsewhere, directory=str(tmp_path)))
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        before = len(again.ask("GET", "/api/jobs").data["jobs"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{site.server_port}/")
        assert _attacks(page, again) == ["blocked"] * 4
        assert len(again.ask("GET", "/api/jobs").data["jobs"]) == before
        page.close()
    finally:
        site.shutdown()
        site.server_close()


def _attacks(page: Any, running: Running) -> list[str]:
    """Reading; a form, which a browser sends without asking; a script; a picture."""
    return list(page.evaluate("""async (url) => {
        const form = new FormData();
        form.append("model", new File(["x"], "x.onnx"));
        const send = { method: "POST", body: form, mode: "no-cors" };
        const loads = (tag, path) => new Promise((done) => {
            const element = Object.assign(document.createElement(tag), { src: url + path });
            element.onload = () => done("loaded");
            element.onerror = () => done("blocked");
            document.body.append(element);
        });
        return [
            await fetch(url + "/api/jobs").then(() => "read", () => "blocked"),
            await fetch(url + "/api/jobs", send).then(() => "sent", () => "blocked"),
            await loads("script", "/assets/main.js"),
            await loads("img", "/assets/icon.svg"),
        ];
    }""", running.url))  # fmt: skip
