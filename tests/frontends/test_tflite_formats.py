"""TFLite operators whose tensors have different scales: codes are copied as TFLite's kernels do, or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.compiler.compare.reference import run_tflite
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.frontends.tflite_ops import BLIND, REFUSING
from atonc.compiler.ops import run_graph
from atonc.machine.base.errors import AtoncError, InputError, UnsupportedError
from tests.frontends.tflite_models import O, T, build

pytest.importorskip("ai_edge_litert", exc_type=ImportError)

SHAPE = (1, 6, 8, 4)
POOL = {0: ("b", 1), 1: ("i", 2), 2: ("i", 2), 3: ("i", 2), 4: ("i", 2)}


def integers(name: str, values: Any) -> T:
    return T(name, np.shape(values), "int32", data=np.array(values))


# operands after the first input, shapes of the results, options
Case = tuple[list[T], list[tuple[int, ...]], str, dict[int, tuple[str, Any]]]
PADS = integers("pads", [[0, 0], [1, 1], [2, 1], [0, 0]])
REDUCED: Case = ([integers("axes", [1, 2])], [(1, 1, 1, 4)], "ReducerOptions", {0: ("B", 1)})
CASES: dict[str, Case] = {
    "RESHAPE": ([integers("s", [1, 48, 4])], [(1, 48, 4)], "ReshapeOptions", {}),
    "SQUEEZE": ([], [(6, 8, 4)], "SqueezeOptions", {}),
    "TRANSPOSE": ([integers("s", [0, 2, 1, 3])], [(1, 8, 6, 4)], "TransposeOptions", {}),
    "SPLIT_V": (
        [integers("s", [1, 3]), integers("a", 3)],
        [(1, 6, 8, 1), (1, 6, 8, 3)],
        "SplitVOptions",
        {0: ("i", 2)},
    ),
    "PAD": ([PADS], [(1, 8, 11, 4)], "PadOptions", {}),
    "PADV2": ([PADS, T("v", (), scale=0.05, zero=7, data=33)], [(1, 8, 11, 4)], "PadV2Options", {}),
    "SLICE": ([integers("b", [0, 1, 2, 0]), integers("e", [1, 3, 4, 4])], [(1, 3, 4, 4)], "SliceOptions", {}),
    "STRIDED_SLICE": (
        [integers("b", [0, 1, 2, 0]), integers("e", [1, 6, 8, 4]), integers("st", [1, 2, 1, 1])],
        [(1, 3, 6, 4)],
        "StridedSliceOptions",
        {},
    ),
    "TILE": ([integers("s", [1, 2, 1, 1])], [(1, 12, 8, 4)], "TileOptions", {}),
    "BROADCAST_TO": ([integers("s", [3, 6, 8, 4])], [(3, 6, 8, 4)], "BroadcastToOptions", {}),
    "GATHER": ([integers("s", [2, 0, 5])], [(1, 3, 8, 4)], "GatherOptions", {0: ("i", 1)}),
    "GATHER_ND": ([integers("s", [[0, 2], [0, 5]])], [(2, 8, 4)], "GatherNdOptions", {}),
    "REVERSE_V2": ([integers("s", [1])], [SHAPE], "ReverseV2Options", {}),
    "MAX_POOL_2D": ([], [(1, 3, 4, 4)], "Pool2DOptions", POOL | {5: ("b", 3)}),
    "AVERAGE_POOL_2D": ([], [(1, 3, 4, 4)], "Pool2DOptions", POOL | {5: ("b", 1)}),
    "RESIZE_BILINEAR": ([integers("s", [12, 16])], [(1, 12, 16, 4)], "ResizeBilinearOptions", {}),
    "RESIZE_NEAREST_NEIGHBOR": ([integers("s", [12, 16])], [(1, 12, 16, 4)], "ResizeNearestNeighborOptions", {}),
    "SPACE_TO_DEPTH": ([], [(1, 3, 4, 16)], "SpaceToDepthOptions", {0: ("i", 2)}),
    "DEPTH_TO_SPACE": ([], [(1, 12, 16, 1)], "DepthToSpaceOptions", {0: ("i", 2)}),
    "MINIMUM": ([T("z", SHAPE, scale=0.013, zero=11)], [SHAPE], "MaximumMinimumOptions", {}),
    "MAXIMUM": ([T("z", SHAPE, scale=0.013, zero=11)], [SHAPE], "MaximumMinimumOptions", {}),
    "EXPAND_DIMS": ([integers("s", [0])], [(1, *SHAPE)], "ExpandDimsOptions", {}),
    "PACK": ([T("z", SHAPE, scale=0.02, zero=-5)], [(2, *SHAPE)], "PackOptions", {0: ("i", 2)}),
    "UNPACK": ([], [(1, 8, 4)] * 6, "UnpackOptions", {0: ("i", 6), 1: ("i", 1)}),
    "MIRROR_PAD": ([PADS], [(1, 8, 11, 4)], "MirrorPadOptions", {}),
    "REDUCE_MAX": REDUCED,
    "REDUCE_MIN": REDUCED,
    "SPACE_TO_BATCH_ND": (
        [integers("b", [2, 2]), integers("p", [[0, 0], [0, 0]])],
        [(4, 3, 4, 4)],
        "SpaceToBatchNDOptions",
        {},
    ),
    "BATCH_TO_SPACE_ND": (
        [integers("b", [1, 1]), integers("p", [[0, 0], [0, 0]])],
        [SHAPE],
        "BatchToSpaceNDOptions",
        {},
    ),
}
ELSEWHERE = {"SPLIT", "SELECT", "SELECT_V2"}  # they have tests of their own


def model(code: str, dtype: str = "int8", x: T | None = None) -> bytes:
    """One operator whose result has another scale than its operand."""
    others, shapes, options, fields = CASES[code]
    shift = 0 if dtype == "int8" else 128
    shifted = [T(t.name, t.shape, dtype, t.scale, t.zero + shift, data=t.data) if t.scale else t for t in others]
    first = x or T("x", SHAPE, dtype, 0.02, -5 + shift)
    results = [T(f"y{k}", shape, dtype, 0.05, 7 + shift) for k, shape in enumerate(shapes)]
    operands = [first, *shifted]
    live = [t.name for t in operands if t.data is None]
    op = O(code, [t.name for t in operands], [t.name for t in results], options, fields)
    return build([*operands, *results], [op], live, [t.name for t in results])


def compare(data: bytes, folder: Path, compiled: bool = False) -> None:
    """Exact arithmetic (or the program) and TFLite give the same codes."""
    path = folder / "model.tflite"
    path.write_bytes(data)
    graph, rng = read_tflite(data), np.random.default_rng(3)
    inputs = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        low, high = (0, 1) if tensor.dtype == "bool" else tensor.code_range
        inputs[name] = rng.integers(low, high + 1, tensor.shape).astype(tensor.dtype)
    found = atonc.run(atonc.compile(path), inputs) if compiled else run_graph(graph, inputs)
    for name, expected in run_tflite(path, inputs).items():
        assert found[name].shape == expected.shape
        assert np.array_equal(found[name], expected), name


def test_every_kind_has_a_case() -> None:
    assert set(CASES) | ELSEWHERE == {*BLIND, *REFUSING}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("code", sorted({*BLIND} - ELSEWHERE))
def test_codes_are_copied(code: str, dtype: str, tmp_path: Path) -> None:
    compare(model(code, dtype), tmp_path)


@pytest.mark.parametrize("code", ["MAX_POOL_2D", "TRANSPOSE", "PADV2", "MAXIMUM"])
def test_programs_copy_codes(code: str, tmp_path: Path) -> None:
    compare(model(code, "uint8"), tmp_path, compiled=True)


@pytest.mark.parametrize("code", REFUSING)
def test_what_tflite_refuses_is_refused(code: str, tmp_path: Path) -> None:
    data = model(code)
    (tmp_path / "model.tflite").write_bytes(data)
    with pytest.raises(UnsupportedError, match=f"{code} between tensors of different formats"):
        read_tflite(data)
    with pytest.raises(InputError, match="TFLite cannot run it"):
        run_tflite(tmp_path / "model.tflite", [np.zeros(SHAPE, np.int8)] * (2 if code == "PACK" else 1))


def test_a_scale_on_one_side_only_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="int8 without a scale"):
        read_tflite(model("RESHAPE", x=T("x", SHAPE)))


def test_split_gives_every_result_its_own_format(tmp_path: Path) -> None:
    tensors = [integers("axis", 3), T("x", SHAPE, scale=0.02, zero=-5)]
    tensors += [T("a", (1, 6, 8, 2), scale=0.02, zero=-5), T("b", (1, 6, 8, 2), scale=0.05, zero=7)]
    op = O("SPLIT", ["axis", "x"], ["a", "b"], "SplitOptions", {0: ("i", 2)})
    compare(build(tensors, [op], ["x"], ["a", "b"]), tmp_path)


@pytest.mark.parametrize("code", ["SELECT", "SELECT_V2"])
def test_select_takes_codes(code: str, tmp_path: Path) -> None:
    tensors = [T("c", SHAPE, "bool"), T("x", SHAPE, scale=0.02, zero=-5), T("z", SHAPE, scale=0.03, zero=4)]
    tensors.append(T("y", SHAPE, scale=0.05, zero=7))
    compare(build(tensors, [O(code, ["c", "x", "z"], ["y"], "", {})], ["c", "x", "z"], ["y"]), tmp_path)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("columns", [5, 6])
def test_a_condition_of_one_dimension_chooses_rows(constant: bool, columns: int, tmp_path: Path) -> None:
    """With as many columns as rows it would broadcast, along the wrong axis."""
    choice = np.array([1, 0, 0, 1, 1, 0], bool)
    tensors = [T("c", (6,), "bool", data=choice if constant else None)]
    tensors += [T(name, (6, columns), scale=0.02, zero=-5) for name in "xzy"]
    live = ["x", "z"] if constant else ["c", "x", "z"]
    compare(build(tensors, [O("SELECT", ["c", "x", "z"], ["y"], "SelectOptions", {})], live, ["y"]), tmp_path, True)


# begins, ends, steps, options, shape of the result
SLICES: dict[str, tuple[list[int], list[int], list[int], dict[int, tuple[str, Any]], tuple[int, ...]]] = {
    "shrink with a masked begin": ([0, 2, 0, 0], [1, 3, 8, 4], [1, 1, 1, 1], {0: ("i", 2), 4: ("i", 2)}, (1, 8, 4)),
    "shrink from the end": ([0, -1, 0, 0], [1, 0, 8, 4], [1, 1, 1, 1], {4: ("i", 2)}, (1, 8, 4)),
    "ends that count from begins": ([0, 2, 1, 0], [1, 4, 5, 4], [1, 1, 1, 1], {5: ("B", 1)}, (1, 4, 5, 4)),
    "masked ends": ([0, 2, 1, 0], [1, 4, 5, 4], [1, 2, 1, 1], {1: ("i", 6)}, (1, 2, 7, 4)),
    "backwards": ([0, 5, 0, 0], [1, 0, 8, 4], [1, -2, 1, 1], {}, (1, 3, 8, 4)),
}


@pytest.mark.parametrize("what", SLICES)
def test_strided_slices(what: str, tmp_path: Path) -> None:
    begins, ends, steps, fields, shape = SLICES[what]
    operands = [T("x", SHAPE, scale=0.02, zero=-5), integers("b", begins), integers("e", ends), integers("s", steps)]
    op = O("STRIDED_SLICE", ["x", "b", "e", "s"], ["y"], "StridedSliceOptions", fields)
    compare(build([*operands, T("y", shape, scale=0.02, zero=-5)], [op], ["x"], ["y"]), tmp_path, compiled=True)


def test_sizes_of_a_split_count_more_than_shapes_in_the_file(tmp_path: Path) -> None:
    operands = [T("x", SHAPE, scale=0.02), integers("s", [5, -1]), integers("a", 1)]
    results = [T("p", (1, 1, 8, 4), scale=0.02), T("q", (1, 5, 8, 4), scale=0.02)]
    op = O("SPLIT_V", ["x", "s", "a"], ["p", "q"], "SplitVOptions", {0: ("i", 2)})
    compare(build([*operands, *results], [op], ["x"], ["p", "q"]), tmp_path)


def test_a_cast_between_formats_keeps_codes(tmp_path: Path) -> None:
    tensors = [T("x", SHAPE, scale=0.02, zero=-5), T("y", SHAPE, scale=0.05, zero=7)]
    compare(build(tensors, [O("CAST", ["x"], ["y"], "CastOptions", {})], ["x"], ["y"]), tmp_path)


# --------------------------------------------------------------------------------------------------------- refusals


def one(
    code: str, operands: list[T], y: T, options: str = "", fields: dict[int, tuple[str, Any]] | None = None
) -> bytes:
    live = [t.name for t in operands if t.data is None]
    op = O(code, [t.name for t in operands], [y.name], options, fields or {})
    return build([*operands, y], [op], live, [y.name])


X, Y = T("x", SHAPE, scale=0.02, zero=-5), T("y", SHAPE, scale=0.05, zero=7)
PROBABILITIES = T("y", SHAPE, scale=1 / 256, zero=-128)
REFUSALS = {
    "DIV by up to 95 codes": one("DIV", [X, T("c", (), scale=0.013, zero=11, data=106)], Y, "DivOptions"),
    "SOFTMAX with beta -1": one("SOFTMAX", [X], PROBABILITIES, "SoftmaxOptions", {0: ("f", -1.0)}),
    "SOFTMAX with beta 0": one("SOFTMAX", [X], PROBABILITIES, "SoftmaxOptions"),
    "SOFTMAX with a result of scale 0.05": one("SOFTMAX", [X], Y, "SoftmaxOptions", {0: ("f", 1.0)}),
    "FLOOR_DIV of values with a scale": one("FLOOR_DIV", [X, T("z", SHAPE, scale=0.1)], Y, "FloorDivOptions"),
    "PADV2 with a value of another scale": one(
        "PADV2", [X, PADS, T("v", (), scale=0.3, data=33)], T("y", (1, 8, 11, 4), scale=0.02, zero=-5), "PadV2Options"
    ),
    "GATHER with index -1 of 6": one(
        "GATHER", [X, integers("i", [-1])], T("y", (1, 1, 8, 4), scale=0.02, zero=-5), "GatherOptions", {0: ("i", 1)}
    ),
    "a bias of 2147483647": one(
        "FULLY_CONNECTED",
        [
            T("x", (1, 4), scale=0.02),
            T("w", (1, 4), scale=0.1, data=[[1, 2, 3, 4]]),
            T("b", (1,), "int32", scale=0.002, data=[(1 << 31) - 1]),
        ],
        T("y", (1, 1), scale=50.0),
        "FullyConnectedOptions",
    ),
}


@pytest.mark.parametrize("sentence", REFUSALS)
def test_refusals_name_what_is_not_supported(sentence: str) -> None:
    with pytest.raises(AtoncError, match=sentence) as refused:
        read_tflite(REFUSALS[sentence])
    assert refused.value.where and refused.value.exit_code == 2


def test_divisions_are_right_or_refused(tmp_path: Path) -> None:
    """All numerators, with scales and divisors at random."""
    rng = np.random.default_rng(0)
    path, kept = tmp_path / "model.tflite", 0
    numerators = {"x": np.arange(-128, 128).astype(np.int8)}
    for _ in range(40):
        scales, zeros = np.exp(rng.uniform(np.log(0.002), np.log(0.2), 3)), rng.choice([-128, -5, 7, 100], 3)
        formats = zip("xcy", scales.tolist(), zeros.tolist(), strict=True)
        x, c, y = (T(name, (256,), scale=scale, zero=zero) for name, scale, zero in formats)
        code = int(rng.integers(-128, 128))
        data = one("DIV", [x, T("c", (), scale=c.scale, zero=c.zero, data=code + (code == c.zero))], y, "DivOptions")
        try:
            graph = read_tflite(data)
        except UnsupportedError:
            continue
        path.write_bytes(data)
        expected = run_tflite(path, numerators)["y"].astype(np.int64)
        assert np.abs(run_graph(graph, numerators)["y"] - expected).max() <= 1
        kept += 1
    assert 10 < kept < 40


def test_sums_have_the_optimised_kernels_as_yardstick(tmp_path: Path) -> None:
    """The reference kernel of LiteRT 2.3 adds int8 values as if they were unsigned."""
    data = one("SUM", [X, integers("a", [3])], T("y", SHAPE[:3], scale=0.3, zero=7), "ReducerOptions")
    compare(data, tmp_path)
