"""Activations and element-wise arithmetic against the published formulas, element by element."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.emu.cpu import run_call
from atonc.machine.emu.cpu.st_pointwise import FUNCTIONS
from tests.emu.cpu_calls import Bench, general

RNG = np.random.default_rng(5)


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def elu(x: float, alpha: float) -> float:
    return x if x > 0 else alpha * (math.exp(x) - 1)


FORMULAS: dict[str, Callable[[float], float]] = {
    "LL_SW_RELU": lambda x: max(x, 0),
    "LL_SW_CLIP": lambda x: min(max(x, -0.5), 0.75),
    "LL_SW_ELU": lambda x: elu(x, 0.3),
    "LL_SW_SELU": lambda x: 1.5 * elu(x, 0.3),
    "LL_SW_THRESHOLDEDRELU": lambda x: x if x > 0.3 else 0,
    "LL_SW_HARDSIGMOID": lambda x: min(max(0.3 * x + 0.4, 0), 1),
    "LL_SW_HARDSWISH": lambda x: x * min(max(x / 6 + 0.5, 0), 1),
    "LL_SW_SIGMOID": sigmoid,
    "LL_SW_SWISH": lambda x: x * sigmoid(x),
    "LL_SW_GELU": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "LL_SW_SOFTPLUS": lambda x: math.log(1 + math.exp(x)),
    "LL_SW_SOFTSIGN": lambda x: x / (1 + abs(x)),
    "LL_SW_ERF": math.erf,
    "LL_SW_ROUND": lambda x: math.copysign(math.floor(abs(x) + 0.5), x),
    "LL_SW_RECIPROCAL": lambda x: 1 / x,
    "LL_SW_NEG": lambda x: -x,
    "LL_SW_ABS": abs,
    "LL_SW_CEIL": math.ceil,
    "LL_SW_FLOOR": math.floor,
    "LL_SW_EXP": math.exp,
    "LL_SW_SIN": math.sin,
    "LL_SW_COS": math.cos,
    "LL_SW_TAN": math.tan,
    "LL_SW_SINH": math.sinh,
    "LL_SW_COSH": math.cosh,
    "LL_SW_TANH": math.tanh,
    "LL_SW_ATAN": math.atan,
    "LL_SW_ASINH": math.asinh,
}
IN_RANGE = {
    "LL_SW_LOG": math.log,
    "LL_SW_SQRT": math.sqrt,
    "LL_SW_ASIN": math.asin,
    "LL_SW_ACOS": math.acos,
    "LL_SW_ATANH": math.atanh,
}
PARAMETERS = {"alpha": 0.3, "beta": 0.4, "gamma": 1.5, "min": -0.5, "max": 0.75}


def check(kind: str, values: np.ndarray, formula: Callable[[float], float]) -> None:
    bench = Bench()
    out = bench.output(values.shape, np.float32)
    run_call("ll_sw_forward_activ", [general(kind, bench.tensor(values), out) | PARAMETERS], bench.memory)
    expected = [formula(float(x)) for x in values.reshape(-1)]
    assert np.allclose(bench.result(out, np.float32).reshape(-1), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", FORMULAS)
def test_float_activation(kind: str) -> None:
    check(kind, RNG.uniform(-4, 4, (1, 3, 5, 7)).astype(np.float32), FORMULAS[kind])


@pytest.mark.parametrize("kind", IN_RANGE)
def test_float_activation_of_limited_range(kind: str) -> None:
    check(kind, RNG.uniform(0.01, 0.99, (1, 3, 5, 7)).astype(np.float32), IN_RANGE[kind])


def test_every_activation_is_tested() -> None:
    assert set(FUNCTIONS) - set(FORMULAS) - set(IN_RANGE) == {"LL_SW_ACOSH"}
    check("LL_SW_ACOSH", RNG.uniform(1.01, 9, (1, 1, 5, 7)).astype(np.float32), math.acosh)


def test_rounding_of_ties_and_of_not_a_number() -> None:
    bench, values = Bench(), np.array([-1.5, -0.5, 0.5, 2.5, np.inf, np.nan], np.float32).reshape(1, 1, 6, 1)
    out = bench.output(values.shape, np.float32)
    run_call("ll_sw_forward_activ", [general("LL_SW_ROUND", bench.tensor(values), out)], bench.memory)
    assert np.array_equal(bench.result(out, np.float32).reshape(-1), [-2, -1, 1, 3, np.inf, np.nan], equal_nan=True)


@pytest.mark.parametrize("counted", [False, True])
def test_float_prelu(counted: bool) -> None:
    """ST's compiler writes the number of channels before the slopes."""
    bench, values = Bench(), RNG.normal(0, 1, (1, 3, 4, 6)).astype(np.float32)
    slopes = RNG.uniform(0, 1, 6).astype(np.float32)
    stored = np.concatenate([[6], slopes]).astype(np.float32) if counted else slopes
    operand = {"operand": bench.tensor(stored.reshape(1, 1, 1, -1))}
    source, out = bench.tensor(values), bench.output(values.shape, np.float32)
    run_call("ll_sw_forward_activ", [general("LL_SW_PRELU", source, out) | operand], bench.memory)
    assert np.array_equal(bench.result(out, np.float32), np.where(values <= 0, values * slopes, values))
    wrong = {"operand": bench.tensor(np.full((1, 1, 1, 7), 0.5, np.float32))}
    with pytest.raises(InputError, match="do not fit"):
        run_call("ll_sw_forward_activ", [general("LL_SW_PRELU", source, out) | wrong], bench.memory)


@pytest.mark.parametrize("quantised", [False, True])
def test_int8_prelu(quantised: bool) -> None:
    bench, codes = Bench(), RNG.integers(-128, 128, (1, 5, 6, 4)).astype(np.int8)
    slopes = RNG.integers(-100, 100, (1, 1, 1, 4)).astype(np.int8) if quantised else RNG.uniform(0, 1, (1, 1, 1, 4))
    operand = bench.tensor(slopes if quantised else slopes.astype(np.float32))
    out = bench.output(codes.shape, np.int8)
    info = general("LL_SW_PRELU", bench.tensor(codes), out) | {"operand": operand}
    info |= bench.quant("is", "izp", 0.05, -3) | bench.quant("os", "ozp", 0.04, -60)
    info |= (
        bench.quant("operand_s", "operand_zp", 0.01, 2) if quantised else {"operand_s": {"mem": {"start_offset": None}}}
    )
    run_call("ll_sw_forward_activ_integer", [info], bench.memory)
    real_slopes = (slopes.astype(float) - 2) * 0.01 if quantised else slopes.astype(np.float32).astype(float)
    real = (codes.astype(float) + 3) * float(np.float32(0.05))
    wanted = np.where(real <= 0, real * real_slopes, real) / float(np.float32(0.04)) - 60
    assert np.abs(bench.result(out, np.int8) - np.clip(wanted, -128, 127)).max() <= 0.5001


def test_int8_relu_keeps_codes_of_equal_scales() -> None:
    bench, codes = Bench(), np.arange(-128, 128, dtype=np.int8).reshape(1, 1, 16, 16)
    out = bench.output(codes.shape, np.int8)
    by = bench.quant("is", "izp", 0.05, -3) | bench.quant("os", "ozp", 0.05, -3)
    run_call("ll_sw_forward_activ_integer", [general("LL_SW_RELU", bench.tensor(codes), out) | by], bench.memory)
    assert np.array_equal(bench.result(out, np.int8), np.maximum(codes, -3))


OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "LL_SW_ARITHADD": lambda a, b: a + b,
    "LL_SW_ARITHSUM": lambda a, b: a + b,
    "LL_SW_ARITHSUB": lambda a, b: a - b,
    "LL_SW_ARITHMUL": lambda a, b: a * b,
    "LL_SW_ARITHDIV": lambda a, b: a / b,
    "LL_SW_POW": lambda a, b: a**b,
    "LL_SW_MIN": min,
    "LL_SW_MAX": max,
    "LL_SW_MOD": math.fmod,
}


@pytest.mark.parametrize("kind", OPERATIONS)
@pytest.mark.parametrize("other", [(2, 3, 4, 5), (1, 1, 1, 5), (1, 1, 1, 1), (2, 3, 1, 1)])
def test_float_arithmetic_with_broadcast(kind: str, other: tuple[int, ...]) -> None:
    bench = Bench()
    a, b = RNG.uniform(0.5, 3, (2, 3, 4, 5)).astype(np.float32), RNG.uniform(0.5, 3, other).astype(np.float32)
    source, out = bench.tensor(a), bench.output(a.shape, np.float32)
    run_call("ll_sw_forward_arith", [general(kind, source, out) | {"operand": bench.tensor(b)}], bench.memory)
    pairs = zip(a.reshape(-1), np.broadcast_to(b, a.shape).reshape(-1), strict=True)
    expected = [OPERATIONS[kind](float(x), float(y)) for x, y in pairs]
    assert np.allclose(bench.result(out, np.float32).reshape(-1), expected, rtol=1e-5, atol=1e-5)


def test_sum_of_four() -> None:
    bench, parts = Bench(), RNG.normal(0, 1, (4, 1, 2, 3, 4)).astype(np.float32)
    out = bench.output(parts[0].shape, np.float32)
    info = general("LL_SW_ARITHSUM", bench.tensor(parts[0]), out) | {"num_of_inputs": 4}
    info |= {f"operand{k}": bench.tensor(part) for k, part in zip(("", "1", "2"), parts[1:], strict=True)}
    run_call("ll_sw_forward_arith", [info], bench.memory)
    assert np.allclose(bench.result(out, np.float32), parts.sum(0), atol=1e-6)


@pytest.mark.parametrize("kind", ["LL_SW_ARITHSUM", "LL_SW_ARITHSUB", "LL_SW_ARITHMUL"])
def test_int8_arithmetic(kind: str) -> None:
    bench = Bench()
    a, b = (RNG.integers(-128, 128, (1, 4, 5, 6)).astype(np.int8) for _ in range(2))
    out = bench.output(a.shape, np.int8)
    info = general(kind, bench.tensor(a), out) | {"operand": bench.tensor(b)} | bench.quant("is", "izp", 0.05, -3)
    info |= bench.quant("operand_s", "operand_zp", 0.03, 9) | bench.quant("os", "ozp", 0.11, 1)
    run_call("ll_sw_forward_eltwise_integer", [info], bench.memory)
    reals = [(a.astype(float) + 3) * float(np.float32(0.05)), (b.astype(float) - 9) * float(np.float32(0.03))]
    wanted = np.vectorize(OPERATIONS[kind])(*reals) / float(np.float32(0.11)) + 1
    assert np.abs(bench.result(out, np.int8) - np.clip(wanted, -128, 127)).max() <= 0.5001


def test_what_is_not_modelled() -> None:
    bench, values = Bench(), np.ones((1, 1, 2, 2), np.float32)
    info = general("LL_SW_HARDMAX", bench.tensor(values), bench.output(values.shape, np.float32))
    with pytest.raises(NotModelledError, match="HARDMAX"):
        run_call("ll_sw_forward_activ", [info], bench.memory)
    greater = general("LL_SW_GREATER", bench.tensor(values), bench.output(values.shape, np.float32))
    with pytest.raises(NotModelledError, match="GREATER"):
        run_call("ll_sw_forward_arith", [greater | {"operand": bench.tensor(values)}], bench.memory)
    add = general("LL_SW_ARITHADD", bench.tensor(values), bench.output(values.shape, np.float32))
    with pytest.raises(InputError, match="do not fit"):
        run_call(
            "ll_sw_forward_arith", [add | {"operand": bench.tensor(np.ones((1, 1, 1, 3), np.float32))}], bench.memory
        )
    with pytest.raises(InputError):
        run_call("ll_sw_forward_arith", [add], bench.memory)
