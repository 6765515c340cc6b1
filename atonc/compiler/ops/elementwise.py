"""Value by value: functions of one value (functions.py has their table) and of two with broadcasting, comparisons, what
is fused behind other operators, softmax, conversions between number formats, and what only the passes make of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array, Graph, Op, Tensor, layer_name
from atonc.compiler.ops import portable
from atonc.compiler.ops.functions import FUNCTIONS, RANGES
from atonc.compiler.ops.portable import larger, power, smaller
from atonc.compiler.ops.registry import computes
from atonc.compiler.ops.rounding import ATTRIBUTE, round_half_away
from atonc.compiler.ops.values import Arg, OpCall, Real
from atonc.machine.base.errors import ModelError, UnsupportedError
from atonc.machine.base.words import count


def fused_activation(values: Real, call: OpCall) -> Real:
    """The clamp that an operator carries in its `activation` attribute."""
    bounds = activation_bounds(call.attrs, call.out)
    return values if bounds is None else portable.limited(values, *bounds)


def activation_bounds(attrs: Mapping[str, Any], out: Tensor) -> tuple[float, float] | None:
    """Real numbers. What is rounded more than once is limited afterwards, in codes: so the bounds are codes."""
    activation = attrs.get("activation", "none")
    if activation == "none":
        return None
    if activation not in RANGES:
        raise UnsupportedError(f"fused activation {activation} has no reference kernel")
    low, high = RANGES[activation]
    if ATTRIBUTE not in attrs or out.quant is None or not out.quant.is_per_tensor:
        return low, high
    ends = round_half_away(np.array([low, high]) / out.scale) * out.scale
    return float(ends[0]), float(ends[1])


@computes(*FUNCTIONS)
def function(call: OpCall) -> list[Real]:
    row, x = FUNCTIONS[call.op.kind], call.arg(0)
    return [row(x.single if row.jumps else x.real, call.attrs)]


@computes("prelu")
def prelu(call: OpCall) -> list[Real]:
    """The slope broadcasts as the source format says (ONNX: one per channel is [C, 1, 1])."""
    x, slope = call.arg(0).real, call.arg(1).real
    return [np.where(x >= 0, x, x * slope)]


@lru_cache(maxsize=8)
def _of_differences(scale: float) -> tuple[Real, Real]:
    """Scaled differences of bytes, and their exponentials: few of what millions of elements have."""
    scaled = (0.0 - np.arange(256.0)) * scale  # no negative zero
    return scaled, portable.exp(scaled)


@computes("softmax", "log_softmax")
def softmax(call: OpCall) -> list[Real]:
    """Differences to the largest value are scaled: with one scale they depend on the difference of codes only."""
    x, axis, beta = call.arg(0), call.attrs.get("axis", -1), call.attrs.get("beta", 1.0)
    log = call.op.kind == "log_softmax"
    if x.scales.size == 1 and x.codes.dtype.itemsize == 1:
        codes = x.codes.astype(np.int16)  # attention has millions of them: none becomes a double before its exponential
        below = codes.max(axis=axis, keepdims=True) - codes
        scaled, of_differences = _of_differences(float(x.scales[0] * beta))
        shifted, exponentials = scaled[below if log else 0], of_differences[below]
    else:
        values, scale = (x.centred, x.scales[0] * beta) if x.scales.size == 1 else (x.real, beta)
        shifted = (values - values.max(axis=axis, keepdims=True)) * scale
        exponentials = portable.exp(shifted)
    total = np.expand_dims(portable.ordered_sum(exponentials, (axis,)), axis)
    return [shifted - portable.log(total) if log else exponentials / total]


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


# the real value stays, only the number format of the output differs; at shifted edges code and zero point move by 128
CONVERSIONS = ("quantize", "dequantize", "requantize", "identity", "uint8_to_int8", "int8_to_uint8")
computes(*CONVERSIONS)(lambda call: [call.arg(0).real])
computes("select")(lambda call: [np.where(call.arg(0).codes, call.arg(1).real, call.arg(2).real)])


@computes("cast")
def cast(call: OpCall) -> list[Real]:
    """Numbers, not codes: a cast ignores quantisation and truncates towards zero."""
    values = call.arg(0).codes.astype(np.float64)
    return [values if call.out.is_float or call.out.dtype == "bool" else np.trunc(values)]


@computes("batch_norm")
def batch_norm(call: OpCall) -> list[Real]:
    """Inputs: x, gain, offset, mean, variance, one value per channel (axis 1 in ONNX)."""
    x = call.arg(0).real
    shape = tuple(-1 if i == call.attrs["axis"] else 1 for i in range(x.ndim))
    gain, offset, mean, variance = (call.arg(i).real.reshape(shape) for i in range(1, 5))
    return [(x - mean) / np.sqrt(variance + call.attrs["epsilon"]) * gain + offset]


TABLE_SIZE = 256


def lookup(codes: Array, table: Array) -> Array:
    """`table` holds the results for the codes -128 .. 127."""
    return table[codes.astype(np.int64) + 128]


@computes("table")
def table(call: OpCall) -> list[Real]:
    """Any function of int8 codes: attribute `table`, 256 codes of the output, or values where it is real. Of int16
    codes: 65,536 codes of two bytes."""
    entries, codes = call.attrs["table"], call.arg(0).codes
    if isinstance(entries, bytes) and len(entries) == 2 << 16 and call.arg(0).tensor.dtype == "int16":
        wide = np.frombuffer(entries, "<i2").astype(np.float64)[codes.astype(np.int64) + (1 << 15)]
        return [(wide - call.out.zero_point) * call.out.scale]
    entries = np.asarray(entries, np.float64)
    if entries.shape != (TABLE_SIZE,) or call.arg(0).tensor.dtype != "int8":
        raise ModelError("a table maps 256 int8 values", where=call.op.name)
    found = lookup(codes, entries)
    return [found if call.out.is_float else (found - call.out.zero_point) * call.out.scale]


@computes("recode")
def recode(call: OpCall) -> list[Real]:
    """The same codes in another format: what a kernel gives that looks at codes only; an activation limits them."""
    codes = call.arg(0).codes.astype(np.float64)
    return [fused_activation((codes - call.out.zero_point) * call.out.scale, call)]


@computes("affine")
def affine(call: OpCall) -> list[Real]:
    """x * gain + offset; gain and offset are real constants, one value or one per channel (last axis)."""
    gain, offset = call.arg(1).real, call.arg(2).real
    return [call.arg(0).real * gain + offset]


DIVISION = "div"


def zero_by_zero(graph: Graph, op: Op, values: Mapping[str, Array]) -> NDArray[np.bool_]:
    """Where a division meets 0/0."""
    a, b = (Arg(graph.tensors[name], values[name]).real for name in op.inputs[:2])
    return np.asarray((a == 0) & (b == 0))


def divisor_notes(graph: Graph) -> tuple[str, ...]:
    """A note where codes of a divisor include zero; of floats nobody knows."""
    found = [op for op in graph.ops if op.kind == DIVISION and _may_be_zero(graph, op.inputs[1])]
    if not found:
        return ()
    several = f" (and in {count(len(found) - 1, 'more division')})" if len(found) > 1 else ""
    return (
        f"the divisor of {layer_name(found[0])} can be zero{several}: 0/0 has no value, and kernels differ there; add "
        "a small constant to the divisor before it is quantised",
    )


def _may_be_zero(graph: Graph, name: str) -> bool:
    tensor = graph.tensors[name]
    if tensor.data is not None:
        return bool((Arg(tensor, tensor.data).real == 0).any())
    if tensor.quant is None:
        return False
    low, high = tensor.code_range
    return low <= tensor.zero_point <= high
