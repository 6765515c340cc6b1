"""Layers that other compilers leave to the CPU or get wrong: on the NPU, within 1 of exact arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from atonc.compiler.compare.metrics import cosine
from atonc.compiler.ir import Graph, Quantisation
from tests.compiler.layer_checks import Outcome, compile_checked, run_checked
from tests.compiler.random_graphs import Net, random_inputs

SEEDS = (0, 1)


def _net(shape: tuple[int, ...], zero: int = -128) -> Net:
    net = Net(np.random.default_rng(3))
    net.add_input(shape)
    name = net.inputs[0]
    net.tensors[name] = type(net.tensors[name])(name, shape, "int8", Quantisation.per_tensor(0.02, zero))
    return net


def _conv(net: Net, x: str, outputs: int, kernel: tuple[int, int], **attrs: object) -> str:
    _, height, width, channels = net.shape(x)
    settings = {"stride": (1, 1), "padding": (0, 0, 0, 0), "groups": 1} | attrs
    data = net.rng.integers(-127, 128, (outputs, *kernel, channels // settings["groups"])).astype(np.int8)  # type: ignore[operator]
    if attrs.pop("zero_mean", False):
        data = _zero_mean(data)
    settings.pop("zero_mean", None)
    scales = net.rng.uniform(0.002, 0.006, outputs)
    weights = net.constant(data, Quantisation(scales, np.zeros(outputs, np.int64), 0))
    bias = net.constant(net.rng.integers(-2000, 2000, outputs).astype(np.int32))
    (down, right), (top, left, bottom, last) = settings["stride"], settings["padding"]  # type: ignore[misc]
    out = ((height + top + bottom - kernel[0]) // down + 1, (width + left + last - kernel[1]) // right + 1)
    return net.op("conv", [x, weights, bias], (1, *out, outputs), layout="NHWC", dilation=(1, 1), **settings)[0]


def _zero_mean(data: np.ndarray) -> np.ndarray:
    """Filters whose weights cancel: their signed sum says nothing about the range of the accumulator."""
    half = data.shape[-1] // 2
    data[..., half : 2 * half] = -data[..., :half]
    return data


def channels_257() -> Graph:
    net = _net((1, 12, 12, 64))
    x = _conv(net, net.inputs[0], 257, (1, 1))
    _conv(net, x, 257, (1, 1))
    return net.graph("257 channels")


def dense_1024_to_257() -> Graph:
    net = _net((1, 1024), -128)
    weights = net.constant(net.rng.integers(-127, 128, (257, 1024)).astype(np.int8), Quantisation.per_tensor(0.004))
    bias = net.constant(net.rng.integers(-2000, 2000, 257).astype(np.int32))
    net.op("dense", [net.inputs[0], weights, bias], (1, 257))
    return net.graph("dense 1024 to 257")


def seven_by_seven() -> Graph:
    net = _net((1, 64, 64, 3))
    _conv(net, net.inputs[0], 16, (7, 7), padding=(3, 3, 3, 3))
    return net.graph("7x7")


def seven_by_seven_stride_2() -> Graph:
    net = _net((1, 64, 64, 3))
    _conv(net, net.inputs[0], 16, (7, 7), padding=(2, 2, 3, 3), stride=(2, 2))
    return net.graph("7x7 stride 2")


def depthwise_stride_2() -> Graph:
    net = _net((1, 28, 28, 24), -20)
    _conv(net, net.inputs[0], 24, (3, 3), padding=(0, 0, 1, 1), stride=(2, 2), groups=24)
    return net.graph("depthwise stride 2")


def global_average_50_by_11() -> Graph:
    net = _net((1, 50, 11, 40), 5)
    net.values[net.inputs[0]] = _slanted((1, 50, 11, 40), 0)
    net.op("mean", [net.inputs[0]], (1, 40), axes=(1, 2), keepdims=False)
    net.op("average_pool", [net.inputs[0]], (1, 1, 1, 40), window=(50, 11), stride=(50, 11), padding=(0,) * 4,
           layout="NHWC")  # fmt: skip
    return net.graph("global average 50x11")


def zero_mean_1_by_4() -> Graph:
    net = _net((1, 1, 64, 112))
    _conv(net, net.inputs[0], 64, (1, 4), stride=(2, 2), padding=(0, 1, 0, 1), zero_mean=True)
    return net.graph("1x4 stride 2, zero-mean filters")


def quiet_until_noise() -> Graph:
    """A table that is silent for all codes of natural inputs, then a window over many channels: sums of 16 bits have to
    leave room for what typical inputs never show."""
    net = _net((1, 10, 10, 37), 127)
    table = np.clip((np.arange(-128, 128) - 105) * 11 - 128, -128, 127)
    x = net.op("table", [net.inputs[0]], (1, 10, 10, 37), table=tuple(int(v) for v in table))[0]
    net.tensors[x] = replace(net.tensors[x], quant=Quantisation.per_tensor(0.02, -128))
    _conv(net, x, 16, (3, 3), padding=(1, 1, 1, 1))
    return net.graph("quiet until noise")


def long_line() -> Graph:
    """Lines that the buffer of a depthwise unit does not hold with 16-bit features."""
    net = _net((1, 1, 1685, 3), 5)
    _conv(net, net.inputs[0], 3, (1, 4), groups=3)
    return net.graph("long line")


def _slanted(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Noise around another mean in every channel."""
    noise = np.random.default_rng(seed).integers(-64, 64, shape)
    return np.clip(noise + np.linspace(-90, 90, shape[-1]), -128, 127).astype(np.int8)


CASES = (
    channels_257, dense_1024_to_257, seven_by_seven, seven_by_seven_stride_2, depthwise_stride_2,
    global_average_50_by_11, zero_mean_1_by_4,
)  # fmt: skip


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_on_the_npu_and_within_one(make: object) -> None:
    graph = make()  # type: ignore[operator]
    compiled = compile_checked(graph)
    assert not compiled.choices.reasons and not compiled.findings
    for seed in SEEDS:
        inputs = random_inputs(compiled.graph, seed)
        if make is global_average_50_by_11:
            inputs = {name: _slanted(value.shape, seed) for name, value in inputs.items()}
        outcome = run_checked(compiled, inputs)
        assert not outcome.bad, [(layer.op.name, layer.most, layer.different, layer.elements) for layer in outcome.bad]
        _assert_spread(outcome)


def _assert_spread(outcome: Outcome) -> None:
    """A layer that saturates everywhere proves nothing."""
    for got, expected in outcome.outputs.values():
        assert len(np.unique(expected)) > min(20, expected.size // 2)
        centred = got.astype(np.float64) - got.mean(), expected.astype(np.float64) - expected.mean()
        assert cosine(*centred) >= 0.999


def test_sums_leave_room_for_inputs_unlike_typical_ones() -> None:
    compiled = compile_checked(quiet_until_noise())
    for seed in (1, 3, 5):  # noise
        outcome = run_checked(compiled, random_inputs(compiled.graph, seed))
        assert not outcome.bad and not outcome.saturated and not outcome.unlike_meaning
        assert len(np.unique(next(iter(outcome.outputs.values()))[1])) > 50


def test_long_lines_keep_the_rules_of_the_units() -> None:
    compiled = compile_checked(long_line())
    assert not compiled.choices.reasons
    assert not run_checked(compiled, random_inputs(compiled.graph, 1)).bad
