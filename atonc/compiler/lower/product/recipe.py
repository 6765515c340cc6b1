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
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import FeatureMode, Outline, chain_configs, limits
from atonc.compiler.lower.conv.engines import feature_engine, kernel_engine, output_engine, requantise
from atonc.compiler.lower.conv.requantise import SHIFT_CODES, Requantisation, requantisation
from atonc.compiler.lower.move.copies import Move, Units, fill, wirings
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.operators import multiplied
from atonc.compiler.lower.units.arith import Affine, affine_unit
from atonc.compiler.lower.units.views import StridedView
from atonc.compiler.lower.units.wiring import Wiring, pack, placed_recipe, require_codes
from atonc.compiler.ops.rounding import lift, rounding_of
from atonc.compiler.plan import streams
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.policy import EPOCH_CYCLES, LEAST_PRODUCT
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import Purpose, Task, TaskGroup
from atonc.compiler.select.rules import (
    CONV_MODE,
    PRODUCT_DEPTH,
    PRODUCT_SHAPE,
    PRODUCT_SMALL,
    PRODUCT_UNPROVEN,
)
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import LEAST_DEEP

ATTENTION = "attention"  # of schedule.ON_REQUEST
MODE = FeatureMode(1, unsigned=True, deep=True, packed_frame=True)
MOST_MATRICES = 64  # of one product: each is a convolution with kernels of its own
TOGETHER = 8  # kernels whose weights of one channel lie side by side
WORD = 3
APART = 16  # bytes to whose multiples frames are aligned
COMPLEMENT: Units = (affine_unit(Affine.single(-(1 << 14), -(1 << 14), 14), 0),)
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


@dataclass(frozen=True)
class ProductLayer:
    """One product in numbers: `left` [rows, depth] and `right` [columns, depth] of every batch, in the order of the
    results. Rows of features lie one behind the other, `channels` bytes each: those behind the factor's are zero."""

    op: Op
    left: tuple[StridedView, ...]
    right: tuple[StridedView, ...]
    channels: int
    size: tuple[int, int]  # height and width of the features as a picture
    frame_bytes: int
    terms: tuple[ProductTerm, ...]
    features: str
    zeros: str  # one frame of the zero point, where a term needs it
    rule: Requantisation
    zero: int  # of the features, 0..255

    @property
    def rows(self) -> int:
        return self.left[0].shape[0]

    @property
    def depth(self) -> int:
        return self.left[0].shape[1]

    @property
    def columns(self) -> int:
        return self.right[0].shape[0]

    def picture(self, offset: int = 0) -> Area:
        return replace(Area.whole(*self.size, self.channels), offset=offset)

    def cycles(self, kernels: int) -> int:
        """Counts the cycles of all sets: the longer of features and results, and another epoch for the rest."""
        words = -(-self.rows * self.channels // 3)
        sets, rest = divmod(self.columns, kernels)
        extra = max(words, self.rows * rest) + EPOCH_CYCLES if rest else 0
        return sets * max(words, self.rows * kernels) + extra

    def __call__(self, values: Sequence[Any]) -> list[NDArray[np.int64]]:
        """What the tasks compute."""
        left = np.swapaxes(values[0], -1, -2) if self.op.attrs.get("transpose_a") else values[0]
        right = np.swapaxes(values[1], -1, -2) if self.op.attrs.get("transpose_b") else values[1]
        return [multiplied(left, right, self.terms, self.zero, self.rule)]


@dataclass(frozen=True)
class Packed:
    """Sets of kernels for one chain of units, of one batch."""

    number: int  # of the batch
    first: int  # kernel
    kernels: int  # of a set
    sets: int
    layer: ProductLayer
    buffer: str = ""
    start: int = 0  # bytes of the buffer

    @property
    def unit_bytes(self) -> int:
        return -(-self.kernels * self.layer.channels // WORD) * WORD

    @property
    def set_bytes(self) -> int:
        return self.unit_bytes * len(self.layer.terms)

    @property
    def size_bytes(self) -> int:
        return self.set_bytes * self.sets

    @property
    def matrix(self) -> StridedView:
        return self.layer.right[self.number]

    def fills(self, context: Context) -> Iterator[Wiring]:
        """One value, where all kernels of a unit are that; zeros in channels that the factor does not have."""
        partly = self.layer.depth < self.layer.channels or self.unit_bytes > self.kernels * self.layer.channels
        for unit, term in enumerate(self.layer.terms):
            if term.kernels is Kernels.VALUE or partly:
                shape, steps = (self.sets, self.unit_bytes), (self.set_bytes, 1)
                target = StridedView(self.buffer, shape, steps, unit * self.unit_bytes)
                yield from _filled(target, term.value, self.matrix.buffer, context)

    def copies(self, context: Context) -> list[Wiring]:
        """All sets in turn, or each by itself where an engine would take turns at odd steps, which none was seen to
        do."""
        made = wirings(context, self._moves())
        if all(map(_turns_seen, made)):
            return made
        firsts = ((self.first + k * self.kernels, self.start + k * self.set_bytes) for k in range(self.sets))
        alone = [replace(self, first=first, sets=1, start=start) for first, start in firsts]
        return wirings(context, [move for one in alone for move in one._moves()])

    def _moves(self) -> Iterator[Move]:
        """The kernels of each unit, set by set, eight at a time and then the rest."""
        some = self.matrix.cut(0, self.first, self.kernels * self.sets).split(0, self.sets, self.kernels)
        whole, channels, (_, depth) = self.kernels // TOGETHER, self.layer.channels, self.matrix.shape
        rest = self.kernels - whole * TOGETHER
        for unit, term in enumerate(self.layer.terms):
            if term.kernels is Kernels.VALUE:
                continue
            units = COMPLEMENT if term.kernels is Kernels.COMPLEMENTS else ()
            start = self.start + unit * self.unit_bytes
            if whole:
                source = some.cut(1, 0, whole * TOGETHER).split(1, whole, TOGETHER)
                steps = (self.set_bytes, TOGETHER * channels, 1, TOGETHER)
                target = StridedView(self.buffer, (self.sets, whole, TOGETHER, depth), steps, start)
                yield Move(source, target, units)
            if rest:
                start += whole * TOGETHER * channels
                target = StridedView(self.buffer, (self.sets, rest, depth), (self.set_bytes, 1, rest), start)
                yield Move(some.cut(1, whole * TOGETHER, rest), target, units)

    def task(self, context: Context) -> Task:
        """Units that each add a term, requantised at the end."""
        layer, units = self.layer, len(self.layer.terms)
        outline = Outline(layer.picture(), (1, 1), (0, 0, 0, 0), 1)
        configs = chain_configs([outline] * units, MODE, layer.channels, self.kernels, units)
        if configs is None:
            limit = "settings that occur in ST programs"
            raise Refusal(CONV_MODE, f"a chain of {units} units", limit, "change the zero points")
        configs = (*configs[:-1], changed(configs[-1], out_shift=layer.rule.out_shift))
        b = TaskBuilder(layer.op.origin, f"matmul {layer.op.name}")
        kernels, tail = b.read(self.buffer, kernel_engine(self.size_bytes, MODE)), ""
        for term, config in zip(layer.terms, configs, strict=True):
            of_zeros = term.features is Features.ZERO
            area = layer.picture(0 if of_zeros else self.number * layer.frame_bytes)
            reader = feature_engine(area, streams.Frames(1, 0, self.sets, 0), MODE)
            features = b.read(layer.zeros if of_zeros else layer.features, reader)
            tail = b.unit(config, features, kernels, tail or None)
        codes = requantise(b, layer.rule.units(0, 1, 1, 1), tail, {})
        target = replace(Area.whole(*layer.size, layer.columns), offset=self.number * layer.rows * layer.columns)
        writer = output_engine(target, self.kernels, self.first, self.sets)
        b.write(codes, context.buffer(layer.op.outputs[0]), writer)
        return b.done(layer.cycles(self.kernels))


def _turns_seen(wiring: Wiring) -> bool:
    b = TaskBuilder((), "")
    wiring.build(b)
    writers = (use.config for use in b.engines.values() if use.config.to_memory)
    return all(c.repeat_offset % APART == 0 for c in writers if 0 < c.frame_repeat < c.frames)


def _filled(target: StridedView, code: int, source: str, context: Context) -> list[Wiring]:
    return fill(context, target, code, source, context.buffers[source].size_bytes)


@placed_recipe("matmul")
def lower_matmul(op: Op, context: Context) -> list[TaskGroup]:
    if ATTENTION not in context.facts.asked:
        seen = "a product of two activations: its kernels would be read from RAM"
        limit = "kernels in flash, as in all but three units of ST programs"
        raise Refusal(PRODUCT_UNPROVEN, seen, limit, f"try --schedule-with {ATTENTION} on a board")
    layer = _layer(op, context)
    jobs = [packed for number, _ in enumerate(layer.right) for packed in _packed(layer, number, context)]
    context.explain(op, layer, layer.rule.error)
    first = [*_blanks(layer, context), *(wiring for job in jobs for wiring in job.fills(context))]
    features = [
        Move(view, StridedView(layer.features, view.shape, (layer.channels, 1), k * layer.frame_bytes), (SHIFT_CODES,))
        for k, view in enumerate(layer.left)
    ]
    second = [*wirings(context, features), *(wiring for job in jobs for wiring in job.copies(context))]
    title = f"features and kernels of {op.name}"
    return [
        *pack(first, op.origin, title, Purpose.KERNELS),
        *pack(second, op.origin, title, Purpose.KERNELS),
        TaskGroup(tuple(job.task(context) for job in jobs)),
    ]


def _layer(op: Op, context: Context) -> ProductLayer:
    a, b, out = (context.tensor(name) for name in (*op.inputs, *op.outputs))
    require_codes(a, b, out)
    if min(len(a.shape), len(b.shape)) < 2:
        raise Refusal(PRODUCT_SHAPE, f"shapes {a.shape} and {b.shape}", "two matrices", "reshape the vector")
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if np.prod(batch, dtype=int) > MOST_MATRICES:
        raise Refusal(PRODUCT_SHAPE, f"{batch} products", f"{MOST_MATRICES} at a time", "fewer heads or batches")
    turned = bool(op.attrs.get("transpose_a")), not op.attrs.get("transpose_b")  # both along the summed axis
    left, right = (tuple(_matrices(t, turn, batch, context)) for t, turn in zip((a, b), turned, strict=True))
    (rows, depth), (columns, _) = left[0].shape, right[0].shape
    work = len(left) * rows * columns * depth
    if work < LEAST_PRODUCT:
        raise Refusal(PRODUCT_SMALL, f"{work:,} products", f"{LEAST_PRODUCT:,}", "the CPU does as few at once")
    if depth > MOST_DEPTH:
        seen = f"sums of {depth} products"
        raise Refusal(PRODUCT_DEPTH, seen, f"{MOST_DEPTH}", "cut the sum into parts and add them")
    channels, zero = max(depth, LEAST_DEEP[MODE.feature_bytes]), a.zero_point + 128
    terms = terms_of(zero, b.zero_point)
    most = limits(MODE, 1, 1).line // channels
    height = next(n for n in range(isqrt(rows), 0, -1) if rows % n == 0)  # as square as it goes
    if rows // height > most:
        seen = f"{rows} rows of {channels}"
        raise Refusal(PRODUCT_SHAPE, seen, f"lines of {most} pixels", "a number of rows that has divisors")
    size, frame = (height, rows // height), -(-rows * channels // APART) * APART
    features = context.scratch(frame * len(left), "features")
    needed = any(term.features is Features.ZERO for term in terms)
    zeros = context.scratch(frame, "zero point") if needed else ""
    rule = _rule(op, context, depth)
    return ProductLayer(
        op, left, right, channels, size, frame, terms, features=features, zeros=zeros, rule=rule, zero=zero
    )


def _matrices(tensor: Tensor, turned: bool, batch: tuple[int, ...], context: Context) -> Iterator[StridedView]:
    """The matrix of every batch; axes of one turn, and axes that are missing in front, are the same for all."""
    view, own = StridedView.whole(context.buffer(tensor.name), tensor.shape), len(tensor.shape) - 2
    if turned:
        view = view.transpose((*range(own), own + 1, own))
    for place in np.ndindex(*batch):
        found = view
        for size, index in zip(view.shape[:own], place[len(batch) - own :], strict=True):
            found = found.pick(0, index if size > 1 else 0)
        yield found


def _rule(op: Op, context: Context, depth: int) -> Requantisation:
    left, right, out = (context.tensor(name) for name in (*op.inputs, *op.outputs))
    scale = np.atleast_1d(np.float64(left.scale * right.scale / out.scale))
    left_out = known(left.zero_point + 128, right.zero_point, depth)
    clip = op.attrs.get("clip")
    offset = out.zero_point + scale * left_out + lift(rounding_of(op, [left, right], out), out, clip)
    reach = [max(127 - t.zero_point, t.zero_point + 128) for t in (left, right)]
    largest = np.atleast_1d(np.float64(depth * reach[0] * reach[1] + abs(left_out)))
    return requantisation(scale, offset, largest, clip=clip, usual=np.atleast_1d(np.float64(out.zero_point)))


def _packed(layer: ProductLayer, number: int, context: Context) -> list[Packed]:
    """The kernels of one batch in sets, those that are left over in a set of their own; as cheap as it goes."""
    size, columns = limits(MODE, 1, 1), layer.columns
    most = min(size.kernels, size.weights // layer.channels, columns)
    kernels = min(range(1, most + 1), key=lambda n: (layer.cycles(n), -n))
    sets, rest = divmod(columns, kernels)
    made = [Packed(number, 0, kernels, sets, layer)]
    made += [Packed(number, sets * kernels, rest, 1, layer)] if rest else []
    return [replace(one, buffer=context.scratch(one.size_bytes, "kernels")) for one in made]


def _blanks(layer: ProductLayer, context: Context) -> Iterator[Wiring]:
    """Zeros behind the channels of the factor, where units take no fewer; and the zero point in every channel of every
    row, as a code, since that is what an ARITH writes."""
    missing, (rows, channels) = layer.channels - layer.depth, (layer.rows, layer.channels)
    for number, view in enumerate(layer.left if missing else ()):
        start = number * layer.frame_bytes + layer.depth
        yield from _filled(StridedView(layer.features, (rows, missing), (channels, 1), start), 0, view.buffer, context)
    if layer.zeros:
        code = layer.zero - 256 * (layer.zero > 127)
        whole = StridedView(layer.zeros, (rows * channels,), (1,))
        yield from _filled(whole, code, layer.left[0].buffer, context)
