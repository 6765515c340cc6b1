"""Products of two activations: the second factor lies as kernels in RAM, and 1x1 convolutions read it there.

The CPU packs the kernels, as an operator of its own in front of the product (`kernels.py`); with
`--schedule-with engine-kernels` stream engines do, which no published program shows. The CPU has kernels for every
product.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import Outline, chain_configs
from atonc.compiler.lower.conv.engines import feature_engine, kernel_engine, output_engine, requantise
from atonc.compiler.lower.conv.requantise import SHIFT_CODES, Requantisation, requantisation
from atonc.compiler.lower.move.copies import Move, Units, fill, wirings
from atonc.compiler.lower.product.plan import MODE, MatrixProduct, known, matrices, product_of
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.operators import multiplied
from atonc.compiler.lower.units.arith import Affine, affine_unit
from atonc.compiler.lower.units.views import StridedView
from atonc.compiler.lower.units.wiring import Wiring, pack, parts, placed_recipe
from atonc.compiler.ops.kernel_order import APART, TOGETHER, KernelOrder, UnitKernels
from atonc.compiler.ops.rounding import lift, rounding_of
from atonc.compiler.plan import streams
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import Purpose, Task, TaskGroup
from atonc.compiler.schedule.passes import ATTENTION, ENGINE_KERNELS
from atonc.compiler.select.rules import CONV_MODE, PRODUCT_UNPROVEN
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import UNITS

COMPLEMENT: Units = (affine_unit(Affine.single(-(1 << 14), -(1 << 14), 14), 0),)


@dataclass(frozen=True)
class ProductLayer:
    """One product in numbers and memories. `features`: for every batch the slices of the sum one behind the other, each
    a picture of all rows, `frame_bytes` apart; bytes behind the factor's channels are zero."""

    op: Op
    product: MatrixProduct
    features: str
    zeros: str  # one frame of the zero point, where a chain needs it; passes have theirs behind the features
    rule: Requantisation

    @property
    def frame_bytes(self) -> int:
        return -(-self.product.rows * self.product.channels // APART) * APART

    @property
    def frames(self) -> int:
        """Every batch has so many."""
        behind = not self.product.chained and self.product.zero > 0
        return self.product.slices * (1 + behind)

    def __call__(self, values: Sequence[Any]) -> list[NDArray[np.int64]]:
        """What the tasks compute."""
        product = self.product
        left = values[0] if product.turned[0] else np.swapaxes(values[0], -1, -2)
        right = np.swapaxes(values[1], -1, -2) if product.turned[1] else values[1]
        return [multiplied(left, right, product.passes, product.zero, self.rule)]


@dataclass(frozen=True)
class Packed:
    """Sets of kernels for one chain of units, of one batch."""

    number: int  # of the batch
    first: int  # kernel
    kernels: int  # of a set
    sets: int
    layer: ProductLayer
    matrix: StridedView  # [columns, depth]
    buffer: str = ""
    start: int = 0  # bytes of the buffer

    @property
    def order(self) -> KernelOrder:
        return self.layer.product.order

    @property
    def set_bytes(self) -> int:
        return self.order.set_bytes(self.kernels)

    def _units(self) -> Iterator[tuple[UnitKernels, int]]:
        """What every unit takes, and where that of the first set begins."""
        step = self.order.unit_bytes(self.kernels)
        for number, unit in enumerate(self.order.units):
            yield unit, self.start + number * step

    def fills(self, context: Context) -> Iterator[Wiring]:
        """One value, where all kernels of a unit are that; zeros in channels that the factor does not have."""
        size, step = self.order.unit_bytes(self.kernels), self.set_bytes
        for unit, start in self._units():
            of_codes = unit.keep and unit.count
            if not of_codes or size > self.kernels * unit.count:
                target = StridedView(self.buffer, (self.sets, size), (step, 1), start)
                yield from _filled(target, 0 if of_codes else unit.value, self.matrix.buffer, context)

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
        whole, channels = self.kernels // TOGETHER, self.order.channels
        rest = self.kernels - whole * TOGETHER
        for unit, start in self._units():
            if not unit.keep or not unit.count:
                continue
            some = self.matrix.cut(1, unit.first, unit.count).cut(0, self.first, self.kernels * self.sets)
            some, units = some.split(0, self.sets, self.kernels), COMPLEMENT if unit.value else ()
            if whole:
                source = some.cut(1, 0, whole * TOGETHER).split(1, whole, TOGETHER)
                steps = (self.set_bytes, TOGETHER * channels, 1, TOGETHER)
                target = StridedView(self.buffer, (self.sets, whole, TOGETHER, unit.count), steps, start)
                yield Move(source, target, units)
            if rest:
                start += whole * TOGETHER * channels
                target = StridedView(self.buffer, (self.sets, rest, unit.count), (self.set_bytes, 1, rest), start)
                yield Move(some.cut(1, whole * TOGETHER, rest), target, units)

    def task(self, context: Context) -> Task:
        """Units that each add a term, again and again where there are passes, requantised at the end."""
        layer, product = self.layer, self.layer.product
        passes, units = len(product.passes), product.passes[0]
        picture = Area.whole(*product.size, product.channels)
        outline = Outline(picture, (1, 1), (0, 0, 0, 0), 1)
        configs = chain_configs([outline] * len(units), MODE, product.channels, self.kernels, len(units), passes)
        if configs is None:
            limit = "settings that occur in ST programs"
            raise Refusal(CONV_MODE, f"a chain of {len(units)} units", limit, "change the zero points")
        shift = layer.rule.out_shift
        configs = (*configs[:-1], changed(configs[-1], out_shift=shift, **({"in_shift": shift} if passes > 1 else {})))
        b = TaskBuilder(layer.op.origin, f"matmul {layer.op.name}")
        reader = changed(kernel_engine(self.set_bytes * self.sets, MODE), address=self.start)
        kernels, tail, first = b.read(self.buffer, reader), "", self.number * layer.frames * layer.frame_bytes
        rounds = passes // layer.frames if passes > 1 else 1
        for number, (unit, config) in enumerate(zip(units, configs, strict=True)):
            place = 0 if unit.term.of_zero else first + number // len(product.terms) * layer.frame_bytes
            frames = streams.Frames(passes // rounds, layer.frame_bytes if passes > 1 else 0, rounds * self.sets, 0)
            features = feature_engine(replace(picture, offset=place), frames, MODE)
            source = layer.zeros if unit.term.of_zero else layer.features
            tail = b.unit(config, b.read(source, features), kernels, tail or None)
        gate = {"drop": passes - 1, "keep": 1} if passes > 1 else {}
        if gate:
            b.link(tail, tail, 2)
        codes = requantise(b, layer.rule.units(0, 1, 1, 1), tail, gate)
        out = self.number * product.rows * product.columns
        target = replace(Area.whole(*product.size, product.columns), offset=out)
        b.write(codes, context.buffer(layer.op.outputs[0]), output_engine(target, self.kernels, self.first, self.sets))
        return b.done(product.cycles(self.kernels))


def _turns_seen(wiring: Wiring) -> bool:
    b = TaskBuilder((), "")
    wiring.build(b)
    writers = (use.config for use in b.engines.values() if use.config.to_memory)
    return all(c.repeat_offset % APART == 0 for c in writers if 0 < c.frame_repeat < c.frames)


def _filled(target: StridedView, code: int, source: str, context: Context) -> list[Wiring]:
    return fill(context, target, code, source, context.buffers[source].size_bytes)


@placed_recipe("matmul")
def lower_matmul(op: Op, context: Context) -> list[TaskGroup]:
    by_engines = ENGINE_KERNELS in context.facts.asked and ATTENTION not in context.facts.without
    if len(op.inputs) == 2 and not by_engines:
        product_of(op, context.graph)  # a rule of its own says more
        raise Refusal(PRODUCT_UNPROVEN, "no way to write its kernels", PRODUCT_UNPROVEN.limit, PRODUCT_UNPROVEN.remedy)
    layer = _layer(op, context)
    views = list(_matrices(op, 0, layer.product, context))
    jobs = _packed(layer, context)
    context.explain(op, layer, layer.rule.error)
    first, second = [*_blanks(layer, views, context)], wirings(context, _features(layer, views))
    if by_engines:
        written = {(job.buffer, job.start): job for job in jobs}.values()
        first += [wiring for job in written for wiring in job.fills(context)]
        second += [wiring for job in written for wiring in job.copies(context)]
    title = f"features{' and kernels' * by_engines} of {op.name}"
    return [
        *pack(first, op.origin, title, Purpose.KERNELS),
        *pack(second, op.origin, title, Purpose.KERNELS),
        TaskGroup(tuple(job.task(context) for job in jobs)),
    ]


def _layer(op: Op, context: Context) -> ProductLayer:
    product = product_of(op, context.graph)
    layer = ProductLayer(op, product, "", "", _rule(op, context, product))
    size = layer.frame_bytes * layer.frames * prod(product.batch)
    needed = product.chained and product.zero > 0
    zeros = context.scratch(layer.frame_bytes, "zero point") if needed else ""
    return replace(layer, features=context.scratch(size, "features"), zeros=zeros)


def _matrices(op: Op, factor: int, product: MatrixProduct, context: Context) -> Iterator[StridedView]:
    """Those of a factor, in the order of the results, with the summed axis last."""
    tensor = context.tensor(op.inputs[factor])
    view, own = StridedView.whole(context.buffer(tensor.name), tensor.shape), len(tensor.shape) - 2
    if not product.turned[factor]:
        view = view.transpose((*range(own), own + 1, own))
    for place in matrices(product, tensor.shape):
        found = view
        for index in place:
            found = found.pick(0, index)
        yield found


def _rule(op: Op, context: Context, product: MatrixProduct) -> Requantisation:
    left, right, out = (context.tensor(name) for name in (*op.inputs[:2], *op.outputs))
    scale = np.atleast_1d(np.float64(left.scale * right.scale / out.scale))
    left_out = known(product.zero, product.kernel_zero, product.depth)
    clip = op.attrs.get("clip")
    offset = out.zero_point + scale * left_out + lift(rounding_of(op, [left, right], out), out, clip)
    largest = np.atleast_1d(np.float64(product.largest + abs(left_out)))
    usual = np.atleast_1d(np.float64(out.zero_point))
    return requantisation(scale, offset, largest, len(product.passes), clip=clip, usual=usual)


def _packed(layer: ProductLayer, context: Context) -> list[Packed]:
    """The kernels of every batch in sets, those that are left over in a set of their own. A matrix that several batches
    share is packed once."""
    product, order = layer.product, layer.product.order
    shape = context.tensor(layer.op.inputs[1]).shape
    size, (sets, rest) = order.matrix_bytes(product.columns), divmod(product.columns, order.kernels)
    given = layer.op.inputs[2:]
    buffer = context.buffer(given[0]) if given else context.scratch(size * prod(shape[:-2]), "kernels")
    made, places = [], matrices(product, shape)
    for number, (place, view) in enumerate(zip(places, _matrices(layer.op, 1, product, context), strict=True)):
        start = size * int(np.ravel_multi_index(place, shape[:-2])) if place else 0
        made.append(Packed(number, 0, order.kernels, sets, layer, view, buffer, start))
        if rest:
            behind, done = start + order.whole_sets(product.columns), sets * order.kernels
            made.append(Packed(number, done, rest, 1, layer, view, buffer, behind))
    return made


def _features(layer: ProductLayer, views: Sequence[StridedView]) -> Iterator[Move]:
    channels, depth = layer.product.channels, layer.product.depth
    for number, view in enumerate(views):
        for k, first in enumerate(range(0, depth, channels)):
            some, place = view.cut(1, first, min(channels, depth - first)), number * layer.frames + k
            target = StridedView(layer.features, some.shape, (channels, 1), place * layer.frame_bytes)
            yield Move(some, target, (SHIFT_CODES,))


def _blanks(layer: ProductLayer, views: Sequence[StridedView], context: Context) -> Iterator[Wiring]:
    """Zeros behind the channels of the factor, where units take no fewer; and the zero point in every channel of every
    row, as a code, since that is what an ARITH writes."""
    product, step = layer.product, layer.frame_bytes
    rows, channels, slices = product.rows, product.channels, product.slices
    missing = slices * channels - product.depth
    code = product.zero - 256 * (product.zero > 127)
    for number, view in enumerate(views):
        last = (number * layer.frames + slices) * step  # one past the frames of the factor
        if missing:
            start = last - step + channels - missing
            target = StridedView(layer.features, (rows, missing), (channels, 1), start)
            yield from _filled(target, 0, view.buffer, context)
        if layer.frames > slices:
            whole = StridedView(layer.features, (step * slices,), (1,), last)
            yield from _filled(whole, code, view.buffer, context)
    if layer.zeros:
        for start, count in parts(rows * channels, UNITS["ARITH"]):
            some = StridedView(layer.zeros, (count,), (1,), start)
            yield from _filled(some, code, views[0].buffer, context)
