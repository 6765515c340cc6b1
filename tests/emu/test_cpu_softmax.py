"""Softmax: int8 against a scalar transcription of the fixed-point definition and against real numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.cpu import run_call
from atonc.machine.emu.cpu.st_math import exp_on_negative_values, multiply_high, reciprocal, softmax_codes
from tests.emu.cpu_calls import Bench, Struct, general

RNG = np.random.default_rng(3)


def prepare(scale: float) -> tuple[int, int, int]:
    """Multiplier, shift and smallest difference as TFLite prepares them."""
    mantissa, shift = math.frexp(min(scale * (1 << 26), (1 << 31) - 1))
    multiplier = round(mantissa * (1 << 31))
    if multiplier == 1 << 31:
        multiplier, shift = multiplier // 2, shift + 1
    return multiplier, shift, -math.floor(31 * (1 << 26) / (1 << shift))


def exact(codes: np.ndarray, axis: int, scale: float) -> np.ndarray:
    exps = np.exp((codes - codes.max(axis, keepdims=True)) * scale)
    return exps / exps.sum(axis, keepdims=True) * 256 - 128


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 31) + 1, (1 << 31) - 1))
def test_multiply_high_rounds_half_away(a: int, b: int) -> None:
    product = a * b
    nudge = (1 << 30) if product >= 0 else 1 - (1 << 30)
    quotient = abs(product + nudge) >> 31
    expected = quotient if product + nudge >= 0 else -quotient
    assert int(multiply_high(a, b)) == expected


@given(st.floats(-31, 0))
def test_exponential(x: float) -> None:
    raw = np.array([round(x * (1 << 26))], np.int64)
    value = float(exp_on_negative_values(raw)[0]) / (1 << 31)
    assert value == pytest.approx(math.exp(float(raw[0]) / (1 << 26)), abs=2e-6)


@given(st.integers(1 << 16, (1 << 31) - 1))
def test_reciprocal(x: int) -> None:
    mantissa, bits = reciprocal(np.array([x], np.int64), 12)
    real = x / (1 << 19)
    assert float(mantissa[0]) / (1 << 31) * 2.0 ** -float(bits[0]) == pytest.approx(1 / real, rel=1e-6)


@settings(max_examples=40)
@given(st.integers(1, 60), st.floats(0.004, 0.5), st.integers(0, 99))
def test_int8_is_within_one_of_real_numbers(length: int, scale: float, seed: int) -> None:
    codes = np.random.default_rng(seed).integers(-128, 128, (3, length))
    result = softmax_codes(codes, 1, *prepare(scale), True)
    assert np.abs(result - np.clip(exact(codes, 1, scale), -128, 127)).max() <= 1


def layer(
    bench: Bench, codes: np.ndarray, axis: int, scale: float, os: float = 1 / 256, ozp: int = -128
) -> tuple[Struct, Struct]:
    multiplier, shift, diff_min = prepare(scale)
    out = bench.output(codes.shape, codes.dtype)
    info = general("LL_SW_SOFTMAX", bench.tensor(codes), out)
    info |= bench.quant("is", "izp", scale, 5) | bench.quant("os", "ozp", os, ozp)
    info |= {"quantized_multiplier": multiplier, "left_shift": shift, "diff_min": diff_min, "axis": axis}
    return info, out


@pytest.mark.parametrize(("axis", "position"), [(0, 0), (1, 3), (2, 1), (3, 2)])
def test_axis_is_counted_as_onnx_does(axis: int, position: int) -> None:
    bench, codes = Bench(), RNG.integers(-128, 128, (2, 3, 4, 5)).astype(np.int8)
    info, out = layer(bench, codes, axis, 0.06)
    run_call("ll_sw_forward_softmax_integer", [info], bench.memory)
    expected = exact(codes.astype(float), position, 0.06)
    assert np.abs(bench.result(out, np.int8) - np.clip(expected, -128, 127)).max() <= 1


def test_known_values() -> None:
    """Equal inputs share evenly; a far smaller one gets nothing."""
    codes = np.array([[10, 10, 10, 10], [127, -128, -128, -128]])
    assert softmax_codes(codes, 1, *prepare(0.1), True).tolist() == [[-64] * 4, [127, -128, -128, -128]]
    assert softmax_codes(codes, 1, *prepare(0.1), False).tolist() == [[64] * 4, [255, 0, 0, 0]]


def test_other_output_scale_is_not_modelled() -> None:
    bench = Bench()
    info, _ = layer(bench, np.zeros((1, 1, 4, 1), np.int8), 3, 0.1, os=1 / 128)
    with pytest.raises(NotModelledError, match="1/256"):
        run_call("ll_sw_forward_softmax_integer", [info], bench.memory)
    info, _ = layer(bench, np.zeros((1, 1, 4, 1), np.int8), 3, 0.1)
    with pytest.raises(InputError):
        run_call("ll_sw_forward_softmax_integer", [info | {"left_shift": 77}], bench.memory)
    with pytest.raises(NotModelledError, match="axis"):
        run_call("ll_sw_forward_softmax_integer", [info | {"axis": 4}], bench.memory)


def test_float() -> None:
    bench, values = Bench(), RNG.normal(0, 4, (1, 2, 5, 3)).astype(np.float32)
    out = bench.output(values.shape, np.float32)
    run_call("ll_sw_forward_softmax", [general("X", bench.tensor(values), out) | {"axis": 3}], bench.memory)
    wide = np.exp(values.astype(np.float64))
    assert np.allclose(bench.result(out, np.float32), wide / wide.sum(2, keepdims=True), rtol=1e-5)


def test_library_softmax() -> None:
    bench, codes = Bench(), RNG.integers(-128, 128, (1, 2, 3, 7)).astype(np.int8)
    from tests.emu.cpu_calls import sym

    kind = {"type": sym("DataType_INT8"), "per_channel": 0}
    source = bench.buffer(codes, codes.shape, 8, 7, scale=[0.05], offset=[3], **kind)
    out = bench.out_buffer(codes.shape, 8, 7, scale=[1 / 256], offset=[-128], **kind)
    run_call("LL_ATON_LIB_Softmax", [[source], [out], 3, 0], bench.memory)
    expected = np.clip(exact(codes.astype(float), 3, 0.05), -128, 127)
    assert np.abs(bench.contents(out, np.int8).reshape(codes.shape) - expected).max() <= 0.51
    with pytest.raises(NotModelledError, match="legacy"):
        run_call("LL_ATON_LIB_Softmax", [[source], [out], 3, 1], bench.memory)
