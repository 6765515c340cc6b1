"""Convolution and pooling against loops over every pixel and kernel position."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.cpu import run_call
from tests.emu.cpu_calls import Array, Bench, Struct, general, sym

RNG = np.random.default_rng(2)


def scalar_conv(
    image: Array,
    weights: Array,
    groups: int,
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: list[int],
    out_hw: tuple[int, int],
) -> Array:
    outputs, kh, kw, depth = weights.shape
    result = np.zeros((image.shape[0], *out_hw, outputs))
    for n, y, x, o in np.ndindex(result.shape):
        first = o // (outputs // groups) * depth
        for r, q in np.ndindex(kh, kw):
            row, column = y * strides[0] + r * dilations[0] - pads[0], x * strides[1] + q * dilations[1] - pads[1]
            if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]:
                result[n, y, x, o] += image[n, row, column, first : first + depth] @ weights[o, r, q]
    return result


def out_size(size: int, kernel: int, stride: int, dilation: int, before: int, after: int) -> int:
    return (size + before + after - (kernel - 1) * dilation - 1) // stride + 1


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_convolution(data: st.DataObject) -> None:
    groups, per_group, depth = (data.draw(st.integers(1, 3)) for _ in range(3))
    kernel, strides, dilations = (tuple(data.draw(st.integers(1, 3)) for _ in range(2)) for _ in range(3))
    pads = [data.draw(st.integers(0, 2)) for _ in range(4)]
    image = RNG.integers(-9, 10, (1, 7, 8, groups * depth)).astype(np.float32)
    weights = RNG.integers(-9, 10, (groups * per_group, *kernel, depth)).astype(np.float32)
    out_hw = tuple(
        out_size(image.shape[1 + k], kernel[k], strides[k], dilations[k], pads[k], pads[2 + k]) for k in (0, 1)
    )
    if min(out_hw) < 1:
        return
    bench = Bench()
    out = bench.output((1, *out_hw, weights.shape[0]), np.float32)
    bias = RNG.integers(-5, 5, (1, 1, 1, weights.shape[0])).astype(np.float32)
    info = general("LL_SW_CONV", bench.tensor(image), out)
    info |= {"weights": bench.tensor(weights), "bias": bench.tensor(bias), "ngroup": groups}
    info |= {"pads": list(pads), "strides": list(strides), "dilations": list(dilations)}
    run_call("ll_sw_forward_conv", [info], bench.memory)
    expected = scalar_conv(image, weights, groups, strides, dilations, pads, out_hw) + bias
    assert np.array_equal(bench.result(out, np.float32), expected)


def test_output_size_decides_how_many_windows() -> None:
    """Part of a split kernel: one output pixel from a large image, as ST's compiler makes it."""
    bench, image = Bench(), RNG.normal(0, 1, (1, 7, 7, 8)).astype(np.float32)
    weights = RNG.normal(0, 1, (8, 1, 1, 1)).astype(np.float32)
    out = bench.output((1, 1, 1, 8), np.float32)
    info = general("LL_SW_CONV", bench.tensor(image), out) | {"weights": bench.tensor(weights), "ngroup": 8}
    info |= {"pads": [0] * 4, "strides": [1, 1], "dilations": [1, 1]}
    run_call("ll_sw_forward_conv", [info], bench.memory)
    assert np.allclose(bench.result(out, np.float32).reshape(8), image[0, 0, 0] * weights.reshape(8), rtol=1e-6)


@pytest.mark.parametrize("per_channel", [False, True])
def test_int8_convolution(per_channel: bool) -> None:
    bench, image = Bench(), RNG.integers(-128, 128, (1, 5, 6, 3)).astype(np.int8)
    weights = RNG.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    bias = RNG.integers(-2000, 2000, (1, 1, 1, 4)).astype(np.int32)
    scales = [0.01, 0.02, 0.005, 0.03] if per_channel else [0.01]
    out = bench.output((1, 5, 6, 4), np.int8)
    info = general("LL_SW_QLINEARCONV", bench.tensor(image), out) | {"weights": bench.tensor(weights), "ngroup": 1}
    info |= {"bias": bench.tensor(bias), "fwd_func": sym("LL_SW_SSSA_GENERIC_CONV")}
    info |= {"pads": [1] * 4, "strides": [1, 1], "dilations": [1, 1]}
    info |= bench.quant("is", "izp", 0.05, -11) | bench.quant("ws", "wzp", scales, [0] * len(scales))
    info |= bench.quant("os", "ozp", 0.7, 4)
    run_call("ll_sw_forward_conv_integer", [info], bench.memory)
    exact = scalar_conv(image.astype(float) + 11, weights.astype(float), 1, (1, 1), (1, 1), [1] * 4, (5, 6)) + bias
    factor = float(np.float32(0.05)) * np.array(scales, np.float32).astype(float) / float(np.float32(0.7))
    assert np.abs(bench.result(out, np.int8) - np.clip(exact * factor + 4, -128, 127)).max() <= 0.5001
    with pytest.raises(NotModelledError):
        run_call("ll_sw_forward_conv_integer", [info | {"fwd_func": None}], bench.memory)


def pool_layer(bench: Bench, image: Array, kind: str, out_hw: tuple[int, int], **more: object) -> tuple[Struct, Struct]:
    out = bench.output((image.shape[0], *out_hw, image.shape[3]), image.dtype)
    settings_: Struct = {"pads": [0, 1, 1, 1], "strides": [2, 1], "k_shape": [3, 2]}
    return general(kind, bench.tensor(image), out) | settings_ | more, out


def scalar_pool(image: Array, out_hw: tuple[int, int], kind: str, include_pad: bool, pads: tuple[int, int]) -> Array:
    result = np.zeros((image.shape[0], *out_hw, image.shape[3]))
    for n, y, x, c in np.ndindex(result.shape):
        seen = [
            float(image[n, row, column, c])
            for row in range(y * 2 - pads[0], y * 2 - pads[0] + 3)
            for column in range(x - pads[1], x - pads[1] + 2)
            if 0 <= row < image.shape[1] and 0 <= column < image.shape[2]
        ]
        result[n, y, x, c] = max(seen) if kind == "LL_SW_MAXPOOL" else sum(seen) / (6 if include_pad else len(seen))
    return result


@pytest.mark.parametrize("kind", ["LL_SW_MAXPOOL", "LL_SW_AVGPOOL"])
@pytest.mark.parametrize("include_pad", [0, 1])
def test_float_pooling(kind: str, include_pad: int) -> None:
    bench, image = Bench(), RNG.normal(0, 1, (2, 6, 5, 3)).astype(np.float32)
    info, out = pool_layer(bench, image, kind, (3, 6), count_include_pad=include_pad)
    run_call("ll_sw_forward_pool", [info], bench.memory)
    expected = scalar_pool(image, (3, 6), kind, bool(include_pad), (0, 1))
    assert np.allclose(bench.result(out, np.float32), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["LL_SW_MAXPOOL", "LL_SW_AVGPOOL"])
def test_int8_pooling(kind: str) -> None:
    bench, image = Bench(), RNG.integers(-128, 128, (1, 6, 5, 3)).astype(np.int8)
    info, out = pool_layer(bench, image, kind, (3, 6), pads=[1, 1, 1, 1])
    by = bench.quant("is", "izp", 0.25, 7) | bench.quant("os", "ozp", 0.25, 7)
    run_call("ll_sw_forward_pool_integer", [info | by], bench.memory)
    expected = scalar_pool(image, (3, 6), kind, False, (1, 1))
    assert np.abs(bench.result(out, np.int8) - expected).max() <= (0 if kind == "LL_SW_MAXPOOL" else 0.5001)


def test_global_pooling() -> None:
    bench, image = Bench(), RNG.normal(0, 1, (1, 4, 5, 3)).astype(np.float32)
    for kind, expected in (("LL_SW_AVGPOOL", image.mean((1, 2))), ("LL_SW_MAXPOOL", image.max((1, 2)))):
        out = bench.output((1, 1, 1, 3), np.float32)
        run_call("ll_sw_forward_global_pool", [general(kind, bench.tensor(image), out)], bench.memory)
        assert np.allclose(bench.result(out, np.float32).reshape(1, 3), expected, atol=1e-6)
    codes = RNG.integers(-128, 128, (1, 4, 5, 3)).astype(np.int8)
    out = bench.output((1, 1, 1, 3), np.int8)
    by = bench.quant("is", "izp", 0.5, 3) | bench.quant("os", "ozp", 0.4, -9)
    run_call(
        "ll_sw_forward_global_pool_integer", [general("LL_SW_AVGPOOL", bench.tensor(codes), out) | by], bench.memory
    )
    wanted = (codes.astype(float).mean((1, 2)) - 3) * 0.5 / float(np.float32(0.4)) - 9
    assert np.abs(bench.result(out, np.int8).reshape(1, 3) - wanted).max() <= 0.5001


def test_pooling_that_is_not_modelled() -> None:
    bench, image = Bench(), np.zeros((1, 6, 5, 3), np.int8)
    by = bench.quant("is", "izp", 0.25, 7) | bench.quant("os", "ozp", 0.5, 7)
    info, _ = pool_layer(bench, image, "LL_SW_AVGPOOL", (3, 6))
    with pytest.raises(NotModelledError, match="padding at both ends"):
        run_call("ll_sw_forward_pool_integer", [info | by], bench.memory)
    info, _ = pool_layer(bench, image, "LL_SW_MAXPOOL", (3, 6))
    with pytest.raises(NotModelledError, match="different quantisations"):
        run_call("ll_sw_forward_pool_integer", [info | by], bench.memory)
    info, _ = pool_layer(bench, image.astype(np.float32), "LL_SW_MINPOOL", (3, 6))
    with pytest.raises(NotModelledError, match="MINPOOL"):
        run_call("ll_sw_forward_pool", [info], bench.memory)


def test_impossible_windows_are_input_errors() -> None:
    bench, image = Bench(), np.zeros((1, 6, 5, 3), np.float32)
    for change in (
        {"k_shape": [0, 2]},
        {"strides": [0, 1]},
        {"pads": [-1, 0, 0, 0]},
        {"k_shape": [1 << 20, 1 << 20]},
        {"k_shape": [3]},
    ):
        info, _ = pool_layer(bench, image, "LL_SW_MAXPOOL", (3, 6))
        with pytest.raises(InputError):
            run_call("ll_sw_forward_pool", [info | change], bench.memory)
    weights = bench.tensor(np.zeros((4, 3, 3, 2), np.float32))
    info = general("LL_SW_CONV", bench.tensor(image), bench.output((1, 4, 3, 4), np.float32)) | {"weights": weights}
    with pytest.raises(InputError, match="do not make"):
        run_call("ll_sw_forward_conv", [info | {"ngroup": 2, "strides": [1, 1]}], bench.memory)
