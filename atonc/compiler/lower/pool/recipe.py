"""Pooling: maxima as cascades of 2x2 and 3x3 windows, padded by an identity CONVACC on the way; averages as global
averages of what the engine cuts out (`means`).

Maxima of lines or columns alone: the POOL has square windows only, so every line is stored two or three times. Pictures
that no POOL unit was seen with, such as small ones: maxima of pairs, max(x, y) = x + (y - x)+, where the positive part
comes out of saturation: two ARITHs, exact on codes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import product
from math import gcd, prod

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.ones import mean_of_channels
from atonc.compiler.lower.move.copies import Move, Units, borders, copy, identity_pad, inside, pad_view, wirings
from atonc.compiler.lower.move.recipe import change_between
from atonc.compiler.lower.pool.means import (
    Kept,
    Line,
    Means,
    all_pixels,
    gain_of,
    line_of,
    mean_groups,
    mean_line,
    parts_of,
)
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics import operators as meaning
from atonc.compiler.lower.units.arith import BEYOND, LARGER, add_streams
from atonc.compiler.lower.units.pool import MOST_HEIGHT, channel_groups, windows_unit
from atonc.compiler.lower.units.views import EnginePort, StridedView, all_trusted, walk, walk_as, walk_together
from atonc.compiler.lower.units.wiring import End, Wiring, codes_recipe, in_pieces, pack
from atonc.compiler.ops.conv import Geometry, pair
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.flow import EachWindow, TaskFlow, Unfollowing
from atonc.compiler.plan.policy import WORTH_SPLITTING
from atonc.compiler.plan.streams import Area, Loop, engine
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.enumerate import Drawing, attempt, cheapest, chosen
from atonc.compiler.select.form import RefusedForm
from atonc.compiler.select.rules import (
    LAYOUT,
    MEAN,
    NO_EVIDENCE,
    PICTURE,
    POOL_AXES,
    POOL_DILATION,
    POOL_LINES,
    POOL_PICTURE,
    POOL_SHAPE,
    POOL_WINDOW,
)
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES, POOL_CHANNELS, POOL_LINE, POOL_THREE_LINES, most_pooled
from atonc.machine.hw.safety.evidence import Trust
from atonc.machine.hw.units.stream_engine import StrengConfig

Shape = tuple[int, ...]
Scratch = Callable[[tuple[int, ...]], StridedView]
Stage = tuple[int, int]  # window and stride
Pads = tuple[int, int, int, int]  # top, left, bottom, right
NO_PADS: Pads = (0, 0, 0, 0)
LOWEST = -128
MOST_STAGES = 32
_MOST_WIDER = 4  # pixels that a picture gets to be as wide as those that were seen
_MOST_PAD = 31  # pixels that the identity CONVACC adds on a side
_PORTS = (EnginePort("to ARITH:0"), EnginePort("to ARITH:1"), EnginePort("to ARITH:1"), EnginePort("from ARITH"))


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
        for y, h in in_pieces(out_height, rows):
            for x, w in in_pieces(out_width, columns):
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
    for first, some in in_pieces(channels, -(-channels // 2)):
        near, far = source.cut(3, first, some), target.cut(2, first, some)
        reader, writer = (
            walk([view.loops[-1], *view.loops[:-1]], view.offset, write=write)
            for view, write in ((near, False), (far, True))
        )
        if reader is None or writer is None:
            raise Refusal(POOL_LINES, f"{near.shape} in steps {near.strides}", "two loops", "use the CPU")
        unit = windows_unit(window, pixels, 1, window, 1)
        yield Wiring.chain([End(near.buffer, reader)], [unit], End(far.buffer, writer), near.elements)


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
    for first, count in in_pieces(rows, half if cut else rows):
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


def picture_of(context: Context, name: str) -> StridedView:
    """[height, width, channels]; sequences have height 1."""
    shape = context.tensor(name).shape
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise Refusal(POOL_SHAPE, f"{shape}", "one image, channel last", "fix the batch to 1")
    return StridedView.whole(context.buffer(name), (1,) * (4 - len(shape)) + shape[1:])


def geometry_of(op: Op) -> Geometry:
    if op.attrs["layout"] != "NHWC":
        raise Refusal(LAYOUT, f"{op.kind} with channels first", "channel last", "let the passes transpose it")
    geometry = Geometry.of(op.attrs, pair(op.attrs["window"]))
    if geometry.dilation != (1, 1):
        raise Refusal(POOL_DILATION, f"{geometry.dilation}", "dilation 1", "use the CPU")
    return geometry


@codes_recipe("max_pool")
def lower_max_pool(op: Op, context: Context) -> list[TaskGroup]:
    name, geometry = _smaller(op, context, geometry_of(op))
    source, target = picture_of(context, name), picture_of(context, op.outputs[0])
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    context.explain(op, meaning.maximum(op, x, y, _windows(op, target)))
    return _maximum(op, context, source, target, geometry, change_between(op, x, y))


def _maximum(
    op: Op, context: Context, source: StridedView, target: StridedView, geometry: Geometry, units: Units
) -> list[TaskGroup]:
    """By POOL units; where such small pictures were never seen in them with more padding than needed, or by pairs."""

    def drawn(wider: int, draft: Context) -> list[TaskGroup]:
        return Cascade(op, draft, source, target, geometry, units, wider).groups()

    for wider in range(_MOST_WIDER + 1):
        form = attempt(context, partial(drawn, wider))
        if not (isinstance(form, RefusedForm) and form.rule == NO_EVIDENCE):
            return context.take(form)
    return Cascade(op, context, source, target, geometry, units).by_pairs()


def _windows(op: Op, target: StridedView) -> meaning.Windows:
    return geometry_of(op), (target.shape[0], target.shape[1])


def _smaller(op: Op, context: Context, geometry: Geometry) -> tuple[str, Geometry]:
    """Pyramids pool one picture with ever larger windows: the next one needs only the maxima of the one before."""
    best, name = geometry, op.inputs[0]
    for other in context.graph.ops:
        if other is op:
            break
        if other.kind != "max_pool" or other.inputs[0] != op.inputs[0] or "clip" in other.attrs:
            continue
        done = geometry_of(other)
        if not (_keeps_size(geometry) and _keeps_size(done)) or done.kernel > geometry.kernel:
            continue
        same = context.tensor(other.outputs[0]).quant
        rest = tuple(a - b + 1 for a, b in zip(geometry.kernel, done.kernel, strict=True))
        if min(rest) > 0 and rest < best.kernel and same is not None and same.same_as(context.tensor(name).quant):
            top, left, bottom, right = (a - b for a, b in zip(geometry.padding, done.padding, strict=True))
            best = Geometry((rest[0], rest[1]), (1, 1), (1, 1), (top, left, bottom, right))
            name = other.outputs[0]
    return name, best


def _keeps_size(geometry: Geometry) -> bool:
    """Stride 1 with windows centred on their pixel."""
    half = tuple((k - 1) // 2 for k in geometry.kernel)
    odd = all(k % 2 for k in geometry.kernel)
    return odd and geometry.stride == (1, 1) and geometry.padding == (*half, *half)


@dataclass(eq=False)
class Cascade:
    """The epochs of one maximum: padding, square stages, stages along one axis, then what remains of the stride."""

    op: Op
    context: Context
    now: StridedView  # what the stages so far have made of the picture
    target: StridedView
    geometry: Geometry
    units: Units
    wider: int = 0  # pixels of padding more than needed: then results are cut out of those of the last stage
    steps: list[TaskGroup] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.title = f"{self.op.kind} {self.op.name}"
        self.now, (top, left, bottom, right) = _needed(self.now, self.target.shape, self.geometry)
        self.pads = top, left, bottom + self.wider, right + self.wider

    def groups(self) -> list[TaskGroup]:
        (tall, wide), (down, right) = self.geometry.kernel, self.geometry.stride
        square = min(tall, wide)
        even = tall == wide
        stages, rest = cascade(square, gcd(down, right) if even else 1)
        done = gcd(down, right) // rest if even else 1
        if any(self.pads) and (square == 1 or max(self.pads) > _MOST_PAD):
            self._pad_in_memory()
        lines = [(axis, size) for axis in (0, 1) for size, _ in cascade((tall, wide)[axis] - square + 1, 1)[0]]
        direct = (done, done) == (down, right) and not self.units and not self.wider  # the last stage gives the result
        self._squares(stages, direct and not lines)
        for number, (axis, size) in enumerate(lines, 1):
            self._along(axis, size, direct and number == len(lines))
        if not direct or not (stages or lines):
            self._finish(down // done, right // done)
        return self.steps

    def by_pairs(self) -> list[TaskGroup]:
        """Without POOL units, whose smallest pictures are known."""
        if any(self.pads):
            self._pad_in_memory()
        for axis in (0, 1):
            size, stride = self.geometry.kernel[axis], self.geometry.stride[axis]
            windows = Windows(axis, size, stride, self.target.shape[axis])
            if size == 1:
                self.now = windows.starts(self.now)
            for found, filled in widen(self.now, windows, self._scratch, self.context.facts.target.trust):
                self.steps += pack(found, self.op.origin, self.title)
                self.now = filled
        self._finish(1, 1)
        return self.steps

    def _scratch(self, shape: tuple[int, ...]) -> StridedView:
        return StridedView.whole(self.context.scratch(prod(shape), self.op.name), shape)

    def _pad_in_memory(self) -> None:
        top, left, bottom, right = self.pads
        height, width, channels = self.now.shape
        whole = self._scratch((height + top + bottom, width + left + right, channels))
        pads = ((top, bottom), (left, right), (0, 0))
        moves = wirings(self.context, [Move(self.now, inside(whole, pads))])
        fills = pad_view(self.context, borders(whole, pads), LOWEST, self.now.buffer, height * width * channels)
        self.steps += pack([*moves, *fills], self.op.origin, self.title)
        self.now, self.pads = whole, NO_PADS

    def _squares(self, stages: list[tuple[int, int]], last: bool) -> None:
        for start in range(0, len(stages), 2):
            two = tuple(stages[start : start + 2])
            top, left, bottom, right = self.pads
            height, width, channels = self.now.shape
            shape = (after(height + top + bottom, list(two)), after(width + left + right, list(two)), channels)
            result = self.target if last and start + 2 >= len(stages) else self._scratch(shape)
            windows = MaximumWindows(self.now, result, two, self.pads)
            self.steps += pack(windows.wirings(self.context), self.op.origin, self.title, flow=windows.flow)
            self.now, self.pads = result, NO_PADS

    def _along(self, axis: int, window: int, last: bool) -> None:
        """Columns (axis 0) or rows (axis 1) alone."""
        height, width, channels = self.now.shape
        shape = (height - window + 1, width, channels) if axis == 0 else (height, width - window + 1, channels)
        result = self.target if last else self._scratch(shape)
        near, far = (view if axis == 1 else _columns(view) for view in (self.now, result))
        rows, pixels, elements = near.shape
        again = self._scratch((rows, window, pixels, elements))
        moves = [Move(near, again.pick(1, k)) for k in range(window)]
        self.steps += copy(self.context, moves, self.op.origin, self.title)
        self.steps += pack(list(line_wirings(again, far)), self.op.origin, self.title)
        self.now = result

    def _finish(self, down: int, right: int) -> None:
        height, width, _ = self.target.shape
        kept = self.now.cut(0, 0, height, down).cut(1, 0, width, right)
        self.steps += copy(self.context, [Move(kept, self.target, self.units)], self.op.origin, self.title)


def _needed(source: StridedView, out: tuple[int, ...], geometry: Geometry) -> tuple[StridedView, Pads]:
    """The part of the picture that the windows see, and the padding around it."""
    pads = []
    for axis in (0, 1):
        before, size = geometry.padding[axis], source.shape[axis]
        reach = (out[axis] - 1) * geometry.stride[axis] + geometry.kernel[axis]
        source = source.cut(axis, 0, min(size, reach - before))
        pads.append((before, max(0, reach - before - size)))
    return source, (pads[0][0], pads[1][0], pads[0][1], pads[1][1])


def _columns(picture: StridedView) -> StridedView:
    """[1, lines, elements of a line]: along the columns all elements of a line are alike."""
    height, width, channels = picture.shape
    return StridedView(picture.buffer, (1, height, width * channels), (0, picture.strides[0], 1), picture.offset)


@codes_recipe("average_pool")
def lower_average_pool(op: Op, context: Context) -> list[TaskGroup]:
    geometry = geometry_of(op)
    source, target = picture_of(context, op.inputs[0]), picture_of(context, op.outputs[0])
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    plain = (geometry.kernel, geometry.stride, geometry.padding) == ((2, 2), (2, 2), (0, 0, 0, 0))
    if plain and x.scale <= y.scale:  # the second rounding then costs half a code at most
        context.explain(op, meaning.average_of_four(op, x, y, _windows(op, target)), 0.5 * x.scale / y.scale)
        near, _ = _needed(source, target.shape, geometry)
        windows = MaximumWindows(near, target, ((2, 2),), average=True, units=change_between(op, x, y))
        return pack(windows.wirings(context), op.origin, f"{op.kind} {op.name}", flow=windows.flow)
    pixels, trust = geometry.kernel[0] * geometry.kernel[1], context.facts.target.trust
    area = pixels if op.attrs.get("count_include_pad", False) else 0  # that sums are divided by; 0: what a window sees

    def line(seen: int) -> Line:
        return line_of(op, (x, y), seen, area or seen, trust)

    error = line_of(op, (x, y), pixels, pixels, trust).error(x.scale / y.scale, pixels)
    context.explain(op, meaning.averages(y, _windows(op, target), area, line), error)
    classes = [window_classes(geometry, source.shape, target.shape, axis) for axis in (0, 1)]
    whole = classes == [[WindowClass(0, 1, 0, size)] for size in source.shape[:2]]
    pieces = (
        means
        for rows, columns in product(*classes)
        for means in _window_means((source, target), geometry, rows, columns, line(rows.size * columns.size), area)
    )
    return mean_groups(op, context, pieces, all_pixels(Area.whole(*source.shape)) if whole else None)


@dataclass(frozen=True)
class WindowClass:
    """Windows along one axis that see equally many pixels and follow each other by the stride."""

    first: int  # output index
    count: int
    start: int  # first pixel of the first window
    size: int


def window_classes(geometry: Geometry, size: Shape, out: Shape, axis: int) -> list[WindowClass]:
    found: list[WindowClass] = []
    stride = geometry.stride[axis]
    for index in range(out[axis]):
        begin = index * stride - geometry.padding[axis]
        start, end = max(0, begin), min(size[axis], begin + geometry.kernel[axis])
        last = found[-1] if found else None
        if last and last.size == end - start and last.start + last.count * stride == start:
            found[-1] = replace(last, count=last.count + 1)
        else:
            found.append(WindowClass(index, 1, start, end - start))
    return found


def _window_means(
    pictures: tuple[StridedView, StridedView],
    geometry: Geometry,
    rows: WindowClass,
    columns: WindowClass,
    line: Line,
    area: int,
) -> Iterator[Means]:
    source, target = pictures
    near = source.cut(0, rows.start, 1).cut(1, columns.start, 1)
    far = target.cut(0, rows.first, 1).cut(1, columns.first, 1)
    pixels, (down, right, _) = rows.size * columns.size, near.strides
    window: tuple[Loop, ...] = ((rows.size, down), (columns.size, right))
    if columns.size * right == down or rows.size == 1:
        window = ((pixels, right),)
    counts, steps = (rows.count, columns.count), (geometry.stride[0] * down, geometry.stride[1] * right)
    pixel_loops = tuple(zip(counts, steps, far.strides[:2], strict=True))
    for first, batch, count in channel_groups(source.shape[2], 8):
        kept, offsets = (*pixel_loops, (count, batch, batch)), (near.offset + first, far.offset + first)
        yield Means(near.buffer, far.buffer, kept, window, batch, area or pixels, line, *offsets)


AVERAGED, SUMMED = Variant("averaged"), Variant("summed")


@codes_recipe("mean", "sum")
def lower_mean(op: Op, context: Context) -> list[TaskGroup]:
    """Over channels by a convolution, where that costs less or a POOL is too coarse."""
    rank = len(context.tensor(op.inputs[0]).shape)
    channels = {axis % rank for axis in op.attrs["axes"]} == {rank - 1}
    if not channels or context.numerics == "2.x":
        return _averaged(op, context)
    ways = (AVERAGED, _averaged), (SUMMED, mean_of_channels)
    return chosen(context, cheapest((variant, (Drawing(partial(draw, op)),)) for variant, draw in ways))


def _averaged(op: Op, context: Context) -> list[TaskGroup]:
    """Over any axes that are at most two stretches of neighbours."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    axes = {axis % len(x.shape) for axis in op.attrs["axes"]}
    pixels = prod(x.shape[axis] for axis in axes)
    trust, plain = context.facts.target.trust, context.numerics == "2.x"
    line = line_of(op, (x, y), pixels, pixels, trust) if plain else mean_line(op, (x, y), pixels, trust)
    kept, reduced, channels = _stretches(x.shape, axes)
    batches = list(channel_groups(channels, 8))
    parts = max(len(parts_of(pixels, batch)) for _, batch, _ in batches)
    error = line.error(gain_of(op, (x, y), pixels), pixels, parts)
    context.explain(op, meaning.means(x, y, axes, line, channels), error)
    names = context.buffer(op.inputs[0]), context.buffer(op.outputs[0])
    pieces = [
        Means(*names, (*kept, (count, batch, batch)), reduced, batch, pixels, line, first, first)
        for first, batch, count in batches
    ]
    width = prod(x.shape[axis] for axis in sorted(axes)[-1:])
    picture = Area.whole(pixels // width, width, channels)
    return mean_groups(op, context, pieces, None if kept else all_pixels(picture))


def _stretches(shape: Shape, axes: set[int]) -> tuple[tuple[Kept, ...], tuple[Loop, ...], int]:
    """Kept loops, reduced loops, and the channels that are kept at the end (1 if the last axis is reduced)."""
    near = far = 1
    loops: list[tuple[bool, int, int, int]] = []
    for axis in range(len(shape) - 1, -1, -1):
        gone, size = axis in axes, shape[axis]
        if loops and loops[-1][0] == gone:
            loops[-1] = (gone, loops[-1][1] * size, *loops[-1][2:])
        elif size > 1:
            loops.append((gone, size, near, far))
        near, far = near * size, far if gone else far * size
    channels = loops.pop(0)[1] if loops and not loops[0][0] else 1
    kept = tuple((size, step, out) for gone, size, step, out in reversed(loops) if not gone)
    reduced = tuple((size, step) for gone, size, step, _ in reversed(loops) if gone)
    if len(reduced) > 2:
        raise Refusal(MEAN, f"axes {sorted(axes)}", "two stretches of axes", "use the CPU")
    return kept, reduced or ((1, 1),), channels


@codes_recipe("reduce_max")
def lower_reduce_max(op: Op, context: Context) -> list[TaskGroup]:
    """Over height and width: the maximum of one window."""
    shape = context.tensor(op.inputs[0]).shape
    spatial = set(range(1, len(shape) - 1))
    if {axis % len(shape) for axis in op.attrs["axes"]} != spatial or len(shape) not in (3, 4):
        raise Refusal(POOL_AXES, f"axes {op.attrs['axes']}", "height and width", "use the CPU")
    source = picture_of(context, op.inputs[0])
    target = StridedView.whole(context.buffer(op.outputs[0]), (1, 1, shape[-1]))
    geometry = Geometry((source.shape[0], source.shape[1]), (1, 1), (1, 1), (0, 0, 0, 0))
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    context.explain(op, meaning.largest(op, x, y))
    return _maximum(op, context, source, target, geometry, change_between(op, x, y))
