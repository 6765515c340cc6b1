"""Puts data, style and scripts together. The scripts draw plain SVG; there is no chart library to keep up to date."""

from __future__ import annotations

import html
import json
from importlib import resources

from atonc.insight.types import NetworkView
from atonc.report.html.data import network_data

_SCRIPTS = (
    *("core.js", "timeline.js", "memory.js", "graph.js", "roofline.js", "table.js", "detail.js", "measured.js"),
    "start.js",
)


def html_page(network: NetworkView) -> bytes:
    data = json.dumps(network_data(network), separators=(",", ":"), sort_keys=False)
    parts = {
        "TITLE": html.escape(f"{network.model} on the Neural-ART NPU"),
        "STYLE": _asset("style.css"),
        "SCRIPT": "\n".join(_asset(name) for name in _SCRIPTS),
        "DATA": data.replace("<", "\\u003c"),  # no text of the model can end the script element
    }
    page = _asset("page.html")
    for name, text in parts.items():
        page = page.replace(f"@@{name}@@", text, 1)
    return page.encode()


def _asset(name: str) -> str:
    return resources.files("atonc.report.html").joinpath("assets", name).read_text("utf-8")
