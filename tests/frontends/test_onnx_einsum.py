"""Einsum of one, two and three tensors is what numpy makes of the same letters."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.ops import run_graph
from atonc.machine.base.errors import ModelError

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


@pytest.mark.parametrize(
    "equation", ["ij,kj->k->i", "ij,jk->ii", "ij,jkl->il", "i-,jk->ik", "ij,jk->i\0k", "ij,jk->iz"]
)
def test_letters_that_say_nothing_are_the_fault_of_the_file(equation: str) -> None:
    edges = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in ("a", "b", "y")]
    node = helper.make_node("Einsum", ["a", "b"], ["y"], equation=equation)
    model = helper.make_model(helper.make_graph([node], "g", edges[:2], edges[2:]), ir_version=8)
    with pytest.raises(ModelError, match=r"Einsum .* of shapes") as caught:
        read_onnx(model.SerializeToString())
    assert "one letter for each axis" in caught.value.rule
