"""Where the factors of a product lie while it is computed: features as frames of bytes without sign, kernels in the
order in which units take them.

Kernels of units that read three bytes a word: for every set the kernels of each unit, for eight of them at a time
[channel][kernel], and at the end of a unit's kernels bytes up to a whole word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.requantise import SHIFT_CODES
from atonc.compiler.lower.move.copies import Move, Units, fill, wirings
from atonc.compiler.lower.product.operands import Matrices
from atonc.compiler.lower.product.terms import Kernels, ProductTerm
from atonc.compiler.lower.units.affine import Affine
from atonc.compiler.lower.units.arith import affine_unit
from atonc.compiler.lower.units.strided_views import StridedView
from atonc.compiler.lower.units.wiring import Wiring
from atonc.compiler.plan.build import TaskBuilder
from atonc.machine.base.frozen import dataclass

TOGETHER = 8  # kernels whose weights of one channel lie side by side
WORD = 3
APART = 16  # bytes to whose multiples frames are aligned
COMPLEMENT: Units = (affine_unit(Affine(np.array([-(1 << 14)]), np.array([-(1 << 14)]), 14), 0),)


def frame_step(rows: int, depth: int) -> int:
    return -(-rows * depth // APART) * APART


@dataclass(frozen=True)
class FeatureFrames:
    """Rows of features one behind the other, `depth` bytes each: channels behind those of the factor are zero."""

    buffer: str
    rows: int
    depth: int

    @property
    def step(self) -> int:
        return frame_step(self.rows, self.depth)


@dataclass(frozen=True)
class Packed:
    """Sets of kernels for one chain of units."""

    buffer: str
    first: int  # kernel
    kernels: int  # of a set
    sets: int
    depth: int
    terms: tuple[ProductTerm, ...]
    start: int = 0  # bytes of the buffer

    @property
    def unit_bytes(self) -> int:
        return -(-self.kernels * self.depth // WORD) * WORD

    @property
    def set_bytes(self) -> int:
        return self.unit_bytes * len(self.terms)

    @property
    def size_bytes(self) -> int:
        return self.set_bytes * self.sets


def feature_copies(matrices: Matrices, frames: FeatureFrames, context: Context) -> list[Wiring]:
    moves = [
        Move(view, StridedView(frames.buffer, view.shape, (frames.depth, 1), number * frames.step), (SHIFT_CODES,))
        for number, view in enumerate(matrices.left)
    ]
    return wirings(context, moves)


def blank_channels(matrices: Matrices, frames: FeatureFrames, context: Context) -> list[Wiring]:
    """Zeros behind the channels of the factor, where units take no fewer than `frames.depth`."""
    missing = frames.depth - matrices.depth
    if not missing:
        return []
    return [
        wiring
        for number, view in enumerate(matrices.left)
        for wiring in _filled(
            StridedView(
                frames.buffer, (frames.rows, missing), (frames.depth, 1), number * frames.step + matrices.depth
            ),
            0,
            view.buffer,
            context,
        )
    ]


def kernel_fills(packed: Packed, matrix: StridedView, context: Context) -> list[Wiring]:
    """One value, where all kernels of a unit are that; zeros in channels that the factor does not have."""
    made: list[Wiring] = []
    for unit, term in enumerate(packed.terms):
        target = StridedView(
            packed.buffer, (packed.sets, packed.unit_bytes), (packed.set_bytes, 1), unit * packed.unit_bytes
        )
        partly = matrix.shape[1] < packed.depth or packed.unit_bytes > packed.kernels * packed.depth
        if term.kernels is Kernels.VALUE or partly:
            made += _filled(target, term.value, matrix.buffer, context)
    return made


def kernel_copies(packed: Packed, matrix: StridedView, context: Context) -> list[Wiring]:
    """All sets in turn, or each by itself where an engine would take turns at odd steps, which none was seen to do."""
    made = wirings(context, _moves([packed], matrix))
    return made if all(map(_turns_seen, made)) else wirings(context, _moves(_one_by_one(packed), matrix))


def _moves(parts: Sequence[Packed], matrix: StridedView) -> Iterator[Move]:
    for part in parts:
        for unit, term in enumerate(part.terms):
            if term.kernels is not Kernels.VALUE:
                yield from _blocks(part, matrix, unit, COMPLEMENT if term.kernels is Kernels.COMPLEMENTS else ())


def _turns_seen(wiring: Wiring) -> bool:
    b = TaskBuilder((), "")
    wiring.build(b)
    writers = (use.config for use in b.engines.values() if use.config.to_memory)
    return all(c.repeat_offset % APART == 0 for c in writers if 0 < c.frame_repeat < c.frames)


def _one_by_one(packed: Packed) -> list[Packed]:
    return [
        replace(packed, first=packed.first + k * packed.kernels, sets=1, start=packed.start + k * packed.set_bytes)
        for k in range(packed.sets)
    ]


def _blocks(packed: Packed, matrix: StridedView, unit: int, units: Units) -> Iterator[Move]:
    """Moves the kernels of one unit, set by set, eight at a time and then the rest."""
    some = matrix.cut(0, packed.first, packed.kernels * packed.sets).split(0, packed.sets, packed.kernels)
    start, whole = packed.start + unit * packed.unit_bytes, packed.kernels // TOGETHER
    channels = matrix.shape[1]
    if whole:
        source = some.cut(1, 0, whole * TOGETHER).split(1, whole, TOGETHER)
        shape = (packed.sets, whole, TOGETHER, channels)
        steps = (packed.set_bytes, TOGETHER * packed.depth, 1, TOGETHER)
        yield Move(source, StridedView(packed.buffer, shape, steps, start), units)
    rest = packed.kernels - whole * TOGETHER
    if rest:
        source = some.cut(1, whole * TOGETHER, rest)
        start += whole * TOGETHER * packed.depth
        target = StridedView(packed.buffer, (packed.sets, rest, channels), (packed.set_bytes, 1, rest), start)
        yield Move(source, target, units)


def _filled(target: StridedView, code: int, source: str, context: Context) -> list[Wiring]:
    return fill(context, target, code, source, context.buffers[source].size_bytes)


def zero_picture(frames: FeatureFrames, zero: int, source: str, context: Context) -> list[Wiring]:
    """The zero point in every channel of every row; as a code, since that is what an ARITH writes."""
    target = StridedView(frames.buffer, (frames.rows * frames.depth,), (1,))
    return _filled(target, zero - 256 * (zero > 127), source, context)
