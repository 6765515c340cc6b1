"""Graphs as text: what is written is read back."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.ir import Graph
from atonc.compiler.ir.text import dump, parse
from atonc.compiler.ops import run_graph
from atonc.machine.base.errors import AtoncError, InputError
from tests.passes.small_graphs import PICTURE, Small, random_inputs


def small() -> Graph:
    s = Small()
    x = s.input(PICTURE)
    s.conv(x, s.value("h", (1, 6, 6, 8), scale=0.1), 8)
    s.op("clip", ["h"], s.value("y", (1, 6, 6, 8), scale=0.07), low=-np.inf, high=2.0)
    s.const("odd \"name\" = 'x' \n", np.float32(0.1))
    s.op("table", ["y"], s.value("z", (1, 6, 6, 8)), table=tuple(range(-128, 128)))
    return s.graph("z", "h")


def test_a_complete_text_is_the_same_graph() -> None:
    graph = small()
    again = parse(dump(graph, complete=True))
    assert dump(again) == dump(graph) and (again.inputs, again.outputs) == (graph.inputs, graph.outputs)
    inputs = random_inputs(graph)
    before, after = run_graph(graph, inputs), run_graph(again, inputs)
    for name in graph.outputs:
        np.testing.assert_array_equal(before[name], after[name])


def test_large_constants_are_hashes_that_need_their_values() -> None:
    graph = small()
    text = dump(graph)
    assert "sha256:" in text and "base64:" not in text
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    assert dump(parse(text, values)) == text
    with pytest.raises(InputError, match="line"):
        parse(text)


def test_a_graph_written_by_hand() -> None:
    graph = parse(
        """
        # one sum
        graph "sum" -
        input "x" int8 1x4 scale 0.1 zero -3
        const "c" int8 4 scale 0.1,0.2,0.3,0.4 zero 0,0,0,0 axis 0 = [1, 2, 3, 4]
        tensor "y" float32 1x4
        op add "a" ["x", "c"] -> ["y"] {}
        output "y"
        """
    )
    values = run_graph(graph, {"x": np.full((1, 4), -3)})
    np.testing.assert_allclose(values["y"], [[0.1, 0.4, 0.9, 1.6]])


BAD_LINES = """
tensor "t" int8
tensor "t" int9 3
tensor "t" int8 ax3
tensor t int8 3
tensor "t" int8 3 scale x zero 0
tensor "t" int8 3 scale 1
tensor "t" int8 3 scale -1 zero 0
const "c" int8 4 = [1, 2]
const "c" int8 999999999x9 = [1]
const "c" int8 40 = base64:!!
const "c" int8 40 = base64:AAAA
op conv "c" [] {}
op a "b" [1] -> [] {}
output 3
output "none"
what is this
"""


@pytest.mark.parametrize("line", BAD_LINES.strip().splitlines())
def test_bad_lines_are_reported(line: str) -> None:
    with pytest.raises(AtoncError):
        parse(f'graph "g" -\n{line}\n')
