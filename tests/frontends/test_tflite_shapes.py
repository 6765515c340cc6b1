"""Files with a free batch and shapes that are computed while the model runs, as Keras writes transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ops import run_graph
from atonc.machine.base.errors import AtoncError
from tests.frontends.tflite_models import O, T, build

ROWS, WIDTH = 6, 8


def numbers(name: str, *values: int) -> T:
    return T(name, (len(values),), "int32", data=list(values))


def number(name: str, value: int) -> T:
    return T(name, (), "int32", data=value)


def block() -> bytes:
    """A dense layer over the last axis: rows and batch are multiplied for it and taken apart again behind it."""
    rng = np.random.default_rng(1)
    tensors = [
        T("x", (1, ROWS, WIDTH), scale=0.02, zero=3, free=(0,)),
        T("shape", (3,), "int32"),
        numbers("first", 0), numbers("one", 1), numbers("front", 0, 1), numbers("last", 2), numbers("width", WIDTH),
        T("batch", (), "int32"),
        number("rest", -1), number("heads", 2), number("depth", WIDTH // 2),
        T("as heads", (4,), "int32"),
        T("front sizes", (2,), "int32"), T("rows", (), "int32"),
        T("last size", (1,), "int32"), T("columns", (), "int32"),
        T("matrix", (2,), "int32"), T("back", (3,), "int32"),
        T("flat", (1, 1), scale=0.02, zero=3, free=(0, 1)),
        T("w", (WIDTH, WIDTH), scale=0.01, data=rng.integers(-127, 128, (WIDTH, WIDTH))),
        T("dense", (1, WIDTH), scale=0.05, zero=-4, free=(0,)),
        T("stacked", (1, 1, 1), scale=0.05, zero=-4, free=(0, 1, 2)),
        T("split", (1, 1, 2, WIDTH // 2), scale=0.05, zero=-4, free=(0, 1)),
        T("perm", (4,), "int32", data=[0, 2, 1, 3]),
        T("y", (1, 2, 1, WIDTH // 2), scale=0.05, zero=-4, free=(0, 2)),
    ]  # fmt: skip
    gather = ("GatherOptions", {0: ("i", 0)})
    ops = [
        O("SHAPE", ["x"], ["shape"], "ShapeOptions", {0: ("b", 2)}),
        O("STRIDED_SLICE", ["shape", "first", "one", "one"], ["batch"], "StridedSliceOptions", {4: ("i", 1)}),
        O("PACK", ["batch", "rest", "heads", "depth"], ["as heads"], "PackOptions", {0: ("i", 4)}),
        O("GATHER", ["shape", "front"], ["front sizes"], *gather),
        O("REDUCE_PROD", ["front sizes", "first"], ["rows"], "ReducerOptions"),
        O("CONCATENATION", ["front sizes", "width"], ["back"], "ConcatenationOptions"),
        O("GATHER", ["shape", "last"], ["last size"], *gather),
        O("REDUCE_PROD", ["last size", "first"], ["columns"], "ReducerOptions"),
        O("PACK", ["rows", "columns"], ["matrix"], "PackOptions", {0: ("i", 2)}),
        O("RESHAPE", ["x", "matrix"], ["flat"]),
        O("FULLY_CONNECTED", ["flat", "w", "-"], ["dense"], "FullyConnectedOptions"),
        O("RESHAPE", ["dense", "back"], ["stacked"]),
        O("RESHAPE", ["stacked", "as heads"], ["split"]),
        O("TRANSPOSE", ["split", "perm"], ["y"]),
    ]
    return build(tensors, ops, ["x"], ["y"])


def test_shapes_follow_from_the_inputs() -> None:
    graph = read_tflite(block())
    assert [op.kind for op in graph.ops] == ["reshape", "dense", "reshape", "reshape", "transpose"]
    assert graph.tensors["flat"].shape == graph.tensors["dense"].shape == (ROWS, WIDTH)
    assert graph.tensors["y"].shape == (1, 2, ROWS, WIDTH // 2)


def test_equal_to_the_interpreter(tmp_path: Path) -> None:
    interpreter_of = pytest.importorskip("ai_edge_litert.interpreter")
    path = tmp_path / "block.tflite"
    path.write_bytes(block())
    x = np.random.default_rng(2).integers(-128, 128, (1, ROWS, WIDTH)).astype(np.int8)
    kinds = interpreter_of.OpResolverType
    interpreter = interpreter_of.Interpreter(str(path), experimental_op_resolver_type=kinds.BUILTIN_REF)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    expected = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    assert np.array_equal(run_graph(read_tflite(block()), {"x": x})["y"], expected)


def test_compiles_and_verifies() -> None:
    compiled = compile_graph(read_tflite(block()))
    assert not compiled.choices.reasons
    assert compiled.report is not None


@pytest.mark.parametrize(
    ("code", "extra", "free", "fields", "expected"),
    [
        ("TILE", [numbers("by", 1, 3)], (1,), {}, (1, 12)),
        ("EXPAND_DIMS", [number("by", 1)], (0, 1, 2), {}, (1, 1, 4)),
        ("BROADCAST_TO", [numbers("by", 5, 4)], (0,), {}, (5, 4)),
        ("RESHAPE", [numbers("by", 2, -1)], (0, 1), {}, (2, 2)),
    ],
)
def test_placeholders_of_other_operators(code, extra, free, fields, expected) -> None:
    y = T("y", (1,) * len(expected), scale=0.1, free=free)
    if code == "BROADCAST_TO":
        y.shape = (1, 4)
    ops = [O(code, ["x", "by"], ["y"])]
    graph = read_tflite(build([T("x", (1, 4), scale=0.1, free=(0,)), *extra, y], ops, ["x"], ["y"]))
    assert graph.tensors["y"].shape == expected


@pytest.mark.parametrize("axis", [1, -1])
def test_placeholders_of_parts(axis: int) -> None:
    """The axis comes first, the values that are cut behind it."""
    parts = [T(name, (1, 1), scale=0.1, free=(0, 1)) for name in ("y", "z")]
    ops = [O("SPLIT", ["by", "x"], ["y", "z"], "SplitOptions", {0: ("i", 2)})]
    graph = read_tflite(build([number("by", axis), T("x", (1, 4), scale=0.1), *parts], ops, ["x"], ["y", "z"]))
    assert graph.tensors["y"].shape == graph.tensors["z"].shape == (1, 2)


@pytest.mark.parametrize("wanted", [(-1, -1), (3, -1), (7,), (-2, 2), (0, -1)])
def test_impossible_shapes_are_refused(wanted) -> None:
    free = tuple(range(len(wanted)))
    tensors = [T("x", (1, 4), scale=0.1), numbers("by", *wanted), T("y", (1,) * len(wanted), scale=0.1, free=free)]
    with pytest.raises(AtoncError):
        read_tflite(build(tensors, [O("RESHAPE", ["x", "by"], ["y"])], ["x"], ["y"]))
