"""Codes of 16 bits as two tensors of bytes: x = 256 * high + low, high signed and low from 0 to 255.

An ARITH gives the high bytes, an engine picks out the low ones. Units read these without a sign, so they count as codes
from -128 on that are stored as code + 128.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.engines import SHIFT_CODES
from atonc.compiler.lower.move.copies import Move, copy
from atonc.compiler.lower.units.affine import Affine
from atonc.compiler.lower.units.arith import affine_unit
from atonc.compiler.lower.units.parts import parts
from atonc.compiler.lower.units.strided_views import StridedView
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import Area, contiguous, engine
from atonc.compiler.plan.task import Purpose, Task, TaskGroup
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import UNITS
from atonc.machine.hw.units.stream_engine import StrengConfig

Codes = NDArray[Any]

HIGH, LOW, LOW_SIGNED = "high bytes", "low bytes", "signed low bytes"
ZERO = -128  # code of a low byte of 0
# floor(x / 256): half a code less than a multiple of 256 is never in the middle between two
_FLOOR = affine_unit(Affine(np.array([1 << 14]), np.array([-255 << 13]), 22), 0, in_bytes=2)


@dataclass(frozen=True, eq=False)
class Halves:
    """The bytes of a tensor, and the tasks that write them, if nobody did before."""

    high: Tensor
    low: Tensor
    groups: tuple[TaskGroup, ...]


def high_codes(codes: Codes) -> Codes:
    return codes.astype(np.int64) >> 8


def low_codes(codes: Codes) -> Codes:
    return (codes.astype(np.int64) & 255) + ZERO


def halves_of(x: Tensor, context: Context, origin: tuple[str, ...], signed: bool = False) -> Halves:
    """The first reader makes them for all of them. `signed`: low bytes as codes from -128 on, not as code + 128."""
    source, title = context.buffer(x.name), f"bytes of {x.name}"
    names, groups = [], list[TaskGroup]()
    lows = LOW_SIGNED if signed else LOW
    for half in (HIGH, lows):
        known = context.shifted_copies.get(_key(source, half))
        names.append(known or context.scratch(x.elements, half))
        context.shifted_copies[_key(source, half)] = names[-1]
        if known is None and half == HIGH:
            tasks = [_floors(source, names[0], first, count, origin, title) for first, count in _lanes(x.elements)]
            groups.append(TaskGroup(tuple(tasks)))
        elif known is None:
            whole = StridedView.whole(names[1], (x.elements,))
            units = (SHIFT_CODES,) if signed else ()
            groups += copy(context, [Move(StridedView(source, (x.elements,), (2,)), whole, units)], origin, title)
    if not signed:
        context.buffers[names[1]] = replace(context.buffers[names[1]], offset=-ZERO)
    high = Tensor(names[0], x.shape, "int8", Quantisation.per_tensor(256 * x.scale, 0))
    low = Tensor(names[1], x.shape, "int8", Quantisation.per_tensor(x.scale, ZERO))
    first = tuple(task for group in groups[:2] for task in group.tasks)
    return Halves(high, low, (TaskGroup(first), *groups[2:]) if first else ())


def _key(source: str, half: str) -> str:
    return f"{half} of {source}"


def _lanes(elements: int) -> list[tuple[int, int]]:
    """Half of the engines: the copy of the low bytes has the others."""
    return parts(elements, UNITS["STRENG"] // 5)


def _floors(source: str, target: str, first: int, count: int, origin: tuple[str, ...], title: str) -> Task:
    b = TaskBuilder(origin, title, Purpose.FEATURES)
    high = b.unit(_FLOOR, b.read(source, wide_row(count, first)))
    b.write(high, target, contiguous(count, offset=first, write=True))
    return b.done(count)


def wide_row(count: int, first: int = 0, write: bool = False) -> StrengConfig:
    """So many numbers of 16 bits in a row."""
    return engine(Area(1, 1, count, 2 * count, 2 * count, 2 * first, 2), write=write)
