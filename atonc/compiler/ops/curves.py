"""Functions of one code of 16 bits as lines between the entries of a short table: what the CPU computes of them.

The table is the shortest of a few that stays within `MOST_ERROR` codes of exact arithmetic for all 65,536 codes. A
function that jumps, or bends too much somewhere, has none.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from atonc.compiler.ir import Array, Graph, Op, Quantisation, Tensor
from atonc.compiler.ops.functions import FUNCTIONS
from atonc.compiler.ops.registry import evaluate
from atonc.machine.base.frozen import dataclass

BITS = (7, 6, 5, 4)  # codes from entry to entry, as a power of two: tables of 1, 2, 4 and 8 KB
MOST_ERROR = 4  # codes, as layers of 16 bits on the NPU are off; a longer table takes longer from flash
_RANGE = -(1 << 15), (1 << 15) - 1
CODES = np.arange(_RANGE[0], _RANGE[1] + 1)


@dataclass(frozen=True, eq=False)
class Curve:
    table: Array
    bits: int
    error: int  # codes, of the worst input

    def __call__(self, codes: Array) -> Array:
        """What `atonc_curve` computes."""
        places = codes.astype(np.int64) + (1 << 15)
        at, rest = places >> self.bits, places & (1 << self.bits) - 1
        found: Array = self.table[at] + (np.diff(self.table)[at] * rest + (1 << self.bits - 1) >> self.bits)
        return found


def curve_of(op: Op, graph: Graph) -> Curve | None:
    """The curve of an operator that the CPU computes so; None for any other."""
    single = op.kind == "table" or (op.kind in FUNCTIONS and FUNCTIONS[op.kind].limits is None)
    if not single or len(op.inputs) != 1:
        return None
    x, y = graph.tensors[op.inputs[0]], graph.tensors[op.outputs[0]]
    quants = [tensor.quant for tensor in (x, y) if tensor.dtype == "int16" and tensor.quant is not None]
    if len(quants) != 2 or not all(quant.is_per_tensor for quant in quants):
        return None
    formats = tuple((float(tensor.scale), int(tensor.zero_point)) for tensor in (x, y))
    return _fitted(op.kind, tuple(sorted(op.attrs.items())), *formats)


@lru_cache(maxsize=1024)
def _fitted(kind: str, attrs: tuple[tuple[str, object], ...], *formats: tuple[float, int]) -> Curve | None:
    x, y = (
        Tensor(name, CODES.shape, "int16", Quantisation.per_tensor(*one))
        for name, one in zip("xy", formats, strict=True)
    )
    op = Op(kind, kind, ("x",), ("y",), dict(attrs))
    exact = evaluate(Graph({"x": x, "y": y}, (op,), ("x",), ("y",)), op, [CODES.astype(np.int16)])[0].codes
    return through(exact.astype(np.int64))


def through(exact: Array) -> Curve | None:
    """The shortest that is near enough; behind the last code it goes on as before."""
    for bits in BITS:
        beyond = exact[-1] + np.rint((exact[-1] - exact[-1 - (1 << bits)]) / (1 << bits))
        table = np.append(exact[:: 1 << bits], np.clip(beyond, *_RANGE)).astype(np.int64)
        found = Curve(table, bits, 0)
        error = int(np.abs(found(CODES) - exact).max())
        if error <= MOST_ERROR and np.abs(np.diff(table)).max() < 1 << 15:
            return replace(found, error=error)
    return None
