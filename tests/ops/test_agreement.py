"""Where arithmetic fails the user reads operator, rule and remedy; a pass that breaks shapes is found at once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler import passes
from atonc.compiler.ir import Graph
from atonc.compiler.ops import registry, run_graph
from atonc.compiler.ops.run import RULE, disagreement
from atonc.compiler.passes import order
from atonc.doors.cli import cli
from atonc.machine.base.errors import InternalError, ModelError
from tests.compiler.golden_graphs import GRAPHS
from tests.frontends.tflite_models import chain_model
from tests.passes.small_graphs import Small


def flat(elements: int) -> Graph:
    s = Small()
    s.op("reshape", [s.input((1, 4, 2))], s.value("y", (1, elements)))
    return s.graph("y")


def test_a_reshape_that_loses_values_names_what_was_expected() -> None:
    with pytest.raises(ModelError, match="reshape_0: reshape cannot be computed") as caught:
        run_graph(flat(5), {"x0": np.zeros((1, 4, 2), np.int8)})
    error = caught.value
    assert "x0 1x4x2 -> y 1x5: 8 values become 5" in error.what
    assert error.rule == RULE and "report it" in error.remedy and "--cut-output-tensors" in error.remedy
    assert error.what.index("8 values become 5") < error.what.index("cannot reshape array")


def test_a_pass_that_breaks_shapes_is_our_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    def halve(graph: Graph) -> Graph:
        return replace(graph, tensors=graph.tensors | {"y": replace(graph.tensors["y"], shape=(1, 4))})

    monkeypatch.setattr(order, "PASSES", (halve,))
    with pytest.raises(InternalError, match="8 values become 4") as caught:
        passes.run(flat(8))
    assert caught.value.rule == RULE and "report it" in caught.value.remedy
    with pytest.raises(ModelError, match="8 values become 4"):  # the same from a model that says so itself
        passes.run(flat(4))


@pytest.mark.parametrize("name", GRAPHS)
def test_sound_graphs_agree(name: str) -> None:
    graph = GRAPHS[name]()
    for shown in (graph, passes.run(graph)):
        assert [found for op in shown.ops if (found := disagreement(shown, op))] == []


@pytest.mark.parametrize("planted", [ValueError("operands could not be broadcast"), MemoryError("8 TB")])
def test_the_command_line_says_it_too(
    planted: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistake planted in one kernel: the paragraph has operator, rule and remedy."""

    def broken(call: object) -> None:
        raise planted

    monkeypatch.setitem(registry._real, "mean", broken)  # type: ignore[arg-type]
    (tmp_path / "model.tflite").write_bytes(chain_model())
    assert cli.main(["analyze", str(tmp_path / "model.tflite"), "--json"]) == 2
    said = json.loads(capsys.readouterr().out)["error"]
    assert said["where"].startswith("model.tflite, MEAN") and "mean cannot be computed" in said["what"]
    assert said["rule"] and said["remedy"] and said["what"].endswith(f"({type(planted).__name__}: {planted})")
