"""Maxima over windows as maxima of pairs: for pictures that no POOL unit was seen with, such as small ones.

max(x, y) = x + (y - x)+, where the positive part comes out of saturation: two ARITHs, exact on codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.access_patterns import EnginePort, walk_together
from atonc.compiler.lower.units.affine import fit_pair
from atonc.compiler.lower.units.strided_views import StridedView
from atonc.compiler.lower.units.trusted import add_streams
from atonc.compiler.lower.units.wiring import Wiring
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.policy import WORTH_SPLITTING
from atonc.compiler.select.rules import PICTURE
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.units.stream_engine import StrengConfig

Scratch = Callable[[tuple[int, ...]], StridedView]
_PORTS = (EnginePort("to ARITH:0"), EnginePort("to ARITH:1"), EnginePort("to ARITH:1"), EnginePort("from ARITH"))


@dataclass(frozen=True)
class Windows:
    """Windows along one axis: so many results, a stride apart."""

    axis: int
    window: int
    stride: int
    results: int

    def starts(self, picture: StridedView, more: int = 0) -> StridedView:
        """The first pixel of each window, and of so many behind them."""
        return picture.cut(self.axis, 0, self.results + more, self.stride)

    def steps(self) -> list[tuple[int, bool]]:
        """How the windows grow: by how many pixels, and whether by a window of the step before or by a pixel. Only
        windows that begin at a result are worked out, so those of the step before lie whole strides apart."""
        reach, found = 1, []
        while reach < self.window:
            far = min(reach, self.window - reach) // self.stride * self.stride
            found.append((far, True) if far else (reach, False))
            reach += far or 1
        return found


def widen(
    picture: StridedView, windows: Windows, scratch: Scratch, trust: Trust
) -> Iterator[tuple[list[Wiring], StridedView]]:
    """Maxima over ever more neighbours, up to the window: chains that may run side by side, and what they fill."""
    axis, stride = windows.axis, windows.stride
    steps = windows.steps()
    more = sum(far // stride for far, again in steps if again)
    now, needed = windows.starts(picture, more), windows.results + more
    for far, again in steps:
        needed -= far // stride if again else 0
        low = now.cut(axis, 0, needed)
        high = now.cut(axis, far // stride, needed) if again else picture.cut(axis, far, needed, stride)
        now = scratch(low.shape)
        yield list(_wirings(low, high, now, trust)), now


def _wirings(low: StridedView, high: StridedView, far: StridedView, trust: Trust) -> Iterator[Wiring]:
    """One chain, or upper and lower half of the picture side by side."""
    rows, views = far.shape[0], (low, high, low, far)
    half = -(-rows // 2)
    apart = all(half * view.strides[0] % ALIGNED == 0 for view in views)
    cuts = [(0, half), (half, rows - half)] if apart and rows > 1 and far.elements > WORTH_SPLITTING else [(0, rows)]
    for first, count in cuts:
        parts = [view.cut(0, first, count) for view in views]
        engines = walk_together(_PORTS, parts, trust)
        if engines is None:
            raise Refusal(PICTURE, f"{low.shape} in steps {low.strides}", "lines of pixels", "copy it first")
        yield Wiring(partial(_build, [view.buffer for view in parts], engines, trust), parts[0].elements)


def _build(buffers: list[str], engines: list[StrengConfig], trust: Trust, builder: TaskBuilder) -> None:
    x, y, again = (builder.read(*ends) for ends in zip(buffers[:3], engines[:3], strict=True))
    positive = add_streams(builder, fit_pair(-1.0, 1.0, -128.0), (x, y), trust)
    largest = add_streams(builder, fit_pair(1.0, 1.0, 128.0), (positive, again), trust)
    builder.write(largest, buffers[3], engines[3])
