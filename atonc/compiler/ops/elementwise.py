"""Functions of two values with broadcasting, comparisons, and conversions between number formats."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from atonc.compiler.ops.activation import fused_activation
from atonc.compiler.ops.portable import larger, power, smaller
from atonc.compiler.ops.registry import computes
from atonc.compiler.ops.values import OpCall, Real

BINARY: dict[str, Callable[[Real, Real], Real]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "minimum": smaller,
    "maximum": larger,
    "pow": power,
    "floor_div": np.floor_divide,
    "floor_mod": np.mod,
    "fmod": np.fmod,
    "squared_difference": lambda a, b: np.square(a - b),
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "logical_and": lambda a, b: (a != 0) & (b != 0),
    "logical_or": lambda a, b: (a != 0) | (b != 0),
}


JUMPING = (  # whether 20 codes of 0.05 are 1 decides about the result: see STEPS in activation.py
    "floor_div", "floor_mod", "fmod", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal",
)  # fmt: skip


@computes(*BINARY)
def binary(call: OpCall) -> list[Real]:
    a, b = call.arg(0), call.arg(1)
    operands = (a.single, b.single) if call.op.kind in JUMPING else (a.real, b.real)
    values = BINARY[call.op.kind](*operands).astype(np.float64)
    if call.op.kind == "div" and not (call.out.is_float or call.out.quant):
        values = np.trunc(values)  # integer division
    return [fused_activation(values, call)]


@computes("quantize", "dequantize", "requantize", "identity")
def convert(call: OpCall) -> list[Real]:
    """The real value stays; only the number format of the output differs."""
    return [call.arg(0).real]


@computes("cast")
def cast(call: OpCall) -> list[Real]:
    """Numbers, not codes: a cast ignores quantisation and truncates towards zero."""
    values = call.arg(0).codes.astype(np.float64)
    return [values if call.out.is_float or call.out.dtype == "bool" else np.trunc(values)]


@computes("select")
def select(call: OpCall) -> list[Real]:
    return [np.where(call.arg(0).codes, call.arg(1).real, call.arg(2).real)]


@computes("batch_norm")
def batch_norm(call: OpCall) -> list[Real]:
    """Inputs: x, gain, offset, mean, variance, one value per channel (axis 1 in ONNX)."""
    x = call.arg(0).real
    shape = tuple(-1 if i == call.attrs["axis"] else 1 for i in range(x.ndim))
    gain, offset, mean, variance = (call.arg(i).real.reshape(shape) for i in range(1, 5))
    return [(x - mean) / np.sqrt(variance + call.attrs["epsilon"]) * gain + offset]
