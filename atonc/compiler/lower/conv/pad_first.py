"""What to do about paddings and lines that no unit setting covers: tap by tap, or a padded copy of the input first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.engines import SHIFT_CODES
from atonc.compiler.lower.conv.kernel_parts import WINDOW, Sides
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.move.copies import Move, borders, inside, pad_view, wirings
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.sums import picture
from atonc.compiler.lower.units.views import StridedView
from atonc.compiler.lower.units.wiring import pack
from atonc.compiler.plan.policy import affordable
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import Purpose, TaskGroup
from atonc.compiler.select.choose import Draw, attempt, choose, in_order
from atonc.compiler.select.form import Form, RefusedForm
from atonc.compiler.select.preferences import WITHOUT_COPY
from atonc.compiler.select.rules import CONV_LINES, CONV_PADDING
from atonc.machine.base.reasons import Rule
from atonc.machine.hw.limits import MAX_CHAIN
from atonc.machine.hw.safety.evidence.seen import gaps_trusted

Lower = Callable[[ConvLayer, Context], list[TaskGroup]]

ABOUT_LINES = (CONV_PADDING, CONV_LINES)
MANY_TAPS = 16


def lower_padded(layer: ConvLayer, context: Context, lower: Lower) -> list[TaskGroup]:
    """As `lower` does it; where it refuses the padding or the lines, tap by tap or on a padded copy."""
    plain = attempt(context, partial(lower, layer))
    if isinstance(plain, Form) or not (any(layer.padding) or plain.rule in ABOUT_LINES):
        return context.take(plain)
    context.refused.append(plain)
    return choose(context, in_order(WITHOUT_COPY, _other_draws(layer, lower, plain.rule)), refused=plain)


def _other_draws(layer: ConvLayer, lower: Lower, rule: Rule) -> Iterator[Draw[Context]]:
    by_taps, taps = replace(layer, by_taps=True), _most_taps(layer)
    few = taps <= MAX_CHAIN and layer.op.kind != "transpose_conv"  # which has a phase for every remainder and edge
    if few:
        yield partial(lower, by_taps)
    yield partial(_on_the_better_copy, layer, lower)
    if not few and taps <= MANY_TAPS and rule in ABOUT_LINES:  # other rules may allow a better form of other features
        yield partial(lower, by_taps)


def _most_taps(layer: ConvLayer) -> int:
    """Counts the taps of the output that has most; more than any limit where taps cannot go by themselves."""
    try:
        phases = replace(layer, by_taps=True).phases((layer.out.height, layer.out.width))
    except Refusal:
        return MANY_TAPS + 1
    return max(len(phase.parts) for phase in phases)


def _on_a_copy(layer: ConvLayer, lower: Lower, context: Context) -> list[TaskGroup]:
    padding, padded = pad_first(layer, context)
    return [*padding, *lower(padded, context)]


def _on_the_better_copy(layer: ConvLayer, lower: Lower, context: Context) -> list[TaskGroup]:
    """With the zero point taken off by the units, unless all of the copy as picture is much faster."""
    exact = attempt(context, partial(_on_a_copy, layer, lower))
    other = attempt(context, partial(_on_a_copy, layer, _without_border(lower)))
    if isinstance(exact, RefusedForm):
        context.refused.append(exact)
        return context.take(other if isinstance(other, Form) else exact)
    if isinstance(other, RefusedForm) or affordable(exact.cycles, other.cycles):
        return context.take(exact)
    return context.take(other)


def _without_border(lower: Lower) -> Lower:
    """All of the copy is picture: then the bias may make up for any zero point."""
    return lambda layer, context: lower(replace(layer, border=(0, 0, 0, 0)), context)


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
    last = [
        (out - 1 + cut) // step - (size - 1)
        for out, cut, step, size in zip(
            (layer.out.height, layer.out.width),
            layer.padding[:2],
            layer.stride,
            (layer.area.height, layer.area.width),
            strict=True,
        )
    ]
    sides = (taps[0] - 1, taps[1] - 1, max(0, last[0]), max(0, last[1]))
    cut = [p + step * more for p, step, more in zip(layer.padding[:2], layer.stride, sides[:2], strict=True)]
    return sides, (cut[0], cut[1], *layer.padding[2:])


def pad_first(
    layer: ConvLayer,
    context: Context,
    most_rows: int = 0,
    shifted: bool = False,
    purpose: Purpose = Purpose.PADDING,
) -> tuple[list[TaskGroup], ConvLayer]:
    """Epochs that write the padded copy, and the layer that reads it without padding, or only up to so many rows.
    `shifted`: the copy is stored as code + 128."""
    if layer.coarse:
        raise Refusal(CONV_PADDING, "features of two bytes", "padding by the unit", "read them byte by byte")
    (top, left, bottom, right), left_over = _borders(layer, most_rows)
    area = layer.area
    height, width = area.height + top + bottom, area.width + left + right
    line = width
    if gaps_trusted(layer.trust):
        line = -(-width // layer.stride[1]) * layer.stride[1]  # so that strided lines do not overlap
    copy = context.scratch(height * line * area.channels, "padded input")
    shape = (area.height, area.width, area.channels)
    source = StridedView(layer.source, shape, (area.line, area.pixel, area.element_bytes), area.offset)
    target = StridedView.whole(copy, (height, line, area.channels)).cut(1, 0, width)
    pads = ((top, bottom), (left, right), (0, 0))
    around = layer.zero + 128 * shifted
    code = around - 256 * (around > 127)
    fills = pad_view(context, borders(target, pads), code, layer.source, area.height * area.line)
    moves = wirings(context, [Move(source, inside(target, pads), (SHIFT_CODES,) if shifted else ())])
    # copies between memories were seen alone rather than beside other units
    works = [[*fills, *moves]] if gaps_trusted(layer.trust) else [fills, moves]
    view = replace(Area.whole(height, line, area.channels), width=width)

    def stored(codes: NDArray[np.int64]) -> NDArray[np.int64]:
        values = np.zeros((height, line, area.channels), codes.dtype)
        values[:, :width] = around
        values[top : top + area.height, left : left + area.width] = picture(layer.stored(codes), area) + 128 * shifted
        return values.reshape(-1)

    sides = (top, left, bottom, right)
    padded = layer.shifted() if shifted else layer
    padded = replace(padded, source=copy, area=view, padding=left_over, stored=stored, border=sides)
    title = f"padding of {layer.op.name}"
    return [group for work in works for group in pack(work, layer.origin, title, purpose)], padded
