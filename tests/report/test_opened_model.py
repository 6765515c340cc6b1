"""`atonc view MODEL`: the graph at once, the report when it is compiled, or what was wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tflite")

from atonc.compiler.frontends.read import read
from atonc.doors.verbs.run import OpenedModel
from atonc.insight.explain.unbuilt import model_view
from atonc.insight.report.html.page import POLICY
from tests.report.browser import browser
from tests.report.test_all_pages import screenshots
from tests.report.test_page_use import PHONE, WITHOUT_TIP
from tests.test_cli_float import model as float_model

__all__ = ["browser"]  # a fixture
DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.tflite"
ADDRESS = "http://127.0.0.1:1/"


def data_of(page: bytes) -> dict[str, Any]:
    text = page.decode().partition('type="application/json">')[2].partition("</script>")[0]
    found: dict[str, Any] = json.loads(text)
    return found


def test_the_model_is_shown_as_its_file_has_it() -> None:
    graph = read(DIGITS)
    view = model_view("digits.tflite", graph)
    assert [layer.kind for layer in view.layers] == [op.kind for op in graph.ops]
    first = view.layers[0]
    assert first.weights[0].shape == graph.tensors[graph.ops[0].inputs[1]].shape and first.macs > 0
    assert view.memory.weights_bytes >= sum(t.data.size for t in graph.tensors.values() if t.data is not None)
    assert not view.steps and view.latency_ms == 0


def test_the_report_takes_its_place() -> None:
    shown = OpenedModel(DIGITS)
    before = data_of(shown.page)
    assert before["pending"] and shown.state["state"] == "compiling"
    assert [value for _, value, _ in before["tiles"]] == ["..."] * 4, "no figure before there is one"
    assert f"{POLICY}; connect-src 'self'".encode() in shown.page
    shown.compile()
    after = data_of(shown.page)
    assert shown.state == {"state": "done"} and not after["pending"] and after["steps"]
    assert "ms" in after["tiles"][0][1] and b"connect-src" not in shown.page


def test_what_cannot_be_compiled_is_shown_with_its_reason(tmp_path: Path) -> None:
    shown = OpenedModel(Path(float_model(tmp_path)))
    shown.compile()
    assert shown.state["state"] == "failed" and data_of(shown.page)["pending"], "the graph stays"
    assert shown.state["error"]["what"] and shown.state["error"]["remedy"]


@contextmanager
def served(browser: Any, shown: OpenedModel, size: tuple[int, int]) -> Iterator[Any]:
    """As the server of `view` answers."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, bypass_csp=True)
    page, complaints = context.new_page(), list[str]()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    html, data = "text/html; charset=utf-8", "application/json"
    page.route(ADDRESS, lambda route: route.fulfill(body=shown.page, content_type=html))
    page.route(f"{ADDRESS}state", lambda route: route.fulfill(body=json.dumps(shown.state), content_type=data))
    page.goto(ADDRESS)
    yield page
    assert not complaints
    context.close()


@pytest.mark.parametrize("size", [(1440, 900), PHONE], ids=["wide", "phone"])
def test_a_reader_sees_the_graph_first_and_then_the_figures(browser: Any, size: tuple[int, int]) -> None:
    shown = OpenedModel(DIGITS)
    shown.state = {"state": "compiling", "stage": "placing buffers"}
    with served(browser, shown, size) as page:
        page.wait_for_selector("text=placing buffers")
        sections = page.locator("main section:visible").evaluate_all("all => all.map(one => one.id)")
        assert [one for one in sections if one != "alerts"] == ["graph", "edge", "layers"]
        assert page.locator("#graph-plot").bounding_box()["y"] < size[1]
        assert page.get_attribute("#graph-plot", "data-scale"), "drawn"
        assert page.locator("#table tbody tr.row").first.inner_text().startswith("CONV_2D_0")
        assert page.evaluate(WITHOUT_TIP) == [] and list(screenshots.complaints(page)) == []
        page.click("#table tbody tr.row >> nth=1")
        assert "CONV_2D_1" in page.inner_text("#detail-name")
        shown.compile()
        page.wait_for_selector("#timeline-plot rect.mark")
        assert page.locator(".tile b").first.inner_text().endswith("ms")


def test_a_reader_sees_why_a_model_is_refused(browser: Any, tmp_path: Path) -> None:
    shown = OpenedModel(Path(float_model(tmp_path)))
    shown.compile()
    with served(browser, shown, (1440, 900)) as page:
        page.wait_for_selector("#alerts b:text-is('Fix: ')")
        said = page.inner_text("#alerts")
        assert "--allow-float" in said and page.is_visible("#graph-plot")
        assert page.locator("#alerts .option").first.evaluate("one => getComputedStyle(one).whiteSpace") == "nowrap"
        assert set(page.locator(".tile b").all_inner_texts()) == {"\u2013"}
        assert list(screenshots.complaints(page)) == []
