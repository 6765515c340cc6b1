"""How far from exact arithmetic every layer is expected to be, and what becomes of that further down.

A layer has an error of its own. A difference that it finds in its inputs passes its gains: what one code of one input
element is worth, what all of them are worth together, and when they differ independently (the root of the sum of
squares). Differences are followed by their mean square and their peak: sums of many small independent ones stay below
`SIGMAS` times their spread. That is an estimate, no bound: inputs may conspire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, inf, prod, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Graph, Op, Tensor, layer_name
from atonc.compiler.lower.context import Context, whole_range
from atonc.compiler.lower.move.copies import requantising_line
from atonc.compiler.lower.semantics.arithmetic import CODES, line
from atonc.compiler.ops.curves import curve_of
from atonc.compiler.ops.registry import evaluate, is_move
from atonc.compiler.ops.values import to_codes
from atonc.compiler.select.choices import Deviation, ExpectedError
from atonc.compiler.select.form import Semantics
from atonc.machine.base.frozen import dataclass

if TYPE_CHECKING:
    from atonc.compiler.lower.map_ops import Mapped

SIGMAS = 8.0


@dataclass(frozen=True)
class Declared:
    """What the compiler says of one operator by itself: its error in LSB, and how many times those of typical inputs
    its sums may be (without end: no input saturates one)."""

    local: float
    room: float
    on_cpu: bool


@dataclass(frozen=True)
class Gain:
    """The gain from one input to the output, in codes per code."""

    steepest: float
    total: float
    spread: float


NONE, UNKNOWN = Deviation(), Gain(inf, inf, inf)


def expected_errors(graph: Graph, mapped: Mapped) -> tuple[ExpectedError, ...]:
    """Works out the expected errors in the order of the operators."""
    known: dict[str, Deviation] = {}
    found = []
    for op, declared in declared_errors(graph, mapped):
        local = declared.local
        before = [(k, known[name]) for k, name in enumerate(op.inputs) if known.get(name, NONE).peak]
        gains = {k: _gain(graph, op, k) for k, _ in before}
        deviation = _deviation(graph, op, local, before, gains)
        known |= dict.fromkeys(op.outputs, deviation)
        steepest = max((gain.steepest for gain in gains.values()), default=0.0)
        found.append(ExpectedError(layer_name(op), op.name, op.kind, local, declared.room, steepest, deviation))
    return tuple(found)


def declared_errors(graph: Graph, mapped: Mapped) -> Iterator[tuple[Op, Declared]]:
    """Each operator on the inputs that it really has."""
    on_cpu = mapped.reason_of
    for op in graph.ops:
        if op.name in on_cpu:
            curve = curve_of(op, graph)
            yield op, Declared(float(curve.error) if curve else 0.0, inf, on_cpu=True)
            continue
        meaning = mapped.context.semantics.get(op.name)
        yield op, Declared(local_error(op, mapped.context, meaning), meaning.room if meaning else inf, on_cpu=False)


def local_error(op: Op, context: Context, meaning: Semantics | None) -> float:
    """Moves are exact but for the line that requantises them. No two codes are further apart than all of them."""
    if meaning is not None:
        return min(meaning.error, whole_range(context.tensor(op.outputs[0])))
    formats = [(context.tensor(a), context.tensor(b)) for a in op.inputs[:1] for b in op.outputs]
    requantised = (
        (x, y) for x, y in formats if x.quant is not None and y.quant is not None and not x.quant.same_as(y.quant)
    )
    return max((line_error(x, y) for x, y in requantised), default=0.0)


def line_error(x: Tensor, y: Tensor) -> float:
    """Measures the error of the line between two formats, over all codes."""
    wanted = to_codes((CODES - x.zero_point) * np.float64(x.scale / y.scale), y)
    return float(np.abs(line(requantising_line(x, y), CODES) - wanted).max())


def _deviation(
    graph: Graph, op: Op, local: float, before: list[tuple[int, Deviation]], gains: dict[int, Gain]
) -> Deviation:
    """An error below one code moves some values over the edge between two codes: that many, and by one."""
    square, peak, most = min(local, 1.0) / 2 + local**2 / 9, 0.0, whole_range(graph.tensors[op.outputs[0]])
    if local and op.kind in _TIES:
        square = max(square, 0.5)
    for k, deviation in before:
        table = _table(graph, op, k)
        if table is not None:
            jump, spread = _jumps(table, deviation.peak)
            peak, square = peak + jump, square + deviation.square * spread**2
            continue
        gain = gains[k]
        many = max(gain.steepest * deviation.peak, SIGMAS * gain.spread * sqrt(deviation.square))
        peak += min(gain.total * deviation.peak, many)
        square += min(deviation.square * gain.spread**2, most**2)
    whole = ceil(min(peak, most)) + ceil(min(local, most))
    return Deviation(min(square, most**2), min(whole, most))


def _jumps(table: NDArray[np.int64], reach: float) -> tuple[float, float]:
    """The largest change within so many codes, and of a single one: values may well lie where the table is steep."""
    steps = [np.abs(table[k:] - table[:-k]).max() for k in range(1, min(int(reach), 255) + 1)]
    return float(max(steps, default=0)), float(np.abs(np.diff(table)).max())


def _table(graph: Graph, op: Op, varying: int) -> NDArray[np.int64] | None:
    """All 256 results of a function of one element; None where more than that one input counts."""
    others = [graph.tensors[n] for k, n in enumerate(op.inputs) if k != varying and n]
    x, y = graph.tensors[op.inputs[varying]], graph.tensors[op.outputs[0]]
    single = op.kind in _POINTWISE and all(t.is_constant and t.elements == 1 for t in others)
    if not single or len(op.outputs) > 1 or x.elements != y.elements or y.dtype != "int8" or x.dtype != "int8":
        return None
    values = [CODES.astype(np.int8) if k == varying else graph.tensors[n].data for k, n in enumerate(op.inputs)]
    flat = [None if v is None else v.reshape(-1) for v in values]
    return evaluate(graph, op, flat)[0].codes.reshape(-1).astype(np.int64)


# ---------------------------------------------------------------------------------------------------------------- gains

_TIES = frozenset({"average_pool", "mean", "add", "sub", "resize_linear"})  # the least error decides exact halves
_PLAIN = frozenset(
    {"add", "sub", "minimum", "maximum", "max_pool", "reduce_max", "resize_linear", "identity", "requantize"}
)
_POINTWISE = frozenset({"table", "requantize", "add", "sub", "mul", "minimum", "maximum", "div", "affine"})


def _gain(graph: Graph, op: Op, k: int) -> Gain:
    x, y = graph.tensors[op.inputs[k]], graph.tensors[op.outputs[0]]
    if x.quant is None or y.quant is None:
        return UNKNOWN
    ratio = x.scale / y.scale
    rule = _GAINS.get(op.kind)
    if rule is not None:
        return rule(graph, op, k, ratio)
    alike = sqrt(max(1.0, y.elements / x.elements))  # differences that are repeated are no longer independent
    return Gain(ratio, ratio, ratio * alike) if is_move(op.kind) or op.kind in _PLAIN else UNKNOWN


def _weighted(graph: Graph, op: Op, k: int, ratio: float) -> Gain:
    """Convolutions and dense layers: the weights of the worst output channel."""
    weights = graph.tensors[op.inputs[1]]
    if k != 0 or weights.data is None or weights.quant is None:
        return UNKNOWN
    rows = weights.data.astype(np.float64).reshape(weights.shape[0], -1) - weights.quant.zero_points.reshape(-1, 1)
    worth = np.abs(rows) * weights.quant.scales.reshape(-1, 1) * ratio
    return Gain(worth.max(), worth.sum(axis=1).max(), sqrt((worth**2).sum(axis=1).max()))


def _multiplied(graph: Graph, op: Op, k: int, ratio: float) -> Gain:
    other = graph.tensors[op.inputs[1 - k]]
    if op.inputs[0] == op.inputs[1] or other.quant is None:
        return UNKNOWN
    centred = CODES - other.zero_point if other.data is None else other.data.astype(np.int64) - other.zero_point
    worth = float(np.abs(centred).max()) * other.scale * ratio
    return Gain(worth, worth, worth)


def _sloped(graph: Graph, op: Op, k: int, ratio: float) -> Gain:
    slope = graph.tensors[op.inputs[1]]
    if k != 0 or slope.data is None or slope.quant is None:
        return UNKNOWN
    worth = ratio * max(1.0, float(np.abs(slope.data.astype(np.float64) - slope.zero_point).max()) * slope.scale)
    return Gain(worth, worth, worth)


def _averaged(graph: Graph, op: Op, k: int, ratio: float) -> Gain:
    window = op.attrs.get("window")
    shape = graph.tensors[op.inputs[0]].shape
    count = prod(window) if window else prod(shape[axis] for axis in op.attrs["axes"])
    least = 1 if window and any(op.attrs["padding"]) else count  # windows at the border may see one pixel
    return Gain(ratio / least, ratio, ratio / sqrt(least))


def _exponential(graph: Graph, op: Op, k: int, ratio: float) -> Gain:
    """p' = p (1 - p) s for its own input, and as much again for all the others."""
    beta = float(op.attrs.get("beta", 1.0))
    return Gain(ratio * beta / 4, ratio * beta / 2, ratio * beta / 2)


_GAINS: dict[str, Callable[[Graph, Op, int, float], Gain]] = {
    **dict.fromkeys(("conv", "dense", "transpose_conv"), _weighted),
    "mul": _multiplied,
    "prelu": _sloped,
    **dict.fromkeys(("average_pool", "mean"), _averaged),
    "softmax": _exponential,
}
