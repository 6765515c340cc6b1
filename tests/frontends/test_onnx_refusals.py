"""What a reader of nodes does not take is refused where it stands, in words; a neighbour of it is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.frontends.onnx_recurrent import MOST_STEPS
from atonc.machine.base.errors import AtoncError, ModelError, UnsupportedError
from tests.frontends.onnx_models import Net

X = (1, 4, 8, 6)
INT, FLOAT = TensorProto.INT32, TensorProto.FLOAT
CONTRIB = "com.microsoft"
Attrs = dict[str, Any]
ANGLES = np.ones((1, 4, 4), np.float32)
FOUR, TWICE = np.ones(4, np.float32), np.float32([1, 1, 2, 2])


def lstm(w: int = 8, r: tuple[int, ...] = (1, 8, 2), b: int = 16, p: int = 6) -> list[Any]:
    parts = [(1, w, 3), r, (1, b), (), (), (), (1, p)]
    return ["x", *("" if not shape else np.zeros(shape, np.float32) for shape in parts)]


# node, shape of x, other inputs and attributes that are read, what is changed in them, and what is said
ROWS: tuple[tuple[str, tuple[int, ...], list[Any], Attrs, list[Any] | Attrs | tuple[int, ...], str], ...] = (
    ("MultiHeadAttention", (1, 5, 8), ["x", "x", "x"], {"num_heads": 2}, {"num_heads": 3}, "3 heads in shape"),
    ("MultiHeadAttention", (1, 5, 8), ["x", "x", "x"], {"num_heads": 2}, {"num_heads": 0}, "0 heads in shape"),
    ("MultiHeadAttention", (1, 5, 8), ["x", "x", "x"], {"num_heads": 2}, ["x", "x", "x", "", "x"], "a mask or a cache"),
    ("MultiHeadAttention", (1, 5, 8), ["x", "x", "x"], {"num_heads": 2}, ["x"] * 3 + [""] * 4 + ["x"], "a cache"),
    ("Cast", X, ["x"], {"to": INT}, {"to": TensorProto.STRING}, "Cast to"),
    ("LpNormalization", X, ["x"], {"p": 1}, {"p": 3}, "LpNormalization with p = 3"),
    ("LpNormalization", X, ["x"], {"p": 2}, {"p": 0}, "LpNormalization with p = 0"),
    ("GlobalLpPool", X, ["x"], {"p": 1}, {"p": 0}, "GlobalLpPool with p = 0"),
    ("LpPool", X, ["x"], {"p": 1, "kernel_shape": [2, 2]}, {"p": 0}, "LpPool with p = 0"),
    ("MaxPool", X, ["x"], {"kernel_shape": [2, 2]}, (1, 4, 8, 6, 5), "with kernel"),
    ("MaxPool", X, ["x"], {"kernel_shape": [8, 6]}, {"kernel_shape": [2, 2, 2]}, "with kernel"),
    ("FusedMatMul", (2, 3, 3), ["x", "x"], {"transA": 1}, {"transBatchA": 1}, "with batches between"),
    ("FusedMatMul", (2, 3, 3), ["x", "x"], {"transA": 1}, {"transBatchB": 1}, "with batches between"),
    ("Transpose", X, ["x"], {"perm": [3, 1, 2, 0]}, {"perm": [3, 1, 2, 2]}, "is not a permutation"),
    ("Transpose", X, ["x"], {"perm": [3, 1, 2, 0]}, {"perm": [0, 1, 2]}, "is not a permutation"),
    ("Trilu", (3, 4), ["x"], {}, (4,), "Trilu of shape"),
    ("EyeLike", (3, 4), ["x"], {}, (3, 4, 1), "EyeLike of shape"),
    ("Tile", (3, 4), ["x", np.array([2, 1])], {}, ["x", np.array([2])], "repeats of shape"),
    ("Tile", (3, 4), ["x", np.array([2, 1])], {}, ["x", np.array([2, -1])], "repeats of shape"),
    ("Pad", (3, 4), ["x", np.array([0, 1, 1, 0])], {"mode": "edge"}, {"mode": "mirror"}, "Pad in mode mirror"),
    ("DepthToSpace", X, ["x"], {"blocksize": 2}, {"blocksize": 0}, "block size 0"),
    ("LSTM", (5, 1, 3), lstm(), {"hidden_size": 2}, {"input_forget": 1}, "coupled gates"),
    ("LSTM", (5, 1, 3), lstm(), {"hidden_size": 2}, lstm(w=6), "with weights"),
    ("LSTM", (5, 1, 3), lstm(), {"hidden_size": 2}, lstm(r=(1, 6, 2)), "with recurrent weights"),
    ("LSTM", (5, 1, 3), lstm(), {"hidden_size": 2}, lstm(b=15), "with biases"),
    ("LSTM", (5, 1, 3), lstm(), {"hidden_size": 2}, lstm(p=5), "with peepholes"),
    ("LSTM", (5, 1, 3), lstm(), {"hidden_size": 2}, ["x", "", *lstm()[2:]], "no weights"),
    ("LSTM", (5, 1, 3), lstm(), {"hidden_size": 2}, (MOST_STEPS + 1, 1, 3), f"{MOST_STEPS + 1} steps, at most"),
    ("Attention", (1, 2, 4, 8), ["x"] * 3, {}, ["x", "x", np.ones((1, 3, 4, 8), np.float32)], "attention of shapes"),
    ("Attention", (1, 2, 4, 8), ["x"] * 3, {}, ["x", *[np.ones((1, 3, 4, 8), np.float32)] * 2], "attention of shapes"),
    ("Attention", (1, 4, 8), ["x"] * 3, {"q_num_heads": 2, "kv_num_heads": 2}, {"kv_num_heads": 3}, "3 heads in shape"),
    ("RotaryEmbedding", (1, 2, 4, 8), ["x", *[ANGLES] * 2], {}, {"rotary_embedding_dim": 3}, "a rotation of 3 of 8"),
    ("RotaryEmbedding", (1, 2, 4, 8), ["x", *[ANGLES] * 2], {}, {"rotary_embedding_dim": 10}, "a rotation of 10 of 8"),
    ("RotaryEmbedding", (1, 4, 16), ["x", *[ANGLES] * 2], {"num_heads": 2}, {"num_heads": 3}, "3 heads in shape"),
    ("RotaryEmbedding", (1, 4, 16), ["x", *[ANGLES] * 2], {"num_heads": 2}, {"num_heads": 0}, "0 heads in shape"),
    ("GroupNormalization", (1, 4, 3), ["x", *[FOUR] * 2], {"num_groups": 2}, {"num_groups": 3}, "3 groups in shape"),
    ("GroupNormalization", (1, 4, 3), ["x", *[FOUR] * 2], {"num_groups": 2}, {"num_groups": 0}, "0 groups in shape"),
    ("GroupNormalization", (1, 4, 3), ["x", *[FOUR] * 2], {"num_groups": 2}, (1, 4), "2 groups in shape"),
    ("Shrink", X, ["x"], {}, [np.ones((2, 2), np.int32)], "Shrink of integers"),
    ("ReduceSum", X, ["x", np.array([1])], {}, [np.ones((0, 3), np.float32), np.array([1])], "ReduceSum of no values"),
    ("ReduceL2", X, ["x", np.array([1])], {"noop_with_empty_axes": 1}, ["x"], "ReduceL2 without axes"),
    ("ReduceL2", X, ["x"], {}, [np.ones((2, 2), np.int32)], "ReduceL2 of integers"),
    ("Concat", X, ["x", "x"], {"axis": 1}, [], "Concat joins nothing"),
    ("Concat", X, ["x", "x"], {"axis": -4}, {"axis": -5}, "axis -5"),
    ("Concat", X, ["x", "x"], {"axis": 3}, {"axis": 4}, "axis 4"),
    ("Resize", X, ["x", "", TWICE], {"mode": "linear"}, {"mode": "lanczos"}, "Resize in mode lanczos"),
    ("Resize", X, ["x", "", "", np.array([1, 4, 4, 4])], {"mode": "nearest"}, {"keep_aspect_ratio_policy": "larger"},
     "keep_aspect_ratio_policy larger"),
    ("Resize", X, ["x", "", "", np.array([1, 4, 4, 4])], {"mode": "nearest"}, ["x", "", "", np.array([1, 4, 4, 0])],
     r"sizes \[1, 4, 4, 0\] for 4 axes"),
    ("SpaceToDepth", X, ["x"], {"blocksize": 2}, {"blocksize": 3}, "has no blocks of 3"),
    ("Gather", X, ["x", np.array([-8, 7])], {"axis": 2}, {"axis": 3}, "indices -8 to 7 along 6"),
    ("Softmax", X, ["x"], {"axis": 3}, {"axis": 4}, "axis 4"),
    ("Squeeze", X, ["x", np.array([0])], {}, ["x", np.array([1])], "Squeeze|squeeze"),
    ("Reshape", X, ["x", np.array([4, -1])], {}, ["x", np.array([5, -1])], "Reshape|reshape"),
    ("Expand", (1, 4), ["x", np.array([3, 4])], {}, ["x", np.array([3, 5])], "do not broadcast|Expand|expand"),
    ("Split", X, ["x", np.array([8])], {"axis": 2}, ["x", np.array([7])], "Split|split"),
)  # fmt: skip


def model(kind: str, shape: tuple[int, ...], inputs: list[Any], attrs: Attrs) -> bytes:
    net = Net()
    names = [one if isinstance(one, str) else net.const(one) for one in inputs]
    domain = CONTRIB if kind in ("MultiHeadAttention", "FusedMatMul") else ""
    made = net.node(kind, names, domain=domain, **attrs)
    graph = helper.make_graph(
        net.nodes, "g", [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info(made[0], FLOAT, None)], net.constants,
    )  # fmt: skip
    newest = 23 if kind in ("Attention", "RotaryEmbedding") else 21
    opsets = [helper.make_opsetid("", newest), helper.make_opsetid(CONTRIB, 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets).SerializeToString())


@pytest.mark.parametrize(("kind", "shape", "inputs", "attrs", "changed", "said"), ROWS)
def test_a_neighbour_is_refused_in_words(
    kind: str, shape: tuple[int, ...], inputs: list[Any], attrs: Attrs, changed: Any, said: str
) -> None:
    assert read_onnx(model(kind, shape, inputs, attrs)).ops
    wrong = (
        (shape, inputs, {**attrs, **changed}) if isinstance(changed, dict)
        else (shape, changed, attrs) if isinstance(changed, list) else (changed, inputs, attrs)
    )  # fmt: skip
    with pytest.raises((ModelError, UnsupportedError), match=said) as error:
        read_onnx(model(kind, *wrong))
    assert isinstance(error.value, AtoncError) and kind.lower() in str(error.value).lower()
