"""The layer check: finds the tensors of a run, passes good ones, names the layer that is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from atonc.compiler.compare.layers import LayerReport, ObservedBuffer, check_layers
from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.ops import run_op, start_values
from tests.frontends.tflite_models import chain_model

HIDDEN = {"x", "a", "c", "s", "m", "l", "p"}


def simulate(
    graph: Graph, inputs: dict[str, Any], flips: float = 0.02, broken: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A run with small errors: some codes are one off; `broken` replaces whole tensors."""
    rng = np.random.default_rng(0)
    values = start_values(graph, inputs)
    for op in graph.ops:
        for name, result in zip(op.outputs, run_op(graph, op, values), strict=True):
            codes, tensor = result.codes, graph.tensors[name]
            if tensor.quant is not None and op.kind in ("conv", "add", "dense"):
                step = rng.choice([-1, 1], codes.shape) * (rng.random(codes.shape) < flips)
                codes = np.clip(codes.astype(int) + step, *tensor.code_range).astype(codes.dtype)
            values[name] = (broken or {}).get(name, codes)
    return values


def observe(
    graph: Graph, values: dict[str, Any], names: set[str], unsigned: set[str] | None = None
) -> list[ObservedBuffer]:
    """Buffers as a compiled network has them: four dimensions, some as unsigned codes without zero point."""
    buffers = []
    order = [name for op in graph.ops for name in op.outputs]
    for name in sorted(names, key=order.index):
        tensor, codes = graph.tensors[name], values[name]
        zero, data = tensor.zero_point, codes
        if name in (unsigned or set()):
            zero, data = tensor.zero_point + 128, (codes.astype(int) + 128).astype(np.uint8)
        shape = (1,) * (4 - codes.ndim) + codes.shape
        scale = None if tensor.is_float else tensor.scale * (1 + 1e-8)
        buffers.append(ObservedBuffer(f"buffer_{name}", order.index(name), scale, zero, shape, data.reshape(shape)))
    return buffers


@pytest.fixture
def network() -> tuple[Graph, dict[str, Any]]:
    graph = read_tflite(chain_model())
    pixels = np.random.default_rng(7).integers(0, 256, (1, 8, 8, 3)).astype(np.uint8)
    return graph, {"pixels": pixels}


def by_tensor(report: LayerReport) -> dict[str, Any]:
    return {result.tensor: result for result in report.results}


def test_a_good_run(network: tuple[Graph, dict[str, Any]]) -> None:
    graph, inputs = network
    buffers = observe(graph, simulate(graph, inputs), {*HIDDEN, "out"}, unsigned={"c"})
    report = check_layers(graph, inputs, buffers)
    assert {r.tensor: r.buffer for r in report.results} == {name: f"buffer_{name}" for name in (*HIDDEN, "out")}
    assert report.max_diff == 1
    assert 0 < report.differ_percent < 5
    assert not report.exceptions()
    assert not report.unmatched
    assert not report.unused_buffers
    assert by_tensor(report)["s"].inputs == ("c", "a") or set(by_tensor(report)["s"].inputs) == {"a", "c"}


def test_layers_between_observed_tensors_are_computed_in_one_go(network: tuple[Graph, dict[str, Any]]) -> None:
    graph, inputs = network
    report = check_layers(graph, inputs, observe(graph, simulate(graph, inputs, flips=0), {"a", "m"}))
    mean = by_tensor(report)["m"]
    assert mean.ops == ("CONV_2D_2", "ADD_3", "MEAN_4")
    assert mean.computing_ops == 3
    assert mean.inputs == ("a",)
    assert mean.max_diff == 0
    reasons = {row.tensor: row.reason for row in report.unmatched}
    assert "fused" in reasons["c"]


def test_the_wrong_layer_is_named_and_the_others_pass(network: tuple[Graph, dict[str, Any]]) -> None:
    graph, inputs = network
    values = simulate(graph, inputs)
    wrong = np.roll(values["a"], 3, axis=2)  # nothing like the right answer
    values = simulate(graph, inputs, broken={"a": wrong})
    report = check_layers(graph, inputs, observe(graph, values, HIDDEN))
    assert [result.tensor for result in report.exceptions()] == ["a"]
    found = by_tensor(report)
    assert "consumer" in found["a"].note
    assert found["c"].max_diff <= 1
    assert "unexplained" in found["a"].cause


def test_a_small_systematic_error_shows(network: tuple[Graph, dict[str, Any]]) -> None:
    graph, inputs = network
    values = simulate(graph, inputs, flips=0)
    shifted = np.clip(values["s"].astype(int) - 1, -128, 127).astype(np.int8)
    report = check_layers(graph, inputs, observe(graph, simulate(graph, inputs, 0, {"s": shifted}), HIDDEN))
    row = by_tensor(report)["s"]
    assert row.max_diff == 1
    assert row.differ_percent > 90
    assert row.mean_diff < -0.9
    assert row.max_real_error > 1


def test_streams_between_units_are_found(network: tuple[Graph, dict[str, Any]]) -> None:
    graph, inputs = network
    values = simulate(graph, inputs)
    stream = values["a"].reshape(8, 8, 2, 4).transpose(2, 0, 1, 3).reshape(-1)  # two groups of four channels
    tap = ObservedBuffer("ARITH0", 1, None, 0, stream.shape, stream)
    report = check_layers(graph, inputs, [*observe(graph, values, HIDDEN - {"a"}), tap])
    assert by_tensor(report)["a"].buffer == "ARITH0"
    assert by_tensor(report)["c"].computing_ops == 1


def test_axes_may_come_in_any_order(network: tuple[Graph, dict[str, Any]]) -> None:
    graph, inputs = network
    values = simulate(graph, inputs)
    buffers = observe(graph, values, HIDDEN)
    turned = values["a"].transpose(0, 1, 3, 2)
    buffers = [replace(b, data=turned, shape_nhwc=turned.shape) if b.name == "buffer_a" else b for b in buffers]
    assert by_tensor(check_layers(graph, inputs, buffers))["a"].max_diff <= 1


def concat_network() -> tuple[Graph, dict[str, Any]]:
    quant = Quantisation.per_tensor(0.05, 3)
    rng = np.random.default_rng(3)
    tensors = [Tensor("x", (1, 4, 4, 3), "int8", quant), Tensor("z", (1, 4, 4, 8), "int8", quant)]
    ops = []
    for name in ("a", "b"):
        weights = rng.integers(-127, 128, (4, 1, 1, 3)).astype(np.int8)
        tensors += [
            Tensor(f"w{name}", weights.shape, "int8", Quantisation.per_tensor(0.01), weights),
            Tensor(name, (1, 4, 4, 4), "int8", quant),
        ]
        attrs = {"stride": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC"}
        ops.append(Op("conv", f"conv_{name}", ("x", f"w{name}"), (name,), attrs))
    ops.append(Op("concat", "join", ("a", "b"), ("z",), {"axis": 3}))
    graph = Graph({t.name: t for t in tensors}, tuple(ops), ("x",), ("z",))
    return graph, {"x": rng.integers(-128, 128, (1, 4, 4, 3)).astype(np.int8)}


def test_layers_that_write_into_a_concatenation() -> None:
    graph, inputs = concat_network()
    report = check_layers(graph, inputs, observe(graph, simulate(graph, inputs, 0.1), {"z"}))
    found = by_tensor(report)
    assert found["a"].note == "inside buffer_z"
    assert found["a"].computing_ops == found["b"].computing_ops == 1
    assert found["z"].max_diff == 0
    assert 0 < found["b"].differ_percent < 50


def test_saturation_is_recognised() -> None:
    """A convolution whose 16-bit intermediate cannot hold the result, as the compiler's lowering has it."""
    x = np.full((1, 2, 2, 8), 127, np.int8)
    weights = np.full((2, 1, 1, 8), 100, np.int8)
    bias = np.full(2, -100000, np.int32)  # brings the result back into range
    tensors = [
        Tensor("x", x.shape, "int8", Quantisation.per_tensor(0.1, 0)),
        Tensor("w", weights.shape, "int8", Quantisation.per_tensor(0.01), weights),
        Tensor("b", (2,), "int32", None, bias),
        Tensor("y", (1, 2, 2, 2), "int8", Quantisation.per_tensor(0.04, 0)),
    ]
    attrs = {"stride": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC"}
    graph = Graph({t.name: t for t in tensors}, (Op("conv", "c", ("x", "w", "b"), ("y",), attrs),), ("x",), ("y",))
    right = simulate(graph, {"x": x}, 0)["y"]
    wrong = right.copy()
    wrong[0, 0, 0, 0] -= 5
    report = check_layers(graph, {"x": x}, observe(graph, {"y": wrong}, {"y"}))
    assert report.exceptions()[0].cause == "1 of 1 saturate a 16-bit stage"
