"""Convolutions and dense layers on codes of 16 bits: decisions in front of those for bytes.

`passes`: features of two bytes, or a layer for the high bytes and one for the low ones, whose results are added.

    y = u * high16 + v * low16,   high16 = sum(high * w) * 256 * scale / u,   low16 = (sum(low * w) * scale + bias) / v

Sums of 16-bit features would leave the 24 bits that units are known to hold; sums of bytes do not. u and v are the
least powers of two with which no half saturates before the whole does. Each half is a layer of bytes, and decided as
such (`conv.recipe`).

`epochs`: those of each half, or one for both: a unit for the high bytes, one for the low bytes, and their sum. Chains
of two single units that are added were seen; so that is for layers whose channels one unit holds.

    acc = sat16(high >> h) + sat16(low >> (h + 8)),   y = clip(scaled(acc) + bias)

One pass: features of two bytes, as many bits of them as sums of 24 bits hold. The operator before writes its results
like that where only such layers read them (`coarse_tensors`); else one ARITH makes a copy. What is rounded away are k
of 16 bits.

    stored = round(x / 2^k) + 1,   y = clip(scale * 2^k * sum((stored - 1) * w) + bias)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from math import ceil, log2
from typing import Any

import numpy as np

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv import recipe as bytes_recipe
from atonc.compiler.lower.conv.dense_chain import Sets, add_chain, meaning
from atonc.compiler.lower.conv.depthwise import DepthwiseBlocks, add_units, exact_cut, is_depthwise, meaning_of
from atonc.compiler.lower.conv.engines import output_engine
from atonc.compiler.lower.conv.kernel_parts import Part, unit_parts
from atonc.compiler.lower.conv.layer import ConvLayer, layer_of
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.conv.tiling import of_one_unit
from atonc.compiler.lower.conv.weight_sums import Codes, extreme_sums, magnitudes, summed, weight_sums
from atonc.compiler.lower.conv.wide import SUM
from atonc.compiler.lower.conv.wide_results import MOST_SHIFT, SCALAR, WideRequantisation, weighed
from atonc.compiler.lower.registry import Refusal, recipe
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited
from atonc.compiler.lower.semantics.sums import LoweredSums, SumChain, requantised
from atonc.compiler.lower.sixteen.functions import KINDS as FUNCTION_KINDS
from atonc.compiler.lower.sixteen.streams import (
    HIGHEST,
    LOWEST,
    ZERO,
    Real,
    WideSum,
    bytes_of,
    high_codes,
    is_centred,
    low_codes,
    move_unit,
    never_negative,
    require_centred,
    through,
)
from atonc.compiler.lower.units.wiring import passed
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.coarse import CoarseCodes
from atonc.compiler.plan.policy import WIDE_STEP
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.schedule.passes import ONE_PASS as ONE_PASS_WANTED
from atonc.compiler.select.enumerate import (
    AS_IT_IS,
    Deciding,
    Drawing,
    Found,
    Pieces,
    Steps,
    best,
    enumerated,
    only,
    tried,
)
from atonc.compiler.select.form import RefusedForm, Semantics
from atonc.compiler.select.rules import (
    COARSE,
    CONV_MODE,
    CONV_WEIGHTS,
    SCALES,
    SUM_ROOM,
    WIDE_CODES,
    WIDE_SUMS,
)
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import MOST_OUT_SHIFT, SUM_LIMIT, UNITS
from atonc.machine.hw.safety.evidence.epochs import WHOLE
from atonc.machine.hw.units.arith import ROWS

ONE_PASS, TWO_PASSES, UNSIGNED = Variant("one pass"), Variant("two passes"), Variant("unsigned passes")
ONE_EPOCH, TWO_LAYERS = Variant("one epoch"), Variant("two layers")
KERNELS = (24, 16, 12, 8, 6, 4, 2, 1)  # of a frame, the same in both units
BYTE = 8  # bits
_MOST_WEIGHT = 8  # u and v: beyond, halves are too coarse to be worth it
_ROUNDING = 0.5  # codes: of the second unit of the low half
_COPY = "coarser codes"
_MOST_COARSE = 32.0  # codes of 8 bits, whatever the user allows: then 8 bits would do
_SIGMAS = 5.0  # of independent roundings, that their sum stays below: all but one value in a million
_MOST_FINER = 3  # bits more than whole sums would hold: each doubles the slices
_AS_THEY_ARE = CoarseCodes(0, 0)
_CLIPS = ((LOWEST, HIGHEST), (0, HIGHEST))


@recipe("conv", "dense", "transpose_conv", wide=True)
def lower_sums(op: Op, context: Context) -> list[TaskGroup]:
    return lower_layer(op, context, context.tensor(op.inputs[1]))


def lower_layer(op: Op, context: Context, weights: Tensor) -> list[TaskGroup]:
    """A convolution, or what can be seen as one."""
    require_centred(context.tensor(op.inputs[0]), context.tensor(op.outputs[0]))
    if context.numerics == "2.x":
        raise Refusal(WIDE_CODES, "16 bits with the numbers of ST's 2.x", "8 bits there", "leave out --numerics 2.x")
    if not _are_weights(weights):
        seen = f"weights of type {weights.dtype}{'' if weights.is_constant else ', not constant'}"
        raise Refusal(CONV_WEIGHTS, seen, "constant 8-bit weights", "quantise the weights to int8 (16x8)")
    found = enumerated(_wide_layer(op, weights, context), context, DECISIONS)
    return context.take(found if isinstance(found, RefusedForm) else found.whole)


def _wide_layer(op: Op, weights: Tensor, context: Context) -> ConvLayer:
    """On codes as they are."""
    return replace(layer_of(op, context, weights), never_negative=never_negative(op.inputs[0], context.graph))


def passes(layer: ConvLayer, draft: Context) -> Deciding:
    """High bytes that are never negative may be read without a sign: that costs less in some layers, more in others."""
    if not draft.coarse.keys().isdisjoint((layer.op.inputs[0], layer.op.outputs[0])):
        return (yield from in_one_pass(layer, draft))
    unsigned = [(UNSIGNED, (TwoPasses(True),))] if layer.never_negative else []
    rows: list[tuple[Variant, Steps | Deciding]] = [
        (ONE_PASS, in_one_pass(layer, draft)),
        *unsigned,
        (TWO_PASSES, (TwoPasses(False),)),
    ]
    offers, refused = yield from tried(rows)
    if not offers:
        return refused[-1]
    return best(offers)[1].after(refused if offers[-1][0] == TWO_PASSES else ())


def epochs(subject: ConvLayer | TwoHalfLayers, draft: Context) -> Deciding | None:
    return _epochs(subject) if isinstance(subject, TwoHalfLayers) else None


def _epochs(halves: TwoHalfLayers) -> Deciding:
    rows: list[tuple[Variant, Steps]] = [(TWO_LAYERS, (ALayerForEach(),))]
    if halves.whole.op.kind != "transpose_conv":
        rows.append((ONE_EPOCH, (Drawing(partial(_in_one_epoch, halves)),)))
    offers, refused = yield from tried(rows)
    return best(offers)[1].after(refused) if offers else refused[0]


DECISIONS = (passes, epochs, *bytes_recipe.DECISIONS)


# --------------------------------------------------------------------------------------------- a layer for each half


@dataclass(frozen=True, eq=False)
class TwoHalfLayers:
    """Layers of bytes, whose results in codes of the output add up to those of the whole; the bias belongs to the low
    one."""

    whole: ConvLayer
    high: ConvLayer
    low: ConvLayer


@dataclass(frozen=True)
class TwoPasses:
    """On the bytes of the features; the high ones have a sign or not."""

    unsigned: bool

    def prepare(self, layer: ConvLayer, draft: Context) -> TwoHalfLayers:
        high, low, groups = bytes_of(draft.tensor(layer.op.inputs[0]), draft, layer.origin, self.unsigned)
        draft.before += groups
        changes = {"scale": 256 * layer.scale, "offset": 0 * layer.offset, "features_shifted": self.unsigned}
        highs = _half(layer, "high", high_codes, source=high, **changes)
        return TwoHalfLayers(layer, highs, _half(layer, "low", low_codes, source=low, zero=ZERO))


def _half(layer: ConvLayer, name: str, stored: Callable[[Codes], Codes], **changes: Any) -> ConvLayer:
    """A layer of bytes, which are made of codes of 16 bits."""
    op = replace(layer.op, name=f"{layer.op.outputs[0]} {name}", origin=layer.origin)
    area = Area.whole(layer.area.height, layer.area.width, layer.area.channels)
    return _seen(replace(layer, op=op, area=area, clip=None, coarse=None, **changes), stored)


def _seen(layer: ConvLayer, stored: Callable[[Codes], Codes]) -> ConvLayer:
    """The layer on what becomes of codes of 16 bits."""
    whole = layer.typical

    def typical() -> tuple[Codes, ...]:
        return tuple(stored(codes).astype(np.int32) for codes in whole())

    return replace(layer, stored=stored, typical=typical)


@dataclass(frozen=True, eq=False)
class TwoHalves:
    """What the tasks compute."""

    halves: tuple[Semantics, Semantics]
    total: WideSum

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        return [self.total(*(ints(half.codes(values)[0]) for half in self.halves))]

    @property
    def error(self) -> float:
        """Expected largest distance from exact arithmetic, in codes: both halves round to the nearest at the end."""
        weights = self.total.a, self.total.b
        return sum(weight * (half.error + _ROUNDING) for weight, half in zip(weights, self.halves, strict=True))


@dataclass(frozen=True)
class ALayerForEach:
    def prepare(self, halves: TwoHalfLayers, draft: Context) -> Pieces:
        weights = _weights(halves.whole)
        layers = list[ConvLayer]()
        for half, weight in zip((halves.high, halves.low), weights, strict=True):
            target = draft.scratch(2 * half.results, "inside 16 bits")
            one = replace(half, target=target, scale=half.scale / weight, offset=half.offset / weight)
            layers.append(bytes_recipe.as_plain(one) if one.op.kind == "transpose_conv" else one)
        total = WideSum.clipped(halves.whole.clip, *weights)
        return Pieces(tuple((layer, AS_IT_IS) for layer in layers), partial(_added, halves.whole, layers, total))


def _added(
    whole: ConvLayer, layers: Sequence[ConvLayer], total: WideSum, draft: Context, groups: list[list[TaskGroup]]
) -> list[TaskGroup]:
    """Halves do not depend on each other."""
    high, low = (draft.semantics.pop(layer.op.name) for layer in layers)
    meaning = TwoHalves((high, low), total)
    draft.explain(whole.op, meaning, meaning.error, min(high.room, low.room))
    both = [TaskGroup((*a.tasks, *b.tasks)) for a, b in zip_longest(*groups, fillvalue=TaskGroup(()))]
    named, sources = (whole.origin, f"halves of {whole.op.name}"), [layer.target for layer in layers]
    return [*both, through(sources, whole.target, whole.results, total.units(), named)]


def _weights(layer: ConvLayer) -> tuple[int, int]:
    """What each half counts in, so that it holds all that matters: the high one has to go beyond the codes by what the
    low one could take off again."""
    low = layer.magnitudes * 255 * layer.scale + np.abs(layer.offset)
    possible = np.max([extreme_sums(kernel, -128, 127) for kernel in summed(layer)], axis=0) * layer.scale * 256
    high = np.minimum(possible, HIGHEST + 1 + low)
    return _unit(high), _unit(low)


def _unit(needed: Real) -> int:
    found = 1 << max(0, ceil(log2(max(float(needed.max(initial=0.0)), 1.0) / HIGHEST)))
    if not found <= _MOST_WEIGHT:
        seen = f"a half of the sums reaches {found} times the codes of the output"
        remedy = "check the scales: the output's is too small for its sums"
        raise Refusal(WIDE_SUMS, seen, f"{_MOST_WEIGHT} times", remedy)
    return found


# ------------------------------------------------------------------------------------------ both halves in one epoch


@dataclass(frozen=True, eq=False)
class HalfUnit:
    """One unit, the kernels that it takes one after the other, and what it sums."""

    layer: ConvLayer
    sets: Sets | DepthwiseBlocks
    chain: SumChain

    def add(self, b: TaskBuilder, context: Context, shift: int) -> str:
        if isinstance(self.sets, Sets):
            return add_chain(b, self.layer, context, self.sets, shift)
        return add_units(b, self.layer, context, self.sets, shift)

    def sums(self, shift: int) -> LoweredSums:
        layer, nothing = self.layer, np.zeros(self.layer.outputs, np.int64)
        multiplier = layer.outputs // layer.area.channels if is_depthwise(layer) else 0
        rule = Requantisation(shift, nothing, nothing, 0)
        return LoweredSums(layer.stored, (self.chain,), rule, layer.out, 0, layer.outputs, multiplier)


@dataclass(frozen=True, eq=False)
class PairOfHalves:
    """What the tasks compute."""

    sums: tuple[LoweredSums, ...]
    rule: WideRequantisation
    limits: WideSum
    shape: tuple[int, ...]

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        codes, acc = np.ascontiguousarray(ints(values[0])).reshape(-1), np.zeros(1, np.int64)
        for half in self.sums:
            acc = acc + half.chain_sums(half.features(codes), half.chains[0])
        return [self.limits.limited(requantised(self.rule, limited(acc, 16))).reshape(self.shape)]


def _in_one_epoch(halves: TwoHalfLayers, draft: Context) -> list[TaskGroup]:
    layer, high, low = halves.whole, halves.high, halves.low
    limits = WideSum.clipped(layer.clip)
    kernels, units = _units((high, low))
    zero = units[1].chain.subtracted - low.zero
    if units[0].chain.subtracted != high.zero:
        raise Refusal(CONV_MODE, "high bytes with a zero point inside", "none", "read them signed")
    rule, error = _rule(low, low.scale, low.offset + low.scale * weight_sums(low.weights) * zero, limits)
    b = TaskBuilder(layer.origin, f"conv {layer.op.outputs[0]}")
    shifts = rule.out_shift, rule.out_shift + BYTE
    tails = [unit.add(b, draft, shift) for unit, shift in zip(units, shifts, strict=True)]
    summed_up, out = b.unit(SUM, *tails), layer.out
    back = [*rule.units(0, layer.outputs, kernels, out.height * out.width), *map(move_unit, limits.moves)]
    if 1 + len(back) > UNITS["ARITH"]:
        raise Refusal(CONV_MODE, f"{1 + len(back)} ARITHs", f"{UNITS['ARITH']}", "join the halves in a second epoch")
    b.write(passed(b, summed_up, back), layer.target, output_engine(out, kernels, 0, layer.outputs // kernels))
    sums = tuple(unit.sums(shift) for unit, shift in zip(units, shifts, strict=True))
    draft.explain(layer.op, PairOfHalves(sums, rule, limits, draft.tensor(layer.op.outputs[0]).shape), error)
    return [b.alone()]


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
    addends = np.rint((offset + limits.steps[0]) * 2.0**fine).astype(np.int64)
    if np.abs(addends).max(initial=0) > 2 * HIGHEST << fine:
        raise Refusal(SCALES, "a bias beyond 17 bits", "65,534 LSB", "join the halves in a second epoch")
    reach = float((np.abs(gain) * needed).max(initial=0.0))
    rule, more = weighed(WideRequantisation(shift - BYTE, factors, addends, fine), reach)
    return rule, float(np.abs(steep).max()) + (HIGHEST + 1) * 0.5 * 2.0**-fine + 1.0 + more


def _units(layers: tuple[ConvLayer, ConvLayer]) -> tuple[int, tuple[HalfUnit, HalfUnit]]:
    """So many kernels a frame in both."""
    outputs = layers[0].outputs
    if outputs > ROWS:
        raise Refusal(CONV_MODE, f"{outputs} outputs", f"{ROWS} coefficients", "join the halves in a second epoch")
    windows = [_window(layer) for layer in layers]
    for kernels in KERNELS:
        if outputs % kernels == 0:
            found = [_half_unit(layer, parts, kernels) for layer, parts in zip(layers, windows, strict=True)]
            if found[0] is not None and found[1] is not None:
                return kernels, (found[0], found[1])
    raise Refusal(CONV_MODE, f"{layers[0].area.channels} channels", "what one unit holds", "use chains of units")


def _window(layer: ConvLayer) -> tuple[Part, ...]:
    if layer.weights.shape[3] < layer.area.channels and not is_depthwise(layer):
        seen = f"{layer.area.channels // layer.weights.shape[3]} groups"
        raise Refusal(CONV_MODE, seen, "all channels in a sum, or one", "join the halves in a second epoch")
    phases = layer.phases((layer.out.height, layer.out.width))
    parts = unit_parts(phases[0], 0, layer.outputs, layer.trust) if len(phases) == 1 else ()
    if len(parts) != 1:
        raise Refusal(CONV_MODE, f"a kernel of {layer.weights.shape[1:3]}", "one window", "use chains of units")
    return parts


def _half_unit(layer: ConvLayer, parts: tuple[Part, ...], kernels: int) -> HalfUnit | None:
    if is_depthwise(layer):
        return _depthwise_unit(layer, parts, kernels)
    tiling = of_one_unit(parts, layer.area.channels, kernels, layer.modes(), layer.made_for)
    if tiling is None:
        return None
    return HalfUnit(layer, Sets(parts, tiling, 0, layer.outputs // kernels), meaning(parts, tiling))


def _depthwise_unit(layer: ConvLayer, parts: tuple[Part, ...], kernels: int) -> HalfUnit | None:
    if layer.outputs != layer.area.channels:
        return None
    for subtracted in layer.subtracted():
        cut = exact_cut(layer, kernels, subtracted, parts)
        if cut is not None and (cut.kernels, cut.repeats, cut.batch) == (kernels, 1, kernels):
            return HalfUnit(layer, DepthwiseBlocks(parts, cut, 0, layer.outputs // kernels), meaning_of(parts, cut))
    return None


# ------------------------------------------------------------------------------------------------------- in one pass


def in_one_pass(layer: ConvLayer, draft: Context) -> Deciding:
    """On features as they are stored, or on a copy without the lowest bits: all of its readers see it."""
    if not is_allowed(draft):
        raise Refusal(CONV_MODE, "features of two bytes", "bytes, as the options ask", "leave out the option")
    if layer.op.kind == "transpose_conv":
        raise Refusal(CONV_MODE, "transpose_conv of 16 bits", "conv and dense in one pass", "read it byte by byte")
    stored = draft.coarse.get(layer.op.inputs[0])
    return (yield from (only((Coarsened(stored),)) if stored else _on_a_copy(layer, draft)))


def _on_a_copy(layer: ConvLayer, draft: Context) -> Deciding:
    """With as many bits as whole sums hold, or with more: the input channels go in slices then (`conv.dense`), and
    weights are still read once. Each bit more costs slices, so the rows end where one is dearer than the one before. A
    layer that stores its results on a coarser scale has the first row alone, and is judged by what it shows."""
    offers, refused = list[tuple[Variant, Found]](), list[RefusedForm]()
    needed, most = needed_bits(layer), 0 if layer.op.outputs[0] in draft.coarse else _MOST_FINER
    for finer in range(min(needed, most) + 1):
        found = yield from _copied(layer, codes_without(layer, needed - finer), draft)
        if isinstance(found, RefusedForm):
            refused.append(found)
            if found.rule != COARSE:
                break
        elif offers and offers[-1][1].form.cost <= found.form.cost:
            break
        else:
            offers.append((Variant("finer", finer) if finer else ONE_PASS, found))
    return best(offers)[1].after(refused) if offers else refused[0]


def _copied(layer: ConvLayer, coarse: CoarseCodes, draft: Context) -> Deciding:
    try:
        _require_fine(layer, coarse.dropped, draft)
        rounded = _copied_error(layer, coarse) if coarse.dropped else 0.0
        draft.require_fine(layer.op, rounded)
        found = yield (Coarsened(coarse, copied=coarse != _AS_THEY_ARE),)
        if isinstance(found, RefusedForm) or not rounded:
            return found
        means = found.form.semantics[layer.op.name]
        means = replace(means, error=means.error + rounded, seldom=rounded)
        draft.require_fine(layer.op, means.error)
    except Refusal as refusal:
        return refusal.refused
    return replace(found, form=replace(found.form, semantics={layer.op.name: means}))


def is_allowed(context: Context) -> bool:
    """Whether the user wants it, and trusts that convolvers take whole features of two bytes."""
    trust = context.facts.target.trust
    return ONE_PASS_WANTED not in context.facts.without and trust.allows(trust.grade(WHOLE))


@dataclass(frozen=True)
class Coarsened:
    """Features on a coarser scale: as they are stored, or in a copy, which the first reader makes for all that need the
    same."""

    coarse: CoarseCodes
    copied: bool = False

    def prepare(self, layer: ConvLayer, draft: Context) -> ConvLayer:
        coarse, source = self.coarse, layer.source
        if self.copied:
            key = f"{_COPY} {coarse.dropped} {coarse.zero} of {source}"
            if key not in draft.shifted_copies:
                elements = draft.tensor(layer.op.inputs[0]).elements
                copied = draft.shifted_copies[key] = draft.scratch(2 * elements, _COPY)
                unit = changed(SCALAR, a=2, c=coarse.zero * coarse.step, shift_c=1, shift_out=coarse.dropped + 1)
                named = layer.origin, f"{_COPY} of {layer.op.inputs[0]}"
                draft.before.append(through([source], copied, elements, [unit], named))
            source = draft.shifted_copies[key]
        coarser = replace(layer, source=source, coarse=coarse, zero=coarse.zero, scale=layer.scale * coarse.step)
        return _seen(coarser, coarse.stored)


def needed_codes(layer: ConvLayer, context: Context) -> CoarseCodes:
    """As fine as whole sums of all inputs allow."""
    dropped = needed_bits(layer)
    _require_fine(layer, dropped, context)
    return codes_without(layer, dropped)


def needed_bits(layer: ConvLayer) -> int:
    """Which the features must lose so that no input takes a sum too far."""
    whole = CoarseCodes(0)
    possible = replace(layer, coarse=whole, zero=whole.zero).possible(whole.zero)
    sums = float(possible.max(initial=1.0)) + float(layer.magnitudes.max(initial=0))
    return max(0, ceil(log2(sums / SUM_LIMIT)))


def codes_without(layer: ConvLayer, dropped: int) -> CoarseCodes:
    """Features that are read as they are need no zero point in front of a layer that does not pad: its bias makes up
    for what units take off."""
    return CoarseCodes(dropped) if dropped or any(layer.padding) else _AS_THEY_ARE


def _require_fine(layer: ConvLayer, dropped: int, context: Context) -> None:
    most = most_dropped(context)
    if dropped > most:
        seen = f"sums of {layer.op.name} need codes without their {dropped} lowest bits"
        raise Refusal(COARSE, seen, f"{most} bits", "read it byte by byte, or accept it with --allow-coarse LSB")


def most_dropped(context: Context) -> int:
    """Half a step is half of what an operator may be off: the rest is for its own roundings."""
    return int(log2(WIDE_STEP * min(context.facts.coarse, _MOST_COARSE)))


def _copied_error(layer: ConvLayer, coarse: CoarseCodes) -> float:
    """Codes of the output: roundings of all features, independent of each other or alike in flat windows, whichever is
    worse; and ties, which always go away from zero. An estimate, as other errors are."""
    weights = layer.weights.astype(np.float64)
    apart = np.square(weights).sum(axis=(1, 2, 3))
    flat = np.square(weights.sum(axis=(1, 2))).sum(axis=1)
    steps = _SIGMAS * np.sqrt(np.maximum(apart, flat) / 12)
    ties = _ROUNDING * layer.magnitudes
    return float((np.abs(layer.scale) * (coarse.step * steps + ties)).max(initial=0.0))


def coarse_tensors(context: Context, but: frozenset[str]) -> Mapping[str, CoarseCodes]:
    """Tensors that are stored on a coarser scale: written by one such layer or by a function, and read by such layers
    only, each of which says how many bits its sums hold."""
    facts, found = context.facts, dict[str, CoarseCodes]()
    if facts.numerics == "2.x" or not is_allowed(context):
        return found
    for name, tensor in facts.graph.tensors.items():
        if tensor.dtype != "int16" or name in but or name in facts.graph.outputs:
            continue
        producer, readers = facts.graph.producers.get(name), facts.graph.consumers.get(name, [])
        if producer is None or not readers:
            continue
        low, high = producer.attrs.get("clip") or (LOWEST, HIGHEST)
        one_end = (max(LOWEST, int(low)), min(HIGHEST, int(high))) in _CLIPS  # that one unit gives its results
        alone = all(op.inputs[0] == name and op.inputs.count(name) == 1 for op in readers)
        if not one_end or not alone or not all(_is_layer(op, context) for op in readers):
            continue
        if not (_is_layer(producer, context) or _is_function(producer, context)):
            continue
        try:
            layers = [_wide_layer(op, context.tensor(op.inputs[1]), context.draft()) for op in readers]
            needs = [needed_codes(layer, context) for layer in layers]
        except Refusal:
            continue
        found[name] = CoarseCodes(max(one.dropped for one in needs))
    return found


def _is_layer(op: Op, context: Context) -> bool:
    if op.kind not in ("conv", "dense") or op.name in context.facts.on_cpu:
        return False
    centred = is_centred(context.tensor(op.inputs[0])) and is_centred(context.tensor(op.outputs[0]))
    return centred and _are_weights(context.tensor(op.inputs[1]))


def _is_function(op: Op, context: Context) -> bool:
    """An operator of which the NPU computes codes on any scale."""
    if op.kind not in FUNCTION_KINDS or op.name in context.facts.on_cpu:
        return False
    return is_centred(context.tensor(op.inputs[0])) and is_centred(context.tensor(op.outputs[0]))


def _are_weights(tensor: Tensor) -> bool:
    return tensor.is_constant and tensor.dtype == "int8" and tensor.quant is not None
