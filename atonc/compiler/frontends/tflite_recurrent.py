"""TFLite layers with a state. A run begins without one: what TFLite would keep from the run before is not kept."""

from __future__ import annotations

from math import log2

import numpy as np

from atonc.compiler.frontends.tflite_ops import Source, Translated, translates
from atonc.compiler.frontends.tflite_schema import ACTIVATIONS
from atonc.compiler.ir import Array, Tensor
from atonc.compiler.ops.recurrent import GATES, MOST_CELLS
from atonc.compiler.ops.rounding import Multiplier
from atonc.machine.base.errors import ModelError, UnsupportedError
from atonc.machine.base.words import count

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
    bits = _cell_bits(cell, source.name)
    attrs = {
        "multipliers": (*_gates(source, WEIGHTS, x), *_gates(source, RECURRENT, state), _result(y)),
        "cell_bits": bits,
        "cell_clip": _cell_clip(source.options.float32(1), cell),
    }
    like = source.input(WEIGHTS + 3)
    made = [
        source.make(like, f":{source.name} {what}", data, None)
        for what, data in (("weights", weights), ("recurrent", recurrent))
    ]
    made.append(source.make(source.input(BIASES), f":{source.name} biases", biases.astype(np.int32), None))
    return Translated("lstm", [x.name, *made], attrs)


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
    if types != ("int8", "int8", "int8", "int16") or any(t.quant is None for t in (x, y)):
        found.append(f"values of {x.dtype}, states of {types[2]} and {types[3]}")
    if not found and not y.quant.same_as(source.input(STATE).quant):  # type: ignore[union-attr,arg-type]
        found.append("another scale for results than for states")
    if found:
        raise UnsupportedError(
            f"{source.code} with {found[0]}",
            where=source.name,
            rule="int8 values, int8 states, int16 cells, four gates, batch first",
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


def _result(y: Tensor) -> tuple[int, int]:
    """Finds the multiplier from products of 30 bits to codes."""
    return _pair(2.0**-15 / float(np.float32(y.scale)) * 2.0**-15)


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


def _cell_clip(clip: float, cell: Tensor) -> int:
    """Gives the clip in steps of the cell; 0 where it bounds nothing."""
    return 0 if not clip > 0 else int(min(clip / cell.scale, 32767.0))
