"""Maximum over windows: cascades of 2x2 and 3x3 windows, padded by an identity CONVACC on the way.

Lines or columns alone: the POOL has square windows only, so every line is stored two or three times. Pictures that no
POOL unit was seen with, such as small ones: maxima of pairs, max(x, y) = x + (y - x)+, where the positive part comes
out of saturation: two ARITHs, exact on codes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.move.copies import Units, identity_pad
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.arith import BEYOND, LARGER, add_streams
from atonc.compiler.lower.units.pool import MOST_HEIGHT, channel_groups, windows_unit
from atonc.compiler.lower.units.views import EnginePort, StridedView, all_trusted, walk, walk_as, walk_together
from atonc.compiler.lower.units.wiring import End, Wiring, aligned_pieces
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.flow import EachWindow, TaskFlow, Unfollowing
from atonc.compiler.plan.policy import WORTH_SPLITTING
from atonc.compiler.plan.streams import Area, engine
from atonc.compiler.select.rules import PICTURE, POOL_LINES, POOL_PICTURE, POOL_WINDOW
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES, POOL_CHANNELS, POOL_LINE, POOL_THREE_LINES, most_pooled
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.units.stream_engine import StrengConfig

Stage = tuple[int, int]  # window and stride
Pads = tuple[int, int, int, int]  # top, left, bottom, right
NO_PADS: Pads = (0, 0, 0, 0)
LOWEST = -128
MOST_STAGES = 32


def cascade(window: int, stride: int) -> tuple[list[Stage], int]:
    """Stages of 2x2 and 3x3 windows that together have this window, and the stride that remains to be done."""
    heap: list[tuple[float, int, int, list[Stage], bool]] = [(0.0, 1, 1, [], False)]
    seen: set[tuple[int, int]] = set()
    while heap:
        cost, reach, step, stages, ended = heapq.heappop(heap)
        if ended:
            return stages, stride // step
        if (reach, step) in seen or len(stages) > MOST_STAGES:
            continue
        seen.add((reach, step))
        if reach == window:
            rest = 0.0 if step == stride else 0.75 / step**2
            heapq.heappush(heap, (cost + rest, reach, step, stages, True))
        for size in (3, 2):
            for pace in (1, 2):
                wide, far = reach + (size - 1) * step, step * pace
                if wide <= window and stride % far == 0:
                    heapq.heappush(heap, (cost + 1.01 / step**2, wide, far, [*stages, (size, pace)], False))
    raise Refusal(POOL_WINDOW, f"{window} with stride {stride}", f"{MOST_STAGES} stages of 3x3", "use the CPU")


def after(size: int, stages: list[Stage]) -> int:
    for window, stride in stages:
        size = (size - window) // stride + 1
    return size


@dataclass(frozen=True)
class MaximumWindows:
    """One or two stages on pictures [h, w, c]."""

    source: StridedView
    target: StridedView
    stages: tuple[Stage, ...]
    pads: Pads = NO_PADS
    average: bool = False
    units: Units = ()  # behind a single stage

    @property
    def flow(self) -> TaskFlow:
        if any(self.pads):
            return Unfollowing("a CONVACC in front of the POOL, which pads")
        if len(self.stages) > 1:
            return Unfollowing("windows in several stages or parts")
        return EachWindow(self.source.area, self.target.area, *self.stages[0])

    def wirings(self, context: Context) -> list[Wiring]:
        parts = [part for strip in self._strips() for part in strip._by_channels(context.room.half_bytes)]
        if len(parts) == 1 and len(self.stages) == 1 and self.source.elements > 2 * WORTH_SPLITTING:
            parts = parts[0][0]._halves(parts[0])
        return [part._chain(context, first, batch, count) for part, first, batch, count in parts]

    def _strips(self) -> Iterator[MaximumWindows]:
        """Columns that fit the line buffer at least for one channel; only pictures without padding are cut."""
        height, width, channels = self.source.shape
        three = not any(self.pads) and any(window > 2 for window, _ in self.stages)
        line, beside = (POOL_THREE_LINES, 1) if three else (POOL_LINE, min(channels, POOL_CHANNELS))
        most = line // beside if width > line else width
        if width + self.pads[1] + self.pads[3] <= line and height + self.pads[0] + self.pads[2] <= MOST_HEIGHT:
            yield self
            return
        if any(self.pads):
            raise Refusal(POOL_PICTURE, f"{height}x{width}", f"{MOST_HEIGHT}x{POOL_LINE}", "pad it first")
        reach, step = 1, 1
        for window, stride in self.stages:
            reach, step = reach + (window - 1) * step, step * stride
        yield from self._cut((MOST_HEIGHT - reach) // step + 1, reach, step, (most - reach) // step + 1)

    def _cut(self, rows: int, reach: int, step: int, columns: int) -> Iterator[MaximumWindows]:
        out_height, out_width, _channels = self.target.shape
        for y, h in aligned_pieces(out_height, rows):
            for x, w in aligned_pieces(out_width, columns):
                near = self.source.cut(0, y * step, (h - 1) * step + reach).cut(1, x * step, (w - 1) * step + reach)
                yield replace(self, source=near, target=self.target.cut(0, y, h).cut(1, x, w))

    def _by_channels(self, half_bytes: int) -> Iterator[tuple[MaximumWindows, int, int, int]]:
        width = self.source.shape[1] + self.pads[1] + self.pads[3]
        most = POOL_LINE // width
        if any(self.pads):  # identity CONVACCs were seen with one channel only
            most = 1
        if not self.average:
            most = min(most, *(most_pooled(*stage) for stage in self.stages))
        for first, batch, count in channel_groups(self.source.shape[2], most):
            if count > 1 and len(self.stages) == 1:  # for both POOL units
                half = -(-count // 2)
                half += (half * batch % ALIGNED > 0) * (half + 1 < count)  # where any memory takes it
                if (first + batch * half) % ALIGNED and self.source.elements > half_bytes:
                    half = count  # such pictures do not fit the NPU's own RAM
                if (first + batch * half) % BUS_BYTES or any(step % BUS_BYTES for step in self.target.strides[:2]):
                    half = count  # both would write into the same words
                yield self, first, batch, half
                if half < count:
                    yield self, first + batch * half, batch, count - half
            else:
                yield self, first, batch, count

    def _halves(self, part: tuple[MaximumWindows, int, int, int]) -> list[tuple[MaximumWindows, int, int, int]]:
        """Upper and lower half, if there is no padding."""
        (window, stride), rows = self.stages[0], self.target.shape[0]
        if any(self.pads) or rows < 4:
            return [part]
        cut = self._cut(-(-rows // 2), window, stride, self.target.shape[1])
        return [(half, *part[1:]) for half in cut]

    def _engines(self, first: int, batch: int, count: int, trust: Trust) -> list[StrengConfig]:
        """Reader and writer of pictures [h, w, groups, batch], one group of channels after the other."""
        found = []
        for picture, port in zip((self.source, self.target), self._ports, strict=True):
            view = picture.cut(2, first, batch * count).split(2, count, batch)
            h, w, groups, channel = view.loops
            config = walk_as(port, [groups, h, w, channel], view.offset, trust)
            if config is None:
                raise Refusal(PICTURE, f"{view.shape}", "lines of pixels", "copy it first")
            found.append(config)
        return found

    @property
    def _ports(self) -> tuple[EnginePort, EnginePort]:
        near, far = "to CONVACC:0" if any(self.pads) else "to POOL:0", "from ARITH" if self.units else "from POOL"
        return EnginePort(near), EnginePort(far)

    def _chain(self, context: Context, first: int, batch: int, count: int) -> Wiring:
        """Fewer channels at a time, in more frames, where no engine may be relied on otherwise."""
        trust = context.facts.target.trust
        for parts in (n for n in range(1, batch + 1) if batch % n == 0):
            if all_trusted(self._ports, self._engines(first, batch // parts, count * parts, trust), trust):
                batch, count = batch // parts, count * parts
                break
        reader, writer = self._engines(first, batch, count, trust)
        (height, width, _), (top, left, bottom, right) = self.source.shape, self.pads
        units: list[UnitConfig] = []
        near = [End(self.source.buffer, reader)]
        if any(self.pads):  # a CONVACC surrounds every frame with the lowest code
            config, kernels = identity_pad(height, width, batch, self.pads, LOWEST)
            looped = reader if reader.frame_repeat else replace(reader, frame_repeat=reader.frames)
            one = engine(Area(1, 1, len(kernels), len(kernels), len(kernels)))
            stream = replace(one, frames=count, continuous=1, single=int(count == 1))
            near = [End(self.source.buffer, looped), End(context.constant(kernels * count, "identity"), stream)]
            units.append(config)
        tall, wide = height + top + bottom, width + left + right
        for window, stride in self.stages:
            units.append(windows_unit(tall, wide, batch, window, stride, self.average))
            tall, wide = after(tall, [(window, stride)]), after(wide, [(window, stride)])
        return Wiring.chain(near, [*units, *self.units], End(self.target.buffer, writer), reader.elements)


def line_wirings(source: StridedView, target: StridedView) -> Iterator[Wiring]:
    """Windows of 2 or 3 pixels along rows [rows, window, pixels, channels] that are stored once for every line of the
    window; channel by channel, half of them in each POOL."""
    _rows, window, pixels, channels = source.shape
    if pixels > POOL_LINE:
        raise Refusal(POOL_LINES, f"{pixels} pixels", f"{POOL_LINE}", "pool in two dimensions")
    for first, some in aligned_pieces(channels, -(-channels // 2)):
        near, far = source.cut(3, first, some), target.cut(2, first, some)
        reader, writer = (
            walk([view.loops[-1], *view.loops[:-1]], view.offset, write=write)
            for view, write in ((near, False), (far, True))
        )
        if reader is None or writer is None:
            raise Refusal(POOL_LINES, f"{near.shape} in steps {near.strides}", "two loops", "use the CPU")
        unit = windows_unit(window, pixels, 1, window, 1)
        yield Wiring.chain([End(near.buffer, reader)], [unit], End(far.buffer, writer), near.elements)


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
    cut = apart and rows > 1 and far.elements > WORTH_SPLITTING
    for first, count in aligned_pieces(rows, half if cut else rows):
        parts = [view.cut(0, first, count) for view in views]
        engines = walk_together(_PORTS, parts, trust)
        if engines is None:
            raise Refusal(PICTURE, f"{low.shape} in steps {low.strides}", "lines of pixels", "copy it first")
        ends = [(view.buffer, config) for view, config in zip(parts, engines, strict=True)]
        yield Wiring(partial(_larger, ends, trust), parts[0].elements)


def _larger(ends: Sequence[tuple[str, StrengConfig]], trust: Trust, builder: TaskBuilder) -> None:
    x, y, again = (builder.read(*end) for end in ends[:3])
    positive = add_streams(builder, BEYOND, (x, y), trust)
    builder.write(add_streams(builder, LARGER, (positive, again), trust), *ends[3])
