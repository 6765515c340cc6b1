"""Conversion between floats and codes on the CPU against scalar loops."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.cpu import run_call
from atonc.machine.emu.cpu.st_math import round_half_away, round_to_even_f32
from tests.emu.cpu_calls import BASE, Bench, general

RNG = np.random.default_rng(7)


def f32(x: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", x))[0])


def scalar_round(x: float) -> int:
    """Nearest, ties to even, adding half in float32 first."""
    moved = f32(x + (0.5 if x >= 0 else -0.5))
    whole = math.trunc(moved)
    if whole == moved and whole % 2:
        whole += 1 if whole < 0 else -1
    return whole


@given(st.floats(-300, 300, width=32))
def test_rounding_helper_equals_scalar_model(x: float) -> None:
    assert int(round_to_even_f32(np.array([x], np.float32))[0]) == scalar_round(x)


def test_rounding_of_ties() -> None:
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])
    assert round_to_even_f32(halves).tolist() == [-2, -2, 0, 0, 2, 2]
    assert round_half_away(halves).tolist() == [-3, -2, -1, 1, 2, 3]


def test_not_a_number_and_infinity_become_codes() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1e30], np.float32)
    assert round_to_even_f32(odd)[0] == 0
    assert (np.abs(round_to_even_f32(odd)[1:]) > 1000).all()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantize(dtype: type) -> None:
    bench, values = Bench(), RNG.normal(0, 3, (2, 3, 4, 5)).astype(np.float32)
    values[0, 0, 0, :3] = [1e9, -1e9, np.nan]
    scale, zero, (low, high) = 0.0371, 7, (-128, 127) if dtype == np.int8 else (0, 255)
    out = bench.output(values.shape, dtype)
    info = general("LL_SW_QUANTIZELINEAR", bench.tensor(values), out) | bench.quant("os", "ozp", scale, zero, dtype)
    run_call("ll_sw_forward_quantizelinear", [info], bench.memory)
    codes = bench.result(out, dtype).reshape(-1)
    for x, code in list(zip(values.reshape(-1), codes, strict=True))[3:]:
        quotient = float(np.float32(x) / np.float32(scale))
        assert code == min(max(scalar_round(quotient) + zero, low), high)
    assert codes[0] == high and codes[1] == low


def test_quantize_per_channel() -> None:
    bench, values = Bench(), RNG.normal(0, 1, (1, 2, 2, 3)).astype(np.float32)
    out = bench.output(values.shape, np.int8)
    by = bench.quant("os", "ozp", [0.1, 0.02, 0.5], [0, -5, 3])
    run_call("ll_sw_forward_quantizelinear", [general("X", bench.tensor(values), out) | by], bench.memory)
    expected = [
        np.rint(values[..., c] / np.float32(s)) + z for c, (s, z) in enumerate([(0.1, 0), (0.02, -5), (0.5, 3)])
    ]
    assert np.array_equal(bench.result(out, np.int8), np.clip(np.stack(expected, -1), -128, 127))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_dequantize_is_float32(dtype: type) -> None:
    bench = Bench()
    codes = np.arange(256, dtype=np.uint8).view(dtype).reshape(1, 4, 8, 8)
    out = bench.output(codes.shape, np.float32)
    info = general("X", bench.tensor(codes), out) | bench.quant("is", "izp", 0.0123, 100, dtype)
    run_call("ll_sw_forward_dequantizelinear", [info, "network instance of later releases"], bench.memory)
    for code, value in zip(codes.reshape(-1), bench.result(out, np.float32).reshape(-1), strict=True):
        assert value == f32((int(code) - 100) * f32(0.0123))


def test_strides_are_respected() -> None:
    """A tensor that is a window of a larger one."""
    bench, whole = Bench(), np.arange(4 * 6, dtype=np.int8).reshape(1, 4, 6, 1)
    source = bench.tensor(whole)
    source["dim"] = {"tensor_b": 1, "tensor_h": 2, "tensor_w": 3, "tensor_c": 1}
    out = bench.output((1, 2, 3, 1), np.float32)
    info = general("X", source, out) | bench.quant("is", "izp", 1.0, 0)
    run_call("ll_sw_forward_dequantizelinear", [info], bench.memory)
    assert np.array_equal(bench.result(out, np.float32), whole[:, :2, :3].astype(np.float32))


@settings(max_examples=30)
@given(st.floats(0.001, 1), st.floats(0.001, 1), st.integers(-128, 127), st.integers(-128, 127))
def test_requantize(before: float, after: float, zero: int, new_zero: int) -> None:
    bench, codes = Bench(), np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 256, 1)
    out = bench.output(codes.shape, np.int8)
    by = bench.quant("is", "izp", before, zero) | bench.quant("os", "ozp", after, new_zero)
    run_call("ll_sw_forward_requantizelinear", [general("X", bench.tensor(codes), out) | by], bench.memory)
    for code, result in zip(codes.reshape(-1), bench.result(out, np.int8).reshape(-1), strict=True):
        real = (int(code) - zero) * f32(before) / f32(after)
        rounded = math.floor(abs(real) + 0.5) * (1 if real >= 0 else -1)
        assert result == min(max(rounded + new_zero, -128), 127)


def test_zero_point_called_signed_and_unsigned() -> None:
    bench = Bench()
    info = general("X", bench.tensor(np.zeros((1, 1, 1, 4), np.int8)), bench.output((1, 1, 1, 4), np.float32))
    by = bench.quant("is", "izp", 1.0, -3)
    by["is"]["format"] = {"is_signed": 0}
    run_call("ll_sw_forward_dequantizelinear", [info | by], bench.memory)  # a code among signed ones
    assert np.array_equal(bench.result(info["general"]["output"], np.float32), np.full((1, 1, 1, 4), 3.0))
    unsigned = general("X", bench.tensor(np.zeros((1, 1, 1, 4), np.uint8)), bench.output((1, 1, 1, 4), np.float32))
    with pytest.raises(NotModelledError, match="signed in one place"):
        run_call("ll_sw_forward_dequantizelinear", [unsigned | by], bench.memory)
    harmless = bench.quant("is", "izp", 1.0, 3)
    harmless["is"]["format"] = {"is_signed": 0}
    run_call("ll_sw_forward_dequantizelinear", [info | harmless], bench.memory)


def test_broken_structures_are_input_errors() -> None:
    bench, codes = Bench(), np.zeros((1, 1, 1, 4), np.int8)
    good = general("X", bench.tensor(codes), bench.output(codes.shape, np.float32)) | bench.quant("is", "izp", 1.0, 0)
    huge = general("X", bench.tensor(codes), bench.output(codes.shape, np.float32))
    huge["general"]["input"]["dim"]["tensor_h"] = 1 << 30
    outside = bench.tensor(codes)
    outside["mem"] = {"start_offset": BASE + (1 << 20) - 2}
    negative = bench.tensor(codes)
    negative["stride"] = {"b": 4, "h": 4, "w": 4, "c": -1}
    smaller = general("X", bench.tensor(codes), bench.output((1, 1, 1, 3), np.float32))
    cases: list[list[object]] = [
        [],
        [None],
        [5],
        [{}],
        [good | bench.quant("is", "izp", 0.0, 0)],
        [good | bench.quant("is", "izp", float("nan"), 0)],
        [good | bench.quant("is", "izp", [1.0, 2.0, 3.0], 0)],
        [good | huge],
        [good | smaller],
        [good | general("X", outside, bench.output(codes.shape, np.float32))],
        [good | general("X", negative, bench.output(codes.shape, np.float32))],
        [good | {"is": {"mem": {"start_offset": -5}}}],
    ]
    for args in cases:
        with pytest.raises(InputError):
            run_call("ll_sw_forward_dequantizelinear", args, bench.memory)
