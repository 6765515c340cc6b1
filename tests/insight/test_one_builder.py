"""The views are built from the same fields wherever they come from: a field that a source does not fill is named here.

Without this a new field of a layer would read 0 in some folder.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from atonc.insight.explain.types import LayerFacts, LayerView, NetworkView, StepView

FOLDER = Path(__file__).parents[2] / "atonc" / "insight" / "explain"
COUNTED = {  # by wiring.counted, from the cost of a step and from its epoch
    *("cycles", "milliseconds", "st_cycles", "bound_by", "known", "activity", "energy_uj", "doubts"),
    *("chains", "modes", "links", "units", "bytes_moved"),
}
# what a source cannot know: (file, function) -> fields
UNKNOWN = {
    # of others: from its steps; what a layer asks of the chip is not in their files
    ("folder.py", "_st_layers"): {"macs", "limit", "attributes", "error"},
    # these are whole epochs; `wiring.own_view` fills `part`
    ("ours.py", "_step"): {"macs", "nodes", "part"},  # counted from the operator; its layer has the nodes
    ("folder.py", "_views"): {"parts", "part"},
    ("folder.py", "_info_step"): {  # there is no program
        "parts",
        "part",
        "activity",
        "energy_uj",
        "doubts",
        "chains",
        "modes",
        "links",
    },
    ("ours.py", "network_view"): {"basis", "measured", "accuracy"},  # predicted; others add the rest
    ("folder.py", "view_of"): {"basis", "measured", "accuracy", "coverage", "search", "decisions"},
    # of what is not compiled nothing is known but what its file says: two calls of one function
    ("unbuilt.py", "model_view"): {
        *("decisions", "error", "limit", "on", "operators", "accuracy", "coverage", "lower_bound_bytes", "measured"),
        *("options", "reproduce", "search", "silicon", "verified", "advice", "states"),
    },
    ("folder.py", "info_view"): {
        "options",
        "states",
        "coverage",
        "silicon",
        "measured",
        "verified",
        "accuracy",
        "advice",
        "search",
        "decisions",
    },
}


def built(kind: type[Any]) -> Iterator[tuple[str, str, ast.Call]]:
    """Who constructs it: file, function, the call."""
    for path in sorted(FOLDER.glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            for node in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == kind.__name__:
                    yield path.name, function.name, node


@pytest.mark.parametrize("kind", [LayerFacts, StepView, NetworkView], ids=lambda kind: kind.__name__)
def test_every_source_fills_every_field(kind: type[Any]) -> None:
    known, sources = {member.name for member in fields(kind)}, set()
    for file, function, call in built(kind):
        sources.add(file)
        given = {word.arg for word in call.keywords if word.arg}
        given |= COUNTED if any(word.arg is None for word in call.keywords) else set()
        missing = known - given - UNKNOWN.get((file, function), set())
        assert not missing, f"{file}: {function} does not fill {', '.join(sorted(missing))} of {kind.__name__}"
    assert sources == {"ours.py", "folder.py", *(["unbuilt.py"] if kind is not StepView else [])}


def test_what_a_source_cannot_know_is_not_filled() -> None:
    for kind in (LayerFacts, StepView, NetworkView):
        for file, function, call in built(kind):
            excused = UNKNOWN.get((file, function), set())
            assert not excused & {word.arg for word in call.keywords}, f"{file}: {function} knows more by now"


def test_layers_have_one_builder() -> None:
    assert not list(built(LayerView)), "figures of a layer follow from its steps in LayerView.of alone"


def test_what_wiring_fills_is_what_it_gives() -> None:
    functions = [
        node for node in ast.parse((FOLDER / "wiring.py").read_text()).body if isinstance(node, ast.FunctionDef)
    ]
    dicts = [d for f in functions if f.name in ("counted", "figures") for d in ast.walk(f) if isinstance(d, ast.Dict)]
    assert {key.value for one in dicts for key in one.keys if isinstance(key, ast.Constant)} == COUNTED
