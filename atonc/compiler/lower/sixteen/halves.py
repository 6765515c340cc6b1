"""Codes of 16 bits as two tensors of bytes: x = 256 * high + low + 128, both signed.

One ARITH gives the high bytes, a second one what they leave over. The low bytes count from -128 on, so they are codes
with that zero point. High bytes of numbers that are never negative look the same without a sign, which is how
convolvers read features fastest: then they count as codes from -128 on, stored as code + 128.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Graph, Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.units.affine import Affine, AffinePair
from atonc.compiler.lower.units.arith import affine_unit, pair_unit
from atonc.compiler.lower.units.parts import parts
from atonc.compiler.ops.registry import is_move
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import Area, contiguous, engine
from atonc.compiler.plan.task import Purpose, Task, TaskGroup
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import UNITS
from atonc.machine.hw.units.stream_engine import StrengConfig

Codes = NDArray[Any]

HIGH, LOW = "high bytes", "low bytes"
ZERO = -128  # code of a low byte of 0
# floor(x / 256): half a code less than a multiple of 256 is never in the middle between two
_HIGH = affine_unit(Affine(np.array([1 << 14]), np.array([-255 << 13]), 22), 0, in_bytes=2)
_LOW = pair_unit(AffinePair(64, -64 * 256, 64 * ZERO, 0, 0, 0, 6), bytes_x=2, bytes_y=1)  # x - 256 * high - 128


@dataclass(frozen=True, eq=False)
class Halves:
    """The bytes of a tensor, and the tasks that write them, if nobody did before."""

    high: Tensor
    low: Tensor
    groups: tuple[TaskGroup, ...]

    def codes(self, half: Tensor) -> Callable[[Codes], Codes]:
        """From numbers of 16 bits to the codes of one of both."""
        return partial(low_codes if half is self.low else high_codes, zero=half.zero_point)


def high_codes(codes: Codes, zero: int = 0) -> Codes:
    return (codes.astype(np.int64) >> 8) + zero


def low_codes(codes: Codes, zero: int = ZERO) -> Codes:
    return (codes.astype(np.int64) & 255) + zero


def never_negative(name: str, graph: Graph) -> bool:
    """Whether the operators before leave no negative code of a tensor whose zero is 0. Means do not keep that: their
    halves are rounded apart, and -1 may come of zeros."""
    producer = graph.producers.get(name)
    if producer is None:
        return False
    if "clip" in producer.attrs and producer.attrs["clip"][0] >= 0:
        return True
    keeps = is_move(producer.kind) or producer.kind in ("max_pool", "identity")
    sources = [n for n in producer.inputs if n and graph.tensors[n].dtype == "int16"]
    return keeps and bool(sources) and all(never_negative(n, graph) for n in sources)


def halves_of(x: Tensor, context: Context, origin: tuple[str, ...], unsigned: bool = False) -> Halves:
    """The first reader makes them for all of them. `unsigned`: high bytes are read without a sign."""
    source, groups = context.buffer(x.name), tuple[TaskGroup, ...]()
    high, low = (context.shifted_copies.get(f"{half} of {source}", "") for half in (HIGH, LOW))
    if not (high and low):
        high, low = (context.scratch(x.elements, half) for half in (HIGH, LOW))
        for half, name in ((HIGH, high), (LOW, low)):
            context.shifted_copies[f"{half} of {source}"] = name
        named = origin, f"bytes of {x.name}"
        lanes = parts(x.elements, UNITS["ARITH"] // 2)
        groups = (TaskGroup(tuple(_split(source, high, low, lane, named) for lane in lanes)),)
    context.buffers[high] = replace(context.buffers[high], offset=-ZERO if unsigned else 0)
    highs = Quantisation.per_tensor(256 * x.scale, ZERO if unsigned else 0)
    one = Tensor(high, x.shape, "int8", highs)
    return Halves(one, Tensor(low, x.shape, "int8", Quantisation.per_tensor(x.scale, ZERO)), groups)


def _split(source: str, high: str, low: str, lane: tuple[int, int], named: tuple[tuple[str, ...], str]) -> Task:
    """[x=IN y=IN>ARITH#1]>ARITH>OUT ; ARITH#1>OUT, as seen."""
    first, count = lane
    b = TaskBuilder(*named, Purpose.FEATURES)
    x = b.read(source, wide_row(count, first))
    highs = b.unit(_HIGH, b.read(source, wide_row(count, first)))
    lows = b.unit(_LOW, x, highs)
    b.write(highs, high, contiguous(count, offset=first, write=True))
    b.write(lows, low, contiguous(count, offset=first, write=True))
    return b.done(count)


def wide_row(count: int, first: int = 0, write: bool = False) -> StrengConfig:
    """So many numbers of 16 bits in a row."""
    return engine(Area(1, 1, count, 2 * count, 2 * count, 2 * first, 2), write=write)
