"""Schedules with every pass and without any compute the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph
from atonc.compiler.request.options import Options
from atonc.compiler.schedule import PASSES
from atonc.compiler.verify.emulation import Emulation
from atonc.machine.hw.safety.evidence import Grade
from tests.compiler.golden_graphs import GRAPHS
from tests.compiler.random_graphs import random_graph

SEEDS = (40, 41, 42, 46, 47)


def require_same_bits(graph: Graph) -> None:
    found = [compile_graph(graph, Options(verify=False, schedule_without=without)) for without in ((), tuple(PASSES))]
    inputs = make_inputs(graph, 7)
    one, other = (Emulation(compiled.program, compiled.graph).run(inputs) for compiled in found)
    for name in graph.outputs:
        assert np.array_equal(one[name], other[name]), name
    assert not any(grade.grade == Grade.UNSEEN for grade in found[0].grades)
    assert {r.node for r in found[0].choices.reasons} == {r.node for r in found[1].choices.reasons}


@pytest.mark.parametrize("name", ("pointwise", "windows", "residual", "pictures"))
def test_small_networks(name: str) -> None:
    require_same_bits(GRAPHS[name]())


@pytest.mark.parametrize("seed", SEEDS)
def test_random_networks(seed: int) -> None:
    require_same_bits(random_graph(seed))
