"""Codes of 16 bits at the edges of a model: given and taken as they are, as floats, never as bytes."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.map_ops import map_ops
from atonc.compiler.passes.formats import set_edge_types
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation
from tests.lower.harness import facts

SHAPE = (1, 4, 6, 8)


def network(dtype: str = "int16") -> Graph:
    """Float in and out, with codes between."""
    quant = Quantisation.per_tensor(1e-4 if dtype == "int16" else 0.02, 0)
    tensors = [Tensor("x", SHAPE, "float32"), Tensor("y", SHAPE, "float32")]
    tensors += [Tensor("a", SHAPE, dtype, quant), Tensor("b", SHAPE, dtype, quant)]
    kinds = ("quantize", "x", "a"), ("leaky_relu", "a", "b"), ("dequantize", "b", "y")
    ops = tuple(Op(kind, kind, (one,), (two,), {"alpha": 0.2} if "relu" in kind else {}) for kind, one, two in kinds)
    return Graph({t.name: t for t in tensors}, ops, ("x",), ("y",))


def test_codes_of_16_bits_are_the_edges_where_they_are_asked_for() -> None:
    found = set_edge_types(network(), "int16", "int16")
    assert [op.kind for op in found.ops] == ["leaky_relu"] and not found.notes
    assert found.tensors["x"].dtype == found.tensors["y"].dtype == "int16" and found.tensors["x"].scale == 1e-4
    back = set_edge_types(found, "float32", "float32")
    assert [op.kind for op in back.ops] == ["quantize", "leaky_relu", "dequantize"]
    assert back.tensors["x"].is_float and back.tensors["y"].is_float


@pytest.mark.parametrize(("dtype", "asked"), [("int16", "int8"), ("int16", "uint8"), ("int8", "int16")])
def test_no_codes_change_their_width(dtype: str, asked: str) -> None:
    before = network(dtype)
    found = set_edge_types(before, asked, asked)
    assert found.ops == before.ops and found.tensors == before.tensors
    assert len(found.notes) == 2 and all("stays float32: it holds no" in note for note in found.notes)


def test_the_remedy_names_the_width_of_the_codes() -> None:
    for dtype, word in (("int16", "int16"), ("int8", "int8")):
        reasons = [reason for reason in map_ops(facts(network(dtype))).reason_of.values() if "quantize" in reason.op]
        assert len(reasons) == 2 and all(f"data-type {word}" in reason.remedy for reason in reasons)


def test_the_program_gives_the_same_codes_without_conversions() -> None:
    options = Options(input_type="int16", output_type="int16")
    compiled = compile_graph(network(), options)
    assert not compiled.choices.reasons
    codes = np.random.default_rng(0).integers(-32768, 32767, SHAPE).astype(np.int16)
    (found,) = Emulation(compiled.program, compiled.graph).run({"x": codes}).values()
    floats = compile_graph(network(), Options())
    (real,) = Emulation(floats.program, floats.graph).run({"x": codes * np.float32(1e-4)}).values()
    np.testing.assert_array_equal(np.rint(real / np.float32(1e-4)), found)


def test_a_constant_output_whose_type_is_asked_for_is_written_all_the_same() -> None:
    """Anchors of a detector: real numbers made of constant codes, taken as codes."""
    graph, codes = network("int8"), np.arange(8, dtype=np.int8)
    tensors = dict(graph.tensors)
    tensors["anchors"] = Tensor("anchors", (8,), "int8", Quantisation.per_tensor(0.1, 3), codes)
    tensors["k"] = Tensor("k", (8,), "float32")
    ops = (*graph.ops, Op("dequantize", "anchors", ("anchors",), ("k",)))
    compiled = compile_graph(Graph(tensors, ops, ("x",), ("y", "k")), Options(output_type="int8"))
    found = Emulation(compiled.program, compiled.graph).run({"x": np.zeros(SHAPE, np.float32)})
    assert np.array_equal(found["k"], codes) and found["y"].dtype == np.int8
