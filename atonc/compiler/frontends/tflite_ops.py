"""From TFLite operators to ours: attributes are made explicit, constants that steer an operator become attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

import numpy as np

from atonc.compiler.frontends.flatbuffer import FlatTable
from atonc.compiler.frontends.tflite_overflows import require_division, require_sums
from atonc.compiler.frontends.tflite_schema import ACTIVATIONS
from atonc.compiler.ir import Array, Op, Quantisation, Tensor
from atonc.machine.base.errors import ModelError, UnsupportedError
from atonc.machine.base.frozen import dataclass

PROBABILITY_TOLERANCE = 1e-3
EMPTY = FlatTable(b"\x00" * 12, 4)  # a table without fields: every option has its default


@dataclass
class Source:
    """One TFLite operator while it is being translated."""

    code: str
    name: str
    options: FlatTable
    inputs: list[Tensor | None]
    outputs: list[Tensor]
    made: list[Tensor] = field(default_factory=list)  # constants that the translation adds

    def input(self, index: int) -> Tensor:
        found = self.inputs[index] if index < len(self.inputs) else None
        if found is None:
            raise ModelError(f"{self.code} lacks input {index}", where=self.name)
        return found

    def output(self, index: int = 0) -> Tensor:
        if index >= len(self.outputs):
            raise ModelError(f"{self.code} lacks output {index}", where=self.name)
        return self.outputs[index]

    def constant(self, index: int, what: str) -> Array:
        data = self.input(index).data
        if data is None:
            raise UnsupportedError(f"{self.code} with {what} computed at run time", where=self.name)
        return data

    def integers(self, index: int, what: str) -> list[int]:
        return [int(v) for v in self.constant(index, what).reshape(-1)]

    def activation(self, number: int) -> str:
        return ACTIVATIONS.get(self.options.int8(number), "unknown")

    def make(self, like: Tensor, suffix: str, data: Array, quant: Quantisation | None) -> str:
        tensor = Tensor(f"{like.name}{suffix}", data.shape, like.dtype, quant, data)
        self.made.append(tensor)
        return tensor.name


@dataclass(frozen=True)
class Translated:
    kind: str
    inputs: list[str]
    attrs: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...] = ()  # of the outputs, where the operator says more than the file's tensors
    before: tuple[Op, ...] = ()  # what prepares its operands


Translator = Callable[[Source], Translated]
TRANSLATORS: dict[str, Translator] = {}


def translates(*codes: str) -> Callable[[Translator], Translator]:
    def register(function: Translator) -> Translator:
        TRANSLATORS.update(dict.fromkeys(codes, function))
        return function

    return register


def names(tensors: list[Tensor | None]) -> list[str]:
    return ["" if tensor is None else tensor.name for tensor in tensors]


def axis_of(value: int, rank: int, where: str) -> int:
    if not -rank <= value < rank:
        raise ModelError(f"axis {value} of a tensor with {rank} dimensions", where=where)
    return value % rank


def picture_size(tensor: Tensor, where: str) -> tuple[int, int]:
    if len(tensor.shape) != 4:
        raise ModelError(f"{tensor.name!r} has shape {tensor.shape}, a picture has 4 dimensions", where=where)
    return tensor.shape[1], tensor.shape[2]


def explicit_padding(
    same: bool, size_in: tuple[int, int], size_out: tuple[int, int], reach: tuple[int, int], stride: tuple[int, int]
) -> tuple[int, int, int, int]:
    """(top, left, bottom, right); the odd pixel of SAME goes to the end."""
    if not same:
        return 0, 0, 0, 0
    total = [max(0, (o - 1) * s + r - i) for i, o, r, s in zip(size_in, size_out, reach, stride, strict=True)]
    return total[0] // 2, total[1] // 2, total[0] - total[0] // 2, total[1] - total[1] // 2


def strides(source: Source, number_w: int, number_h: int, default: int = 0) -> tuple[int, int]:
    pair = (source.options.int32(number_h, default), source.options.int32(number_w, default))
    if min(pair) < 1 or max(pair) > 1 << 16:
        raise ModelError(f"{source.code} has stride or dilation {pair}", where=source.name)
    return pair


# --- convolutions and dense layers -----------------------------------------------------------------------------


def bias_name(source: Source, index: int, x: Tensor) -> str:
    """TFLite biases count in accumulator units whatever their own scale says: an integer bias loses its scale."""
    bias = source.inputs[index] if index < len(source.inputs) else None
    require_sums(x, source.input(1), bias, source.name)
    if bias is None or bias.is_float or bias.data is None:
        return "" if bias is None else bias.name
    return source.make(bias, ":bias", bias.data, None)


def window_attrs(source: Source, kernel: tuple[int, int], dilation: tuple[int, int]) -> dict[str, Any]:
    stride = strides(source, 1, 2)
    size_in, size_out = picture_size(source.input(0), source.name), picture_size(source.output(), source.name)
    reach = ((kernel[0] - 1) * dilation[0] + 1, (kernel[1] - 1) * dilation[1] + 1)
    padding = explicit_padding(source.options.int8(0) == 0, size_in, size_out, reach, stride)
    return {"stride": stride, "dilation": dilation, "padding": padding, "layout": "NHWC"}


@translates("CONV_2D")
def conv(source: Source) -> Translated:
    weights = source.input(1)
    kernel = picture_size(weights, source.name)
    attrs = window_attrs(source, kernel, strides(source, 4, 5, 1))
    channels = source.input(0).shape[3]
    groups = channels // weights.shape[3] if weights.shape[3] else 0
    if groups < 1 or groups * weights.shape[3] != channels:
        raise ModelError(f"{channels} channels do not fit weights {weights.shape}", where=source.name)
    attrs |= {"groups": groups, "activation": source.activation(3)}
    return Translated("conv", [source.input(0).name, weights.name, bias_name(source, 2, source.input(0))], attrs)


@translates("DEPTHWISE_CONV_2D")
def depthwise(source: Source) -> Translated:
    weights = source.input(1)
    kernel = picture_size(weights, source.name)
    data = np.ascontiguousarray(source.constant(1, "weights").transpose(3, 1, 2, 0))
    quant = weights.quant
    if quant is not None and not quant.is_per_tensor:
        quant = Quantisation(quant.scales, quant.zero_points, 0)
    attrs = window_attrs(source, kernel, strides(source, 5, 6, 1))
    attrs |= {"groups": source.input(0).shape[3], "activation": source.activation(4)}
    name = source.make(weights, ":depthwise", data, quant)
    return Translated("conv", [source.input(0).name, name, bias_name(source, 2, source.input(0))], attrs)


@translates("TRANSPOSE_CONV")
def transpose_conv(source: Source) -> Translated:
    weights, x = source.input(1), source.input(2)
    kernel, stride = picture_size(weights, source.name), strides(source, 1, 2)
    size_in, size_out = picture_size(x, source.name), picture_size(source.output(), source.name)
    padding = explicit_padding(source.options.int8(0) == 0, size_out, size_in, kernel, stride)
    attrs = {"stride": stride, "padding": padding, "layout": "NHWC", "activation": source.activation(3)}
    return Translated("transpose_conv", [x.name, weights.name, bias_name(source, 3, x)], attrs)


@translates("FULLY_CONNECTED")
def fully_connected(source: Source) -> Translated:
    if source.options.int8(1):
        raise UnsupportedError("FULLY_CONNECTED with shuffled weights", where=source.name)
    inputs = [source.input(0).name, source.input(1).name, bias_name(source, 2, source.input(0))]
    return Translated("dense", inputs, {"activation": source.activation(0)})


@translates("BATCH_MATMUL")
def batch_matmul(source: Source) -> Translated:
    attrs = {"transpose_a": bool(source.options.uint8(0)), "transpose_b": bool(source.options.uint8(1))}
    return Translated("matmul", names(source.inputs[:2]), attrs)


@translates("MAX_POOL_2D", "AVERAGE_POOL_2D")
def pool(source: Source) -> Translated:
    window = strides(source, 3, 4)
    attrs = window_attrs(source, window, (1, 1))
    attrs |= {"window": window, "activation": source.activation(5)}
    return Translated("max_pool" if source.code == "MAX_POOL_2D" else "average_pool", [source.input(0).name], attrs)


# --- one value in, one value out -------------------------------------------------------------------------------

SAME_NAME = (
    "LOGISTIC", "TANH", "HARD_SWISH", "EXP", "LOG", "SQRT", "RSQRT", "SQUARE", "ABS", "NEG", "FLOOR", "CEIL", "ROUND",
    "SIN", "COS", "SIGN", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "PRELU", "QUANTIZE", "DEQUANTIZE",
    "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL", "LOGICAL_AND", "LOGICAL_OR",
    "LOGICAL_NOT", "MINIMUM", "MAXIMUM", "POW", "SQUARED_DIFFERENCE", "GATHER_ND", "SHAPE",
    "RANGE",
)  # fmt: skip


@translates(*SAME_NAME)
def plain(source: Source) -> Translated:
    return Translated(source.code.lower(), names(source.inputs), {})


@translates("FLOOR_DIV", "FLOOR_MOD")
def whole_quotient(source: Source) -> Translated:
    if any(tensor is not None and tensor.quant is not None for tensor in source.inputs):
        raise UnsupportedError(f"{source.code} of values with a scale: TFLite divides their codes", where=source.name)
    return plain(source)


@translates("CAST")
def cast(source: Source) -> Translated:
    """Codes are numbers here, on both sides."""
    x, y = source.input(0), source.output()
    if y.quant is None:
        return plain(source)
    if x.dtype == y.dtype:
        return Translated("recode", [x.name], {})
    raise UnsupportedError(f"CAST from {x.dtype} to {y.dtype} with a scale", where=source.name, remedy="use QUANTIZE")


@translates("ADD", "SUB", "MUL", "DIV")
def arithmetic(source: Source) -> Translated:
    if source.code == "DIV":
        require_division(source.input(0), source.input(1), source.output(), source.name)
    return Translated(source.code.lower(), names(source.inputs[:2]), {"activation": source.activation(0)})


@translates("SELECT_V2")
def select(source: Source) -> Translated:
    return Translated("select", names(source.inputs), {})


@translates("SELECT")
def select_rows(source: Source) -> Translated:
    """The first version knows no broadcasting: a condition of one dimension chooses whole rows of the first axis."""
    condition, rank = source.input(0), len(source.input(1).shape)
    if len(condition.shape) != 1 or rank < 2:
        return select(source)
    rows = replace(condition, name=f"{condition.name}:rows of {source.name}", data=None,
                   shape=(*condition.shape, *(1,) * (rank - 1)))  # fmt: skip
    source.made.append(rows)
    turned = Op("reshape", f"{source.name}:rows", (condition.name,), (rows.name,), {}, (source.name,))
    return Translated("select", [rows.name, *names(source.inputs[1:])], {}, before=(turned,))


@translates("LEAKY_RELU")
def leaky_relu(source: Source) -> Translated:
    return Translated("leaky_relu", [source.input(0).name], {"alpha": source.options.float32(0)})


@translates("ELU")
def elu(source: Source) -> Translated:
    return Translated("elu", [source.input(0).name], {"alpha": 1.0})


@translates("GELU")
def gelu(source: Source) -> Translated:
    return Translated("gelu", [source.input(0).name], {"approximate": bool(source.options.uint8(0))})


@translates("SOFTMAX", "LOG_SOFTMAX")
def softmax(source: Source) -> Translated:
    beta = source.options.float32(0) if source.code == "SOFTMAX" else 1.0
    if not beta > 0:
        raise UnsupportedError(f"SOFTMAX with beta {beta:g}", where=source.name, rule="TFLite wants beta above 0")
    _require_probabilities(source)
    return Translated(source.code.lower(), [source.input(0).name], {"beta": beta, "axis": -1})


def _require_probabilities(source: Source) -> None:
    """The kernels of bytes give 256ths whatever the scale of the result is, or refuse it."""
    y = source.output()
    lowest = {"int8": -128, "uint8": 0}.get(y.dtype)
    if source.code != "SOFTMAX" or y.quant is None or lowest is None:
        return
    if abs(y.scale * 256 - 1) > PROBABILITY_TOLERANCE or y.zero_point != lowest:
        raise UnsupportedError(
            f"SOFTMAX with a result of scale {y.scale:.6g} and zero {y.zero_point}",
            where=source.name,
            rule=f"TFLite's kernels give scale 1/256 and zero {lowest}",
            remedy="quantise the model again with TFLite's converter",
        )


@translates("L2_NORMALIZATION")
def l2_norm(source: Source) -> Translated:
    return Translated("l2_norm", [source.input(0).name], {})
