"""A convolution as terms that CONVACC units can add up: parts of the kernel on views of the input.

Kernels become 1x1 or 3x3 windows with stride 1 or 2 on views of the input. Larger kernels are cut, dilation and other
strides become views that skip rows and columns. All terms of a convolution have the same output size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from atonc.lower.registry import Refusal
from atonc.plan.streams import Area

Weights = NDArray[np.int16]  # up to 9 bits: codes without their zero point
WINDOW = 3  # height and width of the windows that large kernels are cut into
WIDEST = 5  # columns of a window, where a kernel is cut as ST's releases 2.x do


@dataclass(frozen=True, eq=False)
class Part:
    """One window of the kernel: `weights` [out, rows, columns, in] on an area with zero padding around it."""

    area: Area
    weights: Weights
    padding: tuple[int, int, int, int]  # top, left, bottom, right
    stride: int
    group: tuple[int, int] = (0, 0)  # parts of one group must be summed before anything is rounded

    @property
    def window(self) -> tuple[int, int]:
        return self.weights.shape[1], self.weights.shape[2]

    @property
    def out_size(self) -> tuple[int, int]:
        return out_size(self)


class Windowed(Protocol):
    """A window over an area."""

    @property
    def area(self) -> Area: ...
    @property
    def window(self) -> tuple[int, int]: ...
    @property
    def padding(self) -> tuple[int, int, int, int]: ...
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
class Axis:
    """One direction of a window position: where it starts in the input and what it needs around it."""

    first: int  # first input index of the view
    step: int  # between indices of the view
    count: int
    before: int  # padding
    after: int


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


def phases(
    area: Area,
    weights: Weights,
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int, int, int],
    out_size: tuple[int, int],
    cut: int = 0,
    native: bool = True,
) -> list[Phase]:
    """With dilation d every d-th output meets the same view of the input: one phase for each remainder.

    `cut`: large kernels in pieces as ST's releases 2.x have them, each rounded by itself: three rows, up to six
    columns; that many in one window, the others of the piece in further windows.
    """
    result = []
    rows, columns = (_phase_steps(s, d) for s, d in zip(stride, dilation, strict=True))
    for row in range(min(rows, out_size[0])):
        for column in range(min(columns, out_size[1])):
            height, width = -(-(out_size[0] - row) // rows), -(-(out_size[1] - column) // columns)
            place = (row, column)
            parts = _parts(area, weights, stride, dilation, padding, place, (height, width), cut, native)
            if not parts:
                raise Refusal("CONV-PADDING", "outputs that see only padding", "at least one input each", "pad first")
            result.append(Phase(row, column, rows, columns, height, width, tuple(parts)))
    return result


def _phase_steps(stride: int, dilation: int) -> int:
    """Outputs that far apart look at inputs a multiple of the dilation apart."""
    return dilation // int(np.gcd(stride, dilation))


def _parts(
    area: Area,
    weights: Weights,
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: tuple[int, int, int, int],
    first: tuple[int, int],
    size: tuple[int, int],
    cut: int,
    native: bool = True,
) -> list[Part]:
    """`native`: stride 2 in the unit, where its frames have two lines and two columns."""
    steps = [_phase_steps(s, d) for s, d in zip(stride, dilation, strict=True)]
    # in units of the dilation, outputs of this phase are `jump` apart
    jump = [s * n // d for s, n, d in zip(stride, steps, dilation, strict=True)]
    start = [f * s - p for f, s, p in zip(first, stride, padding[:2], strict=True)]
    native = native and jump[0] == jump[1] == 2 and min(weights.shape[1:3]) > 1
    parts = []
    columns_wide = weights.shape[2] if WINDOW < weights.shape[2] <= cut else WINDOW
    for taps_y in _groups(weights.shape[1], jump[0], native, WINDOW):
        for taps_x in _groups(weights.shape[2], jump[1], native, columns_wide):
            part = weights[:, taps_y][:, :, taps_x]
            rows = axis_of(area.height, start[0], dilation[0], jump[0], taps_y, size[0], native)
            columns = axis_of(area.width, start[1], dilation[1], jump[1], taps_x, size[1], native)
            if rows is None or columns is None:
                continue  # this part of the kernel only ever meets padding
            made = part_of(area, part, rows, columns, 2 if native else 1)
            group = (taps_y.start // WINDOW, taps_x.start // (2 * WINDOW)) if cut else (0, 0)
            parts.append(replace(made, group=group))
    if native and any(min(part.area.height, part.area.width) < 2 for part in parts):
        return _parts(area, weights, stride, dilation, padding, first, size, cut, native=False)
    return parts


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


def axis_of(size: int, start: int, dilation: int, jump: int, taps: slice, outputs: int, native: bool) -> Axis | None:
    count = len(range(taps.start, taps.stop, taps.step or 1))
    step = dilation if native else dilation * jump
    origin = start + taps.start * dilation  # input index of the first tap for the first output
    reach = (outputs - 1) * (2 if native else 1) + count  # view positions that are looked at
    before = max(0, -(origin // step)) if origin < 0 else 0
    first = origin + before * step
    inside = max(0, -(-(size - first) // step)) if first < size else 0
    used = min(inside, reach - before)
    if used <= 0:
        return None
    return Axis(first, step, used, before, reach - before - used)


def part_of(area: Area, weights: Weights, rows: Axis, columns: Axis, stride: int) -> Part:
    view = stepped(area, rows.first, rows.step, rows.count, columns.first, columns.step, columns.count)
    return Part(view, weights, (rows.before, columns.before, rows.after, columns.after), stride)


def stepped(area: Area, row: int, row_step: int, rows: int, column: int, column_step: int, columns: int) -> Area:
    """Every so manieth row and column. Engines want lines that do not overlap, last step included."""
    pixel, line = area.pixel * column_step, area.line * row_step
    if line < columns * pixel and rows > 1:
        raise Refusal(
            "CONV-LINES", f"{columns} pixels {pixel} bytes apart in lines of {line}", "lines that do not overlap",
            "use an even width",
        )  # fmt: skip
    return replace(
        area,
        height=rows,
        width=columns,
        line=max(line, columns * pixel),
        pixel=pixel,
        offset=area.offset + row * area.line + column * area.pixel,
    )


def is_plain(part: Part) -> bool:
    """1x1 without padding: the unit needs no window."""
    return part.window == (1, 1) and not any(part.padding) and part.stride == 1


def widen(part: Part) -> Part:
    """A 3x3 window with zeros where the part's own window is smaller."""
    rows, columns = part.window
    more_rows, more_columns = WINDOW - rows, max(WINDOW, columns) - columns
    top, left, bottom, right = part.padding
    # zeros go to the side with less padding: at most two rows of padding are free
    above = more_rows if top + more_rows <= bottom else 0
    before = more_columns if left + more_columns <= right else 0
    weights = np.pad(part.weights, ((0, 0), (above, more_rows - above), (before, more_columns - before), (0, 0)))
    padding = (top + above, left + before, bottom + more_rows - above, right + more_columns - before)
    if part.stride == 2 and not any(padding):
        # the view ends with the last row and column that count, so one more changes nothing with stride 2; stride 2
        # was never seen without padding
        padding = (0, 0, 1, 1)
    return replace(part, weights=weights, padding=padding)


def narrow(part: Part, outputs: slice) -> list[Part]:
    """Parts whose weights fit 8 bits and add up to this one, as far as these outputs are concerned."""
    pieces, rest = list[Part](), part.weights
    while not pieces or rest[outputs].any():  # 255, the largest weight with a zero point of -128, takes three
        low = np.clip(rest, -128, 127)
        pieces.append(replace(part, weights=low.astype(np.int8)))
        rest = rest - low
    return pieces


def unit_parts(phase: Phase, first: int, count: int) -> tuple[Part, ...]:
    """The parts of a phase as CONVACC units take them, for outputs first..first+count; all units of a chain have the
    same window."""
    parts = phase.parts if all(is_plain(part) for part in phase.parts) else [widen(part) for part in phase.parts]
    return tuple(piece for part in parts for piece in narrow(part, slice(first, first + count)))
