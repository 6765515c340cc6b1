"""The functions of `atonc_unary`, in the order of atonc_kernels.h: what each computes and what a value takes.

Written from the C file and not from the compiler's table (`ops/functions.py`); a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.cpu import atonc_numbers as numbers
from atonc.machine.emu.cpu.atonc_numbers import at_least, at_most
from atonc.machine.emu.cpu.tensors import Array

PLAIN, EXPONENTIAL, ERF = 20, 120, 4000  # cycles of a Cortex-M55; the last one makes a hundred divisions


@dataclass(frozen=True)
class Unary:
    name: str
    of: Callable[[Array, float, float], Array]  # of values, alpha and beta
    cycles: int = PLAIN
    jumps: bool = False  # sees what is quantised in single precision


def _one(name: str, of: Callable[[Array], Array], cycles: int = PLAIN, jumps: bool = False) -> Unary:
    return Unary(name, lambda x, alpha, beta: of(x), cycles, jumps)


def _sign(x: Array) -> Array:
    return np.where(x > 0, 1.0, np.where(x < 0, -1.0, np.where(np.isnan(x), x, 0.0)))


def _elu(x: Array, alpha: float, beta: float) -> Array:
    return np.where(x >= 0, x, alpha * numbers.exponential_minus_one(x))


UNARY: tuple[Unary, ...] = (
    _one("logistic", numbers.logistic, EXPONENTIAL),
    _one("tanh", numbers.hyperbolic_tangent, EXPONENTIAL),
    _one("hard_swish", lambda x: x * at_most(at_least(x + 3.0, 0.0), 6.0) / 6.0),
    _one("silu", lambda x: x * numbers.logistic(x), EXPONENTIAL),
    _one("mish", lambda x: x * numbers.hyperbolic_tangent(numbers.softplus(x)), EXPONENTIAL),
    _one("softplus", numbers.softplus, EXPONENTIAL),
    _one("exp", numbers.exponential, EXPONENTIAL),
    _one("log", numbers.logarithm, EXPONENTIAL),
    _one("sqrt", np.sqrt),
    _one("rsqrt", lambda x: 1.0 / np.sqrt(x)),
    _one("square", lambda x: x * x),
    _one("abs", np.abs),
    _one("neg", np.negative),
    _one("sign", _sign),
    _one("floor", np.floor, jumps=True),
    _one("ceil", np.ceil, jumps=True),
    _one("round", np.rint, jumps=True),
    _one("reciprocal", lambda x: 1.0 / x),
    _one("logical_not", lambda x: (x == 0).astype(np.float64)),
    Unary("leaky_relu", lambda x, alpha, beta: np.where(x >= 0, x, x * alpha)),
    Unary("elu", _elu, EXPONENTIAL),
    Unary("hard_sigmoid", lambda x, alpha, beta: at_most(at_least(x * alpha + beta, 0.0), 1.0)),
    _one("trunc", np.trunc),
    _one("erf", numbers.error_function, ERF),
    _one("gelu", numbers.gelu, ERF),
    _one("gelu_tanh", numbers.gelu_by_tanh, EXPONENTIAL),
)
