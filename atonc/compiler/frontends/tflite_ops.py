"""From TFLite operators to ours: attributes are made explicit, constants that steer an operator become attributes.

Where the integers of TFLite's own kernels always overflow, no number of theirs is right, and the operator is refused;
where single sums do, exact arithmetic holds and their kernels are no reference. A kernel that moves or compares values
copies codes, whatever scale its result has: the numbers change their meaning. Some kernels refuse such files, and so do
we: there is nothing that such a file means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from math import log2
from typing import Any

import numpy as np

from atonc.compiler.frontends.tflite_file import ACTIVATIONS, FlatTable
from atonc.compiler.ir import Array, Op, Quantisation, Tensor
from atonc.compiler.ops.recurrent import GATES, MOST_CELLS
from atonc.compiler.ops.registry import filed
from atonc.compiler.ops.rounding import Multiplier
from atonc.machine.base.errors import ModelError, UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

BYTES = ("int8", "uint8")
HUGE_BIAS = 1 << 30  # below, only layers with more than ten thousand inputs per value could overflow
LARGEST = (1 << 31) - 1


def require_division(x: Tensor, divisor: Tensor, y: Tensor, where: str) -> None:
    """Small numerators are shifted up as far as they go, and the quotient back by that and by the bits of the divisor.
    A shift by more than 31 bits is undefined; in practice the quotient -1/95 becomes the lowest code."""
    if not all(t.dtype in BYTES and t.quant is not None and t.quant.is_per_tensor for t in (x, divisor, y)):
        return
    largest = int(np.abs(_centred(divisor)).max(initial=1))
    # both signs of a numerator of 1 occur, unless zero is the lowest code and no divisor is negative
    signed = _centred(x).min() < 0 or _centred(divisor).min() < 0
    up, factor = 31 if signed else 30, Multiplier.of(x.scale / (divisor.scale * y.scale))
    back = up + largest.bit_length() - 1 - factor.exponent
    if back > 31:
        raise UnsupportedError(
            f"DIV by up to {largest} codes into a scale of {y.scale:.6g}: TFLite's kernel shifts by {back:g} bits",
            where=where,
            rule="shifts by more than 31 bits are undefined, and TFLite's quotients of small numbers are wrong",
            remedy="multiply by the reciprocal instead, or give the result a finer scale",
        )


def _centred(tensor: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Codes less their zero point: those of a constant, else the lowest and the highest."""
    codes = np.array(tensor.code_range) if tensor.data is None else tensor.data.astype(np.int64)
    return codes - tensor.zero_point


def require_sums(x: Tensor, weights: Tensor, bias: Tensor | None, where: str) -> None:
    """Sums of products start from the bias, in 32 bits."""
    if bias is None or bias.data is None or bias.dtype != "int32" or x.dtype not in BYTES:
        return
    largest = int(np.abs(bias.data.astype(np.int64)).max(initial=0))
    if largest < HUGE_BIAS or weights.data is None:
        return
    per_output = weights.elements // max(1, bias.elements)
    most = largest + per_output * int(np.abs(weights.data.astype(np.int64)).max(initial=0)) * int(
        np.abs(_centred(x)).max()
    )
    if most > LARGEST:
        raise UnsupportedError(
            f"a bias of {largest} with sums of {per_output} products",
            where=where,
            rule="TFLite sums in 32 bits and overflows without a word",
            remedy="quantise the weights with a larger scale, so that the bias gets a smaller number",
        )


def shifts_overflow(x: Tensor, weights: Tensor, bias: Tensor | None, y: Tensor) -> bool:
    """Whether sums of 32 bits may overflow when a scale above 1 shifts them up: TFLite multiplies by 2^n first."""
    quantised = all(t.dtype in BYTES and t.quant is not None for t in (x, weights, y))
    if not quantised or weights.data is None or weights.quant is None:
        return False
    up = np.maximum(np.frexp(x.scale * weights.quant.scales / y.scale)[1], 0)
    if not up.any():
        return False
    codes = weights.data.astype(np.int64).reshape(weights.shape[0], -1) - weights.quant.zero_points.reshape(-1, 1)
    sums = np.abs(codes).sum(axis=1) * int(np.abs(_centred(x)).max())
    if bias is not None and bias.data is not None:
        sums = sums + np.abs(bias.data.astype(np.int64)).reshape(-1)
    return bool((sums.astype(np.float64) * 2.0**up > LARGEST).any())


PROBABILITY_TOLERANCE = 1e-3
MOST_FAKE_BITS = 8


def fake_format(options: FlatTable, where: str) -> tuple[Quantisation, tuple[int, int]]:
    """Scale and zero point of FAKE_QUANT as int8 has them, and the lowest and highest code: as TensorFlow works them
    out, the range moved so that zero has a code of its own."""
    low, high, bits, narrow = options.float32(0), options.float32(1), options.int32(2), bool(options.uint8(3))
    if not (2 <= bits <= MOST_FAKE_BITS and low <= 0 <= high and 0 < high - low < np.inf):
        raise UnsupportedError(
            f"FAKE_QUANT of {bits} bits from {low:g} to {high:g}",
            where=where,
            rule=f"2 to {MOST_FAKE_BITS} bits, and a range around zero",
            remedy="train with the ranges of 8 bits that Keras' default quantisers have",
        )
    first, last = -(1 << bits - 1) + narrow, (1 << bits - 1) - 1
    scale = (high - low) / (last - first)
    return Quantisation.per_tensor(scale, int(np.clip(round(first - low / scale), first, last))), (first, last)


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

    def axis(self, value: int, tensor: Tensor) -> int:
        return axis_of(value, len(tensor.shape), self.name)

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
    return filed(TRANSLATORS, *codes)


def names(tensors: list[Tensor | None]) -> list[str]:
    return ["" if tensor is None else tensor.name for tensor in tensors]


def axis_of(value: int, rank: int, where: str) -> int:
    if not -rank <= value < rank:
        raise ModelError(f"axis {value} of a tensor with {rank} dimensions", where=where)
    return value % rank


def picture_size(tensor: Tensor, where: str) -> tuple[int, int]:
    if len(tensor.shape) != 4:
        raise ModelError(f"{tensor.name!r} has shape {tensor.shape}, an image has 4 dimensions", where=where)
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
# data operands (one of them, or several), and attributes
ROWS: dict[str, tuple[str, int | slice, Callable[[Source], dict[str, Any]]]] = {
    **{code: (code.lower(), slice(None), lambda source: {}) for code in SAME_NAME},
    "SELECT_V2": ("select", slice(None), lambda source: {}),
    "BATCH_MATMUL": ("matmul", slice(2), lambda source: {
        "transpose_a": bool(source.options.uint8(0)), "transpose_b": bool(source.options.uint8(1)),
    }),
    "LEAKY_RELU": ("leaky_relu", 0, lambda source: {"alpha": source.options.float32(0)}),
    "ELU": ("elu", 0, lambda source: {"alpha": 1.0}),
    "GELU": ("gelu", 0, lambda source: {"approximate": bool(source.options.uint8(0))}),
    "L2_NORMALIZATION": ("l2_norm", 0, lambda source: {}),
    "TILE": ("tile", 0, lambda source: {}),
    "BROADCAST_TO": ("expand", 0, lambda source: {}),
    "FILL": ("fill", 1, lambda source: {}),
    "PACK": ("pack", slice(None), lambda source: {"axis": source.axis(source.options.int32(1), source.output())}),
    "UNPACK": ("unpack", 0, lambda source: {"axis": source.axis(source.options.int32(1), source.input(0))}),
    "SPLIT": ("split", 1, lambda source: {"axis": source.axis(source.integers(0, "axis")[0], source.input(1))}),
    "REVERSE_V2": ("reverse", 0, lambda source: {
        "axes": tuple(source.axis(axis, source.input(0)) for axis in source.integers(1, "axes")),
    }),
    "RESIZE_BILINEAR": ("resize_linear", 0, lambda source: {"coordinates": _coordinates(source, 2)}),
}  # fmt: skip


@translates(*ROWS)
def by_row(source: Source) -> Translated:
    kind, data, attrs_of = ROWS[source.code]
    attrs = attrs_of(source)
    inputs = names(source.inputs[data]) if isinstance(data, slice) else [source.input(data).name]
    return Translated(kind, inputs, attrs)


@translates("FLOOR_DIV", "FLOOR_MOD")
def whole_quotient(source: Source) -> Translated:
    if any(tensor is not None and tensor.quant is not None for tensor in source.inputs):
        raise UnsupportedError(f"{source.code} of values with a scale: TFLite divides their codes", where=source.name)
    return Translated(source.code.lower(), names(source.inputs), {})


@translates("CAST")
def cast(source: Source) -> Translated:
    """Codes are numbers here, on both sides."""
    x, y = source.input(0), source.output()
    if y.quant is None:
        return Translated("cast", names(source.inputs), {})
    if x.dtype == y.dtype:
        return Translated("recode", [x.name], {})
    raise UnsupportedError(f"CAST from {x.dtype} to {y.dtype} with a scale", where=source.name, remedy="use QUANTIZE")


@translates("ADD", "SUB", "MUL", "DIV")
def arithmetic(source: Source) -> Translated:
    if source.code == "DIV":
        require_division(source.input(0), source.input(1), source.output(), source.name)
    return Translated(source.code.lower(), names(source.inputs[:2]), {"activation": source.activation(0)})


@translates("SELECT")
def select_rows(source: Source) -> Translated:
    """The first version knows no broadcasting: a condition of one dimension chooses whole rows of the first axis."""
    condition, rank = source.input(0), len(source.input(1).shape)
    if len(condition.shape) != 1 or rank < 2:
        return Translated("select", names(source.inputs), {})
    rows = replace(condition, name=f"{condition.name}:rows of {source.name}", data=None,
                   shape=(*condition.shape, *(1,) * (rank - 1)))  # fmt: skip
    source.made.append(rows)
    turned = Op("reshape", f"{source.name}:rows", (condition.name,), (rows.name,), {}, (source.name,))
    return Translated("select", [rows.name, *names(source.inputs[1:])], {}, before=(turned,))


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


REDUCTIONS = {"MEAN": "mean", "SUM": "sum", "REDUCE_MAX": "reduce_max", "REDUCE_MIN": "reduce_min",
              "REDUCE_PROD": "reduce_prod"}  # fmt: skip


@translates("RESHAPE", "SQUEEZE", "EXPAND_DIMS")
def reshape(source: Source) -> Translated:
    """The shape of the output tensor says it all."""
    if source.input(0).elements != source.output().elements:
        raise ModelError(f"{source.input(0).shape} cannot become {source.output().shape}", where=source.name)
    return Translated("reshape", [source.input(0).name], {})


@translates("TRANSPOSE")
def transpose(source: Source) -> Translated:
    perm = tuple(source.integers(1, "permutation"))
    if sorted(perm) != list(range(len(source.input(0).shape))):
        raise ModelError(f"{perm} is not a permutation", where=source.name)
    return Translated("transpose", [source.input(0).name], {"perm": perm})


@translates("CONCATENATION")
def concat(source: Source) -> Translated:
    if source.activation(1) != "none":
        raise UnsupportedError("CONCATENATION with a fused activation", where=source.name)
    axis = source.axis(source.options.int32(0), source.output())
    return Translated("concat", names(source.inputs), {"axis": axis})


@translates("SPLIT_V")
def split_v(source: Source) -> Translated:
    """The sizes are an operand; files may give the outputs other shapes."""
    shape = source.input(0).shape
    axis = axis_of(source.integers(2, "axis")[0], len(shape), source.name)
    sizes = source.integers(1, "sizes")
    rest = shape[axis] - sum(size for size in sizes if size != -1)
    sizes = [rest if size == -1 else size for size in sizes]
    if sum(sizes) != shape[axis] or len(sizes) != len(source.outputs) or min(sizes) < 0:
        raise ModelError(f"{shape} cannot be cut into {sizes} along axis {axis}", where=source.name)
    shapes = tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in sizes)
    return Translated("split", [source.input(0).name], {"axis": axis}, shapes)


@translates("PAD", "PADV2", "MIRROR_PAD")
def pad(source: Source) -> Translated:
    flat = source.integers(1, "paddings")
    pads = tuple(zip(flat[::2], flat[1::2], strict=True)) if len(flat) % 2 == 0 else ()
    if len(pads) != len(source.input(0).shape) or min(flat, default=0) < 0:
        raise ModelError(f"{flat} are no paddings for shape {source.input(0).shape}", where=source.name)
    attrs: dict[str, Any] = {"pads": pads, "mode": "constant"}
    if source.code == "MIRROR_PAD":
        attrs["mode"] = "symmetric" if source.options.int8(0) == 1 else "reflect"
    if source.code == "PADV2":
        code, x = float(source.constant(2, "pad value").reshape(-1)[0]), source.input(0)
        value, y = source.input(2).quant, source.output().quant
        if value is not None and y is not None and not value.same_as(y):
            raise UnsupportedError("PADV2 with a value of another scale than its result", where=source.name)
        attrs["value"] = (code - x.zero_point) * x.scale  # the kernel copies the code, whatever scale its input has
    return Translated("pad", [source.input(0).name], attrs)


@translates("SLICE")
def slice_values(source: Source) -> Translated:
    begins, sizes = source.integers(1, "begin"), source.integers(2, "size")
    stops = [None if size == -1 else begin + size for begin, size in zip(begins, sizes, strict=False)]
    return _slice(source, begins, stops, [1] * len(begins))


@translates("STRIDED_SLICE")
def strided_slice(source: Source) -> Translated:
    """Masks are resolved to plain Python slices; new axes are not supported."""
    if any(source.input(i).data is None for i in (1, 2, 3)):
        raise UnsupportedError("STRIDED_SLICE with bounds computed at run time", where=source.name)
    begins, stops, steps = (source.integers(i, "bounds") for i in (1, 2, 3))
    begin_mask, end_mask, shrink = (source.options.int32(i) for i in (0, 1, 4))
    if source.options.int32(2) or source.options.int32(3):
        raise UnsupportedError("STRIDED_SLICE with ellipsis or new axes", where=source.name)
    if source.options.uint8(5):  # ends count from the begins
        stops = [begin + stop for begin, stop in zip(begins, stops, strict=False)]
    resolved: list[int | None] = list(stops)
    starts: list[int | None] = list(begins)
    for i in range(min(len(begins), len(stops), len(steps))):
        starts[i] = None if begin_mask >> i & 1 else begins[i]
        resolved[i] = None if end_mask >> i & 1 else stops[i]
        if shrink >> i & 1:
            first = 0 if begin_mask >> i & 1 else begins[i]
            starts[i], resolved[i], steps[i] = first, first + 1 or None, 1
    return _slice(source, starts, resolved, steps, shrink)


def _slice(source: Source, starts: list[Any], stops: list[Any], steps: list[int], shrink: int = 0) -> Translated:
    """`shrink`: bits of the axes that vanish."""
    shape = source.input(0).shape
    rank = len(shape)
    if not len(starts) == len(stops) == len(steps) <= rank or 0 in steps:
        raise ModelError("slice bounds do not fit the input", where=source.name)
    missing = rank - len(starts)
    attrs = {
        "starts": tuple(starts) + (None,) * missing,
        "stops": tuple(stops) + (None,) * missing,
        "steps": tuple(steps) + (1,) * missing,
    }
    parts = zip(*attrs.values(), shape, strict=True)
    sizes = [len(range(*slice(start, stop, step).indices(size))) for start, stop, step, size in parts]
    if any(shrink >> i & 1 and size != 1 for i, size in enumerate(sizes)):
        raise ModelError(f"index outside {shape}", where=source.name)
    kept = tuple(size for i, size in enumerate(sizes) if not shrink >> i & 1)
    return Translated("slice", [source.input(0).name], attrs, (kept,))


@translates("GATHER")
def gather(source: Source) -> Translated:
    if source.options.int32(1):
        raise UnsupportedError("GATHER with batch dimensions", where=source.name)
    axis = source.axis(source.options.int32(0), source.input(0))
    indices, size = source.input(1).data, source.input(0).shape[axis]
    if indices is not None and indices.size and not 0 <= indices.min() <= indices.max() < size:
        raise UnsupportedError(
            f"GATHER with index {indices.min() if indices.min() < 0 else indices.max()} of {size} values",
            where=source.name,
            rule="TFLite's kernel wants indices from 0 to one below the size",
        )
    return Translated("gather", names(source.inputs[:2]), {"axis": axis})


@translates(*REDUCTIONS)
def reduce(source: Source) -> Translated:
    rank = len(source.input(0).shape)
    axes = tuple(sorted({axis_of(a, rank, source.name) for a in source.integers(1, "axes")}))
    attrs = {"axes": axes, "keepdims": bool(source.options.uint8(0))}
    return Translated(REDUCTIONS[source.code], [source.input(0).name], attrs)


@translates("ARG_MAX", "ARG_MIN")
def arg_extreme(source: Source) -> Translated:
    shape = source.input(0).shape
    axis = axis_of(source.integers(1, "axis")[0], len(shape), source.name)
    found = shape[:axis] + shape[axis + 1 :]  # whatever the file says: TFLite works it out too
    return Translated(source.code.lower(), [source.input(0).name], {"axis": axis}, (found,))


@translates("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(source: Source) -> Translated:
    coordinates = _coordinates(source, 0)
    attrs: dict[str, Any] = {"coordinates": coordinates, "rounding": "floor"}
    if coordinates == "align_corners":
        attrs["rounding"] = "round_prefer_ceil"
    if coordinates == "half_pixel":
        attrs["coordinates"] = "tf_half_pixel_for_nn"
    return Translated("resize_nearest", [source.input(0).name], attrs)


def _coordinates(source: Source, first: int) -> str:
    if source.options.uint8(first):
        return "align_corners"
    return "half_pixel" if source.options.uint8(first + 1) else "asymmetric"


@translates("SPACE_TO_DEPTH", "DEPTH_TO_SPACE")
def space_depth(source: Source) -> Translated:
    block = source.options.int32(0)
    if block < 1:
        raise ModelError(f"block size {block}", where=source.name)
    return Translated(source.code.lower(), [source.input(0).name], {"block": block, "layout": "NHWC"})


@translates("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND")
def space_batch(source: Source) -> Translated:
    blocks, flat = tuple(source.integers(1, "blocks")), source.integers(2, "paddings")
    if min(blocks, default=0) < 1 or len(flat) != 2 * len(blocks) or min(flat) < 0:
        raise ModelError(f"blocks {blocks} with borders {flat}", where=source.name)
    borders = tuple(zip(flat[::2], flat[1::2], strict=True))
    if source.code == "SPACE_TO_BATCH_ND":
        return Translated("space_to_batch", [source.input(0).name], {"blocks": blocks, "pads": borders})
    return Translated("batch_to_space", [source.input(0).name], {"blocks": blocks, "crops": borders})


STATE_NOTE = "starts every inference from an empty state; TFLite keeps it until its variables are reset"
GATE_SCALE = np.float32(2.0**-12)
LEAST_CELL, MOST_CELL = -15, -9  # exponents of a cell's scale
# positions of the operands
WEIGHTS, RECURRENT, PEEPHOLES, BIASES, PROJECTION, STATE, CELL, NORMS = 1, 5, 9, 12, 16, 18, 19, 20
EXTRAS = (
    (range(PEEPHOLES, PEEPHOLES + 3), "peepholes"),
    (range(PROJECTION, PROJECTION + 2), "a projection"),
    (range(NORMS, NORMS + 4), "layer normalisation"),
)


@translates("UNIDIRECTIONAL_SEQUENCE_LSTM")
def unidirectional_lstm(source: Source) -> Translated:
    _require_plain(source)
    x, y = source.input(0), source.output()
    if x.is_float:
        return _real_lstm(source)
    weights, recurrent = (_stacked(source, first) for first in (WEIGHTS, RECURRENT))
    cells = weights.shape[1]
    if weights.shape[2] != x.shape[-1] or recurrent.shape != (4, cells, cells) or cells > MOST_CELLS:
        raise ModelError(
            f"weights {weights.shape} and {recurrent.shape} for a sequence {x.shape}, at most {MOST_CELLS} cells",
            where=source.name,
        )
    state, cell = source.input(STATE), source.input(CELL)
    zeros = (x.zero_point, state.zero_point)
    sums = [-zero * w.astype(np.int64).sum(axis=2) for zero, w in zip(zeros, (weights, recurrent), strict=True)]
    given = np.stack([source.constant(BIASES + k, "biases").astype(np.int64).reshape(cells) for k in range(4)])
    biases = np.concatenate([sums[0] + given, sums[1]])
    if np.abs(biases).max() > np.iinfo(np.int32).max:
        raise UnsupportedError("biases beyond 32 bits", where=source.name)
    to_codes = _pair(2.0**-15 / float(np.float32(y.scale)) * 2.0**-15)  # of products of 30 bits
    clip = source.options.float32(1)
    attrs = {
        "multipliers": (*_gates(source, WEIGHTS, x), *_gates(source, RECURRENT, state), to_codes),
        "cell_bits": _cell_bits(cell, source.name),
        "cell_clip": int(min(clip / cell.scale, 32767.0)) if clip > 0 else 0,  # in steps of the cell; 0: bounds nothing
    }
    like = source.input(WEIGHTS + 3)
    made = [
        source.make(like, f":{source.name} {what}", data, None)
        for what, data in (("weights", weights), ("recurrent", recurrent))
    ]
    made.append(source.make(source.input(BIASES), f":{source.name} biases", biases.astype(np.int32), None))
    return Translated("lstm", [x.name, *made], attrs)


def _real_lstm(source: Source) -> Translated:
    """The layer of ONNX in floats: a product of all steps, then the steps; its gates are in another order."""
    x, y, ops = source.input(0), source.output(), list[Op]()
    (batch, steps, inputs), cells = x.shape, y.shape[-1]
    parts = [np.concatenate([source.constant(first + k, "weights").astype(np.float32) for k in (0, 3, 1, 2)])
             for first in (WEIGHTS, RECURRENT, BIASES)]  # fmt: skip
    if [one.shape for one in parts] != [(4 * cells, inputs), (4 * cells, cells), (4 * cells,)]:
        raise ModelError(f"weights {[one.shape for one in parts]} for a sequence {x.shape}", where=source.name)

    def held(data: Array) -> str:
        source.made.append(Tensor(f"{source.name}:{len(source.made)}", data.shape, "float32", None, data))
        return source.made[-1].name

    def step(kind: str, shape: tuple[int, ...], *names: str, **attrs: Any) -> str:
        source.made.append(Tensor(f"{source.name}:{len(source.made)}", shape, "float32", None, None))
        ops.append(Op(kind, source.made[-1].name, names, (source.made[-1].name,), attrs, (source.name,)))
        return source.made[-1].name

    rows = step("reshape", (steps * batch, inputs), step("transpose", (steps, batch, inputs), x.name, perm=(1, 0, 2)))
    sums = step("matmul", (steps * batch, 4 * cells), rows, held(np.ascontiguousarray(parts[0].T)))
    given = step("reshape", (steps, batch, 4 * cells), step("add", (steps * batch, 4 * cells), sums, held(parts[2])))
    clip = source.options.float32(1)  # of a cell, which is at most as large as the number of steps
    attrs = {"cell": "lstm", "reverse": False} | ({"uncut": clip} if 0 < clip < steps else {})
    none = held(np.zeros(4 * cells, np.float32))
    states = step("recurrent", (steps, 2, batch, cells), given, held(parts[1]), none, **attrs)
    bounds = {"starts": (0, 0, 0, 0), "stops": (steps, 1, batch, cells), "steps": (1, 1, 1, 1)}
    shown = step("reshape", (steps, batch, cells), step("slice", (steps, 1, batch, cells), states, **bounds))
    return Translated("transpose", [shown], {"perm": (1, 0, 2)}, before=tuple(ops))


def _require_plain(source: Source) -> None:
    """Bytes with cells of 16 bits, as TFLite's converter writes LSTMs; the rarer forms are refused by name."""
    if len(source.inputs) <= CELL:
        raise UnsupportedError(f"{source.code} with {count(len(source.inputs), 'operand')}", where=source.name)
    x, y, options = source.input(0), source.output(), source.options
    found = [what for places, what in EXTRAS for k in places if k < len(source.inputs) and source.inputs[k] is not None]
    if source.inputs[WEIGHTS] is None:
        found.append("coupled gates (CIFG)")
    if options.uint8(3):
        found.append("time as the first axis")
    if len(x.shape) != 3:
        found.append(f"an input of shape {x.shape}")
    if ACTIVATIONS.get(options.int8(0)) != "tanh":
        found.append(f"the activation {ACTIVATIONS.get(options.int8(0), 'unknown')}")
    types = (x.dtype, y.dtype, source.input(STATE).dtype, source.input(CELL).dtype)
    real = types == ("float32",) * 4
    if not real and (types != ("int8", "int8", "int8", "int16") or any(t.quant is None for t in (x, y))):
        found.append(f"values of {x.dtype}, states of {types[2]} and {types[3]}")
    if not found and not real and not y.quant.same_as(source.input(STATE).quant):  # type: ignore[union-attr,arg-type]
        found.append("another scale for results than for states")
    if found:
        raise UnsupportedError(
            f"{source.code} with {found[0]}",
            where=source.name,
            rule="int8 values, int8 states, int16 cells, or all of them float32; four gates, batch first",
            remedy="convert the model again with full int8 quantisation, or unroll the layer (Keras: unroll=True)",
        )


def _stacked(source: Source, first: int) -> Array:
    """[gate, cells, inputs]."""
    found = [source.constant(first + k, f"weights of the {gate} gate") for k, gate in enumerate(GATES)]
    shapes = {matrix.shape for matrix in found}
    if len(shapes) > 1 or found[0].ndim != 2 or any(source.input(first + k).dtype != "int8" for k in range(4)):
        raise ModelError(f"weights of shapes {sorted(shapes)}", where=source.name)
    if any(np.any(quant.zero_points) for k in range(4) if (quant := source.input(first + k).quant) is not None):
        raise UnsupportedError("weights with a zero point", where=source.name)
    return np.stack(found)


def _gates(source: Source, first: int, x: Tensor) -> tuple[tuple[int, int], ...]:
    """From sums to the 16 bits that gates look at, in single precision as TFLite computes it."""
    tensors = [source.input(first + k) for k in range(4)]
    return tuple(_pair(np.float32(x.scale) * np.float32(w.scale) / GATE_SCALE) for w in tensors)


def _pair(factor: float | np.floating) -> tuple[int, int]:  # type: ignore[type-arg]
    found = Multiplier.of(factor)
    return round(found.mantissa * 2.0**31), round(found.exponent)


def _cell_bits(cell: Tensor, where: str) -> int:
    exponent = log2(cell.scale) if cell.scale > 0 else 0.5
    if exponent != round(exponent) or not LEAST_CELL <= exponent <= MOST_CELL or cell.zero_point:
        raise UnsupportedError(
            f"cells of scale {cell.scale:g} and zero {cell.zero_point}",
            where=where,
            rule="TFLite's kernel wants a power of two between 2^-15 and 2^-9, and zero 0",
        )
    return 15 + round(exponent)


REFUSING = (
    "EXPAND_DIMS", "PACK", "UNPACK", "MIRROR_PAD", "REDUCE_MAX", "REDUCE_MIN", "SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND",
)  # fmt: skip
BLIND = (
    "RESHAPE", "SQUEEZE", "TRANSPOSE", "SPLIT", "SPLIT_V", "PAD", "PADV2", "SLICE", "STRIDED_SLICE", "TILE",
    "BROADCAST_TO", "GATHER", "GATHER_ND", "REVERSE_V2", "MAX_POOL_2D", "AVERAGE_POOL_2D", "RESIZE_BILINEAR",
    "RESIZE_NEAREST_NEIGHBOR", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "SELECT", "SELECT_V2", "MINIMUM", "MAXIMUM",
)  # fmt: skip
_DATA = {"minimum": slice(0, 2), "maximum": slice(0, 2), "select": slice(1, 3), "concat": slice(None),
         "pack": slice(None)}  # fmt: skip
CODES = (*BYTES, "int16")

Named = Callable[[str], Tensor]
Add = Callable[[Tensor], None]


def on_codes(code: str, op: Op, tensor: Named, add: Add) -> list[Op]:
    """The operator in one format, between operators that give codes another one; by itself where nothing differs."""
    data = op.inputs[_DATA.get(op.kind, slice(0, 1))]
    tensors = [tensor(name) for name in (*data, *op.outputs)]
    if code not in (*BLIND, *REFUSING, "CONCATENATION") or not _differ(tensors):
        return [op]
    if code == "CONCATENATION" and tensors[0].dtype == "uint8":
        return [op]  # this one kernel converts
    first = tensors[0]
    can_change = all(t.dtype in BYTES and t.dtype == first.dtype and t.quant is not None for t in tensors)
    if code not in BLIND or not can_change:
        raise UnsupportedError(
            f"{code} between tensors of different formats ({', '.join(dict.fromkeys(map(_format, tensors)))})",
            where=op.name,
            rule="TFLite's kernel wants the same scale and zero point everywhere",
            remedy="quantise the model again, or put a QUANTIZE in front of the operator",
        )
    recoded = {name: f"{name}:as {op.name}" for name in data[1:]}
    before = [Op("recode", f"{op.name}:{name}", (name,), (recoded[name],), {}, op.origin) for name in data[1:]]
    inputs = tuple(recoded.get(name, name) for name in op.inputs)
    outputs = tuple(f"{name}:codes" for name in op.outputs)
    for name, made in recoded.items():
        add(replace(tensor(name), name=made, quant=first.quant, data=None))
    for name, made in zip(op.outputs, outputs, strict=True):
        add(replace(tensor(name), name=made, quant=first.quant))
    plain = replace(op, inputs=inputs, outputs=outputs, attrs=_plain(op, first, tensor(op.outputs[0])))
    activation = {"activation": op.attrs["activation"]} if "activation" in op.attrs else {}
    after = [
        Op("recode", f"{op.name}:format{k}", (a,), (b,), activation, op.origin)
        for k, (a, b) in enumerate(zip(outputs, op.outputs, strict=True))
    ]
    return [*before, plain, *after]


def _differ(tensors: Sequence[Tensor]) -> bool:
    """Whether formats of codes differ; plain integers and per-channel scales do not concern these kernels."""
    if any(t.dtype not in CODES or (t.quant is not None and not t.quant.is_per_tensor) for t in tensors):
        return False
    first = tensors[0].quant
    return any(not first.same_as(t.quant) if first is not None else t.quant is not None for t in tensors[1:])


def _format(tensor: Tensor) -> str:
    if tensor.quant is None:
        return f"{tensor.dtype} without a scale"
    return f"{tensor.dtype} scale {tensor.scale:.6g} zero {tensor.zero_point}"


def _plain(op: Op, x: Tensor, y: Tensor) -> dict[str, object]:
    """Without its activation, which counts in codes of the result; borders are zeros of the result."""
    attrs = {**op.attrs, "activation": "none"} if "activation" in op.attrs else dict(op.attrs)
    if op.kind == "pad" and "value" not in attrs and attrs["mode"] == "constant":
        attrs["value"] = (y.zero_point - x.zero_point) * x.scale
    return attrs
