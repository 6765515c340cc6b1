"""Products of two activations: the second factor is packed as kernels into RAM, then 1x1 convolutions read it there.

Kernels that are read from RAM are in three units of one published program, so this is off unless asked for
(`--schedule-with attention`); the CPU has kernels for every product.

Features are bytes f = code + 128 with the zero point z = zero + 128, kernels are codes b with the zero point y:

    sum (f - z)(b - y)  =  sum f b  +  sum z (-1 - b)  +  sum f (-y)  +  depth z (1 + y)

Each of the sums is a 1x1 convolution: of the features or of a picture of one value, with kernels that are codes, their
complements (-1 - b is a byte for every b, -b is not) or one value. Features without sign are what chains of such units
were seen with. The last summand is known to the compiler and goes into the bias; terms that are zero are left out.

Kernels of units that read three bytes a word: for every set the kernels of each unit, for eight of them at a time
[channel][kernel], and at the end of a unit's kernels bytes up to a whole word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import FeatureMode, Outline, chain_configs, limits
from atonc.compiler.lower.conv.engines import SHIFT_CODES, feature_engine, kernel_engine, output_engine, requantise
from atonc.compiler.lower.conv.requantise import Requantisation, requantisation
from atonc.compiler.lower.move.copies import Move, Units, fill, wirings
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.operators import multiplied
from atonc.compiler.lower.units.arith import Affine, affine_unit
from atonc.compiler.lower.units.views import StridedView
from atonc.compiler.lower.units.wiring import Wiring, pack, placeable
from atonc.compiler.ops.rounding import lift, rounding_of
from atonc.compiler.plan import streams
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.policy import EPOCH_CYCLES, LEAST_PRODUCT
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import Purpose, Task, TaskGroup
from atonc.compiler.select.rules import (
    CONV_MODE,
    INT8_CODES,
    PRODUCT_DEPTH,
    PRODUCT_SHAPE,
    PRODUCT_SMALL,
    PRODUCT_UNPROVEN,
)
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import LEAST_DEEP
from atonc.machine.hw.units.convacc import ConvaccConfig

MOST_DEPTH = 128  # channels of a unit; the sums between units then stay within their 24 bits


class Features(Enum):
    CODES = "the features"
    ZERO = "their zero point, at every place"


class Kernels(Enum):
    CODES = "the codes"
    COMPLEMENTS = "-1 - code"
    VALUE = "one value"


@dataclass(frozen=True)
class ProductTerm:
    features: Features
    kernels: Kernels
    value: int = 0  # of kernels that are all the same


def terms_of(zero: int, kernel_zero: int) -> tuple[ProductTerm, ...]:
    """`zero`: of features as bytes without sign, 0..255. `kernel_zero`: of kernels as codes, -128..127."""
    terms = [ProductTerm(Features.CODES, Kernels.CODES)]
    if zero:
        terms.append(ProductTerm(Features.ZERO, Kernels.COMPLEMENTS))
    values = (64, 64) if kernel_zero == -128 else (-kernel_zero,) if kernel_zero else ()
    return (*terms, *(ProductTerm(Features.CODES, Kernels.VALUE, value) for value in values))


def known(zero: int, kernel_zero: int, depth: int) -> int:
    """What the terms leave out of the sum."""
    return depth * zero * (1 + kernel_zero)


MOST_MATRICES = 64  # of one product: each is a convolution with kernels of its own


@dataclass(frozen=True)
class Matrices:
    """`left` [rows, depth] and `right` [columns, depth] of every batch, in the order of the results."""

    left: tuple[StridedView, ...]
    right: tuple[StridedView, ...]
    rows: int
    depth: int
    columns: int


def matrices_of(op: Op, context: Context) -> Matrices:
    a, b = (context.tensor(name) for name in op.inputs)
    for tensor in (a, b, context.tensor(op.outputs[0])):
        _require_codes(tensor)
    if min(len(a.shape), len(b.shape)) < 2:
        raise Refusal(PRODUCT_SHAPE, f"shapes {a.shape} and {b.shape}", "two matrices", "reshape the vector")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if np.prod(batch, dtype=int) > MOST_MATRICES:
        raise Refusal(PRODUCT_SHAPE, f"{batch} products", f"{MOST_MATRICES} at a time", "fewer heads or batches")
    left, right = _view(a, context), _view(b, context)
    left = _turned(left) if op.attrs.get("transpose_a") else left
    right = right if op.attrs.get("transpose_b") else _turned(right)
    lefts, rights = (tuple(_each(view, batch)) for view in (left, right))
    (rows, depth), (columns, _) = lefts[0].shape, rights[0].shape
    return Matrices(lefts, rights, rows, depth, columns)


def _require_codes(tensor: Tensor) -> None:
    if tensor.dtype != "int8" or tensor.quant is None or not tensor.quant.is_per_tensor:
        raise Refusal(INT8_CODES, f"{tensor.name} of type {tensor.dtype}", "int8 with one scale", "quantise it")


def _view(tensor: Tensor, context: Context) -> StridedView:
    return StridedView.whole(context.buffer(tensor.name), tensor.shape)


def _turned(view: StridedView) -> StridedView:
    axes = range(len(view.shape))
    return view.transpose((*axes[:-2], axes[-1], axes[-2]))


def _each(view: StridedView, batch: tuple[int, ...]) -> Iterator[StridedView]:
    """The matrix of every batch; axes of one turn, and axes that are missing in front, are the same for all."""
    own = len(view.shape) - 2
    for place in np.ndindex(*batch):
        found = view
        for size, index in zip(view.shape[:own], place[len(batch) - own :], strict=True):
            found = found.pick(0, index if size > 1 else 0)
        yield found


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


ATTENTION = "attention"  # of schedule.ON_REQUEST
MODE = FeatureMode(1, unsigned=True, deep=True, packed_frame=True)


@dataclass(frozen=True)
class ProductLayer:
    """One product in numbers."""

    op: Op
    matrices: Matrices
    terms: tuple[ProductTerm, ...]
    frames: FeatureFrames
    zeros: FeatureFrames  # one frame of the zero point, where a term needs it
    rule: Requantisation
    height: int
    width: int

    @property
    def outline(self) -> Outline:
        return Outline(self.picture(0), (1, 1), (0, 0, 0, 0), 1)

    def picture(self, offset: int) -> Area:
        area = Area.whole(self.height, self.width, self.frames.depth)
        return Area(area.height, area.width, area.channels, area.line, area.pixel, offset)


@recipe("matmul")
@placeable
def lower_matmul(op: Op, context: Context) -> list[TaskGroup]:
    if ATTENTION not in context.facts.asked:
        raise Refusal(
            PRODUCT_UNPROVEN,
            "a product of two activations: its kernels would be read from RAM",
            "kernels in flash, as in all but three units of published programs",
            f"try --schedule-with {ATTENTION} on a board",
        )
    layer = _layer(op, context)
    origin, title = op.origin, f"matmul {op.name}"
    jobs = [(number, packed) for number, _ in enumerate(layer.matrices.right) for packed in _packed(layer, context)]
    _explain(layer, context)
    return [
        *pack(_first(layer, jobs, context), origin, f"features and kernels of {op.name}", Purpose.KERNELS),
        *pack(_second(layer, jobs, context), origin, f"features and kernels of {op.name}", Purpose.KERNELS),
        TaskGroup(tuple(_task(layer, context, title, *job) for job in jobs)),
    ]


def _layer(op: Op, context: Context) -> ProductLayer:
    matrices = matrices_of(op, context)
    work = len(matrices.left) * matrices.rows * matrices.columns * matrices.depth
    if work < LEAST_PRODUCT:
        raise Refusal(PRODUCT_SMALL, f"{work:,} products", f"{LEAST_PRODUCT:,}", "the CPU does as few at once")
    if matrices.depth > MOST_DEPTH:
        seen = f"sums of {matrices.depth} products"
        raise Refusal(PRODUCT_DEPTH, seen, f"{MOST_DEPTH}", "cut the sum into parts and add them")
    left, right = (context.tensor(name) for name in op.inputs)
    zero = left.zero_point + 128
    depth = max(matrices.depth, LEAST_DEEP[MODE.feature_bytes])
    height, width = _picture(matrices.rows, depth)
    size = frame_step(matrices.rows, depth)
    frames = FeatureFrames(context.scratch(size * len(matrices.left), "features"), matrices.rows, depth)
    terms = terms_of(zero, right.zero_point)
    zeros = frames
    if any(term.features is Features.ZERO for term in terms):
        zeros = FeatureFrames(context.scratch(size, "zero point"), matrices.rows, depth)
    return ProductLayer(op, matrices, terms, frames, zeros, _rule(op, context, matrices.depth), height, width)


def _picture(rows: int, depth: int) -> tuple[int, int]:
    """Height and width of a picture of so many pixels, as square as it goes."""
    most = limits(MODE, 1, 1).line // depth
    height = next(n for n in range(isqrt(rows), 0, -1) if rows % n == 0)
    if rows // height > most:
        seen = f"{rows} rows of {depth}"
        raise Refusal(PRODUCT_SHAPE, seen, f"lines of {most} pixels", "a number of rows that has divisors")
    return height, rows // height


def _rule(op: Op, context: Context, depth: int) -> Requantisation:
    left, right = (context.tensor(name) for name in op.inputs)
    out = context.tensor(op.outputs[0])
    scale = np.atleast_1d(np.float64(left.scale * right.scale / out.scale))
    left_out = known(left.zero_point + 128, right.zero_point, depth)
    clip = op.attrs.get("clip")
    offset = out.zero_point + scale * left_out + lift(rounding_of(op, [left, right], out), out, clip)
    reach = [max(127 - t.zero_point, t.zero_point + 128) for t in (left, right)]
    largest = np.atleast_1d(np.float64(depth * reach[0] * reach[1] + abs(left_out)))
    return requantisation(scale, offset, largest, clip=clip, usual=np.atleast_1d(np.float64(out.zero_point)))


def _packed(layer: ProductLayer, context: Context) -> list[Packed]:
    """The kernels of one batch in sets, those that are left over in a set of their own; as cheap as it goes."""
    depth, columns = layer.frames.depth, layer.matrices.columns
    size = limits(MODE, 1, 1)
    most = min(size.kernels, size.weights // depth, columns)
    kernels = min(range(1, most + 1), key=lambda n: (_cycles(layer, n), -n))
    whole = columns // kernels
    parts = [(0, kernels, whole), *([(whole * kernels, columns - whole * kernels, 1)] if columns % kernels else [])]
    made = [Packed("", first, count, sets, depth, layer.terms) for first, count, sets in parts]
    return [Packed(context.scratch(p.size_bytes, "kernels"), p.first, p.kernels, p.sets, depth, p.terms) for p in made]


def _cycles(layer: ProductLayer, kernels: int) -> int:
    """Counts the cycles of all sets: the longer of features and results, and another epoch for the rest."""
    pixels, columns = layer.matrices.rows, layer.matrices.columns
    words = -(-pixels * layer.frames.depth // 3)
    sets, rest = divmod(columns, kernels)
    extra = max(words, pixels * rest) + EPOCH_CYCLES if rest else 0
    return sets * max(words, pixels * kernels) + extra


def _first(layer: ProductLayer, jobs: Sequence[tuple[int, Packed]], context: Context) -> list[Wiring]:
    """All that is the same everywhere."""
    source = layer.matrices.left[0].buffer
    made = blank_channels(layer.matrices, layer.frames, context)
    if layer.zeros is not layer.frames:
        zero = context.tensor(layer.op.inputs[0]).zero_point + 128
        made += zero_picture(layer.zeros, zero, source, context)
    for number, packed in jobs:
        made += kernel_fills(packed, layer.matrices.right[number], context)
    return made


def _second(layer: ProductLayer, jobs: Sequence[tuple[int, Packed]], context: Context) -> list[Wiring]:
    made = feature_copies(layer.matrices, layer.frames, context)
    for number, packed in jobs:
        made += kernel_copies(packed, layer.matrices.right[number], context)
    return made


def _task(layer: ProductLayer, context: Context, title: str, number: int, packed: Packed) -> Task:
    columns = layer.matrices.columns
    b = TaskBuilder(layer.op.origin, title)
    kernels = b.read(packed.buffer, kernel_engine(packed.size_bytes, MODE))
    tail = ""
    for term, config in zip(packed.terms, _configs(layer, packed), strict=True):
        of_zeros = term.features is Features.ZERO
        area = layer.picture(0 if of_zeros else number * layer.frames.step)
        reader = feature_engine(area, streams.Frames(1, 0, packed.sets, 0), MODE)
        features = b.read((layer.zeros if of_zeros else layer.frames).buffer, reader)
        tail = b.unit(config, features, kernels, tail or None)
    codes = requantise(b, layer.rule.units(0, 1, 1, 1), tail, {})
    start = number * layer.matrices.rows * columns
    target = Area(layer.height, layer.width, columns, layer.width * columns, columns, start)
    writer = output_engine(target, packed.kernels, packed.first, packed.sets)
    b.write(codes, context.buffer(layer.op.outputs[0]), writer)
    return b.done(_cycles(layer, packed.kernels))


def _configs(layer: ProductLayer, packed: Packed) -> list[ConvaccConfig]:
    units = len(packed.terms)
    configs = chain_configs([layer.outline] * units, MODE, packed.depth, packed.kernels, units)
    if configs is None:
        raise Refusal(
            CONV_MODE, f"a chain of {units} units", "settings that occur in public networks", "change the zero points"
        )
    return [*configs[:-1], changed(configs[-1], out_shift=layer.rule.out_shift)]


def _explain(layer: ProductLayer, context: Context) -> None:
    left, right = (context.tensor(name) for name in layer.op.inputs)
    zeros = left.zero_point + 128, right.zero_point
    codes = partial(_codes, layer.op, layer.terms, zeros, layer.rule)
    context.explain(layer.op, codes, layer.rule.error)


def _codes(
    op: Op, terms: tuple[ProductTerm, ...], zeros: tuple[int, int], rule: Requantisation, values: Sequence[Any]
) -> list[NDArray[np.int64]]:
    left = np.swapaxes(values[0], -1, -2) if op.attrs.get("transpose_a") else values[0]
    right = np.swapaxes(values[1], -1, -2) if op.attrs.get("transpose_b") else values[1]
    return [multiplied(left, right, terms, zeros[0], rule)]
