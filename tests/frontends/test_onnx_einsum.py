"""Einsum of one, two and three tensors is what numpy makes of the same letters."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.ops import run_graph

SIZES = {"b": 2, "h": 3, "i": 4, "j": 5, "k": 6}


@pytest.mark.parametrize(
    "equation",
    ["ij->ji", "bij->bj", "ij,jk->ik", "ij,kj->ki", "bhij,bhkj->bhik", "bhij,bhjk->bihk", "bij,jk->bik", "i,j->ij",
     "ij,ij->i", "bij,bij->", "bij,bkj->kib", "ij,jk,kb->ib", "...ij,...jk->...ik", "ij,jk", "bi,k->kb", "hij,hjk->ik"],
)  # fmt: skip
def test_the_letters_say_what_is_multiplied_and_summed(equation: str) -> None:
    rng, names = np.random.default_rng(3), equation.partition("->")[0].split(",")
    shapes = [tuple(SIZES[letter] for letter in name.replace("...", "bh")) for name in names]
    values = {f"x{k}": rng.normal(size=shape).astype(np.float32) for k, shape in enumerate(shapes)}
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in values.items()]
    node = helper.make_node("Einsum", list(values), ["y"], equation=equation)
    made = helper.make_graph([node], "g", edges, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    graph = read_onnx(model.SerializeToString())
    found = run_graph(graph, values)[graph.outputs[0]]
    wanted = np.einsum(equation, *values.values())
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert found.shape == wanted.shape
