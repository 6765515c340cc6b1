"""The pages in a real browser: they draw, they react, they load nothing and complain about nothing."""

from __future__ import annotations

import csv
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.evaluating.datasets import Dataset
from atonc.insight.evaluating.run import Evaluation
from atonc.insight.explain.compare import compare
from atonc.insight.explain.folder import folder_view
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import (
    AccuracyReport,
    LayerNoise,
    LayerView,
    LossFinding,
    Measured,
    MeasuredBlock,
    NetworkView,
    Remedy,
)
from atonc.insight.report import evaluate_text
from atonc.insight.report.html import compare_page, html_page, sweep_page
from atonc.insight.report.html.page import POLICY
from atonc.insight.sweeping.run import Sweep, SweepResult
from tests.report.browser import Window, browser

__all__ = ["browser"]  # a fixture
ROOT = Path(__file__).parent.parent.parent
DIGITS = ROOT / "examples" / "digits" / "digits.tflite"
CORPUS = Path(os.environ.get("ATONC_CORPUS", ROOT.parent / "shared" / "corpus"))
MOST_DRAWN = 12_000  # elements of the page of a network of 300 layers
WINDOWS = pytest.mark.parametrize("size", [(1400, 900), (390, 800)], ids=["wide", "phone"])


def _view(model: Path, verify: bool = False) -> NetworkView:
    return network_view(generating.analyze(model, Options(verify=verify)))


@pytest.fixture(scope="module")
def digits() -> NetworkView:
    return _view(DIGITS, verify=True)


def _pages(view: NetworkView) -> tuple[str, str]:
    return html_page(view).decode(), compare_page(compare(view, _renamed(view))).decode()


def _renamed(view: NetworkView) -> NetworkView:
    """As another compiler might name its layers, a little slower."""

    def other(layer: LayerView, place: int) -> LayerView:
        slower = layer.milliseconds * (1.5 if place == 1 else 1.0)
        return replace(layer, name=f"Node_{place}", nodes=(f"Node_{place}",), milliseconds=slower)

    layers = tuple(other(layer, place) for place, layer in enumerate(view.layers))
    names = {one.name: two.name for one, two in zip(view.layers, layers, strict=True)}
    steps = tuple(replace(step, layer=names[step.layer]) for step in view.steps)
    return replace(view, layers=layers, steps=steps, tool="another compiler")


def test_nothing_is_loaded_from_elsewhere_and_names_cannot_act(digits: NetworkView) -> None:
    for page in _pages(digits):
        assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in page
        assert page.count("</script>") == 2
        assert "default-src 'none'" in page


def test_every_page_has_the_policy_and_the_same_head(digits: NetworkView) -> None:
    evaluation = Evaluation(
        model="<a> @@DATA@@", samples=3, metric="top", sides={}, differences=(), distances={}, yardstick="",
        changed=(), worst=(), confusion=((1, 2), (0, 3)), curves={}, origin={"data": "<b>"},
        data=Dataset("arrays", ()), notes=(),
    )  # fmt: skip
    sweep = Sweep("file", (), (), False, 0)
    pages = [*_pages(digits), sweep_page(sweep).decode(), evaluate_text.page(evaluation).decode()]
    for page in pages:
        start, _, rest = page.partition("<title>")
        assert start.startswith("<!doctype html>") and start.count(f'content="{POLICY}"') == 1
        assert "Content-Security-Policy" not in rest and "<meta" not in rest
    assert len({page.partition("<title>")[0] for page in pages}) == 1
    assert "<title>&lt;a&gt; @@DATA@@: accuracy on 3 samples</title>" in pages[-1]


def _model() -> Path:
    """A detector of more than 300 epochs if the corpus is there."""
    found = sorted((CORPUS / "models").glob("*st_yolo_x_nano_480*_int8.tflite"))
    return found[0] if found else DIGITS


@pytest.fixture(scope="module")
def large() -> NetworkView:
    return _view(_model())


@pytest.fixture(scope="module")
def page_file(large: NetworkView, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_bytes(html_page(large))
    return path


@pytest.fixture(scope="module")
def small_file(digits: NetworkView, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Verified, and with what a board might have taken."""
    blocks = tuple(
        MeasuredBlock(s.number, s.number, 10, 20, 30, 2 * s.milliseconds, s.milliseconds, 2 * s.cycles, s.cycles)
        for s in digits.steps[:4]
    )
    measured = Measured("a board made in a test", 800_000_000, 1_000_000_000, 2 * digits.latency_ms, blocks)
    path = tmp_path_factory.mktemp("small") / "report.html"
    path.write_bytes(html_page(replace(digits, measured=measured, accuracy=_losses())))
    return path


def _losses() -> AccuracyReport:
    """As `explain --accuracy` might find them."""
    remedies = (
        Remedy("a range that fits", True, 7.5, 31.0, 0.1, 0.4),
        Remedy("16 bits", False, why_not="the chain has 8"),
    )
    finding = LossFinding("conv_1", "conv_1", "activation", "clipped", "12 % are cut off", 3.2, 7.6, remedies)
    layer = LayerNoise("conv_1", "conv", "conv_1", True, (40.0, 3.2, None), (40.0, 3.2, float("inf")), 3.1, -1.0)
    return AccuracyReport("m", "f.onnx", 2, False, (("y", 7.5, 7.4),), (layer,), (finding,), 0.1)


def _graph(page: Any, name: str) -> str:
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return str(page.locator("#graph-plot").get_attribute(f"data-{name}"))


@WINDOWS
def test_the_page_works(browser: Any, page_file: Path, size: tuple[int, int]) -> None:
    assert page_file.stat().st_size < 2 << 20
    with Window(browser, page_file, size) as page:
        drawn = page.evaluate("document.querySelectorAll('*').length")
        assert drawn < MOST_DRAWN, "more elements than a reader wants to wait for"
        for selector in ("#memory-pools rect.mark", "#memory-live path", "#roofline-plot circle", "#edges tbody tr"):
            assert page.locator(selector).count() > 0, selector
        assert page.locator("#timeline-plot .beside").count() > 0, "chains side by side"
        assert "live in epoch" in page.locator("#memory-peak summary").inner_text()
        assert "Weights by layer" in page.locator("#memory-weights summary").inner_text()
        assert page.locator("#detail-body svg rect").count() > 1, "the wiring of the selected epoch"
        _selects(page)
        _searches(page)


def _selects(page: Any) -> None:
    """Wherever a layer is chosen, the page stays where it is."""
    page.locator("#timeline-plot").focus()
    page.keyboard.press("Home")
    before = page.evaluate("[document.documentElement.scrollHeight, scrollY]")
    first = page.locator("#detail-name").text_content()
    page.keyboard.press("End")
    assert page.locator("#detail-name").text_content() != first
    assert page.locator("#timeline-plot rect.chosen").count() == 1
    assert page.evaluate("[document.documentElement.scrollHeight, scrollY]") == before


def _searches(page: Any) -> None:
    def listed() -> int:
        return int(page.get_attribute("#table", "aria-rowcount")) - 1

    rows, everything = page.locator("#table tbody tr.row"), listed()
    page.fill("#search", "conv bound-")
    assert 0 < rows.count() <= listed() < everything
    rows.first.click()
    assert page.locator("#detail-body .rule").count() > 0
    page.fill("#search", "no layer is called like this")
    assert rows.count() == listed() == 0
    page.fill("#search", "")
    assert listed() == everything


@WINDOWS
def test_the_graph_is_searched_moved_and_coloured(browser: Any, page_file: Path, size: tuple[int, int]) -> None:
    with Window(browser, page_file, size) as page:
        page.locator("#graph").scroll_into_view_if_needed()
        scale, place = float(_graph(page, "scale")), _graph(page, "y")
        page.click("#graph-in")
        assert float(_graph(page, "scale")) == pytest.approx(1.4 * scale, rel=0.01)
        page.click("#graph-fit")
        assert float(_graph(page, "scale")) < scale
        page.fill("#graph-search", "conv 3x3")
        assert int(_graph(page, "found")) > 1
        first = _graph(page, "chosen")
        page.press("#graph-search", "Enter")
        assert _graph(page, "chosen") != first
        assert page.locator("#timeline-plot rect.chosen").count() == 1, "selection is joined"
        assert page.locator("#detail-title").text_content()
        page.fill("#graph-search", "")
        box = page.locator("#graph-canvas").bounding_box()
        page.mouse.move(box["x"] + 40, box["y"] + 200)
        page.mouse.down()
        page.mouse.move(box["x"] + 70, box["y"] + 120, steps=4)
        page.mouse.up()
        assert _graph(page, "y") != place
        modes = page.locator("#graph-mode option").evaluate_all("options => options.map(o => o.value)")
        assert {"place", "bound", "time", "memory", "weights"} <= set(modes)
        pictures = {}
        for mode in modes:
            page.select_option("#graph-mode", mode)
            assert _graph(page, "mode") == mode
            pictures[mode] = page.evaluate("document.getElementById('graph-map').toDataURL()")
        assert len(set(pictures.values())) == len(modes), "every mode paints another picture"


def test_a_click_in_the_graph_selects_everywhere(browser: Any, small_file: Path) -> None:
    with Window(browser, small_file, (1400, 900)) as page:
        page.locator("#graph").scroll_into_view_if_needed()
        page.click("#graph-fit")
        before = _graph(page, "chosen")
        x, y, scale = (float(_graph(page, name)) for name in ("x", "y", "scale"))
        left, top, width, what = next(b for b in page.evaluate("D.graph.boxes") if b[3] == 2)
        page.locator("#graph-canvas").click(position={"x": (left + width / 2) * scale + x, "y": (top + 20) * scale + y})
        name = page.evaluate(f"D.layers[{what}].name")
        assert _graph(page, "chosen") == name != before
        assert page.locator("#table tr.open").count() == 1
        assert page.locator("#memory-pools rect.chosen").count() >= 1
        page.locator("#graph-plot").press("ArrowDown")
        assert _graph(page, "chosen") != name


def test_what_is_known_of_a_network_is_shown(browser: Any, small_file: Path, tmp_path: Path) -> None:
    with Window(browser, small_file, (1400, 900)) as page:
        edges = page.locator("#edges tbody tr").all_inner_texts()
        assert "1\u00d78\u00d78\u00d71" in edges[0] and "int8" in edges[0]
        trust = page.locator("#trust").inner_text()
        assert "verified on the emulator with 3 inputs" in trust and "calibrated on boards" in trust
        assert "no input saturates a sum" in trust
        page.fill("#search", "conv_2d_1")  # the layer before it names it, too: it carries a part of its work
        page.locator("#table tbody tr.row", has_text="CONV_2D_1").first.click()
        detail = page.locator("#detail-body").inner_text()
        assert re.search(r"16.3.3.16 int8; 16 scales, one a channel, -[\d.]+ to [\d.]+\s+conv2_weights", detail)
        assert "values differ from exact arithmetic" in detail and "measured" in detail
        assert "error" in page.locator("#graph-mode option").evaluate_all("options => options.map(o => o.value)")
        page.fill("#search", "")
        with page.expect_download() as download:
            page.click("#csv")
        download.value.save_as(tmp_path / "layers.csv")
    with (tmp_path / "layers.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert {"ms", "share", "shape", "measured ms"} <= set(rows[0])
    assert sum(float(row["share"]) for row in rows) == pytest.approx(1.0, abs=1e-4)
    assert rows[0]["shape"] == "1x8x8x16"


def test_where_accuracy_is_lost_is_shown_if_it_was_asked(browser: Any, small_file: Path, page_file: Path) -> None:
    with Window(browser, page_file, (1400, 900)) as page:
        assert not page.is_visible("#accuracy")
    with Window(browser, small_file, (390, 800)) as page:
        text = page.inner_text("#accuracy")
    for words in ("conv_1", "clipped", "7.5 \u2192 31.0 dB", "not possible: the chain has 8", "lossless", "f.onnx"):
        assert words in text, words


@WINDOWS
def test_a_sweep_is_drawn_and_sorted(browser: Any, tmp_path: Path, size: tuple[int, int]) -> None:
    figures = {"cpu_ms": 0.0, "weights_bytes": 7, "spilled_bytes": 0, "cpu_layers": 0, "notes": []}
    rows = [
        SweepResult(name, "b", "", {}, {**figures, "latency_ms": ms, "ram_bytes": size_bytes}, on_front=best)
        for name, ms, size_bytes, best in (("<b>.onnx", 2.0, 4096, True), ("b.onnx", 1.0, 8192, True))
    ]
    refused = SweepResult("c.onnx", "b", "", {}, None, "is broken")
    found = Sweep("s.toml", (*rows, refused), (), False, 0)
    (tmp_path / "sweep.html").write_bytes(sweep_page(found))
    with Window(browser, tmp_path / "sweep.html", size, ready="#front-plot circle") as page:
        assert page.locator("#front-plot circle").count() == 2
        first = "#table tbody tr:first-child td:first-child"
        assert page.inner_text(first) == "b.onnx"  # the fastest
        page.click("#table th button:text-is('RAM')")
        assert page.inner_text(first) == "<b>.onnx"  # the smallest
        assert "is broken" in page.inner_text("#refused")


def test_a_sweep_of_applications_shows_the_time_of_a_second(browser: Any, tmp_path: Path) -> None:
    times = {"busy_ms": 20.0, "busy_low_ms": 18.0, "busy_high_ms": 23.0, "npu_load": 0.0174, "flash_load": 0.01}
    figures = {**times, "ram_bytes": 4096, "lower_bound_bytes": 4000, "flash_bytes": 9216, "cpu_layers": 1, "notes": []}
    rows = [
        SweepResult("app.toml", "b", "", {"resident": kept}, {**figures, "busy_ms": ms}, on_front=best)
        for kept, ms, best in (("", 20.0, False), ("all", 19.0, True))
    ]
    (tmp_path / "sweep.html").write_bytes(sweep_page(Sweep("s.toml", tuple(rows), ("resident",), False, 0)))
    with Window(browser, tmp_path / "sweep.html", (1600, 900), ready="#front-plot circle") as page:
        assert page.locator("#front-plot circle").count() == 2
        assert "predicted time of a second (ms)" in page.inner_html("#front-plot")
        head, first = page.inner_text("#table thead"), page.inner_text("#table tbody tr:first-child")
        assert all(title in head for title in ("of a second", "NPU", "flash read", "no plan below"))
        assert all(cell in first for cell in ("app.toml resident=all", "1.7\u00a0%", "18.0"))
        assert "undefined" not in page.inner_text("body") and "NaN" not in page.inner_html("body")


@WINDOWS
def test_two_builds_share_a_page(browser: Any, digits: NetworkView, tmp_path: Path, size: tuple[int, int]) -> None:
    path = tmp_path / "compare.html"
    path.write_bytes(compare_page(compare(digits, _renamed(digits))))
    with Window(browser, path, size) as page:
        assert "8 of 8 layers of A that take time have a partner" in page.locator("#pairing").inner_text()
        rows = page.locator("#table tbody tr.row")
        assert rows.count() == 8
        assert page.locator("#timeline-plot rect.chosen").count() == 2, "the pair that differs most, in both"
        page.fill("#search", "softmax")
        assert rows.count() == 1
        rows.first.click()
        assert "softmax" in page.locator("#detail-title").inner_text()
        page.fill("#search", "")
        page.locator("#timeline-plot").press("ArrowLeft")
        assert "softmax" not in page.locator("#detail-title").inner_text()
        page.keyboard.press("Escape")  # on a phone the details cover the table
        with page.expect_download() as download:
            page.click("#csv")
        download.value.save_as(tmp_path / "pairs.csv")
    assert len((tmp_path / "pairs.csv").read_text("utf-8").splitlines()) == 9


def test_a_yolo_of_st_is_paired(large: NetworkView) -> None:
    folder = CORPUS / "st" / "st_yolo_x_nano_480_1.0_0.25_3_st_int8__3.0.0"
    if not folder.is_dir():
        pytest.skip("the corpus is not here: set ATONC_CORPUS")
    theirs = folder_view(folder)
    assert theirs.model == "st_yolo_x_nano_480_1.0_0.25_3_st_int8.tflite"
    found = compare(large, theirs)
    assert sum(map(len, found.alone)) < 25  # concatenations in place, conversions
    assert found.paired[0] > 210 and found.paired[1] > 170
    known = {name for layer in theirs.layers for name in layer.outputs} | {one.name for one in theirs.inputs}
    assert all(any(name in known for name in layer.inputs) for layer in theirs.layers), "every layer has predecessors"
    assert found.b.st_cycles == 28_595_787  # as BASELINE.csv has it
    assert len(compare_page(found)) < 1 << 20


def test_tips_answer_to_a_finger(browser: Any, page_file: Path) -> None:
    with Window(browser, page_file, (390, 800), has_touch=True) as page:
        page.locator("#memory-live svg").tap()
        assert "live" in page.locator("#tip").inner_text()
        page.locator("h1").tap()
        assert page.locator("#tip").is_hidden()
        page.locator("#detail-toggle").tap()
        assert page.locator("#detail-body").is_visible()
