"""A copy of the features as code + 128, where so many channels are summed that signed features need many passes.

And the other way round, where a layer finds shifted features and its form was seen with signed ones only.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.engines import SHIFT_CODES
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.passes_2x import needs_unsigned
from atonc.compiler.lower.conv.reading import LOWEST, subtractable
from atonc.compiler.lower.conv.typical_sums import Codes
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.units.wiring import parts
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.flow import EACH_ELEMENT
from atonc.compiler.plan.policy import MANY_CHANNELS, WINDOW_CHANNELS, WINDOW_OUTPUTS
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.task import Purpose, TaskGroup
from atonc.compiler.select.rules import CONV_ROWS


def shift_first(layer: ConvLayer, context: Context) -> tuple[list[TaskGroup], ConvLayer]:
    """The epoch that writes the copy, and the layer that reads it."""
    if layer.whole_bytes and context.buffers[layer.source].size_bytes != _size(layer):  # others would take it for all
        raise Refusal(CONV_ROWS, "some rows of the features", "all rows in the copy", "--schedule-without stripe")
    groups: list[TaskGroup] = []
    copy = context.shifted_copies.get(layer.source)
    if copy is None:  # the first reader makes it for all of them
        copy = context.shifted_copies[layer.source] = context.scratch(_size(layer), "features without zero point")
        groups.append(_flipped(layer, copy))

    def typical() -> tuple[Codes, ...]:
        return tuple(codes + 128 for codes in layer.typical())

    def stored(codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return layer.stored(codes) + 128

    return groups, replace(layer, source=copy, zero=0, features_shifted=True, typical=typical, stored=stored)


def unshift_first(layer: ConvLayer, context: Context) -> tuple[list[TaskGroup], ConvLayer]:
    """The epoch that writes a copy with signed codes, and the layer that reads it."""
    copy = context.scratch(_size(layer), "signed features")

    def typical() -> tuple[Codes, ...]:
        return tuple(codes - 128 for codes in layer.typical())

    def stored(codes: NDArray[np.int64]) -> NDArray[np.int64]:
        return layer.stored(codes) - 128

    signed = replace(layer, source=copy, zero=-128, features_shifted=False, typical=typical, stored=stored)
    return [_flipped(layer, copy)], signed


def _size(layer: ConvLayer) -> int:
    return layer.area.height * layer.area.line


def _flipped(layer: ConvLayer, copy: str) -> TaskGroup:
    """The highest bit of every byte: that is both directions."""
    if layer.area.offset:
        raise Refusal(CONV_ROWS, "some rows of the features", "all rows in the copy", "--schedule-without stripe")
    tasks = []
    for offset, count in parts(_size(layer), 3):
        b = TaskBuilder(layer.origin, f"features of {layer.op.name}", Purpose.FEATURES)
        shifted = b.unit(SHIFT_CODES, b.read(layer.source, contiguous(count, offset=offset)))
        b.write(shifted, copy, contiguous(count, offset=offset, write=True))
        tasks.append(b.done())
    return TaskGroup(tuple(tasks), flow=EACH_ELEMENT)


def needs_shifting(layer: ConvLayer) -> bool:
    """Where units may not take the zero point off signed features, and padding leaves nothing to the bias."""
    signed = layer.zero == LOWEST and not layer.features_shifted
    exactly = any(layer.padding) or layer.op.kind == "transpose_conv"
    return signed and exactly and not subtractable(LOWEST, layer.made_for.trust)


def worth_shifting(layer: ConvLayer) -> bool:
    """A window over many channels is twice as fast without zero point; many channels need fewer, rounded passes."""
    if layer.zero != -128 or layer.features_shifted or not layer.area.contiguous or layer.whole_bytes:
        return False
    if layer.numerics == "2.x":
        return needs_unsigned(layer.form_2x)
    channels, window = layer.area.channels, max(layer.weights.shape[1:3])
    if window > 1 and layer.stride != (1, 1):
        return False  # chains of windows with stride 2 were seen with signed features only
    if window > 1:
        return channels >= WINDOW_CHANNELS and layer.outputs >= WINDOW_OUTPUTS
    return channels > MANY_CHANNELS
