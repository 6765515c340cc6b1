"""ScatterND with constant indices, If whose condition is known, Loop that unrolls: as onnxruntime computes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from atonc.compiler.compare.reference import run_onnx
from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.onnx_control import MOST_TURNS
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.ops import run_graph
from atonc.compiler.request.options import Options
from atonc.machine.base.errors import AtoncError, ModelError, UnsupportedError
from tests.frontends.onnx_models import Net

SHAPE = (2, 3, 4)
FLOAT, BOOL, INT64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64


def value(name: str, shape: Any = None, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], inputs: list[Any], outputs: list[str], **constants: Any) -> bytes:
    stored = [numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, [value(name) for name in outputs], stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return bytes(made.SerializeToString())


def same_as_onnxruntime(data: bytes, path: Path, **shapes: tuple[int, ...]) -> None:
    pytest.importorskip("onnxruntime", exc_type=ImportError)
    (file := path / "model.onnx").write_bytes(data)
    rng = np.random.default_rng(2)
    feed = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    graph = read_onnx(data)
    expected, got = run_onnx(file, feed), run_graph(graph, feed)
    assert len(graph.outputs) == len(expected)
    for name, wanted in expected.items():
        found = got[graph.aliases.get(name, name)]
        assert found.shape == wanted.shape and np.allclose(found, wanted, atol=1e-6)


# ------------------------------------------------------------------------------------------------------- scattering


def grid(*ranges: range) -> Any:
    return np.stack(np.meshgrid(*map(np.array, ranges), indexing="ij"), -1).astype(np.int64)


SCATTERED = {
    "a block inside": (grid(range(2), range(1, 3), range(1, 3)), True),
    "whole rows": (np.array([[1]], np.int64), True),
    "from the end": (np.array([[0, -1], [0, -2]], np.int64)[::-1], True),
    "the whole": (grid(range(2), range(3)), True),
    "places apart": (np.array([[0, 0, 1], [1, 2, 3], [0, 2, 2]], np.int64), False),
    "a block in another order": (np.array([[1], [0]], np.int64), False),
}


@pytest.mark.parametrize("name", SCATTERED)
def test_values_are_put_where_others_were(name: str, tmp_path: Path) -> None:
    indices, as_slices = SCATTERED[name]
    new = indices.shape[:-1] + SHAPE[indices.shape[-1] :]
    nodes = [helper.make_node("ScatterND", ["x", "i", "u"], ["y"])]
    data = model(nodes, [value("x", SHAPE), value("u", new)], ["y"], i=indices)
    same_as_onnxruntime(data, tmp_path, x=SHAPE, u=new)
    kinds = {op.kind for op in read_onnx(data).ops}
    assert ("gather" in kinds) != as_slices


def test_elements_along_an_axis(tmp_path: Path) -> None:
    indices = np.array([[[0], [2], [3]], [[1], [1], [-1]]], np.int64)
    nodes = [helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=2)]
    data = model(nodes, [value("x", SHAPE), value("u", indices.shape)], ["y"], i=indices)
    same_as_onnxruntime(data, tmp_path, x=SHAPE, u=indices.shape)


def scattering(indices: Any, new: tuple[int, ...], **attrs: Any) -> bytes:
    nodes = [helper.make_node("ScatterND", ["x", "i", "u"], ["y"], **attrs)]
    return model(nodes, [value("x", SHAPE), value("u", new)], ["y"], i=np.array(indices, np.int64))


@pytest.mark.parametrize(
    ("data", "kind", "what"),
    [
        (scattering([[0], [0]], (2, 3, 4)), UnsupportedError, "twice"),
        (scattering([[2]], (1, 3, 4)), ModelError, "indices 2 to 2"),
        (scattering([[0]], (1, 4, 3)), ModelError, "at indices"),
        (scattering([[0, 0, 0, 0]], (1,)), ModelError, "with indices"),
        (scattering([[0]], (1, 3, 4), reduction="add"), UnsupportedError, "reduction add"),
    ],
)
def test_what_cannot_be_scattered_is_refused(data: bytes, kind: type[AtoncError], what: str) -> None:
    with pytest.raises(kind, match=what):
        read_onnx(data)


def test_indices_of_the_run_are_refused() -> None:
    nodes = [helper.make_node("ScatterND", ["x", "i", "u"], ["y"])]
    data = model(nodes, [value("x", SHAPE), value("i", (1, 1), INT64), value("u", (1, 3, 4))], ["y"])
    with pytest.raises(UnsupportedError, match="indices computed at run time") as found:
        read_onnx(data)
    assert found.value.remedy


def test_codes_stay_codes_and_run_on_the_chip() -> None:
    net = Net(0, opset=14)
    x, u = net.qdq("x", 0.02), net.qdq("u", 0.02)
    made = net.node("ScatterND", [x, net.const(grid(range(1), range(1, 3))[0], "i"), u])[0]
    graph = read_onnx(net.model({"x": (1, 4, 8), "u": (2, 8)}, [net.qdq(made, 0.02)]))
    inside = [tensor for name, tensor in graph.tensors.items() if name not in (*graph.inputs, *graph.outputs)]
    assert not any(tensor.is_float for tensor in inside)
    compiled = compile_graph(graph)
    assert compiled.report is not None


# ------------------------------------------------------------------------------------------------------- branches


def branch(name: str, nodes: list[Any], output: str, **constants: Any) -> Any:
    stored = [numpy_helper.from_array(np.asarray(data), key) for key, data in constants.items()]
    return helper.make_graph(nodes, name, [], [value(output)], stored)


def choosing(rows: int) -> bytes:
    """Two rows or fewer are doubled and, again by an If inside, less `b`; more are negated."""
    inner = helper.make_node(
        "If", ["yes"], ["r"],
        then_branch=branch("t2", [helper.make_node("Sub", ["d", "b"], ["s"])], "s"),
        else_branch=branch("e2", [helper.make_node("Identity", ["d"], ["s"])], "s"),
    )  # fmt: skip
    doubled = helper.make_node("Mul", ["x", "two"], ["d"])
    then = branch("t", [doubled, inner], "r", two=np.float32(2), yes=np.array(True))
    other = branch("e", [helper.make_node("Neg", ["x"], ["d"])], "d")
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "first"], ["rows"]),
        helper.make_node("LessOrEqual", ["rows", "most"], ["few"]),
        helper.make_node("If", ["few"], ["chosen"], then_branch=then, else_branch=other),
        helper.make_node("Add", ["chosen", "b"], ["y"]),
    ]
    return model(nodes, [value("x", (rows, 3))], ["y"], first=np.int64(0), most=np.int64(2), b=np.float32([1, 2, 3]))


@pytest.mark.parametrize("rows", [2, 3])
def test_a_condition_that_follows_from_shapes(rows: int, tmp_path: Path) -> None:
    same_as_onnxruntime(choosing(rows), tmp_path, x=(rows, 3))
    kinds = [op.kind for op in read_onnx(choosing(rows)).ops]
    assert ("neg" in kinds) == (rows == 3) and ("mul" in kinds) == (rows == 2)


def by_rate() -> bytes:
    sides = {"then_branch": branch("t", [helper.make_node("Neg", ["x"], ["a"])], "a"),
             "else_branch": branch("e", [helper.make_node("Abs", ["x"], ["a"])], "a")}  # fmt: skip
    asks = helper.make_node("Equal", ["sr", "r16"], ["same"], "asks")
    nodes = [asks, helper.make_node("If", ["same"], ["y"], "if", **sides)]
    return model(nodes, [value("x", (1, 4)), value("sr", (), INT64)], ["y"], r16=np.int64(16000))


def test_a_condition_of_the_run_is_refused_and_may_be_given() -> None:
    with pytest.raises(UnsupportedError, match="computed at run time") as found:
        read_onnx(by_rate())
    assert found.value.where == "if" and "--fix-parametric-shapes" in found.value.remedy
    for rate, kind in ((16000, "neg"), (8000, "abs")):
        graph = read_onnx(by_rate(), fixed_shapes={"sr": rate})
        assert graph.inputs == ("x",) and [op.kind for op in graph.ops] == [kind]
        assert graph.outputs == ("y",) and graph.aliases["if/a"] == "y"


def test_results_keep_their_names_through_nodes_that_only_pass_them_on() -> None:
    """Results of a Loop, and of Identity, where a later node reads what is a result as well."""
    loop = ModelProto.FromString(looping(2)).graph.node[0]
    nodes = [loop, helper.make_node("Identity", ["y"], ["kept"]), helper.make_node("Neg", ["kept"], ["n"]),
             helper.make_node("Identity", ["n"], ["last"])]  # fmt: skip
    data = model(nodes, [value("x", (1, 3))], ["kept", "all", "y", "last"], m=np.int64(2))
    graph = read_onnx(data)
    assert graph.outputs == ("kept", "all", "y", "last")
    assert [op.outputs[0] for op in graph.ops if op.kind in ("neg", "identity")] == ["last", "y"]


def test_cutting_keeps_what_a_branch_takes_from_outside() -> None:
    graph = read_onnx(choosing(2), cut_outputs=["chosen"])
    assert len(graph.outputs) == 1 and "sub" in [op.kind for op in graph.ops]


# ------------------------------------------------------------------------------------------------------- loops


def looping(turns: Any, last: int = 1000, goes_on: Any = None) -> bytes:
    """v = v * 0.5 + k in turn k until `last`; every v is shown, too."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["k"], ["kf"], to=FLOAT),
            helper.make_node("Mul", ["v", "half"], ["h"]),
            helper.make_node("Add", ["h", "kf"], ["w"]),
            helper.make_node("Less", ["k", "last"], ["more"]),
            helper.make_node("Identity", ["w"], ["seen"]),
        ],
        "body",
        [value("k", (), INT64), value("go", (), BOOL), value("v", (1, 3))],
        [value("more", (), BOOL), value("w", (1, 3)), value("seen", (1, 3))],
        [numpy_helper.from_array(np.float32(0.5), "half"), numpy_helper.from_array(np.int64(last), "last")],
    )
    constants = {} if turns is None else {"m": np.int64(turns)}
    if goes_on is not None:
        constants["c"] = np.array(goes_on)
    names = ["m" if turns is not None else "", "c" if goes_on is not None else "", "x"]
    nodes = [helper.make_node("Loop", names, ["y", "all"], "loop", body=body)]
    return model(nodes, [value("x", (1, 3))], ["y", "all"], **constants)


@pytest.mark.parametrize(("turns", "last", "goes_on"), [(3, 1000, None), (7, 3, True), (None, 4, True), (1, 0, True)])
def test_a_loop_of_known_turns(turns: Any, last: int, goes_on: Any, tmp_path: Path) -> None:
    same_as_onnxruntime(looping(turns, last, goes_on), tmp_path, x=(1, 3))


def test_a_loop_compiles_and_verifies() -> None:
    compiled = compile_graph(read_onnx(looping(3)), Options(allow_float=True))
    assert compiled.report is not None


def nested(outer: int, inner: int) -> bytes:
    """Loops without names in a loop: v = v * 0.5 + 1 in each turn of the inner one."""

    def body(inside: list[Any], number: int) -> Any:
        k, go, v, more, w = (f"{name}{number}" for name in ("k", "go", "v", "more", "w"))
        nodes = [*inside, helper.make_node("Identity", [go], [more])]
        given = [value(k, (), INT64), value(go, (), BOOL), value(v, (1, 3))]
        return helper.make_graph(nodes, f"b{number}", given, [value(more, (), BOOL), value(w, (1, 3))])

    sums = [helper.make_node("Mul", ["v2", "half"], ["h2"]), helper.make_node("Add", ["h2", "one"], ["w2"])]
    loop = helper.make_node("Loop", ["n", "", "v1"], ["w1"], body=body(sums, 2))
    nodes = [helper.make_node("Loop", ["m", "", "x"], ["y"], body=body([loop], 1))]
    constants = {"m": np.int64(outer), "n": np.int64(inner), "half": np.float32(0.5), "one": np.float32(1)}
    return model(nodes, [value("x", (1, 3))], ["y"], **constants)


def test_loops_in_loops_are_written_out_with_one_bound_for_all(tmp_path: Path) -> None:
    same_as_onnxruntime(nested(3, 4), tmp_path, x=(1, 3))
    with pytest.raises(UnsupportedError, match=f"more than {MOST_TURNS} turns"):
        read_onnx(nested(MOST_TURNS // 2, 3))


@pytest.mark.parametrize(
    ("data", "what"), [(looping(None), "more than"), (looping(MOST_TURNS + 1), "more than"), (looping(0), "no turn")]
)
def test_loops_without_a_bound_are_refused(data: bytes, what: str) -> None:
    with pytest.raises(UnsupportedError, match=what) as found:
        read_onnx(data)
    assert found.value.where == "loop" and found.value.rule and found.value.remedy


def test_turns_of_the_run_are_refused() -> None:
    inside = [helper.make_node("Identity", ["go"], ["more"]), helper.make_node("Neg", ["v"], ["w"])]
    body = helper.make_graph(inside, "b",
                             [value("k", (), INT64), value("go", (), BOOL), value("v", (1, 3))],
                             [value("more", (), BOOL), value("w", (1, 3))])  # fmt: skip
    nodes = [helper.make_node("Loop", ["m", "", "x"], ["y"], "loop", body=body)]
    with pytest.raises(UnsupportedError, match="number of turns computed at run time"):
        read_onnx(model(nodes, [value("x", (1, 3)), value("m", (), INT64)], ["y"]))


def test_a_branch_that_is_no_graph_is_refused() -> None:
    nodes = [helper.make_node("If", ["c"], ["y"], "if", then_branch=1, else_branch=2)]
    with pytest.raises(ModelError):
        read_onnx(model(nodes, [value("x", (1, 3))], ["y"], c=np.array(True)))


# ---------------------------------------------------------------------------------------------------------- scanning


def scanned(**attributes: Any) -> bytes:
    """y: sums so far of x along its axis 1, with z as it was before each of them; two of each input at a time."""
    nodes = [helper.make_node("Add", ["s", "a"], ["t"]), helper.make_node("Sub", ["t", "b"], ["w"])]
    body = helper.make_graph(nodes, "body", [value(n, (2, 4)) for n in "sab"], [value(n, (2, 4)) for n in "tw"])
    node = helper.make_node("Scan", ["s0", "x", "z"], ["last", "y"], body=body, num_scan_inputs=2, **attributes)
    inputs = [value("s0", (2, 4)), value("x", (2, 5, 4)), value("z", (5, 2, 4))]
    return model([node], inputs, ["last", "y"])


@pytest.mark.parametrize("back", [0, 1])
def test_a_scan_is_written_out(back: int, tmp_path: Path) -> None:
    data = scanned(scan_input_axes=[1, 0], scan_input_directions=[back, 0],
                   scan_output_axes=[-1], scan_output_directions=[1 - back])  # fmt: skip
    same_as_onnxruntime(data, tmp_path, s0=(2, 4), x=(2, 5, 4), z=(5, 2, 4))


def test_a_scan_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ModelError, match="values at once"):
        read_onnx(scanned(scan_input_axes=[0, 0]))  # 2 places of one, 5 of the other
    with pytest.raises(ModelError, match="axis 3"):
        read_onnx(scanned(scan_input_axes=[3, 0]))


def test_parts_without_values_are_left_out(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Split", ["x", "sizes"], ["a", "none"], axis=2),
        helper.make_node("Neg", ["none"], ["nothing"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Concat", ["b", "nothing"], ["y"], axis=2),
    ]
    data = model(nodes, [value("x", SHAPE)], ["y"], sizes=np.array([4, 0], np.int64))
    same_as_onnxruntime(data, tmp_path, x=SHAPE)
    assert [op.kind for op in read_onnx(data).ops] == ["slice", "relu"]
