"""Shapes against what numpy makes of arrays of those shapes, and each refusal beside a neighbour that is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from atonc.compiler.ops.shapes import Shape, infer_shape
from atonc.machine.base.errors import ModelError

Attrs = dict[str, Any]
WINDOW: Attrs = {"stride": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC"}
POOL: Attrs = {**WINDOW, "window": (3, 3)}
GROUPS: Attrs = {**WINDOW, "groups": 2}
BLOCKS: Attrs = {"blocks": (2, 3), "crops": ((0, 1), (1, 0))}
IN_BLOCKS: Attrs = {"block": 2, "layout": "NHWC"}
LSTM = ((1, 5, 6), (4, 7, 6), (4, 7, 7), (8, 7))

# operator, attributes, shapes that fit, the result; shapes (or attributes) that do not, and what is said
ROWS: tuple[tuple[str, Attrs, tuple[Shape, ...], Shape, tuple[Shape, ...], Attrs, str], ...] = (
    ("add", {}, ((2, 1, 4), (3, 1)), (2, 3, 4), ((2, 3), (3, 2)), {}, "do not broadcast"),
    ("add", {}, ((4,), (1, 4)), (1, 4), ((4,), (5,)), {}, "do not broadcast"),
    ("conv", WINDOW, ((1, 3, 3, 2), (5, 3, 3, 2)), (1, 1, 1, 5), ((1, 2, 3, 2), (5, 3, 3, 2)), {}, "does not fit"),
    ("conv", WINDOW, ((1, 3, 3, 2), (5, 3, 3, 2)), (1, 1, 1, 5), ((1, 3, 3, 2), (5, 3, 3, 1)), {}, "not fit weights"),
    ("conv", WINDOW, ((1, 3, 3, 2), (5, 1, 1, 2)), (1, 3, 3, 5), ((1, 3, 3, 2), (5, 3, 2)), {}, "not fit weights"),
    ("conv", GROUPS, ((1, 3, 3, 4), (6, 1, 1, 2)), (1, 3, 3, 6), ((1, 3, 3, 4), (6, 1, 1, 4)), {}, "fit"),
    ("conv", WINDOW, ((1, 9, 2), (5, 1, 3, 2)), (1, 7, 5), ((9, 2), (5, 1, 3, 2)), {}, "neither an image"),
    ("conv", WINDOW, ((1, 9, 2), (5, 1, 3, 2)), (1, 7, 5), ((1, 1, 1, 9, 2), (5, 1, 3, 2)), {}, "neither an image"),
    ("max_pool", POOL, ((2, 3, 4, 5),), (2, 1, 2, 5), ((2, 3, 2, 5),), {}, "does not fit"),
    ("max_pool", {**POOL, "dilation": (2, 1)}, ((1, 5, 3, 5),), (1, 1, 1, 5), ((1, 4, 3, 5),), {}, "does not fit"),
    ("max_pool", {**POOL, "padding": (1, 0, 0, 1)}, ((1, 2, 2, 5),), (1, 1, 1, 5), ((1, 1, 2, 5),), {}, "does not fit"),
    ("max_pool", {**POOL, "stride": (2, 3)}, ((1, 7, 8, 5),), (1, 3, 2, 5), ((1, 7, 2, 5),), {}, "does not fit"),
    ("max_pool", {**POOL, "layout": "NCHW"}, ((1, 5, 7, 8),), (1, 5, 5, 6), ((1, 5, 2, 8),), {}, "does not fit"),
    ("average_pool", {**POOL, "window": (3,)}, ((1, 7, 8),), (1, 5, 8), ((1, 2, 8),), {}, "does not fit"),
    ("concat", {"axis": 1}, ((2, 3, 4), (2, 1, 4)), (2, 4, 4), ((2, 3, 4), (2, 3, 5)), {}, "cannot be joined"),
    ("concat", {"axis": 1}, ((2, 3, 4), (2, 1, 4)), (2, 4, 4), ((2, 3, 4), (1, 3, 4)), {}, "cannot be joined"),
    ("concat", {"axis": 1}, ((2, 3), (2, 3)), (2, 6), ((2, 3), (2, 3, 1)), {}, "cannot be joined"),
    ("pad", {"pads": ((1, 0), (-2, 3))}, ((2, 2),), (3, 3), ((2, 2),), {"pads": ((1, 0), (-2, -1))}, "remove more"),
    ("pad", {"pads": ((-1, -1), (0, 0))}, ((2, 2),), (0, 2), ((1, 2),), {}, "remove more than there is"),
    ("matmul", {}, ((2, 3), (3, 4)), (2, 4), ((2, 3), (4, 3)), {}, "cannot multiply"),
    ("matmul", {}, ((5, 2, 3), (3, 4)), (5, 2, 4), ((3,), (3, 4)), {}, "cannot multiply"),
    ("matmul", {}, ((5, 2, 3), (3, 4)), (5, 2, 4), ((2, 3), (3,)), {}, "cannot multiply"),
    ("matmul", {"transpose_a": True}, ((3, 2), (3, 4)), (2, 4), ((2, 3), (3, 4)), {}, "cannot multiply"),
    ("matmul", {"transpose_b": True}, ((5, 2, 3), (1, 4, 3)), (5, 2, 4), ((2, 3), (3, 4)), {}, "cannot multiply"),
    ("lstm", {}, LSTM, (1, 5, 7), ((1, 5, 5), *LSTM[1:]), {}, "not fit weights"),
    ("lstm", {}, LSTM, (1, 5, 7), ((5, 6), *LSTM[1:]), {}, "not fit weights"),
    ("lstm", {}, LSTM, (1, 5, 7), (*LSTM[:2], (4, 7, 6), LSTM[3]), {}, "not fit weights"),
    ("lstm", {}, LSTM, (1, 5, 7), (*LSTM[:3], (4, 7)), {}, "not fit weights"),
    ("lstm", {}, LSTM, (1, 5, 7), (LSTM[0], (28, 6), *LSTM[2:]), {}, "not fit weights"),
    ("batch_to_space", BLOCKS, ((6, 2, 2, 5),), (1, 3, 5, 5), ((4, 2, 2, 5),), {}, "no blocks"),
    ("space_to_depth", IN_BLOCKS, ((1, 4, 6, 3),), (1, 2, 3, 12), ((1, 5, 6, 3),), {}, "no blocks"),
    ("space_to_depth", {"block": 2, "layout": "NCHW"}, ((1, 3, 4, 6),), (1, 12, 2, 3), ((1, 3, 4, 5),), {}, "blocks"),
    ("space_to_depth", IN_BLOCKS, ((1, 4, 6, 3),), (1, 2, 3, 12), ((1, 4, 6),), {}, "is not an image"),
    ("depth_to_space", IN_BLOCKS, ((1, 2, 3, 12),), (1, 4, 6, 3), ((1, 2, 3, 6),), {}, "no blocks"),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "attrs", "fits", "result", "wrong", "changed", "said"), ROWS)
def test_one_less_is_refused(
    kind: str, attrs: Attrs, fits: tuple[Shape, ...], result: Shape, wrong: tuple[Shape, ...], changed: Attrs, said: str
) -> None:
    assert infer_shape(kind, attrs, fits) == result
    with pytest.raises(ModelError, match=said):
        infer_shape(kind, {**attrs, **changed}, wrong)


X = np.zeros((2, 3, 4))
NUMPY: dict[str, tuple[Attrs, tuple[Shape, ...], Callable[[Mapping[str, Any]], np.ndarray[Any, Any]]]] = {
    "transpose": ({"perm": (2, 0, 1)}, ((2, 3, 4),), lambda a: X.transpose(a["perm"])),
    "pack": ({"axis": 1}, ((2, 3, 4),) * 5, lambda a: np.stack([X] * 5, axis=a["axis"])),
    "gather": ({"axis": 1}, ((2, 3, 4), (5, 6)), lambda a: X.take(np.zeros((5, 6), int), axis=a["axis"])),
    "concat": ({"axis": 2}, ((2, 3, 4),) * 3, lambda a: np.concatenate([X] * 3, axis=a["axis"])),
    "sum": ({"axes": (0, 2)}, ((2, 3, 4),), lambda a: X.sum(axis=a["axes"])),
    "mean": ({"axes": (1,), "keepdims": 1}, ((2, 3, 4),), lambda a: X.mean(axis=a["axes"], keepdims=True)),
    "pad": ({"pads": ((0, 1), (2, 0), (3, 4))}, ((2, 3, 4),), lambda a: np.pad(X, a["pads"])),
    "select": ({}, ((2, 1, 4), (3, 1), (1,)), lambda a: np.where(X[:, :1] > 0, X[0, :, :1], X[0, 0, :1])),
}


@pytest.mark.parametrize("kind", NUMPY)
def test_shapes_are_those_of_numpy(kind: str) -> None:
    attrs, shapes, made = NUMPY[kind]
    assert infer_shape(kind, attrs, shapes) == made(attrs).shape


def test_blocks_of_space_become_a_batch() -> None:
    attrs = {"blocks": (2, 3), "pads": ((1, 0), (0, 2))}
    assert infer_shape("space_to_batch", attrs, [(2, 3, 4, 5)]) == (12, 2, 2, 5)
