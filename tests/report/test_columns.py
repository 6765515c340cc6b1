"""A column is one row of report/columns.py: every view shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_type_hints

import pytest

from atonc.insight.explain.compare import compare
from atonc.insight.explain.types import LayerView, NetworkView
from atonc.insight.report import columns, compare_text, explain_text, exports
from atonc.insight.report.html import compare_page, html_page, network
from tests.compiler.golden_graphs import GRAPHS
from tests.insight.views import view

ASSETS = Path(explain_text.__file__).parent / "html" / "assets"


@dataclass(frozen=True)
class Shown:
    network: NetworkView
    layer: LayerView


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """A row more, as if it stood in the list."""
    more = columns.LayerColumn("weight_of_names_grams", "grams", lambda layer: 7.25 * bool(layer.steps), digits=2)
    monkeypatch.setattr(columns, "COLUMNS", (*columns.COLUMNS, more))
    monkeypatch.setattr("atonc.insight.report.html.network.COLUMNS", columns.COLUMNS)
    network = view(GRAPHS["pointwise"]())
    return Shown(network, next(layer for layer in network.layers if layer.steps))


def test_a_row_more_is_in_every_view(shown: Shown) -> None:
    network, layer = shown.network, shown.layer
    assert ", 7.25 grams" in explain_text.layer_lines(layer)[0]
    assert explain_text.layer_data(layer)["weight_of_names_grams"] == 7.25
    page = html_page(network).decode()
    assert '"weight_of_names_grams":7.25' in page and '["weight_of_names_grams","grams",2,1500]' in page
    found = compare(network, network)
    pair = compare_text.as_json(found)["layers"][0]
    assert pair["a_weight_of_names_grams"] == pair["b_weight_of_names_grams"] > 0
    assert '["grams","7.25"]' in compare_page(found).decode()
    assert b"weight_of_names_grams" in exports.annotated(network)


def test_every_figure_of_a_layer_is_shown() -> None:
    """A number that is worked out and that no view reads is a row forgotten in report/columns.py."""
    members = {name: member.fget for name, member in vars(LayerView).items() if isinstance(member, property)}
    found = {name: get_type_hints(function)["return"] for name, function in members.items() if function}
    found |= {member.name: {"int": int, "float": float}.get(str(member.type), object) for member in fields(LayerView)}
    sources = "".join(Path(file).read_text() for file in (columns.__file__, explain_text.__file__))
    hidden = [n for n, kind in found.items() if kind in (int, float) and f"layer.{n}" not in sources]
    assert not hidden, f"{', '.join(hidden)} of LayerView has no row in atonc/insight/report/columns.py"


def test_a_column_has_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer has other facts beside its figures, in JSON and on the page: a key that is among them would hide one. The
    ms column of the page was blank where a figure was called `epochs`."""
    keys = [column.key for column in columns.COLUMNS]
    assert len(set(keys)) == len(keys)
    monkeypatch.setattr(columns, "COLUMNS", ())
    layer = view(GRAPHS["pointwise"]()).layers[0]
    places = {name: 0 for name in (*layer.inputs, *layer.outputs)}
    taken = {*explain_text.layer_data(layer), *network._layer(layer, places)}
    assert not taken & set(keys), f"{taken & set(keys)} of atonc/insight/report/columns.py: another key, with its unit"


def test_pages_name_no_column_themselves() -> None:
    """What the table shows of these figures comes from the list."""
    text = (ASSETS / "table.js").read_text()
    assert "D.columns" in text
    assert not [c.key for c in columns.COLUMNS if re.search(rf"\bl\.{c.key}\b", text)]
