"""Maxima over windows as maxima of pairs: for pictures that are smaller than any that a POOL unit was seen with.

max(x, y) = x + (y - x)+, where the positive part comes out of saturation: two ARITHs, exact on codes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.access_patterns import walk
from atonc.compiler.lower.units.affine import fit_pair
from atonc.compiler.lower.units.arith import pair_unit
from atonc.compiler.lower.units.strided_views import StridedView
from atonc.compiler.lower.units.wiring import Wiring
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.select.rules import PICTURE
from atonc.machine.hw.units.stream_engine import StrengConfig


def widen(
    picture: StridedView, axis: int, window: int, scratch: Callable[[tuple[int, ...]], StridedView]
) -> tuple[list[Wiring], StridedView]:
    """Maxima over ever more neighbours, up to the window: chains one after the other, and what the last fills."""
    found: list[Wiring] = []
    reach = 1
    while reach < window:
        step = min(reach, window - reach)
        count = picture.shape[axis] - step
        low, high = picture.cut(axis, 0, count), picture.cut(axis, step, count)
        far = scratch(low.shape)
        found.append(Wiring(partial(_build, low, high, far), low.elements))
        picture, reach = far, reach + step
    return found, picture


def _build(low: StridedView, high: StridedView, far: StridedView, builder: TaskBuilder) -> None:
    x, y, again = (builder.read(view.buffer, _engine(view)) for view in (low, high, low))
    positive = builder.unit(pair_unit(fit_pair(-1.0, 1.0, -128.0)), x, y)
    largest = builder.unit(pair_unit(fit_pair(1.0, 1.0, 128.0)), positive, again)
    builder.write(largest, far.buffer, _engine(far, write=True))


def _engine(view: StridedView, write: bool = False) -> StrengConfig:
    found = walk(list(zip(view.shape, view.strides, strict=True)), view.offset, write=write)
    if found is None:
        raise Refusal(PICTURE, f"{view.shape} in steps {view.strides}", "lines of pixels", "copy it first")
    return found
