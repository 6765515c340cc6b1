"""Models as tools leave them: two outputs of one value, nodes in any order or without a source, norms alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.onnx_qdq import in_order, read_onnx
from atonc.compiler.request.options import Options
from atonc.insight.quantizing.loading import parse
from atonc.insight.validating.references import References
from atonc.insight.validating.validating import Wanted, validate
from atonc.machine.base.errors import ModelError
from tests.frontends.onnx_models import Net, same

helper = pytest.importorskip("onnx").helper
pytest.importorskip("onnxruntime")

SHAPE = (1, 3, 8, 8)


def shown(kind: str, outputs: int) -> bytes:
    """A convolution, a function of it in float, and Identity of that, also as an output of its own."""
    net = Net()
    found = [net.node(kind, [net.qdq(net.conv(net.qdq("x", 0.02), (4, 3, 3, 3), 0.02, pads=[1] * 4), 0.05)])[0]]
    for _ in range(2):
        found += net.node("Identity", [found[-1]])
    return net.model({"x": SHAPE}, found[-outputs:])


@pytest.mark.parametrize("outputs", [1, 2, 3])
@pytest.mark.parametrize("kind", ["Relu", "Identity"])
def test_an_output_may_be_another_name_of_a_value(tmp_path: Path, kind: str, outputs: int) -> None:
    data, path = shown(kind, outputs), tmp_path / "net.onnx"
    path.write_bytes(data)
    x = np.random.default_rng(1).normal(0, 1, SHAPE).astype(np.float32)
    assert len(same(data, {"x": x}, codes=1, scale=0.05)) == outputs
    compiled = compile_graph(read_onnx(data), Options(verify=False))
    with References(path) as references:
        found = validate(references, compiled, [{"x": x}], Wanted(layers=True))
    assert len({one.name for one in found.outputs}) == outputs
    assert found.reading and found.first_misread is None and found.first_bad is None


# ------------------------------------------------------------------------------------------------------------- order


def turned(data: bytes) -> Any:
    """The model with its last node first."""
    from onnx import ModelProto

    model = ModelProto.FromString(data)
    nodes = [type(node).FromString(node.SerializeToString()) for node in reversed(model.graph.node)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


def test_whoever_goes_through_nodes_himself_finds_them_in_order() -> None:
    """`quantize` did not, and ended with a KeyError."""
    model = turned(shown("Relu", 1))
    known = {value.name for value in (*model.graph.input, *model.graph.initializer)}
    for node in parse(model.SerializeToString(), "net").graph.node:
        assert set(node.input) <= known
        known |= set(node.output)


def test_an_input_that_is_left_out_is_computed_by_nobody() -> None:
    """An empty name stands for nothing, as input and as output."""
    first = helper.make_node("Resize", ["x", "", "k"], ["a"])
    second = helper.make_node("Dropout", ["a"], ["b", ""])
    late = helper.make_node("Neg", ["x"], ["c"])  # of nodes that seem to wait for each other it would come first
    assert in_order([first, second, late]) == [0, 1, 2]


def test_what_a_branch_reads_comes_before_it() -> None:
    inner = helper.make_graph([helper.make_node("Relu", ["a"], ["r"])], "inside", [], [helper.ValueInfoProto(name="r")])
    branch = helper.make_node("If", ["flag"], ["y"], then_branch=inner, else_branch=inner)
    late = helper.make_node("Neg", ["x"], ["a"])
    assert in_order([branch, late]) == [1, 0]


@pytest.mark.parametrize(
    ("reads", "said"),
    [("nobody", "'nobody' has no source: no node computes it"), ("late", "waits for itself: its nodes are a circle")],
)
def test_a_value_without_a_source(reads: str, said: str) -> None:
    net = Net()
    early = net.node("Relu", [reads])[0]
    net.nodes.append(helper.make_node("Neg", [early], ["late"]))
    with pytest.raises(ModelError) as caught:
        read_onnx(net.model({"x": SHAPE}, ["late"]))
    assert said in caught.value.what and caught.value.rule and caught.value.remedy


# ------------------------------------------------------------------------------------------------------------- norms


@pytest.mark.parametrize("shape", [(1, 4, 14, 11), (1, 5, 9), (1, 6)], ids=["picture", "signal", "vector"])
def test_a_batch_norm_needs_no_convolution_beside_it(shape: tuple[int, ...]) -> None:
    net = Net()
    channels = shape[1]
    rng = np.random.default_rng(2)
    numbers = [rng.uniform(0.5, 1.5, channels), rng.normal(0, 0.5, channels), rng.normal(0, 0.5, channels),
               rng.uniform(0.5, 1.5, channels)]  # fmt: skip
    constants = [net.const(one.astype(np.float32)) for one in numbers]
    y = net.qdq(net.node("BatchNormalization", [net.qdq("x", 0.03), *constants])[0], 0.05)
    data = net.model({"x": shape}, [y])
    same(data, {"x": rng.normal(0, 1, shape).astype(np.float32)}, codes=1, scale=0.05)
    graph = compile_graph(read_onnx(data), Options(verify=False)).graph
    assert "batch_norm" not in [op.kind for op in graph.ops]
