"""Products of two activations: the second factor is packed as kernels into RAM, then 1x1 convolutions read it there.

Kernels that are read from RAM are in three units of one published program, so this is off unless asked for
(`--schedule-with attention`); the CPU has kernels for every product.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import FeatureMode, Outline, chain_configs, limits
from atonc.compiler.lower.conv.engines import feature_engine, kernel_engine, output_engine, requantise
from atonc.compiler.lower.conv.requantise import Requantisation, requantisation
from atonc.compiler.lower.product.operands import Matrices, matrices_of
from atonc.compiler.lower.product.packing import (
    FeatureFrames,
    Packed,
    blank_channels,
    feature_copies,
    frame_step,
    kernel_copies,
    kernel_fills,
    zero_picture,
)
from atonc.compiler.lower.product.terms import MOST_DEPTH, Features, ProductTerm, known, terms_of
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.products import multiplied
from atonc.compiler.lower.units.wiring import Wiring, pack, placeable
from atonc.compiler.ops.rounding import lift, rounding_of
from atonc.compiler.plan import streams
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.policy import EPOCH_CYCLES, LEAST_PRODUCT
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import Purpose, Task, TaskGroup
from atonc.compiler.select.rules import CONV_MODE, PRODUCT_DEPTH, PRODUCT_SHAPE, PRODUCT_SMALL, PRODUCT_UNPROVEN
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import LEAST_DEEP
from atonc.machine.hw.units.convacc import ConvaccConfig

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
    jobs = [
        (number, packed) for number, _ in enumerate(layer.matrices.right) for packed in _packed(layer, context)
    ]
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
    return [
        Packed(context.scratch(p.size_bytes, "kernels"), p.first, p.kernels, p.sets, depth, p.terms) for p in made
    ]


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
