"""Functions of one code of 16 bits as a line for each run of so many codes: what the CPU computes of them.

The table is the shortest of a few that stays within `MOST_ERROR` codes of exact arithmetic for all 65,536 codes. Sums
saturate, so a line goes on where the function meets an end of the format. A function that jumps, or bends too much
somewhere, has none.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from atonc.compiler.ir import Array, Graph, Op, Quantisation, Tensor
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.compiler.ops.registry import evaluate
from atonc.machine.base.frozen import dataclass

BITS = (9, 8, 7, 6, 5, 4)  # codes of a line, as a power of two: tables of 512 bytes to 16 KB
MOST_ERROR = 4  # codes, as layers of 16 bits on the NPU are off; a longer table takes longer from flash
_RANGE = -(1 << 15), (1 << 15) - 1
CODES = np.arange(_RANGE[0], _RANGE[1] + 1)


@dataclass(frozen=True, eq=False)
class Curve:
    lines: Array  # [2, runs]: where each line begins, and how far it goes; in the order of codes without a sign. The
    # second line of a pair, backwards, from its end: the bit that tells which it is is the sign of the rest
    bits: int
    error: int  # codes, of the worst input

    def __call__(self, codes: Array) -> Array:
        """What `atonc_curve` computes."""
        places = codes.astype(np.int64) & 0xFFFF
        begin, step = self.lines[:, places >> self.bits]
        return np.clip(begin + _risen(step, places, self.bits), *_RANGE)


def _risen(step: Array, places: Array, bits: int) -> Array:
    half, both = 1 << bits, 2 << bits
    rest = (places + half) % both - half
    risen: Array = step * rest + (half >> 1) >> bits
    return risen


def curve_of(op: Op, graph: Graph) -> Curve | None:
    """The curve of an operator that the CPU computes so; None for any other."""
    exact = function_codes(op, graph)
    return None if exact is None else _through(exact.tobytes())


def function_codes(op: Op, graph: Graph) -> Array | None:
    """The exact codes of a function of one code of 16 bits, for all of them; None for any other operator."""
    single = op.kind == "table" or (op.kind in FUNCTIONS and FUNCTIONS[op.kind].limits is None)
    if not single or len(op.inputs) != 1:
        return None
    x, y = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    quants = [tensor.quant for tensor in (x, y) if tensor.dtype == "int16" and tensor.quant is not None]
    if len(quants) != 2 or not all(quant.is_per_tensor for quant in quants):
        return None
    formats = tuple((float(tensor.scale), int(tensor.zero_point)) for tensor in (x, y))
    return _codes(op.kind, tuple(sorted(op.attrs.items())), *formats)


@lru_cache(maxsize=1024)
def _codes(kind: str, attrs: tuple[tuple[str, object], ...], *formats: tuple[float, int]) -> Array:
    x, y = (
        Tensor(name, CODES.shape, "int16", Quantisation.per_tensor(*one))
        for name, one in zip("xy", formats, strict=True)
    )
    op = Op(kind, kind, ("x",), ("y",), dict(attrs))
    exact = evaluate(Graph({"x": x, "y": y}, (op,), ("x",), ("y",)), op, [CODES.astype(np.int16)])[0].codes
    return exact.astype("<i2")


@lru_cache(maxsize=1024)
def _through(exact: bytes) -> Curve | None:
    return through(np.frombuffer(exact, "<i2").astype(np.int64))


def through(exact: Array) -> Curve | None:
    """The shortest that is near enough."""
    for bits in BITS:
        found = Curve(_lines(exact, bits), bits, 0)
        error = int(np.abs(found(CODES) - exact).max())
        if error <= MOST_ERROR:
            return replace(found, error=error)
    return None


def _lines(exact: Array, bits: int) -> Array:
    """From the first to the last code of each run whose result is inside the format, in the middle of what lies
    between; or as steep as a neighbour, where that is nearer: few results may be inside."""
    runs = np.roll(exact, 1 << 15).reshape(-1, 1 << bits)
    inside = (runs > _RANGE[0]) & (runs < _RANGE[1])
    inside |= ~inside.any(axis=1, keepdims=True)
    first, last = inside.argmax(axis=1), (1 << bits) - 1 - inside[:, ::-1].argmax(axis=1)
    row, places = np.arange(len(runs)), np.arange(1 << 16).reshape(runs.shape)
    steep = np.rint((runs[row, last] - runs[row, first] << bits) / np.maximum(last - first, 1))
    own = np.clip(steep, _RANGE[0] + 1, _RANGE[1]).astype(np.int64)
    best, least = np.zeros((2, len(runs)), np.int64), np.full(len(runs), 1 << 20)
    for step in (own, np.roll(own, 1), np.roll(own, -1)):
        risen = _risen(step[:, None], places, bits)
        left = runs - risen
        middle = np.where(inside, left, 1 << 20).min(axis=1) + np.where(inside, left, -1 << 20).max(axis=1) >> 1
        begin = np.clip(middle, *_RANGE)
        error = np.abs(np.clip(begin[:, None] + risen, *_RANGE) - runs).max(axis=1)
        best, least = np.where(error < least, [begin, step], best), np.minimum(error, least)
    return best
