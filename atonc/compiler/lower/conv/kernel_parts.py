"""A convolution as terms that CONVACC units can add up: parts of the kernel on views of the input.

Kernels become 1x1 or 3x3 windows with stride 1 or 2 on views of the input. Larger kernels are cut, dilation and other
strides become views that skip rows and columns. All terms of a convolution have the same output size.

Convolutions tap by tap: every tap of the kernel is a 1x1 window on a shifted part of the picture.

For what no 3x3 window was seen on: lines and columns alone, and dilations so large that a window holds a single pixel.
Outputs that see the same taps go together, so nothing is ever padded.

Transposed convolutions as plain ones: outputs with the same remainder modulo the stride see the same few taps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain, pairwise, product
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.registry import Refusal
from atonc.compiler.plan.streams import Area
from atonc.compiler.select.rules import CONV_LINES, CONV_PADDING
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.limits import LEAST_FRAME, LEAST_PLAIN
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence import PUBLISHED, Trust
from atonc.machine.hw.safety.evidence.trust import padding_grade

Weights = NDArray[np.int16]  # up to 9 bits: codes without their zero point
WINDOW = 3  # height and width of the windows that large kernels are cut into
WIDEST = 5  # columns of a window, where a kernel is cut as ST's releases 2.x do
MAX_PADDING = 1  # rows or columns of zeros that a unit adds to a 3x3 window

T = TypeVar("T")
Sides = tuple[int, int, int, int]  # top, left, bottom, right


@dataclass(frozen=True, eq=False)
class Part:
    """One window of the kernel: `weights` [out, rows, columns, in] on an area with zero padding around it."""

    area: Area
    weights: Weights
    padding: Sides
    stride: int
    group: tuple[int, int] = (0, 0)  # parts of one group must be summed before anything is rounded
    room: Sides = (0, 0, 0, 0)  # rows and columns of the picture that the area could be larger by
    spare: Sides = (0, 0, 0, 0)  # rows and columns of the area that hold zeros only: padding would do as well
    cropped: tuple[int, int] = (0, 0)  # lines above and below the area that the unit reads and leaves out

    @property
    def window(self) -> tuple[int, int]:
        return self.weights.shape[1], self.weights.shape[2]

    @property
    def out_size(self) -> tuple[int, int]:
        return out_size(self)


@dataclass(frozen=True)
class KeptResults:
    """Which rows and columns of the results count: from the first on, one in so many."""

    first: int
    rows: int
    columns: int


@dataclass(frozen=True, eq=False)
class Ring:
    """Windows on whole lines, which give more results than those that count."""

    parts: tuple[Part, ...]
    out: Area  # where the results belong that count
    kept: KeptResults


class Windowed(Protocol):
    """A window over an area."""

    @property
    def area(self) -> Area: ...
    @property
    def window(self) -> tuple[int, int]: ...
    @property
    def padding(self) -> Sides: ...
    @property
    def stride(self) -> int: ...


def out_size(part: Windowed) -> tuple[int, int]:
    """Height and width of what comes out."""
    top, left, bottom, right = part.padding
    rows, columns = part.window
    height = (part.area.height + top + bottom - rows) // part.stride + 1
    width = (part.area.width + left + right - columns) // part.stride + 1
    return height, width


@dataclass(frozen=True)
class Sliding:
    """How a kernel moves over a picture, and how many results that gives."""

    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: Sides
    out_size: tuple[int, int]
    border: Sides = (0, 0, 0, 0)  # what of the picture is padding in memory


@dataclass(frozen=True)
class WindowAxis:
    """One direction of a window position: where it starts in the input and what it needs around it."""

    first: int  # first input index of the view
    step: int  # between indices of the view
    count: int
    before: int  # padding
    after: int
    taps: slice  # of the given ones, those that meet anything but padding
    room: tuple[int, int]  # how much further the view could go on both sides
    spare: tuple[int, int]  # how much of the view is border on both sides


@dataclass(frozen=True, eq=False)
class Phase:
    """Outputs (row and column offset and step) that one set of parts computes."""

    row: int
    column: int
    row_step: int
    column_step: int
    height: int
    width: int
    parts: tuple[Part, ...]


def phases(area: Area, weights: Weights, sliding: Sliding, cut: int = 0, native: bool = True) -> list[Phase]:
    """With dilation d every d-th output meets the same view of the input: one phase for each remainder.

    `cut`: large kernels in pieces as ST's releases 2.x have them, each rounded by itself: three rows, up to six
    columns, in as many windows as that takes.
    """
    result, out_size = [], sliding.out_size
    rows, columns = _phase_steps(sliding)
    for row in range(min(rows, out_size[0])):
        for column in range(min(columns, out_size[1])):
            height, width = -(-(out_size[0] - row) // rows), -(-(out_size[1] - column) // columns)
            parts = _parts(area, weights, sliding, (row, column), (height, width), cut, native)
            result.append(Phase(row, column, rows, columns, height, width, seeing(parts)))
    return result


def seeing(parts: Iterable[T]) -> tuple[T, ...]:
    """The parts of a phase: there must be one that sees the picture."""
    found = tuple(parts)
    if not found:
        raise Refusal(CONV_PADDING, "outputs that see only padding", "at least one input each", "pad first")
    return found


def _phase_steps(sliding: Sliding) -> list[int]:
    """Outputs that far apart look at inputs a multiple of the dilation apart."""
    return [d // int(np.gcd(s, d)) for s, d in zip(sliding.stride, sliding.dilation, strict=True)]


def _parts(
    area: Area,
    weights: Weights,
    sliding: Sliding,
    first: tuple[int, int],
    size: tuple[int, int],
    cut: int,
    native: bool,
) -> list[Part]:
    """`native`: stride 2 in the unit, where its frames have two lines and two columns."""
    stride, dilation, border = sliding.stride, sliding.dilation, sliding.border
    # in units of the dilation, outputs of this phase are `jump` apart
    jump = [s * n // d for s, n, d in zip(stride, _phase_steps(sliding), dilation, strict=True)]
    start = [f * s - p for f, s, p in zip(first, stride, sliding.padding[:2], strict=True)]
    native = native and jump[0] == jump[1] == 2 and min(weights.shape[1:3]) > 1
    step = [d if native else d * j for d, j in zip(dilation, jump, strict=True)]
    moves = 2 if native else 1
    parts = []
    for taps_y in _groups(weights.shape[1], jump[0], native, WINDOW):
        for taps_x in _groups(weights.shape[2], jump[1], native, WINDOW):
            part = _taps_of(weights, taps_y, taps_x)
            tall, wide = part.shape[1:3]
            origin = start[0] + taps_y.start * dilation[0], start[1] + taps_x.start * dilation[1]
            rows = axis_of(area.height, origin[0], step[0], tall, moves, size[0], border[::2])
            columns = axis_of(area.width, origin[1], step[1], wide, moves, size[1], border[1::2])
            if rows is None or columns is None:
                continue  # this part of the kernel only ever meets padding
            made = part_of(area, part, rows, columns, moves)
            parts.append(replace(made, group=group_2x(taps_y, taps_x) if cut else (0, 0)))
    if native and any(min(part.area.height, part.area.width) < 2 for part in parts):
        return _parts(area, weights, sliding, first, size, cut, native=False)
    return parts


def group_2x(rows: slice, columns: slice) -> tuple[int, int]:
    """Which piece of a kernel some taps belong to: ST's releases 2.x round three rows of six columns by themselves."""
    return rows.start // WINDOW, columns.start // (2 * WINDOW)


def _groups(taps: int, jump: int, native: bool, most: int) -> list[slice]:
    """Kernel rows (or columns) that go together: neighbours in the view, at most so many."""
    if native or jump == 1:
        return [slice(k, min(k + most, taps)) for k in range(0, taps, most)]
    found = []
    for phase in range(min(jump, taps)):
        members = range(phase, taps, jump)
        for k in range(0, len(members), most):
            found.append(slice(members[k], members[min(k + most, len(members)) - 1] + 1, jump))
    return found


def axis_of(
    size: int, origin: int, step: int, taps: int, stride: int, outputs: int, border: tuple[int, ...] = (0, 0)
) -> WindowAxis | None:
    """The view of `size` indices that some taps look at: the first of them is at `origin` for the first output, the
    others `step` apart, and outputs are `stride` steps apart."""
    met = [tap for tap in range(taps) if _meets(size, origin + tap * step, step * stride, outputs)]
    if not met:
        return None
    used = slice(met[0], met[-1] + 1)
    origin += used.start * step
    if outputs == 1 and len(met) == 1:
        step = 1  # there is only one place, so that its neighbours may be any
    reach = (outputs - 1) * stride + used.stop - used.start  # view positions that are looked at
    before = max(0, -(origin // step)) if origin < 0 else 0
    first = origin + before * step
    inside = -(-(size - first) // step)
    seen = min(inside, reach - before)
    last = first + (seen - 1) * step
    spare = (max(0, -((first - border[0]) // step)), max(0, -((size - border[1] - 1 - last) // step)))
    return WindowAxis(first, step, seen, before, reach - before - seen, used, (first // step, inside - seen), spare)


def _meets(size: int, first: int, step: int, outputs: int) -> bool:
    """Whether a tap that is at `first` for the first output is inside for any."""
    output = max(0, -(first // step))  # the first one for which it is not before the input
    return output < outputs and first + output * step < size


def part_of(area: Area, weights: Weights, rows: WindowAxis, columns: WindowAxis, stride: int) -> Part:
    view = stepped(area, rows.first, rows.step, rows.count, columns.first, columns.step, columns.count)
    padding = (rows.before, columns.before, rows.after, columns.after)
    free = rows.room if view.line == area.line * rows.step else (0, 0)  # else one line alone, longer than it is
    room = (free[0], columns.room[0], free[1], columns.room[1])
    spare = (rows.spare[0], columns.spare[0], rows.spare[1], columns.spare[1])
    return Part(view, _taps_of(weights, rows.taps, columns.taps), padding, stride, room=room, spare=spare)


def _taps_of(weights: Weights, rows: slice, columns: slice) -> Weights:
    """Some of them; all of them are the same object: what is known of it need not be worked out again."""
    some = weights[:, rows, columns]
    return weights if some.shape == weights.shape else some


def stepped(area: Area, row: int, row_step: int, rows: int, column: int, column_step: int, columns: int) -> Area:
    """One row and column in every `stride`."""
    line, pixel = _steps(area, row_step, rows, column_step, columns)
    offset = area.offset + row * area.line + column * area.pixel
    return Area(rows, columns, area.channels, max(line, columns * pixel), pixel, offset, area.element_bytes)


def _steps(area: Area, row_step: int, rows: int, column_step: int, columns: int) -> tuple[int, int]:
    """Bytes between lines and between pixels. Engines want lines that do not overlap, last step included."""
    pixel, line = area.pixel * column_step, area.line * row_step
    if line < columns * pixel and rows > 1:
        raise lines_overlap(replace(area, width=columns, pixel=pixel, line=line))
    return line, pixel


def lines_overlap(area: Area) -> Refusal:
    seen = f"{area.width} pixels {area.pixel} bytes apart in lines of {area.line}"
    return Refusal(CONV_LINES, seen, "lines that do not overlap", "use an even width")


def is_plain(part: Part) -> bool:
    """1x1 without padding: the unit needs no window."""
    return part.window == (1, 1) and not any(part.padding) and part.stride == 1


def widen(part: Part, trust: Trust = PUBLISHED) -> Part:
    """A window of 3 rows and at least 3 columns, with zeros where the part's own window is smaller: of the ways to do
    it, one whose padding may be relied on, if there is any."""
    shape = part.window, part.stride, part.padding, part.room, part.spare
    way, padding = _best_widening(replace(part.area, offset=0), *shape, trust)
    return replace(_widened(part, *way), padding=padding)


@lru_cache(maxsize=1 << 12)
def _best_widening(
    area: Area, window: tuple[int, int], stride: int, padding: Sides, room: Sides, spare: Sides, trust: Trust
) -> tuple[tuple[Widening, Widening], Sides]:
    """Rows and columns, and the padding in the end. Layers have many parts that look alike."""
    part = Part(area, np.zeros((1, *window, 1), np.int8), padding, stride, room=room, spare=spare)
    top, left, bottom, right = padding
    vertical = _widenings(window[0], area.height, (top, bottom), room[::2], spare[::2])
    horizontal = _widenings(window[1], area.width, (left, right), room[1::2], spare[1::2])
    ways = ((way, padded_as_seen(_widened(part, *way), trust)) for way in product(vertical, horizontal))
    best = next(ways)
    if _overlap(best[1].area):
        raise lines_overlap(best[1].area)
    all_ways = chain((best,), ways)
    way, made = next((one for one in all_ways if _trusted(one[1], trust) and not _overlap(one[1].area)), best)
    return way, made.padding


def _overlap(area: Area) -> bool:
    return area.height > 1 and area.line < area.width * area.pixel


def _trusted(part: Part, trust: Trust) -> bool:
    return trust.allows(padding_grade(part.window, part.stride, part.padding, trust))


def padded_as_seen(part: Part, trust: Trust) -> Part:
    """With stride 2, where the view ends with the last row and column that count, one more of padding changes nothing:
    of the combinations of sides that may be relied on the best known one with padding, which most units have."""
    if part.stride != 2:
        return part
    top, left, bottom, right = part.padding
    below, behind = ((p, 1) if p == 0 else (p,) for p in (bottom, right))
    ways = [(top, left, b, r) for b, r in product(below, behind)]
    ways = [sides for sides in ways if out_size(replace(part, padding=sides)) == part.out_size]

    def rank(sides: Sides) -> tuple[bool, bool, int]:
        graded = padding_grade(part.window, part.stride, sides, trust)
        return not trust.allows(graded), not any(sides), graded.grade.rank

    return replace(part, padding=min(ways, key=rank))


def _widened(part: Part, vertical: Widening, horizontal: Widening) -> Part:
    weights = np.pad(part.weights, ((0, 0), vertical.zeros, horizontal.zeros, (0, 0)))
    padding = (vertical.padding[0], horizontal.padding[0], vertical.padding[1], horizontal.padding[1])
    area = replace(
        part.area,
        height=part.area.height + sum(vertical.more),
        width=part.area.width + sum(horizontal.more),
        offset=part.area.offset - vertical.more[0] * part.area.line - horizontal.more[0] * part.area.pixel,
    )
    return replace(part, area=area, weights=weights, padding=padding, room=(0, 0, 0, 0), spare=(0, 0, 0, 0))


@dataclass(frozen=True)
class Widening:
    """Taps without weight before and after the others, indices that the view grows by, padding in the end."""

    zeros: tuple[int, int]
    more: tuple[int, int]
    padding: tuple[int, int]


def _widenings(
    taps: int, size: int, padding: tuple[int, int], room: tuple[int, ...], spare: tuple[int, ...]
) -> list[Widening]:
    """Zeros meet padding or, where that is too much or the frame too small, pixels of the picture. Borders in memory
    become padding where there is none: windows were seen with it rather than without. The best comes first."""
    found = []
    for before in range(max(0, WINDOW - taps) + 1):
        zeros = (before, max(0, WINDOW - taps) - before)
        ways = (range(-min(less, 1), min(n, free) + 1) for n, free, less in zip(zeros, room, spare, strict=True))
        for more in product(*ways):
            sides = tuple(p + n - m for p, n, m in zip(padding, zeros, more, strict=True))
            if max(sides) <= MAX_PADDING and size + sum(more) >= LEAST_FRAME:
                found.append(Widening(zeros, (more[0], more[1]), (sides[0], sides[1])))
    if found:
        return sorted(found, key=lambda way: (-sum(way.padding), -way.zeros[1]))
    seen = f"{taps} taps on {size} pixels with padding {padding}"
    raise Refusal(CONV_PADDING, seen, "padding of 1, frames of 2x2", "pad first")


@memoise
def has_wide(weights: Weights) -> NDArray[np.bool_]:
    """Which output channels have a weight beyond 8 bits."""
    return np.asarray(((weights < -128) | (weights > 127)).any(axis=(1, 2, 3)))


def narrow(part: Part, outputs: slice) -> list[Part]:
    """Parts whose weights fit 8 bits and add up to this one, as far as these outputs are concerned."""
    if not has_wide(part.weights).any():
        return [replace(part, weights=part.weights.astype(np.int8))]
    pieces, rest = list[Part](), part.weights
    while not pieces or rest[outputs].any():  # 255, the largest weight with a zero point of -128, takes three
        low = np.clip(rest, -128, 127)
        pieces.append(replace(part, weights=low.astype(np.int8)))
        rest = rest - low
    return pieces


def unit_parts(phase: Phase, first: int, count: int, trust: Trust) -> tuple[Part, ...]:
    """The parts of a phase as CONVACC units take them, for outputs first..first+count; all units of a chain have the
    same window. (1x1 windows were never seen on single channels.)"""
    plain = all(is_plain(part) and part.area.channels >= LEAST_PLAIN for part in phase.parts)
    parts = phase.parts if plain else [widen(part, trust) for part in phase.parts]
    return tuple(piece for part in parts for piece in narrow(part, slice(first, first + count)))


@dataclass(frozen=True)
class Stretch:
    """Outputs along one axis, `step` apart, that see the same taps, and the input of each tap for the first of them."""

    first: int
    count: int
    inputs: tuple[tuple[int, int], ...]  # tap, input
    step: int = 1


@dataclass(frozen=True, eq=False)
class Taps:
    """All taps of a kernel by themselves: the stretches of rows and columns that see the same ones."""

    area: Area
    axes: tuple[tuple[Stretch, ...], ...]
    stride: tuple[int, int]

    @classmethod
    def of(cls, area: Area, weights: Weights, sliding: Sliding) -> Taps:
        moves = sliding.stride, sliding.dilation, sliding.padding[:2], sliding.out_size
        axes = zip((area.height, area.width), weights.shape[1:3], *moves, strict=True)
        return cls(area, tuple(tuple(_plain(*axis)) for axis in axes), sliding.stride)

    @classmethod
    def transposed(
        cls, area: Area, weights: Weights, stride: tuple[int, int], cut: tuple[int, int], out_size: tuple[int, int]
    ) -> Taps:
        """The part for a transposed convolution, whose outputs with one remainder modulo the stride see neighbours."""
        axes = zip((area.height, area.width), weights.shape[1:3], stride, cut, out_size, strict=True)
        return cls(area, tuple(tuple(_transposed(*axis)) for axis in axes), (1, 1))

    @property
    def counts(self) -> list[int]:
        """How many taps each phase has."""
        found = []
        for row, column in product(*self.axes):
            _steps(self.area, self.stride[0], row.count, self.stride[1], column.count)
            found.append(len(seeing(product(row.inputs, column.inputs))))
        return found

    def phases(self, weights: Weights) -> list[Phase]:
        found = []
        for row, column in product(*self.axes):
            parts = seeing(_tap_parts(self.area, weights, row, column, self.stride))
            found.append(Phase(row.first, column.first, row.step, column.step, row.count, column.count, parts))
        return found


def _plain(size: int, taps: int, stride: int, dilation: int, before: int, outputs: int) -> Iterator[Stretch]:
    yield from _stretches(size, {tap: tap * dilation - before for tap in range(taps)}, stride, outputs)


def _transposed(size: int, taps: int, stride: int, cut: int, outputs: int) -> Iterator[Stretch]:
    for rest in range(min(stride, outputs)):
        starts = {tap: (rest + cut - tap) // stride for tap in range((rest + cut) % stride, taps, stride)}
        for found in _stretches(size, starts, 1, -(-(outputs - rest) // stride)):
            yield replace(found, first=rest + found.first * stride, step=stride)


def _stretches(size: int, starts: Mapping[int, int], stride: int, outputs: int) -> Iterator[Stretch]:
    """Outputs between places where a tap enters or leaves the input; each tap sees `starts` for the first output."""
    inside = {}
    for tap, start in starts.items():
        first, end = max(0, -(start // stride)), min(outputs, -((start - size) // stride))
        if first < end:
            inside[tap] = first, end
    edges = sorted({0, outputs, *(edge for span in inside.values() for edge in span)})
    for first, end in pairwise(edges):
        seen = [tap for tap, (since, until) in inside.items() if since <= first < until]
        yield Stretch(first, end - first, tuple((tap, first * stride + starts[tap]) for tap in seen))


def _tap_parts(
    area: Area, weights: Weights, rows: Stretch, columns: Stretch, stride: tuple[int, int]
) -> Iterator[Part]:
    for tap_y, y in rows.inputs:
        for tap_x, x in columns.inputs:
            view = stepped(area, y, stride[0], rows.count, x, stride[1], columns.count)
            yield Part(view, weights[:, tap_y : tap_y + 1, tap_x : tap_x + 1], (0, 0, 0, 0), 1)


def transposed_phases(
    area: Area, weights: Weights, stride: tuple[int, int], cut: tuple[int, int], out_size: tuple[int, int]
) -> list[Phase]:
    """`cut`: rows and columns that are dropped at the top and left of the full result.

    Output y collects x[(y + cut - k) / stride] * w[k] over the taps k for which that is an integer.
    """
    phases = []
    for row in range(min(stride[0], out_size[0])):
        for column in range(min(stride[1], out_size[1])):
            height, width = -(-(out_size[0] - row) // stride[0]), -(-(out_size[1] - column) // stride[1])
            rows = _taps(weights.shape[1], stride[0], row + cut[0])
            columns = _taps(weights.shape[2], stride[1], column + cut[1])
            parts = tuple(_transposed_parts(area, weights, rows, columns, (height, width)))
            if not parts:  # no tap at all: only the bias remains, from a kernel of zeros
                parts = tuple(_transposed_parts(area, weights * 0, ([0], 0), ([0], 0), (height, width)))
            phases.append(Phase(row, column, stride[0], stride[1], height, width, parts))
    return phases


def _taps(size: int, stride: int, position: int) -> tuple[list[int], int]:
    """The taps that meet the first output of the phase, in the order of the inputs, and the first input."""
    taps = list(range(position % stride, size, stride))[::-1]
    return taps, position // stride - (len(taps) - 1)


def _transposed_parts(
    area: Area, weights: Weights, rows: tuple[list[int], int], columns: tuple[list[int], int], size: tuple[int, int]
) -> list[Part]:
    parts = []
    for y in range(0, len(rows[0]), WINDOW):
        for x in range(0, len(columns[0]), WINDOW):
            taps_y, taps_x = rows[0][y : y + WINDOW], columns[0][x : x + WINDOW]
            vertical = _axis(area.height, rows[1] + y, len(taps_y), size[0])
            horizontal = _axis(area.width, columns[1] + x, len(taps_x), size[1])
            if vertical is not None and horizontal is not None:
                parts.append(part_of(area, weights[:, taps_y][:, :, taps_x], vertical, horizontal, 1))
    return parts


def _axis(size: int, start: int, taps: int, outputs: int) -> WindowAxis | None:
    return axis_of(size, start, 1, taps, 1, outputs)


def met_together(weights: Weights, stride: tuple[int, int], size: tuple[int, int]) -> list[Weights]:
    """The parts of a kernel that one output may sum on a picture of this size, in the order of the inputs."""
    rows, columns = (list(_met(*axis)) for axis in zip(weights.shape[1:3], stride, size, strict=True))
    return [weights[:, some][:, :, others] for some in rows for others in columns]


def _met(taps: int, stride: int, size: int) -> Iterator[list[int]]:
    for rest in range(min(stride, taps)):
        own = list(range(rest, taps, stride))[::-1]
        count = min(len(own), size)
        yield from (own[first : first + count] for first in range(len(own) - count + 1))
