"""Kernels with more parts than a chain has units: partial results of 16 bits in memory, summed by ARITH."""

from __future__ import annotations

from atonc.hw.units.arith import ArithConfig
from atonc.lower.context import Context
from atonc.lower.convolution import Part
from atonc.lower.layer import Layer, output_engine
from atonc.lower.requantise import channel_unit
from atonc.lower.tiling import MAX_CHAIN, Tiling, choose
from atonc.plan.build import EpochBuilder
from atonc.plan.streams import Area, Frames, engine
from atonc.plan.types import StepPlan

SUM = ArithConfig(
    dual_input=1, a=1, b=1, bytes_x=2, out_bytes_x=2, bytes_y=2, out_bytes_y=2, out_bytes=2, rounded=1, saturated=1,
    round_mode=1,
)  # fmt: skip


def sum_parts(
    layer: Layer, context: Context, parts: tuple[Part, ...], target: Area, first: int, count: int
) -> list[StepPlan]:
    """Chains of up to four parts one after the other, then their sum."""
    chunks = [parts[k : k + MAX_CHAIN] for k in range(0, len(parts), MAX_CHAIN)]
    tilings = [choose(chunk, layer.area.channels, count, layer.modes(parts), layer.op.name) for chunk in chunks]
    kernels = min(t.kernels for t in tilings)
    while count % kernels:
        kernels -= 1
    tilings = [_with_kernels(chunk, t, kernels, layer) for chunk, t in zip(chunks, tilings, strict=True)]
    roundings = sum(t.passes for t in tilings)
    rule = layer.requantisation(tilings[0].mode.offset, roundings + 1)
    plans: list[StepPlan] = []
    partial = []
    elements = target.height * target.width * count
    for chunk, tiling in zip(chunks, tilings, strict=True):
        partial.append(context.scratch(2 * elements, "parts of a kernel"))
        plans.append(_partial(layer, context, chunk, tiling, first, count, rule.out_shift, partial[-1]))
    while len(partial) > 2:
        total = context.scratch(2 * elements, "sum of parts")
        plans.append(_add(layer, partial[0], partial[1], total, elements))
        partial = [total, *partial[2:]]
    plans.append(_finish(layer, partial, target, rule, first, count, kernels))
    return plans


def _with_kernels(chunk: tuple[Part, ...], tiling: Tiling, kernels: int, layer: Layer) -> Tiling:
    """The same cut with fewer kernels a frame, so that all partial results have one order."""
    from dataclasses import replace

    configs = []
    for unit, config in enumerate(tiling.configs):
        filters = {}
        if tiling.units > 1:
            filters = {"kernels_per_round": tiling.units * kernels, "kernel_first": unit * kernels}
            filters["kernel_last"] = (unit + 1) * kernels - 1
        configs.append(replace(config, kernels=kernels, **filters))
    return replace(tiling, kernels=kernels, configs=tuple(configs))


def _partial(
    layer: Layer,
    context: Context,
    parts: tuple[Part, ...],
    tiling: Tiling,
    first: int,
    count: int,
    out_shift: int,
    scratch: str,
) -> StepPlan:
    from atonc.lower.conv_dense import add_chain

    groups = count // tiling.kernels
    b = EpochBuilder(layer.origin, f"part of conv {layer.op.name}")
    tail = add_chain(b, layer, context, parts, tiling, first, groups, out_shift)
    gate = {"drop": tiling.passes - 1, "keep": 1} if tiling.passes > 1 else {}
    height, width = parts[0].out_size
    b.write(tail, scratch, engine(_flat(height * width * count), write=True), **gate)
    return b.done()


def _flat(elements: int) -> Area:
    return Area(1, 1, elements, 2 * elements, 2 * elements, 0, 2)


def _add(layer: Layer, left: str, right: str, total: str, elements: int) -> StepPlan:
    b = EpochBuilder(layer.origin, f"sum of parts of conv {layer.op.name}")
    both = [b.read(buffer, engine(_flat(elements))) for buffer in (left, right)]
    b.write(b.unit(SUM, *both), total, engine(_flat(elements), write=True))
    return b.done()


def _finish(
    layer: Layer, partial: list[str], target: Area, rule: object, first: int, count: int, kernels: int
) -> StepPlan:
    pixels = target.height * target.width
    b = EpochBuilder(layer.origin, f"conv {layer.op.name} from its parts")
    both = [b.read(buffer, engine(_flat(pixels * count))) for buffer in partial]
    summed = b.unit(SUM, *both)
    arith = b.unit(channel_unit(rule, first, count, kernels, pixels), summed)
    b.write(arith, layer.target, output_engine(target, kernels, first, count // kernels))
    return b.done()


__all__ = ["Frames", "sum_parts"]
