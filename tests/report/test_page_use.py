"""The pages as people use them: nothing important hides, everything prints, what is looked at is in the address, keys
do what a pointer does, and a network of 1,000 layers costs no more elements than what is in sight."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.insight.explain.compare import compare
from atonc.insight.explain.ours import network_view
from atonc.insight.explain.types import NetworkView
from atonc.insight.report import explain_text
from atonc.insight.report.html import compare_page, html_page, sweep_page
from atonc.insight.sweeping.run import Sweep, SweepResult
from atonc.machine.base.words import ms_text, size_text
from tests.report.browser import Window, browser
from tests.report.made_up import made_up

__all__ = ["browser"]  # a fixture
DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
WIDE, PHONE = (1280, 800), (390, 844)
MOST_DRAWN = 12_000  # elements of a page, whatever the network: so many move with 60 frames a second
MODEL = "a_model_with_a_name_that_is_longer_than_a_line_of_the_table_has_room_for_0.25_224_int8.tflite"


@pytest.fixture(scope="module")
def digits() -> NetworkView:
    return network_view(generating.analyze(DIGITS, Options(verify=False)))


@pytest.fixture(scope="module")
def pages(digits: NetworkView, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    figures = {"latency_ms": 7.1, "latency_low_ms": 6.0, "latency_high_ms": 9.0, "cpu_ms": 0.0, "ram_bytes": 17203}
    figures |= {"weights_bytes": 7, "spilled_bytes": 0, "cpu_layers": 0, "times_practical": 1.42}
    changes = ({"latency_ms": 16.8}, {"latency_ms": 26.6, "ram_bytes": 9011}, {"latency_ms": 3.3, "ram_bytes": 99})
    rows = tuple(
        SweepResult(name, "b", "", {"prefer": f"p{k}"}, figures | change, on_front=k != 0)
        for k, (name, change) in enumerate(zip((MODEL, MODEL, "other.onnx"), changes, strict=True))
    )
    slower = replace(digits, npu_mhz=800.0, options={**(digits.options or {}), "--resident": "all"})
    found = {
        "report": html_page(digits),
        "large": html_page(made_up()),
        "compare": compare_page(compare(digits, slower)),
        "sweep": sweep_page(Sweep("sweep.toml", rows, ("prefer",), False, 0)),
    }
    folder = tmp_path_factory.mktemp("pages")
    for name, content in found.items():
        (folder / f"{name}.html").write_bytes(content)
    return {name: folder / f"{name}.html" for name in found}


def opened(browser: Any, file: Path, size: tuple[int, int] = WIDE, **options: Any) -> Window:
    """Without the page's own policy, which would forbid what is asked of it here; test_html_page.py keeps it."""
    return Window(browser, file, size, ready="h1", bypass_csp=True, **options)


def settled(page: Any) -> None:
    """The address is written a moment later."""
    page.wait_for_timeout(250)


def titles(page: Any) -> list[str]:
    return [text.rstrip(" \u25b4\u25be") for text in page.locator("#table thead th").all_inner_texts()]


@pytest.mark.parametrize(
    ("size", "least"), [(WIDE, {"bottleneck", "rules", "x attainable minimum"}), (PHONE, {"layer", "ms", "on"})]
)
def test_no_column_of_the_layers_hides(
    browser: Any, pages: dict[str, Path], size: tuple[int, int], least: set[str]
) -> None:
    for name in ("report", "large"):
        with opened(browser, pages[name], size) as page:
            assert least <= set(titles(page))
            box = "document.getElementById('table').parentElement"
            assert page.evaluate(f"{box}.scrollWidth - {box}.clientWidth") <= 0


def test_columns_are_chosen_and_the_choice_is_in_the_address(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["report"]) as page:
        usual = titles(page)
        page.click("#chooser summary")
        page.click("#chooser label:has-text('cycles beyond the attainable minimum')")
        page.click("#chooser label:text-is('rules')")
        more = titles(page)
        assert set(more) ^ set(usual) == {"rules", "cycles beyond the attainable minimum"}
        page.keyboard.press("Escape")
        assert page.get_attribute("#chooser", "open") is None
        settled(page)
        page.reload()
        assert titles(page) == more
        page.click("#chooser summary")
        page.click("#chooser button")
        assert titles(page) == usual


@pytest.mark.parametrize("name", ["report", "large"])
def test_everything_is_printed_with_reasons(
    browser: Any, pages: dict[str, Path], name: str, digits: NetworkView
) -> None:
    layers = len(digits.layers) if name == "report" else 1000
    with opened(browser, pages[name]) as page:
        before = page.locator("#table tr.row").count()
        page.emulate_media(media="print")
        page.wait_for_function(f"document.querySelectorAll('#table tr.row').length === {layers}")
        assert not page.is_visible("#detail") and not page.is_visible("nav")
        if name == "report":
            reasons = page.locator("#table tr.why").all_inner_texts()
            rules = {d.rule.id for layer in digits.layers for d in layer.decisions}
            assert all(any(rule in text for text in reasons) for rule in rules)
            box = "document.getElementById('table').parentElement"
            assert page.evaluate(f"{box}.scrollHeight - {box}.clientHeight") <= 0
        page.emulate_media(media="screen")
        page.wait_for_function(f"document.querySelectorAll('#table tr.row').length === {before}")


def test_a_thousand_layers_are_drawn_as_far_as_they_are_seen(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["large"]) as page:
        assert page.evaluate("document.querySelectorAll('*').length") < MOST_DRAWN
        rows = page.locator("#table tr.row")
        assert rows.count() < 80 and page.get_attribute("#table", "aria-rowcount") == "1001"
        page.evaluate("document.getElementById('table').parentElement.scrollTop = 20000")
        page.wait_for_function("document.querySelector('#table tr.row').ariaRowIndex > 600")
        assert rows.count() < 80
        page.fill("#search", "stage24/block248")
        assert rows.count() == 4


def test_what_is_looked_at_is_in_the_address(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["report"]) as page:
        settled(page)
        assert "layer=" not in page.url, "nothing was chosen yet"
        page.click("#table tr.row:has-text('CONV_2D_4')")
        page.click("#timeline [data-zoom='1.6']")
        page.click("#graph-in")
        page.select_option("#graph-mode", "time")
        page.click("#roof-flash")
        page.click("nav a[href='#memory']")
        settled(page)
        told, scale = page.url, page.get_attribute("#graph-plot", "data-scale")
        assert "#memory&" in told and "layer=CONV_2D_4" in told and "time=" in told and "graph=" in told
        shown = page.evaluate("[shown.from, shown.to]")
    with opened(browser, pages["report"]) as page:
        page.goto("about:blank")
        page.goto(told)
        settled(page)
        assert page.inner_text("#detail-name") == "CONV_2D_4"
        assert page.get_attribute("#graph-plot", "data-scale") == scale
        assert page.get_attribute("#graph-plot", "data-mode") == "time"
        assert page.get_attribute("#roof-flash", "aria-pressed") == "true"
        assert page.evaluate("[shown.from, shown.to]") == pytest.approx(shown, abs=1e-4)
        assert page.evaluate("document.getElementById('memory').getBoundingClientRect().top") < 200
        page.evaluate("location.hash = '#graph&layer=CONV_2D_1'")
        page.wait_for_function("document.getElementById('detail-name').textContent === 'CONV_2D_1'")


@pytest.mark.parametrize("told", ["#nowhere&layer=nothing", "#&time=1,x&graph=0,0,0&columns=no", "#%E0%A4%A&layer=%Z"])
def test_a_wrong_address_is_no_mistake(browser: Any, pages: dict[str, Path], told: str) -> None:
    with opened(browser, pages["report"]) as page:
        page.goto("about:blank")
        page.goto(pages["report"].as_uri() + told)
        assert page.locator("#table tr.row").count() == 8


def test_keys_do_what_a_pointer_does(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["report"], PHONE) as page:
        page.click("#graph-full")
        assert page.locator("#graph.full").count() == 1
        page.keyboard.press("Escape")
        assert page.locator("#graph.full").count() == 0
        page.keyboard.press("/")
        assert page.evaluate("document.activeElement.id") == "search"
        page.fill("#search", "")
        row = page.locator("#table tr.row").first
        row.focus()
        page.keyboard.press("ArrowDown")
        second = page.locator("#table tr.row").nth(1).locator("td").first.inner_text()
        assert page.inner_text("#detail-name") == second == page.evaluate("document.activeElement.cells[0].innerText")
        page.keyboard.press("Enter")
        assert page.is_visible("#detail-body")
        page.keyboard.press("Escape")
        assert not page.is_visible("#detail-body")
        assert second in page.inner_text("#said")


def test_where_time_is_lost_stands_in_the_page(browser: Any, pages: dict[str, Path], digits: NetworkView) -> None:
    assert digits.limit is not None
    lost = sorted((layer for layer in digits.layers if layer.lost_cycles), key=lambda one: -one.lost_cycles)
    with opened(browser, pages["report"]) as page:
        assert f"{digits.limit.times_practical:.2f}x its attainable minimum" in page.inner_text("#lost-hint")
        rows = page.locator("#lost-table tr.row")
        assert [rows.nth(k).locator("td").first.inner_text() for k in range(len(lost))] == [one.name for one in lost]
        assert page.locator("#roofline-plot circle").count() == 4
        page.click("#roof-flash")
        assert "from flash" in (page.get_attribute("#roofline-plot svg", "aria-label") or "")
    with opened(browser, pages["large"]) as page:  # nothing is known of its bounds
        assert not page.is_visible("#lost")


def test_weights_can_be_looked_at(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["report"]) as page:
        page.click("#table tr.row:has-text('CONV_2D_4')")
        picture = page.locator("#detail-body canvas.spread")
        assert "each of 32 channels" in (picture.get_attribute("aria-label") or "")
        picture.hover(position={"x": 20, "y": 2})
        assert page.inner_text("#tip").startswith("channel 0: codes -")
        assert "activation" in page.inner_text("#detail-body") and "relu" in page.inner_text("#detail-body")


def test_compare_says_what_differs(browser: Any, pages: dict[str, Path], digits: NetworkView, tmp_path: Path) -> None:
    with opened(browser, pages["compare"]) as page:
        rows = page.locator("#differ-table tbody tr").all_inner_texts()
        assert rows == ["NPU clock\t1000 MHz\t800 MHz", "--resident\twithout\tall"]
        assert not page.is_visible("#alerts")
    other = replace(digits, model="other.tflite", reproduce={**digits.reproduce, "model sha256": "0" * 64})
    (tmp_path / "two.html").write_bytes(compare_page(compare(digits, other)))
    with opened(browser, tmp_path / "two.html", PHONE) as page:
        assert "builds of different models" in page.inner_text("#alerts")


@pytest.mark.parametrize("size", [WIDE, PHONE])
def test_a_sweep_has_axes_that_say_what_they_are(browser: Any, pages: dict[str, Path], size: tuple[int, int]) -> None:
    with opened(browser, pages["sweep"], size) as page:
        texts = page.locator("#front-plot text").all_text_contents()
        assert {"predicted latency (ms)", "RAM (KiB)"} <= set(texts)
        ticks = [float(text.replace(",", "")) for text in texts if text.replace(",", "").replace(".", "").isdigit()]
        assert len(ticks) >= 4 and all(tick == float(f"{tick:.2g}") for tick in ticks), "round"
        assert MODEL in page.inner_text("#front-legend") and MODEL in page.inner_text("#table").replace("\n", "")
        assert page.locator("#front-plot path").count() == 2, "one front for each model"
        page.click("#front-legend button >> nth=0")
        assert page.locator("#front-plot circle").count() == 1
        if size == WIDE:
            assert "x attainable minimum" in page.inner_text("#table thead") and "1.42" in page.inner_text("#table")


@pytest.mark.parametrize("name", ["report", "large", "compare", "sweep"])
def test_pictures_have_a_role_and_a_name(browser: Any, pages: dict[str, Path], name: str) -> None:
    with opened(browser, pages[name]) as page:
        nameless = "[...document.querySelectorAll('canvas, svg')].filter(e => !e.closest('[role=img]')?.ariaLabel)"
        assert page.evaluate(f"{nameless}.map(e => e.outerHTML.slice(0, 80))") == []


@pytest.mark.parametrize("size", [(1440, 900), PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("name", ["report", "large"])
def test_figures_and_timeline_are_on_the_first_screen(
    browser: Any, pages: dict[str, Path], size: tuple[int, int], name: str
) -> None:
    """Four tiles, then the timeline, without scrolling and beside whatever lies over the page; then the actions."""
    with opened(browser, pages[name], size) as page:
        page.wait_for_selector("#timeline-plot rect.mark")
        end = size[1] - (page.locator("#detail").bounding_box()["height"] if size == PHONE else 0)
        tiles = [tile.bounding_box() for tile in page.locator(".tile").all()]
        plot = page.locator("#timeline-plot").bounding_box()
        assert page.locator(".tile > span").all_inner_texts() == ["latency", "RAM", "flash", "CPU share"]
        assert all(box["y"] >= 0 and box["y"] + box["height"] <= plot["y"] for box in tiles)
        assert plot["y"] + plot["height"] <= end and page.evaluate("scrollY") == 0
        shown = page.locator("main section:visible").evaluate_all("all => all.map(one => one.id)")
        assert [one for one in shown if one != "alerts"][:3] in (
            ["timeline", "actions", "figures"],
            ["timeline", "figures", "trust"],  # where nothing is left to do
        )
        assert page.locator("#action-list li").count() <= 3


WITHOUT_TIP = """[...document.querySelectorAll('th, .key, .tile, #more dt')]
    .filter(node => node.textContent.trim() && ![node, ...node.querySelectorAll('*')].some(one => one.dataset.tip))
    .map(node => node.textContent)"""


@pytest.mark.parametrize("name", ["report", "large", "compare", "sweep"])
def test_every_header_and_legend_says_what_it_means(browser: Any, pages: dict[str, Path], name: str) -> None:
    with opened(browser, pages[name], (1920, 1000)) as page:
        if name == "report":  # all columns that there are
            page.click("#chooser summary")
            while page.locator("#chooser input:not(:checked)").count():
                page.locator("#chooser input:not(:checked)").first.check()
            for mode in page.locator("#graph-mode option").evaluate_all("all => all.map(one => one.value)"):
                page.select_option("#graph-mode", mode)
                assert page.evaluate(WITHOUT_TIP) == []
        assert page.evaluate(WITHOUT_TIP) == []
        assert page.evaluate("document.querySelectorAll('[data-tip][tabindex=\"0\"], button[data-tip]').length") > 4


def test_a_word_is_explained_to_the_keyboard_and_to_a_finger(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["report"], PHONE, has_touch=True) as page:
        page.keyboard.press("Tab")
        page.locator(".tile").nth(2).focus()
        page.keyboard.press("Tab")
        assert "share of the latency" in page.inner_text("#tip") and page.is_visible("#tip")
        assert page.get_attribute(".tile:focus", "aria-describedby") == "tip"
        page.keyboard.press("Escape")
        assert not page.is_visible("#tip")
        page.locator(".tile").first.tap()
        assert "time of one inference" in page.inner_text("#tip")


def test_the_page_says_figures_as_the_terminal_does(browser: Any, pages: dict[str, Path], digits: NetworkView) -> None:
    sizes = [0, 1, 1023, 1024, 7424, 104960, 105472, 1_048_576, 2_628_352, 10_485_759, 10_485_760, 123_456_789]
    times = [0, 0.00002, 0.0004, 0.0384, 0.0005, 0.99951, 1.0, 4.089, 99.996, 100.04, 12345.67]
    with opened(browser, pages["report"]) as page:
        said = page.evaluate(f"{sizes}.map(bytes)")
        assert [text.replace("\u00a0", " ") for text in said] == [*map(size_text, sizes)]
        said = page.evaluate(f"{times}.map(milliseconds)")
        assert [text.replace("\u00a0", " ") for text in said] == [*map(ms_text, times)]
        tiles = page.locator(".tile").all_inner_texts()
    terminal = [row.text for row in explain_text.document(digits, digits.layers).summary if row is not None]
    for tile, row in zip(tiles, terminal, strict=False):
        value = tile.split("\n")[1]
        assert value in row, "the same figure, in the same words"
