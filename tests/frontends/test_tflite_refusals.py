"""What a reader of operators does not take is refused where it stands, in words; a neighbour of it is read. The table
for ONNX nodes stands in `test_onnx_refusals.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from atonc.compiler.frontends.tflite import read_tflite
from atonc.machine.base.errors import ModelError, UnsupportedError
from tests.frontends.tflite_models import O, T, build

S = (1, 6, 8, 4)
Fields = dict[int, tuple[str, Any]]
Change = Fields | dict[str, Any]


def made(*shape: int, free: tuple[int, ...] = (), dtype: str = "int8", name: str = "y") -> T:
    return T(name, shape, dtype, None if dtype != "int8" else 0.02, -5 if dtype == "int8" else 0, free=free)


def whole(name: str, *data: Any) -> T:
    return T(name, (len(data),), "int32", data=list(data))


X, Y = made(*S, name="x"), made(*S)
POOL: Fields = {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 3: ("i", 3), 4: ("i", 3)}
CONV: Fields = {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 4: ("i", 1), 5: ("i", 1)}
SLICE: Fields = {0: ("i", 0), 1: ("i", 0), 4: ("i", 2)}
WEIGHTS = T("w", (2, 1, 1, 4), scale=0.01, data=[[[[1, 2, 3, 4]]], [[[5, 6, 7, 8]]]])
DEPTH = T("w", (1, 1, 1, 4), scale=0.01, data=[[[[1, 2, 3, 4]]]])
MATRIX = T("w", (2, 4), scale=0.01, data=[[1, 2, 3, 4], [5, 6, 7, 8]])
BEGIN, END, STEP = whole("b", 0, 5, 0, 0), whole("e", 1, 6, 8, 4), whole("s", 1, 1, 1, 1)
HALVES = [made(1, 2, 8, 4, name="y"), made(1, 4, 8, 4, name="z")]
COMPUTED = T("k", (4,), "int32")

# code, operands, results, options and their fields that are read; what is changed in them (fields by number, operands
# by place, or all results), and what is said
Row = tuple[str, list[T], list[T], str, Fields, Change, str]
ROWS: tuple[Row, ...] = (
    ("TILE", [X, whole("t", 1, 2, 1, 1)], [made(1, 1, 8, 4, free=(1,))], "", {}, {"1": whole("t", 1, 2, 1)}, "TILE"),
    ("RANGE", [whole("a", 0), whole("b", 5), whole("c", 1)], [made(1, dtype="int32", free=(0,))], "", {},
     {"2": whole("c", 0)}, "RANGE with step 0"),
    ("MAX_POOL_2D", [X], [Y], "Pool2DOptions", POOL, {1: ("i", 0)}, r"stride or dilation \(1, 0\)"),
    ("MAX_POOL_2D", [X], [Y], "Pool2DOptions", POOL, {2: ("i", -1)}, r"stride or dilation \(-1, 1\)"),
    ("MAX_POOL_2D", [X], [Y], "Pool2DOptions", POOL, {4: ("i", 0)}, r"stride or dilation \(0, 3\)"),
    ("MAX_POOL_2D", [X], [made(1, 1, 1, 4)], "Pool2DOptions", POOL | {1: ("i", 1 << 16), 2: ("i", 1 << 16)},
     {1: ("i", (1 << 16) + 1)}, "stride or dilation"),
    ("MAX_POOL_2D", [X], [Y], "Pool2DOptions", POOL, {"0": made(6, 8, 4, name="x")}, "an image has 4 dimensions"),
    ("MAX_POOL_2D", [X], [made(1, 1, 8, 4, free=(1,))], "Pool2DOptions", POOL, {2: ("i", 0)}, r"with stride \(0, 1\)"),
    ("MAX_POOL_2D", [X], [made(1, 1, 8, 4, free=(1,))], "Pool2DOptions", POOL, {3: ("i", 0)}, r"window \(3, 0\)"),
    ("CONV_2D", [X, WEIGHTS], [made(1, 6, 8, 2)], "Conv2DOptions", CONV, {4: ("i", 0)}, "stride or dilation"),
    ("CONV_2D", [X, WEIGHTS], [made(1, 6, 8, 2)], "Conv2DOptions", CONV, {"0": made(1, 6, 8, 6, name="x")},
     "6 channels do not fit weights"),
    ("CONV_2D", [X, WEIGHTS], [made(1, 6, 8, 2)], "Conv2DOptions", CONV, {"0": made(1, 6, 8, 3, name="x")},
     "3 channels do not fit weights"),
    ("DEPTHWISE_CONV_2D", [X, DEPTH], [Y], "DepthwiseConv2DOptions", {1: ("i", 1), 2: ("i", 1)},
     {"1": replace(DEPTH, data=None)}, "weights computed at run time"),
    ("STRIDED_SLICE", [X, BEGIN, END, STEP], [made(1, 8, 4)], "StridedSliceOptions", SLICE,
     {"1": whole("b", 0, 6, 0, 0)}, "index outside"),
    ("STRIDED_SLICE", [X, BEGIN, END, STEP], [made(1, 8, 4)], "StridedSliceOptions", SLICE,
     {"1": whole("b", 0, -7, 0, 0)}, "index outside"),
    ("STRIDED_SLICE", [X, BEGIN, END, STEP], [made(1, 8, 4)], "StridedSliceOptions", SLICE, {2: ("i", 1)}, "ellipsis"),
    ("STRIDED_SLICE", [X, BEGIN, END, STEP], [made(1, 8, 4)], "StridedSliceOptions", SLICE, {3: ("i", 1)}, "new axes"),
    ("STRIDED_SLICE", [X, BEGIN, END, STEP], [made(1, 8, 4)], "StridedSliceOptions", SLICE,
     {"3": whole("s", 1, 1, 0, 1)}, "slice bounds do not fit"),
    ("STRIDED_SLICE", [X, BEGIN, END, STEP], [made(1, 8, 4)], "StridedSliceOptions", SLICE, {"3": COMPUTED},
     "bounds computed at run time"),
    ("SLICE", [X, whole("b", 0, 1, 0, 0), whole("n", 1, -1, 8, 4)], [made(1, 5, 8, 4)], "", {},
     {"2": whole("n", 1, -1, 8)}, "slice bounds do not fit"),
    ("SLICE", [X, whole("b", 0, 1, 0, 0), whole("n", 1, -1, 8, 4)], [made(1, 5, 8, 4)], "", {},
     {"1": whole("b", 0, 1, 0, 0, 0), "2": whole("n", 1, -1, 8, 4, 1)}, "bounds do not fit"),
    ("TRANSPOSE", [X, whole("p", 0, 2, 1, 3)], [made(1, 8, 6, 4)], "", {}, {"1": whole("p", 0, 2, 2, 3)}, "permut"),
    ("TRANSPOSE", [X, whole("p", 0, 2, 1, 3)], [made(1, 8, 6, 4)], "", {}, {"1": whole("p", 0, 2, 1)}, "permutation"),
    ("TRANSPOSE", [X, whole("p", 0, 2, 1, 3)], [made(1, 8, 6, 4)], "", {}, {"1": None}, "TRANSPOSE lacks input 1"),
    ("TRANSPOSE", [X, whole("p", 0, 2, 1, 3)], [made(1, 8, 6, 4)], "", {}, {"1": COMPUTED}, "permutation computed at"),
    ("RESHAPE", [X, whole("n", 1, 48, 4)], [made(1, 48, 4)], "", {}, {"outputs": [made(1, 47, 4)]}, "cannot become"),
    ("GATHER", [X, whole("i", 0, 3)], [made(1, 6, 8, 2)], "GatherOptions", {0: ("i", 3)}, {0: ("i", 4)},
     "axis 4 of a tensor with 4 dimensions"),
    ("GATHER", [X, whole("i", 0)], [made(1, 6, 8, 4)], "GatherOptions", {0: ("i", -4)}, {0: ("i", -5)},
     "axis -5 of a tensor with 4 dimensions"),
    ("GATHER", [X, whole("i", 0, 3)], [made(1, 6, 8, 2)], "GatherOptions", {0: ("i", 3)}, {"1": whole("i", 0, 4)},
     "index 4 of 4 values"),
    ("GATHER", [X, whole("i", 0, 3)], [made(1, 6, 8, 2)], "GatherOptions", {0: ("i", 3)}, {1: ("i", 1)}, "batch dim"),
    ("SPLIT_V", [X, whole("n", 2, -1), whole("a", 1)], HALVES, "", {}, {"1": whole("n", 2, 5)}, "cannot be cut into"),
    ("SPLIT_V", [X, whole("n", 2, 4), whole("a", 1)], HALVES, "", {}, {"1": whole("n", 7, -1)}, "cannot be cut into"),
    ("SPLIT_V", [X, whole("n", 2, 4), whole("a", 1)], HALVES, "", {}, {"1": whole("n", 2, 2, 2)}, "cannot be cut into"),
    ("SPLIT", [whole("a", 1), X], [made(1, 1, 8, 4, free=(1,)), made(1, 3, 8, 4, name="z")], "SplitOptions",
     {0: ("i", 2)}, {"1": made(1, 5, 8, 4, name="x")}, "cannot be cut into 2"),
    ("UNPACK", [made(2, 6, name="x")], [made(6), made(6, name="z")], "UnpackOptions", {0: ("i", 2), 1: ("i", 0)},
     {1: ("i", 2)}, "axis 2 of a tensor with 2 dimensions"),
    ("PAD", [X, T("p", (4, 2), "int32", data=[[0, 0], [1, 1], [0, 0], [0, 0]])], [made(1, 8, 8, 4)], "", {},
     {"1": T("p", (3, 2), "int32", data=[[0, 0], [1, 1], [0, 0]])}, "are no paddings"),
    ("PAD", [X, T("p", (4, 2), "int32", data=[[0, 0], [1, 1], [0, 0], [0, 0]])], [made(1, 8, 8, 4)], "", {},
     {"1": T("p", (4, 2), "int32", data=[[0, 0], [-1, 3], [0, 0], [0, 0]])}, "are no paddings"),
    ("CONCATENATION", [X, replace(X, name="z")], [made(1, 6, 8, 8)], "ConcatenationOptions", {0: ("i", 3)},
     {1: ("b", 1)}, "a fused activation"),
    ("SPACE_TO_DEPTH", [X], [made(1, 3, 4, 16)], "SpaceToDepthOptions", {0: ("i", 2)}, {0: ("i", 0)}, "block size 0"),
    ("SPACE_TO_DEPTH", [X], [made(1, 3, 4, 16)], "SpaceToDepthOptions", {0: ("i", 2)}, {0: ("i", 4)}, "no blocks of 4"),
    ("SPACE_TO_BATCH_ND", [X, whole("b", 2, 2), T("p", (2, 2), "int32", data=[[0, 0], [0, 0]])], [made(4, 3, 4, 4)], "",
     {}, {"1": whole("b", 2, 0)}, r"blocks \(2, 0\) with borders"),
    ("SPACE_TO_BATCH_ND", [X, whole("b", 2, 2), T("p", (2, 2), "int32", data=[[0, 0], [0, 0]])], [made(4, 3, 4, 4)], "",
     {}, {"2": T("p", (2, 2), "int32", data=[[0, 0], [3, -1]])}, "with borders"),
    ("SPACE_TO_BATCH_ND", [X, whole("b", 2, 2), T("p", (2, 2), "int32", data=[[0, 0], [0, 0]])], [made(4, 3, 4, 4)], "",
     {}, {"2": T("p", (1, 2), "int32", data=[[0, 0]])}, "with borders"),
    ("FULLY_CONNECTED", [made(3, 4, name="x"), MATRIX], [made(3, 2)], "FullyConnectedOptions", {0: ("b", 0)},
     {1: ("b", 1)}, "shuffled weights"),
    ("FULLY_CONNECTED", [made(3, 4, name="x"), MATRIX], [made(1, 2, free=(0,))], "FullyConnectedOptions", {0: ("b", 0)},
     {"0": made(3, 3, name="x")}, "does not fit"),
    ("CAST", [X], [made(*S, dtype="int32")], "", {}, {"outputs": [replace(Y, dtype="uint8")]}, "from int8 to uint8"),
    ("FLOOR_DIV", [T("x", S, "int32"), T("z", S, "int32")], [T("y", S, "int32")], "", {},
     {"1": T("z", S, "int32", 0.5)}, "FLOOR_DIV of values with a scale"),
    ("ARG_MAX", [X, whole("a", -1)], [made(1, 6, 8, dtype="int32")], "", {}, {"1": whole("a", 4)}, "axis 4 of a"),
    ("MEAN", [X, whole("a", 1, 2)], [made(1, 4)], "ReducerOptions", {}, {"1": whole("a", 1, -5)}, "axis -5 of a"),
    ("REVERSE_V2", [X, whole("a", 3)], [Y], "", {}, {"1": whole("a", 4)}, "axis 4 of a"),
    ("EXPAND_DIMS", [X, whole("a", 4)], [made(1, 6, 8, 4, 1, free=(1,))], "", {}, {"1": whole("a", 5)}, "axis 5 of a"),
    ("RESIZE_BILINEAR", [X, whole("n", 12, 16)], [made(1, 12, 16, 4, free=(1,))], "ResizeBilinearOptions", {},
     {"1": whole("n", 12, 16, 4)}, "RESIZE_BILINEAR of shape"),
    ("SOFTMAX", [X], [T("y", S, scale=1 / 256, zero=-128)], "SoftmaxOptions", {0: ("f", 1.0)},
     {"outputs": [T("y", S, scale=1 / 256, zero=-127)]}, "SOFTMAX with a result of scale"),
    ("MINIMUM", [X, replace(X, name="z")], [Y], "", {}, {"1": None}, "minimum lacks one of its 2 inputs"),
    ("ADD", [X, replace(X, name="z")], [Y], "AddOptions", {}, {"outputs": [Y, replace(Y, name="u")]}, "2 outputs"),
)  # fmt: skip


def model(code: str, operands: list[T], results: list[T], options: str, fields: Fields) -> bytes:
    op = O(code, [one.name for one in operands], [one.name for one in results], options, fields)
    live = [one.name for one in operands if one.data is None]
    return build([*operands, *results], [op], live, [one.name for one in results])


@pytest.mark.parametrize(("code", "operands", "results", "options", "fields", "change", "said"), ROWS)
def test_a_neighbour_is_refused_in_words(
    code: str, operands: list[T], results: list[T], options: str, fields: Fields, change: Any, said: str
) -> None:
    assert read_tflite(model(code, operands, results, options, fields)).ops
    others = [change.get(str(place), one) for place, one in enumerate(operands)]
    kept, wrong = [one for one in others if one is not None], change.get("outputs", results)
    numbers = {key: value for key, value in change.items() if isinstance(key, int)}
    with pytest.raises((ModelError, UnsupportedError), match=said) as error:
        read_tflite(model(code, kept, wrong, options, fields | numbers))
    assert f"{code}_0" in error.value.where
