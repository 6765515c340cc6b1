"""Small models with the inputs and outputs of large ones: the mean of a picture, spread over an output of any shape."""

from __future__ import annotations

from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.frontends.tflite_models import O, T, build

Shape = tuple[int, ...]


def stand_in(taken: Shape, given: Shape, *more: Shape, onnx: bool = False, quantised: bool = False) -> bytes:
    """`quantised`: outputs are int8 instead of numbers."""
    return _onnx(taken, (given, *more)) if onnx else _tflite(taken, (given, *more), quantised)


def _tflite(taken: Shape, given: tuple[Shape, ...], quantised: bool) -> bytes:
    tensors = [
        T("picture", taken, "uint8", 1 / 255, 0),
        T("codes", taken, "int8", 1 / 255, -128),
        T("axes", (2,), "int32", data=[1, 2]),
        T("mean", (taken[0], taken[-1]), "int8", 1 / 255, -128),
    ]
    ops = [
        O("QUANTIZE", ["picture"], ["codes"]),
        O("MEAN", ["codes", "axes"], ["mean"], "ReducerOptions", {0: ("B", 0)}),
    ]
    for number, shape in enumerate(given):
        at, size = f"_{number}", prod(shape)
        weights = (np.arange(size * taken[-1]) % 15 - 7).reshape(size, taken[-1])
        tensors += [
            T(f"weights{at}", weights.shape, "int8", 0.01, data=weights),
            T(f"flat{at}", (1, size), "int8", 0.02, -3),
            T(f"shape{at}", (len(shape),), "int32", data=list(shape)),
            T(f"result{at}", shape, "int8", 0.02, -3),
            T(f"number{at}", shape, "float32"),
        ]
        ops += [
            O("FULLY_CONNECTED", ["mean", f"weights{at}", ""], [f"flat{at}"], "FullyConnectedOptions"),
            O("RESHAPE", [f"flat{at}", f"shape{at}"], [f"result{at}"]),
        ]
        if not quantised:
            ops.append(O("DEQUANTIZE", [f"result{at}"], [f"number{at}"]))
    return build(tensors, ops, ["picture"], [f"{'result' if quantised else 'number'}_{n}" for n in range(len(given))])


def _onnx(taken: Shape, given: tuple[Shape, ...]) -> bytes:
    """One convolution of 1x1 in front of a resize: what maps of pixels end with."""
    (shape,) = given
    weights = helper.make_tensor("w", TensorProto.FLOAT, (shape[1], taken[1], 1, 1), [0.5] * (shape[1] * taken[1]))
    node = helper.make_node("Conv", ["picture", "w"], ["map"], kernel_shape=[1, 1])
    edges = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("picture", taken), ("map", shape))]
    graph = helper.make_graph([node], "stand_in", edges[:1], edges[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())
