"""Both halves of a convolution in one epoch: a unit for the high bytes, one for the low bytes, and their sum.

    acc = sat16(high >> h) + sat16(low >> (h + 8)),   y = clip(scaled(acc) + bias)

Chains of two single units that are added were seen; so that is for layers whose channels one unit holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import FeatureMode, chain_configs, least_batch
from atonc.compiler.lower.conv.dense_chain import Sets, add_chain, meaning
from atonc.compiler.lower.conv.depthwise import DepthwiseBlocks, add_units, exact_cut, meaning_of
from atonc.compiler.lower.conv.engines import output_engine
from atonc.compiler.lower.conv.kernel_parts import Part, unit_parts
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.conv.tiling import Slots, Tiling, can_read
from atonc.compiler.lower.conv.weight_sums import magnitudes, weight_sums
from atonc.compiler.lower.conv.wide import SUM
from atonc.compiler.lower.conv.wide_results import MOST_SHIFT, WideRequantisation, weighed
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited
from atonc.compiler.lower.semantics.sums import LoweredSums, SumChain, requantised
from atonc.compiler.lower.sixteen.halves import Halves
from atonc.compiler.lower.sixteen.joining import HIGHEST, WideSum
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.select.rules import CONV_MODE, SCALES, SUM_ROOM, WIDE_CLIP
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import MOST_OUT_SHIFT, SUM_LIMIT, UNITS, convacc_sizes
from atonc.machine.hw.safety.evidence.seen import units_trusted
from atonc.machine.hw.units.arith import ROWS

Real = NDArray[np.float64]

KERNELS = (24, 16, 12, 8, 6, 4, 2, 1)  # of a frame, the same in both units
BYTE = 8  # bits


@dataclass(frozen=True, eq=False)
class HalfUnit:
    """One unit: `add` wires it with a shift, `chain` is what it sums, `offset` what it takes from its features."""

    layer: ConvLayer
    kernels: int
    chain: SumChain
    add: Callable[[TaskBuilder, Context, int], str]


@dataclass(frozen=True, eq=False)
class PairOfHalves:
    """What the tasks compute."""

    halves: Halves
    units: tuple[HalfUnit, HalfUnit]
    rule: WideRequantisation
    limits: WideSum
    shape: tuple[int, ...]

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        codes, acc = ints(values[0]), np.zeros(1, np.int64)
        shifts = self.rule.out_shift, self.rule.out_shift + BYTE
        for half, unit, shift in zip((self.halves.high, self.halves.low), self.units, shifts, strict=True):
            features = unit.layer.stored(np.ascontiguousarray(self.halves.codes(half)(codes)).reshape(-1))
            acc = acc + _sums(unit, shift).chain_sums(features, unit.chain)
        found = requantised(self.rule, limited(acc, 16))
        for step in self.limits.back():
            found = limited(found + step, 16)
        return [found.reshape(self.shape)]


def _sums(unit: HalfUnit, shift: int) -> LoweredSums:
    layer = unit.layer
    nothing: Ints = np.zeros(layer.outputs, np.int64)
    multiplier = layer.outputs // layer.area.channels if _is_depthwise(layer) else 0
    rule = Requantisation(shift, nothing, nothing, 0)
    return LoweredSums(layer.stored, (unit.chain,), rule, layer.out, 0, layer.outputs, multiplier)


def _is_depthwise(layer: ConvLayer) -> bool:
    return layer.weights.shape[3] == 1 and int(layer.op.attrs.get("groups", 1)) > 1


def pair_of(
    layers: tuple[ConvLayer, ConvLayer], halves: Halves, limits: WideSum, context: Context
) -> tuple[list[TaskGroup], PairOfHalves, float]:
    """The task of both halves, what it computes, and its error in codes. `layers`: as the recipes for bytes see them,
    with results in codes of the output; the bias belongs to the low one."""
    if limits.high < HIGHEST:
        raise Refusal(WIDE_CLIP, f"a clip at {limits.high}", "the end of 16 bits", "clip in a step of its own")
    units = _units(layers)
    high, low = layers
    gain = low.scale
    zero = sum(unit.chain.subtracted - unit.layer.zero for unit in units[1:])
    if units[0].chain.subtracted != high.zero:
        raise Refusal(CONV_MODE, "high bytes with a zero point inside", "none", "read them signed")
    offset = low.offset + gain * weight_sums(low.weights) * zero
    rule, error = _rule(low, gain, offset, limits)
    b = TaskBuilder(high.origin, f"conv {high.op.outputs[0]}")
    shifts = rule.out_shift, rule.out_shift + BYTE
    tails = [unit.add(b, context, shift) for unit, shift in zip(units, shifts, strict=True)]
    stream, out = b.unit(SUM, *tails), high.out
    back = [*rule.units(0, high.outputs, units[0].kernels, out.height * out.width), *limits.back_units()]
    if 1 + len(back) > UNITS["ARITH"]:
        raise Refusal(CONV_MODE, f"{1 + len(back)} ARITHs", f"{UNITS['ARITH']}", "join the halves in a second epoch")
    for unit in back:
        stream = b.unit(unit, stream)
    b.write(stream, high.target, output_engine(out, units[0].kernels, 0, high.outputs // units[0].kernels))
    shape = context.tensor(high.op.outputs[0]).shape
    return [b.alone()], PairOfHalves(halves, units, rule, limits, shape), error


def _rule(low: ConvLayer, gain: Real, offset: Real, limits: WideSum) -> tuple[WideRequantisation, float]:
    """From sums of both halves in steps of 2^(h + 8)."""
    most = magnitudes(low.weights).astype(np.float64)
    if most.max(initial=0.0) * 255 > SUM_LIMIT:
        seen = f"sums of {low.op.name} beyond 24 bits"
        raise Refusal(SUM_ROOM, seen, "24 bits inside units", "cut the layer in two")
    shown = np.minimum(most * (HIGHEST + 1), (HIGHEST + 3 + np.abs(offset)) / np.maximum(np.abs(gain), 1e-30))
    needed = shown + 2 * 255 * most  # what a half may be beyond the whole, and a zero point that is left in it
    shift = max(BYTE, ceil(log2(max(float(needed.max(initial=0.0)), 1.0) / HIGHEST)))
    if shift > MOST_OUT_SHIFT:
        raise Refusal(CONV_MODE, f"a shift of {shift}", f"{MOST_OUT_SHIFT}", "join the halves in a second epoch")
    steep = gain * 2.0**shift
    fine = min(MOST_SHIFT, int(np.floor(np.log2((HIGHEST + 0.49) / max(float(np.abs(steep).max()), 1e-30)))))
    if fine < 1:
        raise Refusal(SCALES, f"{float(np.abs(steep).max()):g} codes a step", "16 bits", "check the scales")
    factors = np.rint(steep * 2.0**fine).astype(np.int64)
    addends = np.rint((offset + limits.ahead) * 2.0**fine).astype(np.int64)
    if np.abs(addends).max(initial=0) > 2 * HIGHEST << fine:
        raise Refusal(SCALES, "a bias beyond 17 bits", "65,534 codes", "join the halves in a second epoch")
    reach = float((np.abs(gain) * needed).max(initial=0.0))
    rule, more = weighed(WideRequantisation(shift - BYTE, factors, addends, fine), reach)
    return rule, float(np.abs(steep).max()) + (HIGHEST + 1) * 0.5 * 2.0**-fine + 1.0 + more


def _units(layers: tuple[ConvLayer, ConvLayer]) -> tuple[HalfUnit, HalfUnit]:
    """The same kernels a frame in both."""
    outputs = layers[0].outputs
    if outputs > ROWS:
        raise Refusal(CONV_MODE, f"{outputs} outputs", f"{ROWS} coefficients", "join the halves in a second epoch")
    windows = [_window(layer) for layer in layers]
    for kernels in KERNELS:
        if outputs % kernels == 0:
            found = [_unit(layer, parts, kernels) for layer, parts in zip(layers, windows, strict=True)]
            if found[0] is not None and found[1] is not None:
                return found[0], found[1]
    raise Refusal(CONV_MODE, f"{layers[0].area.channels} channels", "what one unit holds", "use chains of units")


def _window(layer: ConvLayer) -> tuple[Part, ...]:
    if layer.weights.shape[3] < layer.area.channels and not _is_depthwise(layer):
        seen = f"{layer.area.channels // layer.weights.shape[3]} groups"
        raise Refusal(CONV_MODE, seen, "all channels in a sum, or one", "join the halves in a second epoch")
    phases = layer.phases((layer.out.height, layer.out.width))
    parts = unit_parts(phases[0], 0, layer.outputs, layer.trust) if len(phases) == 1 else ()
    if len(parts) != 1:
        raise Refusal(CONV_MODE, f"a kernel of {layer.weights.shape[1:3]}", "one window", "use chains of units")
    return parts


def _unit(layer: ConvLayer, parts: tuple[Part, ...], kernels: int) -> HalfUnit | None:
    if _is_depthwise(layer):
        return _depthwise_unit(layer, parts, kernels)
    tiling = next((found for mode in layer.modes() if (found := _single(layer, parts, mode, kernels))), None)
    if tiling is None:
        return None

    def add(b: TaskBuilder, context: Context, shift: int) -> str:
        return add_chain(b, layer, context, Sets(parts, tiling, 0, layer.outputs // kernels), shift)

    return HalfUnit(layer, kernels, meaning(parts, tiling), add)


def _single(layer: ConvLayer, parts: tuple[Part, ...], mode: FeatureMode, kernels: int) -> Tiling | None:
    """One unit that holds all channels at once, in settings that were seen."""
    channels, (rows, columns) = layer.area.channels, parts[0].window
    sizes = convacc_sizes(rows, columns, mode.simd, mode.deep)
    fits = kernels <= sizes.kernels and least_batch(mode, rows) <= channels <= sizes.channels
    long = layer.area.width * channels > sizes.line
    if not fits or long or kernels * channels * rows * columns > sizes.weights:
        return None
    if not can_read(mode, [part.area for part in parts], channels):
        return None
    configs = chain_configs(parts, mode, channels, kernels, 1)
    if configs is None or not units_trusted(configs, layer.trust):
        return None
    return Tiling(mode, Slots(channels, 1, channels, channels), kernels, 1, configs, 0, 0)


def _depthwise_unit(layer: ConvLayer, parts: tuple[Part, ...], kernels: int) -> HalfUnit | None:
    if layer.outputs != layer.area.channels:
        return None
    for subtracted in layer.subtracted():
        cut = exact_cut(layer, kernels, subtracted, parts)
        if cut is not None and (cut.kernels, cut.repeats, cut.batch) == (kernels, 1, kernels):
            blocks = DepthwiseBlocks(parts, cut, 0, layer.outputs // kernels)

            def add(b: TaskBuilder, context: Context, shift: int, blocks: DepthwiseBlocks = blocks) -> str:
                return add_units(b, layer, context, blocks, shift)

            return HalfUnit(layer, kernels, meaning_of(parts, cut), add)
    return None
