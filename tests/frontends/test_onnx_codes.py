"""Integers of ONNX files: codes where a DequantizeLinear reads them, numbers to everybody else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from atonc.compiler.compile.pipeline import compile_graph
from atonc.compiler.frontends.onnx_qdq import read_onnx
from atonc.compiler.request.options import Options
from atonc.machine.base.errors import ModelError
from tests.frontends.onnx_models import Net, model_of, same

INT8, UINT8, FLOAT = TensorProto.INT8, TensorProto.UINT8, TensorProto.FLOAT
SHAPE = (1, 4, 6, 5)
S, Z = 0.02, -5


def all_codes(shape: tuple[int, ...], dtype: Any = np.int8) -> Any:
    values = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8).view(dtype)
    values.reshape(-1)[:2] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return values


def moved(net: Net, kind: str, x: str) -> str:
    if kind == "Transpose":
        return net.node("Transpose", [x], perm=[0, 2, 3, 1])[0]
    if kind == "Reshape":
        return net.node("Reshape", [x, net.const(np.array([1, 24, 5]))])[0]
    if kind == "Pad":
        return net.node("Pad", [x, net.const(np.array([0, 0, 1, 0, 0, 0, 0, 2])), net.const(np.int8(9))])[0]
    if kind == "MaxPool":
        return net.node("MaxPool", [x], kernel_shape=[2, 2])[0]
    return net.node("Identity", [x])[0]


@pytest.mark.parametrize("first", ["Transpose", "Reshape", "Pad", "MaxPool", "Identity"])
def test_an_input_gets_its_scale_from_behind_a_move(first: str) -> None:
    net = Net()
    x = net.dq(moved(net, first, "x"), S, Z)
    y = net.q(net.node("Sigmoid", [x])[0], 1 / 256, -128)
    data = model_of(net, {"x": (INT8, SHAPE)}, [y])
    quant = read_onnx(data).tensors["x"].quant
    assert quant is not None and quant.scales[0] == np.float32(S) and quant.zero_points[0] == Z
    same(data, {"x": all_codes(SHAPE)}, codes=1.0)


def test_moves_after_moves_and_two_readers() -> None:
    net = Net()
    padded = moved(net, "Pad", moved(net, "Identity", "x"))
    left = net.dq(padded, S, Z)
    right = net.dq(moved(net, "Transpose", padded), S, Z)
    outputs = [net.q(net.node("Relu", [value])[0], 0.03, 4) for value in (left, right)]
    same(model_of(net, {"x": (INT8, SHAPE)}, outputs), {"x": all_codes(SHAPE)}, codes=1.0)


@pytest.mark.parametrize("quantised", [True, False])
def test_two_readers_with_different_scales(quantised: bool) -> None:
    net = Net()
    codes = net.q("x", S, Z) if quantised else "x"
    outputs = [net.dq(codes, S, Z), net.dq(codes, 0.05, 3)]
    kind, x = (FLOAT, all_codes(SHAPE) * np.float32(S)) if quantised else (INT8, all_codes(SHAPE))
    same(model_of(net, {"x": (kind, SHAPE)}, outputs), {"x": x})


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("to", [TensorProto.FLOAT, TensorProto.INT32, TensorProto.BOOL])
@pytest.mark.parametrize("inside", [True, False])
def test_casts_of_codes_give_numbers(dtype: str, to: int, inside: bool) -> None:
    """Also where passes shift uint8 codes to int8."""
    net = Net()
    codes = moved(net, "Transpose", net.q("x", S, 7, dtype)) if inside else "x"
    outputs = [net.node("Cast", [codes], to=to)[0], net.dq(codes, S, 7, dtype)]
    kind = FLOAT if inside else INT8 if dtype == "int8" else UINT8
    x = np.linspace(-3, 5, 120).astype(np.float32).reshape(SHAPE) if inside else all_codes(SHAPE, np.dtype(dtype))
    same(model_of(net, {"x": (kind, SHAPE)}, outputs), {"x": x})


@pytest.mark.parametrize("kind", ["Abs", "Neg", "Relu", "Add", "Mul", "Where", "ReduceMax"])
def test_arithmetic_on_codes_is_arithmetic_on_integers(kind: str) -> None:
    """It wraps: -(-128) is -128."""
    net = Net()
    codes = net.q("x", S, Z)
    if kind == "Where":
        made = net.node(kind, [net.const(np.arange(5) % 2 == 0), codes, net.const(np.int8(11))])[0]
    elif kind == "ReduceMax":
        made = net.node(kind, [codes, net.const(np.array([2]))])[0]
    else:
        made = net.node(kind, [codes] if kind in ("Abs", "Neg", "Relu") else [codes, codes])[0]
    data = model_of(net, {"x": (FLOAT, SHAPE)}, [net.dq(made, S, Z), made])
    x = (all_codes(SHAPE).astype(np.float32) - Z) * np.float32(S)
    if kind in ("Add", "Mul"):  # onnxruntime has no such kernel for bytes
        from tests.frontends.onnx_models import emulated

        plain = np.round(x / np.float32(S)).astype(np.int64) + Z
        wide = plain + plain if kind == "Add" else plain * plain
        assert np.array_equal(emulated(data, {"x": x})[1], wide.astype(np.int8))
        return
    same(data, {"x": x})


def test_codes_of_different_scales_are_joined_as_integers() -> None:
    net = Net()
    joined = net.node("Concat", [net.q("x", S, Z), net.q("x", 0.07, 2)], axis=1)[0]
    x = np.linspace(-3, 3, 120).astype(np.float32).reshape(SHAPE)
    same(model_of(net, {"x": (FLOAT, SHAPE)}, [joined, net.dq(joined, 0.1, 1)]), {"x": x})


@pytest.mark.parametrize("value", [np.arange(6, dtype=np.int64), np.arange(6, dtype=np.int8), np.array([True, False])])
def test_constants_of_all_types_may_be_outputs(value: Any) -> None:
    net = Net()
    outputs = [net.node("Identity", [net.const(value)])[0], net.dq(net.q("x", S, Z), S, Z)]
    same(model_of(net, {"x": (FLOAT, (1, 5))}, outputs), {"x": np.ones((1, 5), np.float32)})


def test_an_output_of_another_type_than_declared_is_noted() -> None:
    net = Net()
    found = net.node("ArgMax", [net.qdq("x", S, Z)], axis=1)[0]
    graph = read_onnx(net.model({"x": (1, 5)}, [found]))
    assert graph.tensors[graph.outputs[0]].dtype == "int64"
    assert "declared as float32" in graph.notes[0]


def test_real_values_are_no_codes() -> None:
    net = Net()
    again = net.dq(net.qdq("x", S, Z), S, Z)
    with pytest.raises(ModelError, match="not codes"):
        read_onnx(model_of(net, {"x": (FLOAT, (1, 5))}, [again]))


@pytest.mark.parametrize(("opset", "axis"), [(13, 1), (13, -1), (11, 1), (11, 3)])
def test_softmax_on_codes(opset: int, axis: int) -> None:
    """Made of a Softmax before opset 13 it goes over all axes from the given one on."""
    net = Net()
    scales = [net.const(np.float32(scale)) for scale in (0.05, 1 / 256)]
    zeros = [net.const(np.array(zero, np.uint8)) for zero in (120, 0)]
    x = net.q("x", 0.05, 120, "uint8")
    inputs = [x, scales[0], zeros[0], scales[1], zeros[1]]
    y = net.node("QLinearSoftmax", inputs, domain="com.microsoft", axis=axis, opset=opset)[0]
    data = model_of(net, {"x": (FLOAT, SHAPE)}, [net.dq(y, 1 / 256, 0, "uint8")])
    values = np.random.default_rng(4).normal(0, 2, SHAPE).astype(np.float32)
    same(data, {"x": values}, codes=1.0, scale=1 / 256)


def test_a_product_with_a_factor_runs_on_the_npu() -> None:
    """As onnxruntime's optimiser writes scores of attention."""
    net = Net()
    a, b = (net.qdq(name, S, Z) for name in "ab")
    made = net.node("FusedMatMul", [a, b], domain="com.microsoft", alpha=0.25, transA=1, transB=1)[0]
    data = net.model({"a": (1, 2, 32, 40), "b": (1, 2, 48, 32)}, [net.qdq(made, 0.01, 3)])
    rng = np.random.default_rng(3)
    values = {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in
              (("a", (1, 2, 32, 40)), ("b", (1, 2, 48, 32)))}  # fmt: skip
    same(data, values, codes=1.0, scale=0.01)
    compiled = compile_graph(read_onnx(data), Options(allow_float=True))
    assert [r for r in compiled.choices.reasons if r.op == "matmul"] == []
