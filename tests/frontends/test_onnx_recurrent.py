"""LSTM and GRU of ONNX between quantised layers: unrolled or a single operator, and equal to onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compare.reference import run_onnx
from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.frontends.onnx_recurrent import MOST_STEPS, UNROLLED_STEPS
from atonc.compiler.ops import run_graph
from atonc.compiler.request.options import Options
from atonc.machine.base.errors import UnsupportedError
from tests.frontends.onnx_models import Net

STEPS, MANY_STEPS, BATCH, INPUTS, HIDDEN = 5, UNROLLED_STEPS + 1, 2, 4, 3
GATES = {"LSTM": 4, "GRU": 3}


def model(kind: str, outputs: tuple[int, ...] = (0,), start: bool = False, steps: int = STEPS, **attrs: Any) -> bytes:
    """x -> QDQ -> recurrent layer with quantised weights -> QDQ."""
    net = Net(3, opset=14)
    directions = 2 if attrs.get("direction") == "bidirectional" else 1
    gates = GATES[kind] * HIDDEN
    weights = [net.const((net.rng.normal(size=(directions, gates, n)) * 0.5).astype(np.float32), "w")
               for n in (INPUTS, HIDDEN)]  # fmt: skip
    biases = net.const((net.rng.normal(size=(directions, 2 * gates)) * 0.3).astype(np.float32), "b")
    inputs = [net.qdq("x", 0.02), *weights, biases]
    if start:
        states = 2 if kind == "LSTM" else 1
        zeros = (net.rng.normal(size=(directions, BATCH, HIDDEN)).astype(np.float32) for _ in range(states))
        inputs += ["", *(net.const(state, "s") for state in zeros)]
    made = net.node(kind, inputs, 3 if kind == "LSTM" else 2, hidden_size=HIDDEN, **attrs)
    shown = [net.qdq(made[k], 0.01) for k in outputs]
    return net.model({"x": (steps, BATCH, INPUTS)}, shown)


CASES: list[tuple[str, tuple[int, ...], bool, dict[str, Any]]] = [
    ("LSTM", (0, 1, 2), False, {}),
    ("LSTM", (0,), True, {"direction": "reverse"}),
    ("LSTM", (1, 2), True, {"direction": "bidirectional"}),
    ("GRU", (0, 1), False, {}),
    ("GRU", (0,), True, {"linear_before_reset": 1}),
    ("GRU", (1,), True, {"direction": "bidirectional"}),
    ("GRU", (0, 1), True, {"direction": "bidirectional", "linear_before_reset": 1}),
    ("LSTM", (0, 1, 2), True, {"direction": "bidirectional"}),
]


@pytest.mark.parametrize("steps", [STEPS, MANY_STEPS])
@pytest.mark.parametrize(("kind", "outputs", "start", "attrs"), CASES)
def test_equal_to_onnxruntime(
    kind: str, outputs: tuple[int, ...], start: bool, attrs: dict[str, Any], steps: int, tmp_path: Path
) -> None:
    pytest.importorskip("onnxruntime", exc_type=ImportError)
    path = tmp_path / "model.onnx"
    path.write_bytes(model(kind, outputs, start, steps, **attrs))
    graph = read_onnx(path.read_bytes())
    x = np.random.default_rng(1).normal(size=(steps, BATCH, INPUTS)).astype(np.float32)
    expected, values = run_onnx(path, {"x": x}), run_graph(graph, {"x": x})
    for name in graph.outputs:
        codes = np.abs(values[name].astype(np.float64) - expected[name]) / 0.01
        assert codes.max() < 1.5 and (codes > 0.5).mean() < 0.05


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize(("kind", "steps"), [("GRU", STEPS), ("GRU", MANY_STEPS), ("LSTM", MANY_STEPS)])
def test_compiles_and_verifies(kind: str, steps: int, direction: str) -> None:
    compiled = compile_graph(read_onnx(model(kind, (0,), steps=steps, direction=direction)))
    assert compiled.report is not None


def test_a_state_stays_in_floats_where_codes_are_around_it() -> None:
    """The state before the first step comes as codes, and the result is quantised."""
    net = Net(3, opset=14)
    gates, cells = 3 * HIDDEN, np.eye(3 * HIDDEN, dtype=np.float32)[None]
    weights = net.const(cells, "w"), net.const(net.rng.normal(size=(1, gates, HIDDEN)).astype(np.float32) * 0.5, "r")
    made = net.node("GRU", [net.qdq("x", 0.02), *weights, "", "", net.qdq("h", 0.01)], 2, hidden_size=HIDDEN)
    shapes = {"x": (MANY_STEPS, BATCH, gates), "h": (1, BATCH, HIDDEN)}
    compiled = compile_graph(read_onnx(net.model(shapes, [net.qdq(made[0], 0.01)])), Options(allow_float=True))
    (op,) = (op for op in compiled.graph.ops if op.kind == "recurrent")
    assert {compiled.graph.tensors[name].dtype for name in (op.inputs[3], *op.outputs)} == {"float32"}
    assert compiled.report is not None


def test_many_steps_are_one_operator() -> None:
    graph = read_onnx(model("GRU", (0, 1), steps=MOST_STEPS + 1, direction="bidirectional"))
    assert [op.attrs["reverse"] for op in graph.ops if op.kind == "recurrent"] == [False, True]
    assert len(graph.ops) < 25


@pytest.mark.parametrize(
    ("attrs", "what"),
    [({"clip": 3.0}, "clip"), ({"layout": 1}, "layout"), ({"activations": ["Relu", "Tanh", "Tanh"]}, "activations")],
)
def test_other_forms_are_refused_by_name(attrs: dict[str, Any], what: str) -> None:
    with pytest.raises(UnsupportedError, match=what):
        read_onnx(model("LSTM", **attrs))


def test_outputs_that_no_standard_knows_are_left() -> None:
    import onnx

    graph = onnx.ModelProto.FromString(model("GRU", (0,)))
    next(node for node in graph.graph.node if node.op_type == "GRU").output.append("more")
    assert str(read_onnx(graph.SerializeToString()).ops) == str(read_onnx(model("GRU", (0,))).ops)
