"""Values on demand are those of a whole run, and nothing is computed that nobody asks for."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.ops import RunOnDemand, run, run_graph
from tests.compiler.golden_graphs import GRAPHS


@pytest.mark.parametrize("name", ["residual", "movements"])
def test_values_are_those_of_a_whole_run(name: str) -> None:
    graph = GRAPHS[name]()
    inputs = make_inputs(graph, 3)
    whole, asked = run_graph(graph, inputs), RunOnDemand(graph, inputs)
    assert set(asked) == set(whole) and len(asked) == len(whole)
    for tensor in reversed(list(whole)):
        assert np.array_equal(asked[tensor], whole[tensor])


def test_only_what_is_needed_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPHS["residual"]()
    values = RunOnDemand(graph, make_inputs(graph, 3))
    ran, kept = list[str](), run.run_op
    monkeypatch.setattr(run, "run_op", lambda g, op, v: (ran.append(op.name), kept(g, op, v))[1])
    first = graph.ops[0]
    assert values[first.outputs[0]] is values[first.outputs[0]] and ran == [first.name]
    with pytest.raises(KeyError):
        values["nobody"]
