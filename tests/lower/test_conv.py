"""Convolutions on the emulator against exact arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.map_ops import map_ops
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.run import run_mapped
from atonc.compiler.ops import run_graph, run_op
from tests.lower.harness import activation, constant, facts, graph_of, lower, run


def conv_graph(
    height, width, channels, outputs, kernel=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1), dilation=(1, 1), zero=-5,
    groups=1, seed=0,
):  # fmt: skip
    rng = np.random.default_rng(seed)
    weights = rng.integers(-127, 128, (outputs, *kernel, channels // groups)).astype(np.int8)
    scales = rng.uniform(0.002, 0.004, outputs)
    bias = rng.integers(-2000, 2000, outputs).astype(np.int32)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    top, left, bottom, right = padding
    out = ((height + top + bottom - reach[0]) // stride[0] + 1, (width + left + right - reach[1]) // stride[1] + 1)
    spread = np.sqrt(kernel[0] * kernel[1] * channels / groups) * 60 * 70 * 0.003 * 0.02 / 40
    attrs = {"stride": stride, "dilation": dilation, "padding": padding, "groups": groups, "layout": "NHWC"}
    op = Op("conv", "conv", ("x", "w", "b"), ("y",), attrs)
    return graph_of(
        op,
        activation("x", (1, height, width, channels), 0.02, zero),
        constant("w", weights, scales, axis=0),
        constant("b", bias),
        activation("y", (1, *out, outputs), spread, 3),
    )


def check(graph, most=1, seed=0):
    x = graph.tensors["x"]
    codes = np.random.default_rng(seed).integers(-128, 128, x.shape).astype(np.int8)
    expected = run_graph(graph, {"x": codes})["y"]
    got = run(graph, {"x": codes})["y"]
    difference = np.abs(got.astype(int) - expected.astype(int))
    assert difference.max() <= most, (difference.max(), (difference > 0).mean())
    assert len(np.unique(expected)) > 20 or expected.size < 40


CASES = {
    "3x3": dict(height=10, width=12, channels=8, outputs=8),
    "3x3 many channels": dict(height=6, width=7, channels=64, outputs=24),
    "3x3 three channels": dict(height=16, width=20, channels=3, outputs=16),
    "3x3 prime": dict(height=9, width=5, channels=13, outputs=17),
    "3x3 stride 2": dict(height=12, width=12, channels=16, outputs=8, stride=(2, 2), padding=(0, 0, 1, 1)),
    "3x3 valid": dict(height=12, width=12, channels=16, outputs=8, padding=(0, 0, 0, 0)),
    "1x1": dict(height=10, width=12, channels=16, outputs=24, kernel=(1, 1), padding=(0, 0, 0, 0)),
    "1x1 many": dict(height=5, width=6, channels=300, outputs=70, kernel=(1, 1), padding=(0, 0, 0, 0)),
    "1x1 stride 2": dict(height=8, width=9, channels=20, outputs=12, kernel=(1, 1), padding=(0,) * 4, stride=(2, 2)),
    "5x5": dict(height=12, width=12, channels=8, outputs=8, kernel=(5, 5), padding=(2, 2, 2, 2)),
    "5x5 many": dict(height=9, width=9, channels=40, outputs=12, kernel=(5, 5), padding=(2, 2, 2, 2)),
    "2x2 stride 2": dict(height=8, width=8, channels=8, outputs=8, kernel=(2, 2), padding=(0,) * 4, stride=(2, 2)),
    "dilated": dict(height=12, width=11, channels=8, outputs=8, padding=(2, 2, 2, 2), dilation=(2, 2)),
    "1x3": dict(height=6, width=20, channels=8, outputs=8, kernel=(1, 3), padding=(0, 1, 0, 1)),
}


@pytest.mark.parametrize("zero", [-128, -5, 0, 127])
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str, zero: int) -> None:
    check(conv_graph(**CASES[name], zero=zero))


DEPTHWISE = {
    "3x3": dict(height=10, width=12, channels=24, outputs=24),
    "prime": dict(height=10, width=12, channels=13, outputs=13),
    "stride 2": dict(height=10, width=12, channels=32, outputs=32, stride=(2, 2), padding=(0, 0, 1, 1)),
    "wide": dict(height=4, width=200, channels=16, outputs=16),
    "5x5": dict(height=10, width=12, channels=12, outputs=12, kernel=(5, 5), padding=(2, 2, 2, 2)),
    "5x5 stride 2": dict(
        height=10, width=12, channels=12, outputs=12, kernel=(5, 5), padding=(1, 1, 2, 2), stride=(2, 2)
    ),
    "multiplier 2": dict(height=9, width=8, channels=6, outputs=12),
    "multiplier 8": dict(height=9, width=8, channels=3, outputs=24),
    "dilated": dict(height=9, width=8, channels=8, outputs=8, padding=(2, 2, 2, 2), dilation=(2, 2)),
    "many": dict(height=3, width=3, channels=700, outputs=700),
    "7x7 to one pixel": dict(height=7, width=7, channels=20, outputs=20, kernel=(7, 7), padding=(0, 0, 0, 0)),
    "3x3 valid": dict(height=7, width=7, channels=20, outputs=20, padding=(0, 0, 0, 0)),
}


@pytest.mark.parametrize("zero", [-128, -5, 0])
@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise_convolutions(name: str, zero: int) -> None:
    case = DEPTHWISE[name]
    check(conv_graph(**case, groups=case["channels"], zero=zero))


WEIGHTS_OF_NINE_BITS = {
    "3x3": CASES["3x3"],
    "1x1": CASES["1x1"],
    "5x5": CASES["5x5"],
    "depthwise": dict(DEPTHWISE["3x3"], groups=24),
    "depthwise 5x5": dict(DEPTHWISE["5x5"], groups=12),
}


@pytest.mark.parametrize("zero", [-128, -127, 0, 127])
@pytest.mark.parametrize("name", WEIGHTS_OF_NINE_BITS)
def test_weights_with_a_zero_point(name: str, zero: int) -> None:
    """Unsigned weights without one become codes with the zero point -128, so that the largest counts 255."""
    graph = conv_graph(**WEIGHTS_OF_NINE_BITS[name])
    codes = np.random.default_rng(5).choice([-128, -90, 0, 60, 126, 127], graph.tensors["w"].shape).astype(np.int8)
    outputs = codes.shape[0]
    weights = constant("w", codes, np.full(outputs, 0.003), zero, axis=0)
    y = activation("y", graph.tensors["y"].shape, 3.0 * graph.tensors["y"].scale, 3)
    check(replace(graph, tensors=graph.tensors | {"w": weights, "y": y}))


@pytest.mark.parametrize("zero", [-128, -5, 0])
@pytest.mark.parametrize("groups", [1, 3])
def test_seven_by_seven_is_summed_from_parts(zero: int, groups: int) -> None:
    """Without a bias either: sums of different zero points must not be added up."""
    graph = conv_graph(16, 16, 3, 33, kernel=(7, 7), padding=(3, 3, 3, 3), zero=zero, groups=groups)
    check(graph)
    codes = np.random.default_rng(3).integers(-128, 128, (1, 16, 16, 3)).astype(np.int8)
    apart = run(graph, {"x": codes})["y"].astype(int) - run_graph(graph, {"x": codes})["y"]
    assert np.abs(apart.mean(axis=(0, 1, 2))).max() < 0.05


@pytest.mark.parametrize("zero", [-128, -5])
def test_seven_by_seven_with_stride_two_and_many_channels(zero: int) -> None:
    check(conv_graph(9, 12, 36, 8, kernel=(7, 7), padding=(3, 2, 3, 3), stride=(2, 2), zero=zero))


def test_grouped_convolution() -> None:
    check(conv_graph(8, 8, 12, 16, groups=2))


def test_clip_in_output_codes() -> None:
    graph = conv_graph(8, 8, 12, 16)
    graph.ops[0].attrs["clip"] = (3, 90)
    codes = np.random.default_rng(1).integers(-128, 128, (1, 8, 8, 12)).astype(np.int8)
    expected = np.clip(run_graph(graph, {"x": codes})["y"], 3, 90)
    got = run(graph, {"x": codes})["y"]
    assert np.abs(got.astype(int) - expected).max() <= 1 and got.min() == 3 and got.max() == 90


TRANSPOSED = {
    "2x2 stride 2": dict(kernel=(2, 2), stride=(2, 2), padding=(0, 0, 0, 0), out=(12, 14)),
    "3x3 stride 2": dict(kernel=(3, 3), stride=(2, 2), padding=(0, 0, 0, 0), out=(12, 14)),
    "4x4 stride 2 same": dict(kernel=(4, 4), stride=(2, 2), padding=(1, 1, 1, 1), out=(12, 14)),
    "3x3 stride 1": dict(kernel=(3, 3), stride=(1, 1), padding=(1, 1, 1, 1), out=(6, 7)),
    "2x2 stride 3": dict(kernel=(2, 2), stride=(3, 3), padding=(0, 0, 0, 0), out=(18, 21)),
    "3x3 stride 2 full": dict(kernel=(3, 3), stride=(2, 2), padding=(0, 0, 0, 0), out=(13, 15)),
    "3x3 stride 2 odd": dict(kernel=(3, 3), stride=(2, 2), padding=(1, 1, 1, 1), out=(11, 13)),
    "1x3 stride 1x2": dict(kernel=(1, 3), stride=(1, 2), padding=(0, 0, 0, 0), out=(6, 15)),
    "4x4 stride 3": dict(kernel=(4, 4), stride=(3, 3), padding=(0, 0, 0, 0), out=(19, 22)),
}


@pytest.mark.parametrize("zero", [-128, 7])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name: str, zero: int) -> None:
    case = TRANSPOSED[name]
    rng = np.random.default_rng(2)
    weights = rng.integers(-127, 128, (10, *case["kernel"], 12)).astype(np.int8)
    attrs = {"stride": case["stride"], "padding": case["padding"], "layout": "NHWC"}
    graph = graph_of(
        Op("transpose_conv", "up", ("x", "w", "b"), ("y",), attrs),
        activation("x", (1, 6, 7, 12), 0.02, zero),
        constant("w", weights, rng.uniform(0.002, 0.004, 10), axis=0),
        constant("b", rng.integers(-2000, 2000, 10).astype(np.int32)),
        activation("y", (1, *case["out"], 10), 0.03, 3),
    )
    check(graph)


@pytest.mark.parametrize(("tensor", "scale"), [("x", 1e38), ("w", 1e30), ("y", 1e-38)])
def test_scales_beyond_use_are_refused(tensor: str, scale: float) -> None:
    graph = conv_graph(6, 6, 8, 8)
    old = graph.tensors[tensor]
    scales = np.full_like(old.quant.scales, scale)
    changed = replace(old, quant=replace(old.quant, scales=scales))
    with pytest.raises(Refusal, match="beyond all use"):
        lower(replace(graph, tensors={**graph.tensors, tensor: changed}))


@pytest.mark.parametrize("name", CASES)
def test_numbers_of_releases_2(name: str) -> None:
    """Not closer than that, but exactly what the recipe means (the harness compares); none of these is refused."""
    graph = conv_graph(**CASES[name])
    codes = np.random.default_rng(4).integers(-128, 128, graph.tensors["x"].shape).astype(np.int8)
    run(graph, {"x": codes}, numerics="2.x")


def stored_shifted(graph: Graph) -> Graph:
    """A 1x1 convolution in front, so that the layer finds its features as code + 128."""
    conv, x = graph.ops[0], graph.tensors["x"]
    channels = x.shape[3]
    rng = np.random.default_rng(5)
    weights = constant("v", rng.integers(-127, 128, (channels, 1, 1, channels)).astype(np.int8), 0.004)
    first = Op("conv", "first", ("input", "v", ""), ("x",), {**CONV_1X1, "groups": 1})
    tensors = {**graph.tensors, "v": weights, "input": activation("input", x.shape, 0.05, 3)}
    return Graph(tensors, (first, conv), ("input",), graph.outputs)


CONV_1X1 = {"stride": (1, 1), "dilation": (1, 1), "padding": (0, 0, 0, 0), "layout": "NHWC"}
SHIFTED = {
    "5x5 valid": dict(height=9, width=11, channels=5, outputs=7, kernel=(5, 5), padding=(0, 0, 0, 0)),
    "groups, stride 2": dict(height=7, width=15, channels=26, outputs=4, stride=(2, 2), groups=2),
    "4x4 dilated": dict(height=9, width=9, channels=8, outputs=16, kernel=(4, 4), padding=(3,) * 4, dilation=(2, 2)),
    "3x3": dict(height=9, width=9, channels=8, outputs=16),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_layers_take_shifted_features_or_make_them_signed(name: str) -> None:
    graph = stored_shifted(conv_graph(**SHIFTED[name], zero=-128))
    assert facts(graph).shifted == {"x"}
    codes = np.random.default_rng(0).integers(-128, 128, graph.tensors["input"].shape).astype(np.int8)
    run(graph, {"input": codes})  # compared with what it means
    mapped = map_ops(facts(graph))
    assert not mapped.reason_of
    reference = run_mapped(graph, mapped, {"input": codes})
    exact = run_op(graph, graph.ops[1], reference)[0].codes
    assert np.abs(reference["y"].astype(int) - exact).max() <= 1


@pytest.mark.parametrize("cut", [(0, 0, 0, 0), (1, 0, 0, 1), (3, 3, 3, 3)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_transposed_convolutions_without_stride(cut: tuple[int, ...], dilation: int) -> None:
    rng = np.random.default_rng(3)
    reach = 3 * dilation
    out = (6 + reach - cut[0] - cut[2], 7 + reach - cut[1] - cut[3])
    attrs = {"stride": (1, 1), "padding": cut, "dilation": (dilation, dilation), "layout": "NHWC"}
    graph = graph_of(
        Op("transpose_conv", "up", ("x", "w", ""), ("y",), attrs),
        activation("x", (1, 6, 7, 12), 0.02, 7),
        constant("w", rng.integers(-127, 128, (10, 4, 4, 12)).astype(np.int8), rng.uniform(0.002, 0.004, 10), axis=0),
        activation("y", (1, *out, 10), 0.05, 3),
    )
    check(graph)


WIDE = {
    "sound": dict(height=1, width=4000, channels=1, outputs=8, kernel=(1, 16), stride=(1, 4), padding=(0, 6, 0, 6)),
    "2x2 stride 2": dict(height=2, width=2304, channels=1, outputs=8, kernel=(2, 2), padding=(0,) * 4, stride=(2, 2)),
    "depthwise": dict(height=1, width=1685, channels=3, outputs=3, kernel=(1, 4), padding=(0,) * 4, groups=3),
    "3x3": dict(height=4, width=2500, channels=9, outputs=5),
}


@pytest.mark.parametrize("name", WIDE)
@pytest.mark.parametrize("zero", [-128, -5])
def test_wide_pictures_go_in_strips(name: str, zero: int) -> None:
    check(conv_graph(**WIDE[name], zero=zero))


def test_lines_fit_the_unit_where_stride_two_halves_them() -> None:
    """Lines of inputs count, not those of outputs."""
    check(conv_graph(4, 257, 16, 32, stride=(2, 2), padding=(0, 0, 1, 0)))


HUGE = {
    "1x1": dict(channels=12, outputs=72, kernel=(1, 1), padding=(0, 0, 0, 0)),
    "1x1 many": dict(channels=200, outputs=56, kernel=(1, 1), padding=(0, 0, 0, 0)),
    "3x3": dict(channels=8, outputs=72),
    "depthwise": dict(channels=72, outputs=72, groups=72),
}


@pytest.mark.parametrize("name", HUGE)
def test_engines_on_pictures_that_leave_the_ram_of_the_npu_start_at_aligned_addresses(name: str) -> None:
    plans, _ = lower(conv_graph(120, 120, **HUGE[name]))
    for plan in plans:
        for use in plan.engines.values():
            if use.buffer in ("x", "y"):
                assert use.config.address % (16 if use.config.to_memory else 8) == 0, (use.buffer, use.config.address)


def picture_graph(zero: int) -> Graph:
    """A convolution on an input of type uint8."""
    graph = conv_graph(74, 80, 3, 24, stride=(2, 2), padding=(0, 0, 1, 1), zero=zero)
    quant = Quantisation.per_tensor(graph.tensors["x"].scale, zero + 128)
    picture = Tensor("picture", graph.tensors["x"].shape, "uint8", quant)
    edge = Op("uint8_to_int8", "edge", ("picture",), ("x",), {}, ("edge",))
    return replace(graph, tensors=graph.tensors | {"picture": picture}, ops=(edge, *graph.ops), inputs=("picture",))


@pytest.mark.parametrize(("zero", "batches", "kernels"), [(-128, 3, 8), (-1, 3, 8)])
def test_pictures_are_read_three_channels_at_a_time(zero: int, batches: int, kernels: int) -> None:
    """At zero point 0 as they come: no epoch converts them; else from a copy with the zero point around it."""
    graph = picture_graph(zero)
    plans, _ = lower(graph)
    units = [c for plan in plans for c in plan.units.values() if c.KIND == "CONVACC"]
    assert {(c.batch, c.kernels) for c in units} == {(batches, kernels)}
    assert any("CONVACC" in name for name in plans[0].units) == (zero == -128)
    codes = np.random.default_rng(4).integers(0, 256, graph.tensors["picture"].shape).astype(np.uint8)
    apart = run(graph, {"picture": codes})["y"].astype(int) - run_graph(graph, {"picture": codes})["y"]
    assert np.abs(apart).max() <= 1


def test_signed_pictures_lose_their_zero_point_where_that_is_faster() -> None:
    """A window without zero point holds twice as many kernels: worth a copy of a large picture, not of a small one."""
    large, small = (conv_graph(n, n, 3, 32, stride=(2, 2), padding=(0, 0, 1, 1), zero=-128) for n in (64, 8))
    for graph, kernels in ((large, 8), (small, 4)):
        units = [c for plan in lower(graph)[0] for c in plan.units.values() if c.KIND == "CONVACC"]
        assert {c.kernels for c in units} == {kernels}
        check(graph)
