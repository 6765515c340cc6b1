"""Variables of TFLite: they become inputs and outputs, and a stream computed with them is that of TFLite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compare.inputs import make_inputs
from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ops import run_graph
from atonc.compiler.request.options import Options
from atonc.insight.validating.references import References
from atonc.machine.base.errors import ModelError, UnsupportedError
from tests.frontends.tflite_models import O, T, build

CHANNELS, KEPT = 4, 2
SCALE = {"scale": 0.05, "zero": -3}


def handle(tensor: str, name: str) -> O:
    return O("VAR_HANDLE", [], [tensor], "VarHandleOptions", {0: ("s", ""), 1: ("s", name)})


def slice_of(source: str, target: str) -> O:
    """All but the oldest line."""
    return O("STRIDED_SLICE", [source, "begin", "end", "strides"], [target], "StridedSliceOptions", {1: ("i", 15)})


def model(first: int | None = 7, assigns: bool = True, late: bool = False, idle: bool = False) -> bytes:
    """A buffer of two lines before a convolution over three, as streaming converters write it; `late` reads the
    variable after the assignment, `idle` adds one that no output depends on."""
    rng = np.random.default_rng(5)
    tensors = [
        T("x", (1, 1, 1, CHANNELS), **SCALE),
        T("h", (), "resource"),
        T("h2", (), "resource"),
        T("old", (1, KEPT, 1, CHANNELS), **SCALE),
        T("other", (1, KEPT, 1, CHANNELS), **SCALE),
        T("all", (1, KEPT + 1, 1, CHANNELS), **SCALE),
        T("new", (1, KEPT, 1, CHANNELS), **SCALE),
        T("begin", (4,), "int32", data=[0, 1, 0, 0]),
        T("end", (4,), "int32", data=[1, KEPT + 1, 1, CHANNELS]),
        T("strides", (4,), "int32", data=[1, 1, 1, 1]),
        T("w", (5, KEPT + 1, 1, CHANNELS), scale=0.02, data=rng.integers(-127, 128, (5, KEPT + 1, 1, CHANNELS))),
        T("b", (5,), "int32", scale=0.001, data=rng.integers(-900, 900, 5)),
        T("y", (1, 1, 1, 5), scale=0.1, zero=2),
    ]
    join = O("CONCATENATION", ["old", "x"], ["all"], "ConcatenationOptions", {0: ("i", 1)})
    conv = O("CONV_2D", ["all", "w", "b"], ["y"], "Conv2DOptions", {0: ("b", 1), 1: ("i", 1), 2: ("i", 1)})
    read, assign = O("READ_VARIABLE", ["h"], ["old"]), O("ASSIGN_VARIABLE", ["h", "new"], [])
    ops = [O("CALL_ONCE", [], [], "CallOnceOptions", {0: ("i", 1)}), handle("h", "line"), read, join]
    ops += [slice_of("all", "new")] + [assign] * assigns + [conv]
    ops += [O("READ_VARIABLE", ["h"], ["other"])] if late else []
    ops += [handle("h2", "idle"), O("ASSIGN_VARIABLE", ["h2", "new"], [])] if idle else []
    start = np.full((1, KEPT, 1, CHANNELS), first if first is not None else 0)
    inner = [T("h", (), "resource"), T("start", start.shape, data=start, **SCALE)]
    begin = [handle("h", "line" if first is not None else "another"), O("ASSIGN_VARIABLE", ["h", "start"], [])]
    return build(tensors, ops, ["x"], ["y"], (inner, begin))


def test_a_variable_becomes_an_input_and_an_output() -> None:
    graph = read_tflite(model(idle=True))
    assert (graph.inputs, graph.outputs) == (("x", "old"), ("y", "new"))
    (state,) = graph.states
    assert (state.input, state.output) == ("old", "new") and np.all(state.first == 7)
    assert {op.kind for op in graph.ops} == {"concat", "slice", "conv"}
    assert np.all(make_inputs(graph)["old"] == 7)


def test_a_stream_is_that_of_tflite(tmp_path: Path) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    data, rng = model(), np.random.default_rng(1)
    graph = read_tflite(data)
    interpreter = litert.Interpreter(model_content=data)
    interpreter.allocate_tensors()
    (x,), (y,) = interpreter.get_input_details(), interpreter.get_output_details()
    kept = graph.states[0].first
    for _ in range(5):
        line = rng.integers(-128, 128, (1, 1, 1, CHANNELS)).astype(np.int8)
        interpreter.set_tensor(x["index"], line)
        interpreter.invoke()
        found = run_graph(graph, {"x": line, "old": kept})
        kept = found["new"]
        assert np.array_equal(found["y"], interpreter.get_tensor(y["index"]))


def test_programs_keep_the_state_and_references_begin_anew(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    path = tmp_path / "stream.tflite"
    path.write_bytes(model())
    compiled = compile_graph(read_tflite(path.read_bytes()), Options())
    assert compiled.report is not None
    with References(path) as references:
        for seed in (0, 1):  # the second run does not see what the first one left
            sample = make_inputs(compiled.source, seed)
            for found in references.outputs(compiled, sample).values():
                exact = run_graph(compiled.source, sample)
                assert len(found) == 1 and np.allclose(found[0], (exact["y"] - 2.0) * 0.1)
        other = {**sample, "old": sample["old"] - 1}
        assert list(references.outputs(compiled, other)) == ["exact arithmetic"]
        assert "their own first state" in references.notes[-1]


def test_a_variable_that_nobody_assigns_is_a_constant() -> None:
    graph = read_tflite(model(assigns=False))
    assert (graph.inputs, graph.outputs, graph.states) == (("x",), ("y",), ())
    data = graph.tensors["old"].data
    assert data is not None and np.all(data == 7)


def test_unknown_orders_and_starts_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="'/line' is read again, or after"):
        read_tflite(model(late=True))
    with pytest.raises(UnsupportedError, match="'/line' has no constant first value of int8"):
        read_tflite(model(first=None))


def test_damaged_accesses_are_errors_of_the_model() -> None:
    tensors = [T("x", (1, 4), scale=0.1), T("y", (1, 4), scale=0.1)]
    with pytest.raises(ModelError, match="no variable"):
        read_tflite(build(tensors, [O("READ_VARIABLE", ["x"], ["y"])], ["x"], ["y"]))
    with pytest.raises(ModelError, match="wrong operands"):
        read_tflite(build(tensors, [O("READ_VARIABLE", [], ["y"])], ["x"], ["y"]))
