"""Recurrent networks: cells written out, states with one scale at both ends, frames in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnxruntime")

import onnx
from onnx import numpy_helper, shape_inference

import atonc
from atonc.compiler.frontends.onnx_recurrent import UNROLLED_STEPS
from atonc.compiler.frontends.read import read
from atonc.compiler.ops import run_graph
from atonc.insight.quantizing.graph import FloatGraph, make_plan
from atonc.insight.quantizing.loading import load, tidy
from atonc.insight.quantizing.observe import outputs
from atonc.insight.quantizing.recurrent import own_sums, write_out
from atonc.insight.quantizing.samples import Carried
from atonc.insight.quantizing.scales import Tuning, cells_of
from atonc.insight.quantizing.states import choose_frames, declared, read_frames, unpack
from atonc.insight.quantizing.types import QuantizeOptions
from atonc.machine.base.errors import InputError, UnsupportedError
from tests.quantizing.float_models import Build, save

INPUTS, HIDDEN, FRAMES = 24, 16, 120
GATES = {"LSTM": 4, "GRU": 3}
STEADY = {"state_0_in": "state_0_out", "state_1_in": "state_1_out"}


def cell(kind: str, steps: int = 1, batch: int = 1, direction: str = "forward", peepholes: bool = False,
         loud: float = 1.0, **attrs: Any) -> tuple[Build, list[str]]:  # fmt: skip
    """x, h and c -> a recurrent layer: its node is there, and its outputs."""
    b, count = Build(3), 2 if direction == "bidirectional" else 1
    shapes = {"W": INPUTS, "R": HIDDEN}
    names = [b.constant(n, b.random.normal(0, loud / np.sqrt(k), (count, GATES[kind] * HIDDEN, k)))
             for n, k in shapes.items()]  # fmt: skip
    bias = b.constant("B", b.random.normal(0, 0.3, (count, 2 * GATES[kind] * HIDDEN)))
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    inputs = ["x", *names, bias, "", *states]
    if peepholes:
        inputs.append(b.constant("P", b.random.normal(0, 0.5, (count, 3 * HIDDEN))))
    made = ["y", "hn", "cn"][: len(states) + 1]
    b.nodes.append(onnx.helper.make_node(kind, inputs, made, "cell", hidden_size=HIDDEN, direction=direction, **attrs))
    return b, made


def alone(kind: str, steps: int, batch: int = 1, direction: str = "forward", **more: Any) -> Any:
    b, made = cell(kind, steps, batch, direction, **more)
    state = (2 if direction == "bidirectional" else 1, batch, HIDDEN)
    shapes = {"x": (steps, batch, INPUTS), "h": state} | ({"c": state} if kind == "LSTM" else {})
    return b.model(shapes, made, opset=17)


WRITTEN: list[tuple[str, int, dict[str, Any]]] = [
    ("LSTM", 1, {}),
    ("LSTM", 3, {"direction": "bidirectional", "batch": 2}),
    ("LSTM", 2, {"peepholes": True, "direction": "reverse"}),
    ("GRU", 1, {"linear_before_reset": 1}),
    ("GRU", 1, {"linear_before_reset": 0}),
    ("GRU", 3, {"direction": "reverse", "batch": 2, "linear_before_reset": 1}),
]


@pytest.mark.parametrize(("kind", "steps", "more"), WRITTEN)
def test_a_cell_written_out_computes_the_same(kind: str, steps: int, more: dict[str, Any], tmp_path: Path) -> None:
    model = load(save(tmp_path, alone(kind, steps, **more)))
    made, notes = write_out(model)
    assert not notes and kind not in {node.op_type for node in made.graph.node}
    random, graph = np.random.default_rng(5), FloatGraph(model)
    feeds = [{n: random.normal(size=graph.shapes[n]).astype(np.float32) for n in graph.inputs} for _ in range(3)]
    for one, other in zip(outputs(model, feeds), outputs(own_sums(tidy(made, "m")), feeds), strict=True):
        for wanted, found in zip(one, other, strict=True):
            assert np.allclose(found, wanted, atol=2e-6)


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_long_sequences_stay_in_float_behind_a_product(kind: str, direction: str, tmp_path: Path) -> None:
    model = load(save(tmp_path, alone(kind, UNROLLED_STEPS + 1, batch=2, direction=direction)))
    made, notes = write_out(model)
    kinds = [node.op_type for node in tidy(made, "m").graph.node]
    assert kind in kinds and {"Gemm", "MatMul"} & {*kinds[: kinds.index(kind)]}
    random, graph = np.random.default_rng(5), FloatGraph(model)
    feeds = [{n: random.normal(size=graph.shapes[n]).astype(np.float32) for n in graph.inputs} for _ in range(2)]
    ours = read(save(tmp_path, made))
    whole = [op.attrs["cell"] for op in ours.ops if op.kind == "recurrent"]
    assert {cell[: len(kind)] for cell in whole} == {kind.lower()}
    assert sum(op.kind in ("matmul", "dense") for op in ours.ops) == 1, "the reader knows weights that pick"
    for feed, one, other in zip(feeds, outputs(model, feeds), outputs(made, feeds), strict=True):
        values = run_graph(ours, feed)
        for name, wanted, found in zip(ours.outputs, one, other, strict=True):
            assert np.allclose(found, wanted, atol=2e-6) and np.allclose(values[name], wanted, atol=1e-5)
    assert len(notes) == 1 and f"{UNROLLED_STEPS + 1} steps" in notes[0] and "export one step" in notes[0]


def test_forms_that_are_not_built_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="clip") as found:
        write_out(load(save(tmp_path, alone("LSTM", 1, clip=3.0))))
    assert found.value.where == "cell" and found.value.rule and found.value.remedy


# ------------------------------------------------------------------------------------------------------- whole models


def denoiser(loud: float = 1.0) -> Any:
    """A frame and one tensor with both states, last axis; as some exporters pack them."""
    b, _ = cell("LSTM", loud=loud)
    whole = b.nodes.pop()
    for k, name in enumerate(("h", "c")):
        for end, number in (("first", k), ("end", k + 1), ("last", 3)):
            b.constants.append(numpy_helper.from_array(np.array([number], np.int64), f"{name}{end}"))
        b.node("Slice", ["state", f"{name}first", f"{name}end", f"{name}last"], f"{name}4")
        b.node("Squeeze", [f"{name}4", f"{name}last"], name)
    b.nodes.append(whole)
    for name in ("hn", "cn"):
        b.node("Unsqueeze", [name, "hlast"], f"{name}4")
    b.node("Concat", ["hn4", "cn4"], "state_after", axis=3)
    b.constants.append(numpy_helper.from_array(np.array([1, HIDDEN], np.int64), "flat"))
    row = b.node("Reshape", ["y", "flat"], "row")
    weights, bias = b.constant("w", b.random.normal(0, 0.5, (HIDDEN, INPUTS))), b.constant("b", np.zeros(INPUTS))
    b.node("Sigmoid", [b.node("Gemm", [row, weights, bias], "logits")], "mask")
    b.nodes[-1].name = "mask"  # some exporters name a node as its output
    return b.model({"x": (1, 1, INPUTS), "state": (1, 1, HIDDEN, 2)}, ["mask", "state_after"], opset=17)


def frames(folder: Path, count: int = FRAMES) -> Path:
    """Noise that swells and fades."""
    swell = 1 + np.sin(np.arange(count) / 9)[:, None, None, None]
    np.savez(folder / "frames.npz", x=np.random.default_rng(1).normal(0, 0.7, (count, 1, 1, INPUTS)) * swell)
    return folder / "frames.npz"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("recurrent")
    path = save(folder, denoiser())
    result = atonc.quantize(path, frames(folder), state=("state_after=state",), objective="accuracy")
    result.save(folder / "int8.onnx")
    return result, folder, path


def test_a_packed_state_becomes_one_for_each_part_with_one_scale_at_both_ends(made: Any) -> None:
    graph = read(made[1] / "int8.onnx")
    assert set(graph.inputs) == {"x", *STEADY} and set(graph.outputs) == {"mask", *STEADY.values()}
    model = onnx.ModelProto.FromString(made[0].model)
    values = {p.name: numpy_helper.to_array(p) for p in model.graph.initializer}
    found = {node.input[0]: [values[name] for name in node.input[1:]] for node in model.graph.node
             if node.op_type == "QuantizeLinear"}  # fmt: skip
    for given, output in STEADY.items():
        for one, other in zip(found[given], found[f"{output}_real"], strict=True):
            assert one == other and one.dtype == other.dtype
    assert found["state_0_in"][0] != found["state_1_in"][0]
    assert any("--state state_0_out=state_0_in" in note for note in made[0].notes)


def test_a_state_that_is_written_into_stays_codes(tmp_path: Path) -> None:
    """A window of frames that ScatterND writes into, as some exporters keep caches."""
    b = Build(6)
    weights = b.constant("w", b.random.normal(0, 0.5, (INPUTS, INPUTS)))
    b.constants.append(numpy_helper.from_array(np.array([[1]], np.int64), "place"))
    b.constants.append(numpy_helper.from_array(np.array([1, 2 * INPUTS], np.int64), "flat"))
    row = b.node("MatMul", ["x", weights], "row")
    window = b.node("ScatterND", ["window", "place", row], "window_after")
    late = b.constant("v", b.random.normal(0, 0.5, (2 * INPUTS, INPUTS)))
    b.node("MatMul", [b.node("Reshape", [window, "flat"], "both"), late], "y")
    path = save(tmp_path, b.model({"x": (1, INPUTS), "window": (2, INPUTS)}, ["y", "window_after"], opset=17))
    np.savez(tmp_path / "frames.npz", x=np.random.default_rng(1).normal(0, 0.7, (40, 1, INPUTS)))
    result = atonc.quantize(path, tmp_path / "frames.npz", state=("window_after=window",), objective="accuracy")
    result.save(tmp_path / "int8.onnx")
    compiled = atonc.compile(tmp_path / "int8.onnx", state=("window_after=window",), verify=True).compiled
    assert [one.size_bytes for one in compiled.program.states] == [2 * INPUTS]


def test_the_cell_runs_on_the_npu(made: Any) -> None:
    compiled = atonc.compile(made[1] / "int8.onnx", state=("auto",), verify=True)
    assert {layer.kind for layer in compiled.layers if layer.on == "CPU"} <= {"quantize", "dequantize"}
    assert compiled.compiled.cost.latency_ms < 0.1


def test_many_frames_stay_near_float(made: Any) -> None:
    """Each from its own states: what one frame loses goes on into the next."""
    with np.load(made[1] / "frames.npz") as stored:
        feeds = [{"x": x.astype(np.float32)} for x in stored["x"]]
    zeros = np.zeros((1, 1, HIDDEN, 2), np.float32)
    exact = outputs(load(made[2]), [{**f, "state": zeros} for f in feeds], "exact", ["mask"],
                    Carried({"state": "state_after"}, frozenset([0])))  # fmt: skip
    ends = {name: zeros[..., 0] for name in STEADY}
    coded = outputs(onnx.ModelProto.FromString(made[0].model), [{**f, **ends} for f in feeds], "coded", ["mask"],
                    Carried(STEADY, frozenset([0])))  # fmt: skip
    a, b = np.array(exact, np.float64), np.array(coded, np.float64)
    late = slice(FRAMES // 2, None)
    assert 10 * np.log10(np.square(a[late]).sum() / np.square(a[late] - b[late]).sum()) > 25
    assert made[0].outputs_db.keys() == {"mask"} and made[0].outputs_db["mask"] > 25


def test_ranges_are_those_of_states_as_they_evolve(tmp_path: Path) -> None:
    """s = 0.95 s + x grows twenty times beyond a frame; samples alone would never show that."""
    b = Build(0)
    weights = b.constant("w", np.eye(8) + b.random.normal(0, 0.01, (8, 8)))
    b.node("Mul", ["s", b.constant("keep", 0.95)], "kept")
    b.node("Add", ["kept", b.node("MatMul", ["x", weights], "new")], "s_out")
    b.node("Relu", ["s_out"], "y")
    path = save(tmp_path, b.model({"x": (1, 8), "s": (1, 8)}, ["y", "s_out"]))
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).uniform(0, 1, (100, 8)))
    result = atonc.quantize(path, tmp_path / "d.npz", state=("auto",), objective="accuracy")
    model = onnx.ModelProto.FromString(result.model)
    values = {p.name: numpy_helper.to_array(p) for p in model.graph.initializer}
    assert values["s_scale"] * 255 > 8 and values["s_scale"] == values["s_out_scale"]


# ------------------------------------------------------------------------------------------------------- the parts


def test_states_are_named_as_the_compiler_names_them(tmp_path: Path) -> None:
    graph = FloatGraph(load(save(tmp_path, denoiser())))
    assert declared(graph, ("1=1",)) == {"state": "state_after"}
    with pytest.raises(InputError, match="no output"):
        declared(graph, ("nothing=state",))
    with pytest.raises(InputError, match="shape"):
        declared(graph, ("mask=state",))


def test_a_state_that_is_read_in_another_order_stays_whole(tmp_path: Path) -> None:
    for order, apart in (([0, 1], True), ([1, 0], False)):
        b = Build(0)
        first, second = "first", "second"
        b.constants.append(numpy_helper.from_array(np.array([2, 2], np.int64), "halves"))
        b.nodes.append(onnx.helper.make_node("Split", ["s", "halves"], [first, second], "split", axis=1))
        for half in (first, second):
            b.node("Relu", [b.node("Transpose", [half], f"{half}_t", perm=order)], f"{half}_r")
        b.node("Concat", [f"{first}_r", f"{second}_r"], "s_after", axis=1)
        b.node("Add", ["x", f"{first}_r"], "y")
        model = shape_inference.infer_shapes(b.model({"x": (2, 2), "s": (2, 4)}, ["y", "s_after"]))
        found = unpack(model, {"s": "s_after"})[1]
        assert found == (STEADY if apart else {"s": "s_after"})


def test_what_hides_products_and_states_is_undone(tmp_path: Path) -> None:
    """A sum in a Gemm, a sum with zeros, a convolution that cuts frames: the same values, other nodes."""
    b = Build(0)
    w = b.constant("basis", b.random.normal(0, 0.1, (6, 1, 32)))
    y = b.node("Conv", ["x", w], "frames", strides=[16], kernel_shape=[32])
    b.constants.append(numpy_helper.from_array(np.array([4, 6], np.int64), "flat"))
    rows = b.node("Reshape", [y, "flat"], "rows")
    products = [b.node("MatMul", [rows, b.constant(n, b.random.normal(0, 1, (6, 5)))], f"{n}p") for n in ("u", "v")]
    total = b.node("Add", products, "sum")
    b.node("Add", [total, b.constant("none", np.zeros((1, 1)))], "z")
    model = b.model({"x": (1, 1, 80)}, ["z"], opset=17)
    made = load(save(tmp_path, model))
    gemms = [node for node in made.graph.node if node.op_type == "Gemm" and len(node.input) > 2]
    kernel = next(onnx.helper.get_node_attr_value(n, "kernel_shape") for n in made.graph.node if n.op_type == "Conv")
    assert not gemms and kernel == [2] and [n.op_type for n in made.graph.node].count("Add") == 1
    feeds = [{"x": np.random.default_rng(k).normal(size=(1, 1, 80)).astype(np.float32)} for k in range(3)]
    again = tidy(made, "again")  # as with states that were taken apart
    for one, *others in zip(*(outputs(each, feeds) for each in (model, made, again)), strict=True):
        assert all(np.allclose(one[0], other[0], atol=1e-5) for other in others)


def test_frames_that_judge_are_runs_apart_from_those_that_teach() -> None:
    one = choose_frames([1000], 100)
    assert max(one.learn) < 500 <= min(one.held) and len(one.learn) == 50
    assert one.starts == {0, 25} and list(one.held[:25]) == list(range(500, 525))
    two = choose_frames([30, 10, 30], 400)
    assert set(two.held) == set(range(30, 40)) and set(two.learn) == {*range(30), *range(40, 70)}
    assert two.starts == {0}


def test_sequences_on_an_axis_of_their_own_begin_anew(tmp_path: Path) -> None:
    path = save(tmp_path, denoiser())
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(0).normal(size=(4, 10, 1, 1, INPUTS)))
    result = atonc.quantize(path, tmp_path / "d.npz", state=("state_after=state",), objective="accuracy")
    assert (result.samples, result.held_samples) == (40, 20)


def test_data_without_frames_are_refused(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="with frames") as found:
        atonc.quantize(save(tmp_path, denoiser()), tmp_path / "none", state=("state_after=state",))
    assert found.value.remedy


def test_a_cell_and_its_gate_have_scales_of_their_own(tmp_path: Path) -> None:
    model, carried = unpack(tidy(load(save(tmp_path, denoiser())), "m"), {"state": "state_after"})
    graph = FloatGraph(own_sums(tidy(write_out(model)[0], "m")))
    cells = cells_of(graph)
    plan = make_plan(graph, True, (), carried)
    assert set(plan.same) >= set(carried.items())
    gates = [node.output[0] for node in graph.nodes if node.op_type == "Add" and node.output[0].endswith("/gate")]
    assert len(gates) == 1 and not cells.intersection(gates) and cells
    assert Tuning(cells=16.0).name == "cells up to 16"


def test_tokens_stay_whole_numbers_beside_states(tmp_path: Path) -> None:
    b = Build(7)
    b.node("Gather", [b.constant("table", np.arange(12, dtype=np.float32).reshape(6, 2)), "token"], "row")
    b.node("Add", ["row", "sum_in"], "sum_out")
    model = b.model({"token": (1,), "sum_in": (1, 2)}, ["sum_out"], opset=17)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    np.savez(tmp_path / "tokens.npz", token=np.arange(20)[:, None] % 6)
    graph = FloatGraph(shape_inference.infer_shapes(model))
    found = read_frames(tmp_path / "tokens.npz", graph, {"sum_in": "sum_out"}, QuantizeOptions(samples=20))
    assert {feed["token"].dtype for feed in found.feeds} == {np.dtype(np.int32)}
    assert [int(feed["token"][0]) for feed in found.feeds] == [k % 6 for k in range(20)]
    assert found.feeds[3]["sum_in"].tolist() == [[0 + 2 + 4, 1 + 3 + 5]]
