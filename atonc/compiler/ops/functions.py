"""Functions of one value, one row each: what they compute, what they are called, and what else follows from that.

On codes such a function is a table of 256 results, so the NPU takes any of them. Shapes, storage orders, tables, ONNX
nodes, calls of the C kernels, costs and the cases of the tests read these rows. A new function that shall run on other
numbers too needs its line in three places that are written independently of each other, and a test says which is
missing: the `enum` of `atonc_kernels.h`, `runtime/kernels/parts/functions.h`, and `emu/cpu/atonc_numbers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from math import inf
from typing import Any

import numpy as np

from atonc.compiler.ops import portable
from atonc.compiler.ops.portable import Real, limited
from atonc.machine.base.frozen import dataclass

Attrs = Mapping[str, Any]
SQRT_2, SQRT_2_OVER_PI = 1.4142135623730951, 0.7978845608028654


class FunctionWork(StrEnum):
    """How much a value takes on the processor."""

    PLAIN = "plain"
    EXPONENTIAL = "exponential"  # or a logarithm
    ERF = "erf"  # a hundred divisions


@dataclass(frozen=True)
class Function:
    kind: str
    of: Callable[[Real, Attrs], Real]
    c_number: int | None = None  # in atonc_kernels.h; None: bytes by tables only
    onnx: str = ""  # the node that is this function, with the attributes below
    attrs: Mapping[str, float] = field(default_factory=dict)  # with ONNX's defaults; alpha and beta go to the C kernel
    work: FunctionWork = FunctionWork.PLAIN
    jumps: bool = False  # sees values in single precision: 20 codes of 0.05 are 1 to everybody who computes so
    boolean: bool = False
    limits: tuple[float, float] | None = None  # where that is all: a conversion in C, free behind a convolution

    def __call__(self, x: Real, attrs: Attrs | None = None) -> Real:
        return self.of(x, {**self.attrs, **(attrs or {})})


def _plain(function: Callable[[Real], Real]) -> Callable[[Real, Attrs], Real]:
    return lambda x, attrs: function(x)


def _limits(kind: str, low: float, high: float, onnx: str = "") -> Function:
    return Function(kind, lambda x, attrs: limited(x, low, high), onnx=onnx, limits=(low, high))


def gelu(x: Real, approximate: bool) -> Real:
    if approximate:
        return 0.5 * x * (1.0 + portable.tanh(SQRT_2_OVER_PI * (x + 0.044715 * (x * x * x))))
    return 0.5 * x * (1.0 + portable.erf(x / SQRT_2))


_EXP, _ERF = FunctionWork.EXPONENTIAL, FunctionWork.ERF
_ROWS = (
    Function("logistic", _plain(portable.logistic), 0, "Sigmoid", work=_EXP),
    Function("tanh", _plain(portable.tanh), 1, "Tanh", work=_EXP),
    Function("hard_swish", lambda x, a: x * limited(x + 3.0, 0.0, 6.0) / 6.0, 2, "HardSwish"),
    Function("silu", lambda x, a: x * portable.logistic(x), 3, work=_EXP),
    Function("mish", lambda x, a: x * portable.tanh(portable.softplus(x)), 4, "Mish", work=_EXP),
    Function("softplus", _plain(portable.softplus), 5, "Softplus", work=_EXP),
    Function("exp", _plain(portable.exp), 6, "Exp", work=_EXP),
    Function("log", _plain(portable.log), 7, "Log", work=_EXP),
    Function("sqrt", _plain(np.sqrt), 8, "Sqrt"),
    Function("rsqrt", lambda x, a: 1.0 / np.sqrt(x), 9),
    Function("square", _plain(np.square), 10),
    Function("abs", _plain(np.abs), 11, "Abs"),
    Function("neg", _plain(np.negative), 12, "Neg"),
    Function("sign", _plain(np.sign), 13, "Sign"),
    Function("floor", _plain(np.floor), 14, "Floor", jumps=True),
    Function("ceil", _plain(np.ceil), 15, "Ceil", jumps=True),
    Function("round", _plain(np.rint), 16, "Round", jumps=True),
    Function("reciprocal", lambda x, a: 1.0 / x, 17, "Reciprocal"),
    Function("logical_not", lambda x, a: (x == 0).astype(np.float64), 18, "Not", boolean=True),
    Function("leaky_relu", lambda x, a: np.where(x >= 0, x, x * a["alpha"]), 19, "LeakyRelu", {"alpha": 0.01}),
    Function("elu", lambda x, a: np.where(x >= 0, x, a["alpha"] * portable.expm1(x)), 20, "Elu", {"alpha": 1.0}, _EXP),
    Function(
        "hard_sigmoid", lambda x, a: limited(x * a["alpha"] + a["beta"], 0.0, 1.0), 21, "HardSigmoid",
        {"alpha": 0.2, "beta": 0.5},
    ),
    Function("erf", _plain(portable.erf), 23, "Erf", work=_ERF),
    Function("gelu", lambda x, a: gelu(x, a.get("approximate", False)), 24, work=_ERF),
    Function("sin", _plain(np.sin), None, "Sin"),
    Function("cos", _plain(np.cos), None, "Cos"),
    _limits("relu", 0.0, inf, "Relu"),
    _limits("relu6", 0.0, 6.0),
    _limits("relu_n1_to_1", -1.0, 1.0),
    _limits("relu_0_to_1", 0.0, 1.0),
    Function("clip", lambda x, a: limited(x, a["low"], a["high"])),
)  # fmt: skip

FUNCTIONS: dict[str, Function] = {row.kind: row for row in _ROWS}
RANGES = {row.kind: row.limits for row in _ROWS if row.limits is not None}  # also fused behind other operators
# C functions that are no operators of their own
C_VARIANTS = {"trunc": 22, "gelu_tanh": 25}
C_NUMBERS = {row.kind: row.c_number for row in _ROWS if row.c_number is not None} | C_VARIANTS
