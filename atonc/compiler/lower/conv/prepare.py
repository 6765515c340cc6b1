"""What is done to a layer before chains compute it, and to its results behind them. Each is a step of a variant: a
value that writes its copies into the draft and gives the layer that reads them.

- `ShiftedCopy`: features as code + 128, where so many channels are summed that signed features need many passes.
  `SignedCopy`: the other way round, where a form was seen with signed features only.
- `PaddedCopy`: the padding lies around the picture in memory. A unit that takes bytes as they are holds twice as many
  kernels as one that subtracts a zero point, but pads with zeros: right for a zero point of 0, or of -128 where
  features are stored as code + 128. With a border of its zero point around the picture every sum has the zero point in
  it, on all taps of every output alike, and the bias makes up for it.
- `OneMoreRow`: windows of one byte were never seen without padding. A row of results that nobody reads lies behind the
  tensor; `OneMoreRowCopied` has them in a copy.
- `Ringed`: windows that published programs have, on whole lines: 3x3 with padding on all sides, or with stride 2 and
  padding on the right and below. No published engine leaves out columns of the lines that it reads, and windows of 3x3
  without padding are rare. So the parts of a kernel look at the same padded copy of the picture from different
  addresses, a line of theirs ending where the next one of the copy begins. Each gives results too many, where it met
  padding of its own or the next line: a ring, or columns and a row at the end. A copy takes what counts, one row and
  column in every stride that is left.
- `Pairs`: kernels of four to seven columns as ST's releases 2.x cut them, up to six columns summed at once, then the
  seventh. No published unit takes that many columns of signed bytes, nor do two of them in a chain, but three columns
  of pairs of pixels are the same: every second output sees the same pairs, so there is one picture of pairs for even
  columns and one for odd ones. What a pair has too much meets no weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.kernel_parts import (
    MAX_PADDING,
    WINDOW,
    KeptResults,
    Part,
    Ring,
    Sides,
    Weights,
    group_2x,
    stepped,
)
from atonc.compiler.lower.conv.layer import ConvLayer, With
from atonc.compiler.lower.conv.requantise import SHIFT_CODES
from atonc.compiler.lower.conv.weight_sums import Codes
from atonc.compiler.lower.move.copies import Move, borders, copy, fill, inside, wirings
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.sums import picture
from atonc.compiler.lower.units.views import StridedView
from atonc.compiler.lower.units.wiring import pack, parts
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.flow import EACH_ELEMENT
from atonc.compiler.plan.streams import Area, contiguous
from atonc.compiler.plan.task import Purpose, TaskGroup
from atonc.compiler.plan.types import BufferKind
from atonc.compiler.select.enumerate import Pieces, Steps
from atonc.compiler.select.rules import CONV_LINES, CONV_MODE, CONV_PADDING, CONV_ROWS
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.safety.evidence.trust import gaps_trusted

Ints = NDArray[np.int64]
Taps = tuple[int, slice, int]  # where a window begins for the first output, its taps, where the first of them stands

NO_BORDER: Sides = (0, 0, 0, 0)
MOST_STRIDE = 2  # of units; how ST's releases 2.x sum with smaller ones nobody knows
TOGETHER = 2 * WINDOW  # columns of a pair
MOST_CHANNELS = 4  # of which pairs fit a unit


ALL_PICTURE: Steps = (With("border", NO_BORDER),)  # all of a copy is picture: the bias may make up for any zero point


@dataclass(frozen=True)
class OnePixel:
    """A window as large as the picture: one pixel with all values as channels."""

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        outputs, rows, columns, channels = layer.weights.shape
        values, pictures = rows * columns * channels, layer.typical

        def typical() -> tuple[Codes, ...]:  # a copy may leave out what lies behind the window
            return tuple(codes[:rows, :columns].reshape(1, 1, values) for codes in pictures())

        weights, area = layer.weights.reshape(outputs, 1, 1, values), Area.whole(1, 1, values, layer.area.element_bytes)
        return replace(layer, area=area, weights=weights, stride=(1, 1), dilation=(1, 1), typical=typical)


def is_one_pixel(layer: ConvLayer) -> bool:
    """One output pixel sees everything."""
    _, rows, columns, channels = layer.weights.shape
    whole = (rows, columns, channels) == (layer.area.height, layer.area.width, layer.area.channels)
    if not whole or rows * columns == 1 or any(layer.padding) or layer.op.kind != "conv" or layer.ring:
        return False
    return layer.area.contiguous and not (layer.numerics == "2.x" and min(layer.stride) <= MOST_STRIDE)


# ------------------------------------------------------------------------------------------------------ other codes


@dataclass(frozen=True)
class ShiftedCopy:
    """Features as code + 128; the first reader makes the copy for all of them."""

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        if layer.whole_bytes and draft.buffers[layer.source].size_bytes != _size(layer):  # others would take it for all
            raise _some_rows()
        copied = draft.shifted_copies.get(layer.source)
        if copied is None:
            copied = draft.shifted_copies[layer.source] = draft.scratch(_size(layer), "features without zero point")
            draft.before.append(_flipped(layer, copied))
        return _moved(layer, copied, 128)


@dataclass(frozen=True)
class SignedCopy:
    """Features that are stored as code + 128, as signed codes."""

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        copied = draft.scratch(_size(layer), "signed features")
        draft.before.append(_flipped(layer, copied))
        return _moved(layer, copied, -128)


def _moved(layer: ConvLayer, source: str, by: int) -> ConvLayer:
    """The layer on a copy whose codes are so much larger."""
    pictures, before = layer.typical, layer.stored

    def typical() -> tuple[Codes, ...]:
        return tuple(codes + by for codes in pictures())

    def stored(codes: Ints) -> Ints:
        return before(codes) + by

    changes = {"zero": layer.zero + by, "features_shifted": by > 0, "typical": typical, "stored": stored}
    return replace(layer, source=source, **changes)  # type: ignore[arg-type]


def _size(layer: ConvLayer) -> int:
    return layer.area.height * layer.area.line


def _some_rows() -> Refusal:
    return Refusal(CONV_ROWS, "some rows of the features", "all rows in the copy", "--schedule-without stripe")


def _flipped(layer: ConvLayer, copied: str) -> TaskGroup:
    """The highest bit of every byte: that is both directions."""
    if layer.area.offset:
        raise _some_rows()
    tasks = []
    for offset, count in parts(_size(layer), 3):
        b = TaskBuilder(layer.origin, f"features of {layer.op.name}", Purpose.FEATURES)
        shifted = b.unit(SHIFT_CODES, b.read(layer.source, contiguous(count, offset=offset)))
        b.write(shifted, copied, contiguous(count, offset=offset, write=True))
        tasks.append(b.done())
    return TaskGroup(tuple(tasks), flow=EACH_ELEMENT)


# ------------------------------------------------------------------------------------------------------ copied rows


@dataclass(frozen=True)
class CopiedRows:
    """The features that it reads, line after line."""

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        if layer.coarse:
            raise Refusal(CONV_LINES, "features of two bytes", "no copy of them", "read them byte by byte")
        area = Area.whole(layer.area.height, layer.area.width, layer.area.channels)
        shape = (area.height, area.width, area.channels)
        copied = draft.scratch(area.height * area.line, "rows of features")
        source = StridedView(layer.source, shape, (layer.area.line, layer.area.pixel, 1), layer.area.offset)
        moves = [Move(source, StridedView(copied, shape, (area.line, area.pixel, 1)))]
        draft.before += copy(draft, moves, layer.origin, f"features of {layer.op.name}")
        before, lines = layer.stored, layer.area

        def stored(codes: Ints) -> Ints:
            return picture(before(codes), lines).reshape(-1)

        return replace(layer, source=copied, area=area, stored=stored)


@dataclass(frozen=True)
class EverySecond:
    """A convolution of 1x1 without its stride, on the pixels that it looks at."""

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        if layer.weights.shape[1:3] != (1, 1) or layer.stride == (1, 1) or any(layer.padding):
            raise Refusal(CONV_MODE, "a window", "1x1 with a stride and without padding", "cut it into windows of 3x3")
        rows, columns = layer.stride
        area = stepped(layer.area, 0, rows, layer.out.height, 0, columns, layer.out.width)
        return replace(layer, area=area, stride=(1, 1))


# ---------------------------------------------------------------------------------------------------------- padding


@dataclass(frozen=True)
class PaddedCopy:
    """The padding in memory, but for so many rows; `shifted`: the copy is stored as code + 128; `constants`: channels
    of one value behind the others."""

    rows: int = 0
    shifted: bool = False
    purpose: Purpose = Purpose.PADDING
    constants: int = 0
    value: int = 0

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        if layer.coarse:
            raise Refusal(CONV_PADDING, "features of two bytes", "padding by the unit", "read them byte by byte")
        (top, left, bottom, right), left_over = _borders(layer, self.rows)
        area, shifted = layer.area, self.shifted
        height, width = area.height + top + bottom, area.width + left + right
        line = width
        if gaps_trusted(layer.trust):
            line = -(-width // layer.stride[1]) * layer.stride[1]  # so that strided lines do not overlap
        channels = area.channels + self.constants
        copied = draft.scratch(height * line * channels, "padded input")
        shape = (area.height, area.width, area.channels)
        source = StridedView(layer.source, shape, (area.line, area.pixel, area.element_bytes), area.offset)
        whole = StridedView.whole(copied, (height, line, channels)).cut(1, 0, width)
        target, constants = whole.cut(2, 0, area.channels), whole.cut(2, area.channels, self.constants)
        pads = ((top, bottom), (left, right), (0, 0))
        around = layer.zero + 128 * shifted
        filled = [(view, around) for view in borders(target, pads)]
        filled += [(constants, self.value)] if self.constants else []
        known = layer.source, area.height * area.line
        fills = [one for view, code in filled for one in fill(draft, view, code - 256 * (code > 127), *known)]
        moves = wirings(draft, [Move(source, inside(target, pads), (SHIFT_CODES,) if shifted else ())])
        # copies between memories were seen alone rather than beside other units
        for work in [[*fills, *moves]] if gaps_trusted(layer.trust) else [fills, moves]:
            draft.before += pack(work, layer.origin, f"padding of {layer.op.name}", self.purpose)
        before = layer.stored

        def stored(codes: Ints) -> Ints:
            values = np.zeros((height, line, channels), codes.dtype)
            values[:, :width] = around
            values[:, :width, area.channels :] = self.value
            own = picture(before(codes), area) + 128 * shifted
            values[top : top + area.height, left : left + area.width, : area.channels] = own
            return values.reshape(-1)

        view = replace(Area.whole(height, line, channels), width=width)
        sides = (top, left, bottom, right)
        padded = layer.shifted() if shifted else layer
        return replace(padded, source=copied, area=view, padding=left_over, stored=stored, border=sides)


def _borders(layer: ConvLayer, most_rows: int) -> tuple[Sides, Sides]:
    """What the copy has around the picture, at least as much as windows need, and the padding that is left."""
    left_over = (min(layer.padding[0], most_rows), 0, min(layer.padding[2], most_rows), 0)
    if layer.op.kind == "transpose_conv":
        return _around_transposed(layer)
    top, left, bottom, right = (p - kept for p, kept in zip(layer.padding, left_over, strict=True))
    bottom = max(bottom, WINDOW - layer.area.height - top)  # with three lines a window needs no padding beside
    right = max(right, WINDOW - layer.area.width - left)
    return (top, left, bottom, right), left_over


def _around_transposed(layer: ConvLayer) -> tuple[Sides, Sides]:
    """Every tap inside; what is cut off from the full result grows with the picture."""
    taps = [-(-size // step) for size, step in zip(layer.weights.shape[1:3], layer.stride, strict=True)]
    axes = zip(
        (layer.out.height, layer.out.width),
        layer.padding[:2],
        layer.stride,
        (layer.area.height, layer.area.width),
        strict=True,
    )
    last = [(out - 1 + cut) // step - (size - 1) for out, cut, step, size in axes]
    sides = (taps[0] - 1, taps[1] - 1, max(0, last[0]), max(0, last[1]))
    cut = [p + step * more for p, step, more in zip(layer.padding[:2], layer.stride, sides[:2], strict=True)]
    return sides, (cut[0], cut[1], *layer.padding[2:])


@dataclass(frozen=True)
class OneMoreRow:
    """A row of padding below the picture and a row of results below the others, behind the tensor."""

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        out, target = layer.out, draft.buffers[layer.target]
        whole = out.contiguous and not out.offset and out.height * out.line == target.size_bytes
        if not whole or target.kind != BufferKind.ACTIVATION:
            raise Refusal(CONV_PADDING, "results that end where others begin", "room for one more row", "pad first")
        taller = draft.taller(layer.target, out.line)
        return replace(layer, target=taller, out=replace(out, height=out.height + 1), padding=(0, 0, 1, 0))


@dataclass(frozen=True)
class OneMoreRowCopied:
    """The same in a copy of the results."""

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        height, width, channels = layer.out.height, layer.out.width, layer.out.channels
        reach = (layer.weights.shape[1] - 1) * layer.dilation[0] + 1
        more = layer.stride[0] - (layer.area.height - reach) % layer.stride[0]
        if not layer.out.contiguous or layer.codes_shifted or more > MAX_PADDING:
            raise Refusal(CONV_PADDING, "a window without padding", "padding", "pad the input")
        target = draft.scratch((height + 1) * width * channels, "one more row")
        source = StridedView.whole(target, (height + 1, width, channels)).cut(0, 0, height)
        moves = [Move(source, StridedView.whole(layer.target, (height, width, channels)))]
        draft.behind += reversed(copy(draft, moves, layer.origin, f"rows of {layer.op.name}"))
        out = Area.whole(height + 1, width, channels)
        return replace(layer, target=target, out=out, padding=(0, 0, more, 0))


# ------------------------------------------------------------------------------------------------------------ rings


@dataclass(frozen=True)
class WholeLines:
    """How windows of 3x3 move over whole lines, and their padding: at top and left, at bottom and right."""

    name: str
    stride: int
    before: int
    behind: int

    def results(self, size: int) -> int:
        """On so many rows or columns."""
        return (size + self.before + self.behind - WINDOW) // self.stride + 1


WITH_A_RING = WholeLines("ring of", 1, 1, 1)
WITH_A_STRIDE = WholeLines("stride on", 2, 0, 1)


@dataclass(frozen=True)
class Ringed:
    lines: WholeLines
    shifted: bool  # on code + 128

    @property
    def variant(self) -> Variant:
        return Variant(f"{self.lines.name} {'shifted codes' if self.shifted else 'codes'}")

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        around = _on_whole_lines(layer, self._needed(layer), self.shifted, draft)
        rows = (around.out.height - 1) * around.stride[0] + WINDOW
        area = replace(around.area, height=rows)
        size = self.lines.results(rows), self.lines.results(area.width)
        out = Area.whole(*size, around.outputs, around.out_bytes)
        left = [step // self.lines.stride for step in around.stride]
        ring = Ring(tuple(self._parts(area, around)), around.out, KeptResults(self.lines.before, left[0], left[1]))
        if replace(out, offset=around.out.offset) == around.out:  # all results count
            return replace(around, ring=ring)
        ringed = replace(around, target=draft.scratch(out.height * out.line, "results with a ring"), out=out, ring=ring)
        draft.behind += reversed(_what_counts(layer, ringed, draft))
        return ringed

    def _needed(self, layer: ConvLayer) -> tuple[int, int]:
        """Rows and columns of the copy: lines that begin later than others end in a row below."""
        first_row, first_column = (max(place for place, *_ in taps) for taps in _axes(layer))
        sizes = zip((layer.out.height, layer.out.width), layer.stride, strict=True)
        rows, columns = ((size - 1) * step + WINDOW for size, step in sizes)
        return first_row + rows + (first_column > 0), columns

    def _parts(self, area: Area, layer: ConvLayer) -> Iterator[Part]:
        """Neighbouring taps in one window; with a dilation every tap in the middle of its own. Groups as `kernel_parts`
        has them, where a kernel is cut as ST's releases 2.x do."""
        lines = self.lines
        sides = (lines.before, lines.before, lines.behind, lines.behind)
        for (row, rows, above), (column, columns, before) in product(*_axes(layer)):
            weights = np.zeros((layer.outputs, WINDOW, WINDOW, layer.weights.shape[3]), layer.weights.dtype)
            taps: Weights = layer.weights[:, rows, columns]
            weights[:, above : above + taps.shape[1], before : before + taps.shape[2]] = taps
            offset = area.offset + row * area.line + column * area.pixel
            group = group_2x(rows, columns) if layer.cut else (0, 0)
            yield Part(replace(area, offset=offset), weights, sides, lines.stride, group)


def _on_whole_lines(layer: ConvLayer, needed: tuple[int, int], shifted: bool, draft: Context) -> ConvLayer:
    """On a copy with the padding around it, unless all is there already. `needed`: rows and columns of the copy."""
    top, left, bottom, right = layer.padding
    rows, columns = needed
    below = max(0, rows - top - layer.area.height - bottom)
    beside = max(0, columns - left - layer.area.width - right)
    if not shifted and not any(layer.padding) and layer.area.contiguous and below == beside == 0:
        return layer
    # windows take every column, whatever the stride is, so the copy needs no longer lines for it
    larger = replace(layer, padding=(top, left, bottom + below, right + beside), stride=(1, 1))
    padded = PaddedCopy(shifted=shifted).prepare(larger, draft)
    return replace(padded, stride=layer.stride, border=NO_BORDER)


def _axes(layer: ConvLayer) -> list[list[Taps]]:
    sizes = layer.weights.shape[1:3]
    return [list(_taps_of(size, step)) for size, step in zip(sizes, layer.dilation, strict=True)]


def _taps_of(size: int, dilation: int) -> Iterator[Taps]:
    step = WINDOW if dilation == 1 else 1
    for first in range(0, size, step):
        tap = first * dilation  # place of the first one
        place = min(tap, max(0, size - WINDOW)) if dilation == 1 else max(0, tap - 1)
        yield place, slice(first, min(first + step, size)), tap - place


def _what_counts(layer: ConvLayer, ringed: ConvLayer, draft: Context) -> list[TaskGroup]:
    assert ringed.ring is not None
    kept, out = ringed.ring.kept, ringed.out
    shape = (layer.out.height, layer.out.width, layer.outputs * layer.out_bytes)  # bytes of a result lie side by side
    steps = (kept.rows * out.line, kept.columns * out.pixel, 1)
    inner = StridedView(ringed.target, shape, steps, kept.first * (out.line + out.pixel))
    target = StridedView(layer.target, shape, (layer.out.line, layer.out.pixel, 1), layer.out.offset)
    return copy(draft, [Move(inner, target)], layer.origin, f"results of {layer.op.name}")


@dataclass(frozen=True)
class Pairs:
    """Even columns of the results, then the odd ones."""

    def prepare(self, layer: ConvLayer, draft: Context) -> Pieces:
        _, rows, columns, channels = layer.weights.shape
        fits = WINDOW < columns <= TOGETHER + 1 and channels <= MOST_CHANNELS and layer.out_bytes == 1
        alone = rows <= WINDOW and columns <= TOGETHER  # one chain: it reads the layer's channels, not pairs
        if not fits or alone or not layer.stride == layer.dilation == (1, 1):
            seen = f"a kernel of {rows}x{columns} on {channels} channels"
            raise Refusal(CONV_MODE, seen, "several pieces of 4 to 7 columns, 4 channels", "change the kernel size")
        line = layer.area.width + layer.padding[1] + layer.padding[3]
        high = layer.out.height + max(place for place, *_ in _taps_of(rows, 1)) + WINDOW  # lines end in the row below
        around = _on_whole_lines(layer, (high, line + line % 2), False, draft)
        some = [column for column in (0, 1) if layer.out.width > column]
        return Pieces(tuple((around, (_PairedColumns(layer, column),)) for column in some))


@dataclass(frozen=True, eq=False)
class _PairedColumns:
    """Every second column of the results, from this one on."""

    layer: ConvLayer
    column: int

    def prepare(self, around: ConvLayer, draft: Context) -> ConvLayer:
        layer = self.layer
        out = layer.out.columns(self.column, -(-(layer.out.width - self.column) // 2))
        some = replace(layer, out=replace(out, pixel=2 * out.pixel))
        area = around.area.columns(self.column, around.area.width // 2)
        rows = out.height - 1 + WINDOW
        pairs = replace(area, height=rows, channels=2 * area.channels, pixel=2 * area.pixel)
        ring = Ring(tuple(_pair_parts(pairs, layer.weights)), some.out, KeptResults(1, 1, 1))
        target = draft.scratch(rows * pairs.width * layer.outputs, "results with a ring")
        ringed = replace(around, target=target, out=Area.whole(rows, pairs.width, layer.outputs), ring=ring)
        draft.behind += reversed(_what_counts(some, ringed, draft))
        return ringed


def _pair_parts(pairs: Area, weights: Weights) -> Iterator[Part]:
    """Three rows of six columns, then of the seventh: all parts are groups of their own, rounded by themselves."""
    outputs, rows, columns, channels = weights.shape
    whole = np.zeros((outputs, rows, 2 * TOGETHER, channels), weights.dtype)
    whole[:, :, :columns] = weights
    for number, (row, taps, above) in enumerate(_taps_of(rows, 1)):
        for kind, first in enumerate(range(0, columns, TOGETHER)):
            own = whole[:, taps, first : first + TOGETHER].reshape(outputs, -1, WINDOW, 2 * channels)
            window = np.zeros((outputs, WINDOW, WINDOW, 2 * channels), weights.dtype)
            window[:, above : above + own.shape[1]] = own
            offset = pairs.offset + row * pairs.line + kind * WINDOW * pairs.pixel
            yield Part(replace(pairs, offset=offset), window, (1, 1, 1, 1), 1, (number, kind))
