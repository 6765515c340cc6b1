"""Convolutions and dense layers on codes of 16 bits.

Two layers of bytes, and their sum:

    y = u * high16 + v * low16,   high16 = sum(high * w) * 256 * scale / u,   low16 = (sum(low * w) * scale + bias) / v

Sums of 16-bit features would leave the 24 bits that units are known to hold; sums of bytes do not. u and v are the
least powers of two with which no half saturates before the whole does.

Both halves in one epoch: a unit for the high bytes, one for the low bytes, and their sum. Chains of two single units
that are added were seen; so that is for layers whose channels one unit holds.

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

from atonc.compiler.ir import Graph, Op, Quantisation, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import FeatureMode, chain_configs, least_batch
from atonc.compiler.lower.conv.dense_chain import Sets, add_chain, meaning
from atonc.compiler.lower.conv.depthwise import DepthwiseBlocks, add_units, exact_cut, meaning_of
from atonc.compiler.lower.conv.engines import output_engine
from atonc.compiler.lower.conv.kernel_parts import Part, met_together, unit_parts
from atonc.compiler.lower.conv.layer import ConvLayer, WideFeatures, layer_of
from atonc.compiler.lower.conv.recipe import lower_layer as lower_byte_layer
from atonc.compiler.lower.conv.requantise import Requantisation, bias_of
from atonc.compiler.lower.conv.tiling import Slots, Tiling, can_read
from atonc.compiler.lower.conv.weight_sums import extreme_sums, magnitudes, weight_sums
from atonc.compiler.lower.conv.wide import SUM
from atonc.compiler.lower.conv.wide_results import MOST_SHIFT, SCALAR, WideRequantisation, weighed
from atonc.compiler.lower.registry import Recipe, Refusal, recipe, recipe_for
from atonc.compiler.lower.semantics.arithmetic import Ints, ints, limited
from atonc.compiler.lower.semantics.sums import LoweredSums, SumChain, requantised
from atonc.compiler.lower.sixteen.streams import (
    HIGHEST,
    LOWEST,
    Codes,
    Halves,
    Real,
    WideSum,
    halves_of,
    is_centred,
    move_unit,
    never_negative,
    require_centred,
    through,
)
from atonc.compiler.lower.units.wiring import origin_of
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.coarse import CoarseCodes
from atonc.compiler.plan.policy import WIDE_STEP, objective
from atonc.compiler.plan.task import TaskGroup
from atonc.compiler.schedule.passes import ONE_PASS as ONE_PASS_WANTED
from atonc.compiler.select.enumerate import Draw, Drawing, Found, attempt, chosen, first
from atonc.compiler.select.form import Form, RefusedForm, Semantics
from atonc.compiler.select.rules import (
    COARSE,
    CONV_MODE,
    CONV_WEIGHTS,
    SCALES,
    SUM_ROOM,
    WIDE_CLIP,
    WIDE_CODES,
    WIDE_SUMS,
)
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import MOST_OUT_SHIFT, SUM_LIMIT, UNITS, convacc_sizes
from atonc.machine.hw.safety.evidence.epochs import WHOLE
from atonc.machine.hw.safety.evidence.trust import units_trusted
from atonc.machine.hw.units.arith import ROWS

ONE_PASS, TWO_PASSES = Variant("one pass"), Variant("two passes")
ONE_EPOCH, TWO_LAYERS = Variant("one epoch"), Variant("two layers")
KERNELS = (24, 16, 12, 8, 6, 4, 2, 1)  # of a frame, the same in both units
BYTE = 8  # bits
_MOST_WEIGHT = 8  # u and v: beyond, halves are too coarse to be worth it
_ROUNDING = 0.5  # codes: of the second unit of the low half
_COPY = "coarser codes"
_MOST_COARSE = 32.0  # codes of 8 bits, whatever the user allows: then 8 bits would do
_SIGMAS = 6.0  # of independent roundings, that their sum stays below
_CLIPS = ((LOWEST, HIGHEST), (0, HIGHEST))


@recipe("conv", "dense", "transpose_conv", wide=True)
def lower_sums(op: Op, context: Context) -> list[TaskGroup]:
    return lower_layer(op, context, context.tensor(op.inputs[1]))


def lower_layer(op: Op, context: Context, weights: Tensor) -> list[TaskGroup]:
    """A convolution, or what can be seen as one."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    require_centred(x, y)
    if context.numerics == "2.x":
        raise Refusal(WIDE_CODES, "16 bits with the numbers of ST's 2.x", "8 bits there", "leave out --numerics 2.x")
    if not _are_weights(weights):
        seen = f"weights of type {weights.dtype}{'' if weights.is_constant else ', not constant'}"
        raise Refusal(CONV_WEIGHTS, seen, "constant 8-bit weights", "quantise the weights to int8 (16x8)")
    one_pass = partial(lower_in_one_pass, op, weights)
    if x.name in context.coarse or y.name in context.coarse:
        return context.take(attempt(context, one_pass))
    signs = (True, False) if never_negative(op.inputs[0], context.graph) else (False,)

    def two_passes(draft: Context) -> list[TaskGroup]:
        """With high bytes that have no sign, or with signed ones."""
        draws = [partial(_in_two_passes, op, weights, unsigned) for unsigned in signs]
        return chosen(draft, first(((Drawing(draw),) for draw in draws), blame_last=True))

    return _cheapest(context, {ONE_PASS: one_pass, TWO_PASSES: two_passes}, blamed=TWO_PASSES, unsaid=TWO_PASSES)


def _in_two_passes(op: Op, weights: Tensor, unsigned: bool, context: Context) -> list[TaskGroup]:
    """Both halves in one epoch, or as layers of their own."""
    draws = {TWO_LAYERS: partial(_two_layers, op, weights, unsigned)}
    if op.kind in ("conv", "dense"):
        draws[ONE_EPOCH] = partial(_pair, op, weights, unsigned)
    return _cheapest(context, draws, blamed=TWO_LAYERS)


def _cheapest(
    context: Context, draws: Mapping[Variant, Draw], blamed: Variant, unsaid: Variant | None = None
) -> list[TaskGroup]:
    """By what choices compare, with errors of 16 bits weighed as such. `blamed`: whose refusal is the answer where all
    are refused; `unsaid`: whose is not kept else."""
    tried = {label: attempt(context, draw) for label, draw in draws.items()}
    offers = [(label, Found.of(form)) for label, form in tried.items() if isinstance(form, Form)]
    if not offers:
        return context.take(tried[blamed])
    context.refused += [one for label, one in tried.items() if isinstance(one, RefusedForm) and label != unsaid]
    label, found = min(offers, key=lambda offer: _price(offer[1].form))
    return context.take(found.over(label, offers).whole)


def _price(form: Form) -> float:
    return objective(form.cycles, form.error / WIDE_STEP, form.scratch_bytes, form.target.machine)


# --------------------------------------------------------------------------------------------- a layer for each half


@dataclass(frozen=True, eq=False)
class TwoHalves:
    """What the tasks compute."""

    halves: Halves
    high: Semantics
    low: Semantics
    total: WideSum

    def __call__(self, values: Sequence[Any]) -> list[Ints]:
        high, low = (ints(means.codes([codes])[0]) for means, codes in self.layers(values[0]))
        return [self.total(high, low)]

    def layers(self, values: Any) -> list[tuple[Semantics, Ints]]:
        """What each half computes, and the codes that it gets."""
        pairs = ((self.halves.high, self.high), (self.halves.low, self.low))
        return [(means, self.halves.codes(half)(ints(values))) for half, means in pairs]

    @property
    def error(self) -> float:
        """Expected largest distance from exact arithmetic, in codes: both halves round to the nearest at the end."""
        own = (half.error * WIDE_STEP + _ROUNDING for half in (self.high, self.low))
        return sum(weight * error for weight, error in zip((self.total.a, self.total.b), own, strict=True))

    @property
    def room(self) -> float:
        return min(self.high.room, self.low.room)


def _two_layers(op: Op, weights: Tensor, unsigned: bool, context: Context) -> list[TaskGroup]:
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    bias = _bias(op, context, x, weights)
    total = WideSum.clipped(op.attrs.get("clip"), *_weights(op, x, weights, y, bias))
    halves = halves_of(x, context, origin_of(op), unsigned)
    names = [context.scratch(2 * y.elements, "inside 16 bits") for _ in range(2)]
    quants = (Quantisation.per_tensor(y.scale * weight, 0) for weight in (total.a, total.b))
    high_sums, low_sums = (Tensor(name, y.shape, "int16", quant) for name, quant in zip(names, quants, strict=True))
    high, high_means = _half(op, context, halves, (halves.high, weights, high_sums), None)
    low, low_means = _half(op, context, halves, (halves.low, weights, low_sums), bias)
    meaning = TwoHalves(halves, high_means, low_means, total)
    context.explain(op, meaning, meaning.error, meaning.room)
    # halves do not depend on each other
    both = [TaskGroup((*a.tasks, *b.tasks)) for a, b in zip_longest(high, low, fillvalue=TaskGroup(()))]
    named = origin_of(op), f"halves of {op.name}"
    return [*halves.groups, *both, through(names, context.buffer(y.name), y.elements, total.units(), named)]


def _bias(op: Op, context: Context, x: Tensor, weights: Tensor) -> Real | None:
    """In real units."""
    if len(op.inputs) < 3 or not op.inputs[2]:
        return None
    assert weights.quant is not None
    outputs = weights.shape[0]
    return bias_of(op, context, x.scale * np.broadcast_to(weights.quant.scales, (outputs,)), outputs)


def _weights(op: Op, x: Tensor, weights: Tensor, y: Tensor, bias: Real | None) -> tuple[int, int]:
    """What each half counts in, so that it holds all that matters: the high one has to go beyond the codes by what the
    low one could take off again."""
    assert weights.quant is not None and weights.data is not None
    zeros = weights.quant.zero_points.astype(np.int16).reshape(-1, *(1,) * (weights.data.ndim - 1))
    plain = weights.data.astype(np.int16) - zeros
    kernels = [plain.reshape(weights.shape[0], 1, 1, -1)]
    if op.kind == "transpose_conv":
        kernels = met_together(plain, tuple(op.attrs["stride"]), (x.shape[1], x.shape[2]))
    scale = x.scale * np.broadcast_to(weights.quant.scales, (weights.shape[0],)) / y.scale
    added = 0.0 if bias is None else np.abs(bias) / y.scale
    low = np.max([magnitudes(kernel) for kernel in kernels], axis=0) * 255 * scale + added
    possible = np.max([extreme_sums(kernel, -128, 127) for kernel in kernels], axis=0) * scale * 256
    high = np.minimum(possible, HIGHEST + 1 + low)
    return _unit(high), _unit(low)


def _unit(needed: Real) -> int:
    found = 1 << max(0, ceil(log2(max(float(needed.max(initial=0.0)), 1.0) / HIGHEST)))
    if not found <= _MOST_WEIGHT:
        seen = f"a half of the sums reaches {found} times the codes of the output"
        raise Refusal(
            WIDE_SUMS, seen, f"{_MOST_WEIGHT} times", "check the scales: the output's is too small for its sums"
        )
    return found


def _half(
    op: Op, context: Context, halves: Halves, tensors: tuple[Tensor, Tensor, Tensor], bias: Real | None
) -> tuple[list[TaskGroup], Semantics]:
    """One layer of bytes with results of 16 bits, as a recipe for bytes lowers it: its tasks, and what they compute."""
    inner, all_tensors = _inner(op, halves, tensors, bias)
    codes, byte_recipe = halves.codes(tensors[0]), recipe_for(inner.kind)
    assert byte_recipe is not None

    def typical() -> list[Mapping[str, Codes]]:
        return [{inner.inputs[0]: codes(one)} for one in context.facts.typical_codes(op.inputs[0])]

    def drawn(draft: Context, lower: Recipe = byte_recipe) -> list[TaskGroup]:
        _see_only(draft, inner, all_tensors, typical)
        return lower(inner, draft)

    form = attempt(context, drawn)
    if isinstance(form, RefusedForm):
        raise Refusal.of(form)
    return context.take(replace(form, semantics={})), form.semantics[inner.name]


def _inner(
    op: Op, halves: Halves, tensors: tuple[Tensor, Tensor, Tensor], bias: Real | None
) -> tuple[Op, tuple[Tensor, ...]]:
    """The operator on one half, and its tensors."""
    half, weights, sums = tensors
    name = f"{op.outputs[0]} {'low' if half is halves.low else 'high'}"
    added = () if bias is None else (Tensor(f"{name} bias", bias.shape, "float64", None, bias),)
    attrs = {key: value for key, value in op.attrs.items() if key != "clip"}
    inputs = (half.name, weights.name, *(t.name for t in added))
    return Op(op.kind, name, inputs, (sums.name,), attrs, origin_of(op)), (half, weights, sums, *added)


def _see_only(
    context: Context, op: Op, tensors: tuple[Tensor, ...], typical: Callable[[], list[Mapping[str, Codes]]]
) -> None:
    """Makes a draft see an inner operator only. `typical`: codes of its input for typical inputs of the network."""
    graph = Graph({t.name: t for t in tensors}, (op,), (), op.outputs)
    alone = replace(context.facts, graph=graph, calibrate=typical, forms={}, user_allocated=frozenset())
    context.facts = replace(alone, error_codes=WIDE_STEP)


# ------------------------------------------------------------------------------------------ both halves in one epoch


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


def _pair(op: Op, weights: Tensor, unsigned: bool, context: Context) -> list[TaskGroup]:
    """Layers are as the recipes for bytes see them, with results in codes of the output; the bias belongs to the low
    one."""
    x, y = context.tensor(op.inputs[0]), context.tensor(op.outputs[0])
    bias, limits = _bias(op, context, x, weights), WideSum.clipped(op.attrs.get("clip"))
    halves = halves_of(x, context, origin_of(op), unsigned)
    context.buffer(y.name)
    layers = list[ConvLayer]()
    for half, added in ((halves.high, None), (halves.low, bias)):
        inner, tensors = _inner(op, halves, (half, weights, y), added)
        draft = context.draft()
        _see_only(draft, inner, tensors, lambda: [])
        layers.append(_layer_of(inner, draft, weights))
    if limits.high < HIGHEST:
        raise Refusal(WIDE_CLIP, f"a clip at {limits.high}", "the end of 16 bits", "clip in a step of its own")
    high, low = layers
    units = _units((high, low))
    gain, zero = low.scale, units[1].chain.subtracted - low.zero
    if units[0].chain.subtracted != high.zero:
        raise Refusal(CONV_MODE, "high bytes with a zero point inside", "none", "read them signed")
    rule, error = _rule(low, gain, low.offset + gain * weight_sums(low.weights) * zero, limits)
    b = TaskBuilder(high.origin, f"conv {high.op.outputs[0]}")
    shifts = rule.out_shift, rule.out_shift + BYTE
    tails = [unit.add(b, context, shift) for unit, shift in zip(units, shifts, strict=True)]
    stream, out = b.unit(SUM, *tails), high.out
    back = [*rule.units(0, high.outputs, units[0].kernels, out.height * out.width), *map(move_unit, limits.back())]
    if 1 + len(back) > UNITS["ARITH"]:
        raise Refusal(CONV_MODE, f"{1 + len(back)} ARITHs", f"{UNITS['ARITH']}", "join the halves in a second epoch")
    for unit in back:
        stream = b.unit(unit, stream)
    b.write(stream, high.target, output_engine(out, units[0].kernels, 0, high.outputs // units[0].kernels))
    context.explain(op, PairOfHalves(halves, units, rule, limits, y.shape), error)
    return [*halves.groups, b.alone()]


def _layer_of(op: Op, context: Context, weights: Tensor, given: WideFeatures | None = None) -> ConvLayer:
    """As the recipes for convolutions see it."""
    if op.kind == "conv":
        return layer_of(op, context, given=given)
    outputs, inputs = weights.shape[0], int(np.prod(weights.shape[1:]))
    rows = context.tensor(op.inputs[0]).elements // inputs
    return layer_of(op, context, (1, rows, inputs), (1, rows, outputs), given)


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
            found = [_half_unit(layer, parts, kernels) for layer, parts in zip(layers, windows, strict=True)]
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


def _half_unit(layer: ConvLayer, parts: tuple[Part, ...], kernels: int) -> HalfUnit | None:
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


# ------------------------------------------------------------------------------------------------------- in one pass


def lower_in_one_pass(op: Op, weights: Tensor, context: Context) -> list[TaskGroup]:
    if not is_allowed(context):
        raise Refusal(CONV_MODE, "features of two bytes", "bytes, as the options ask", "leave out the option")
    x = context.tensor(op.inputs[0])
    stored = x.name in context.coarse
    coarse = context.coarse.get(x.name) or needed_codes(op, weights, context)
    source, copies = context.buffer(x.name), list[TaskGroup]()
    if not stored and coarse != CoarseCodes(0, 0):
        source, copies = coarse_copy(x, coarse, context, origin_of(op))
    layer = wide_layer(op, weights, context, source, coarse)
    # whoever makes the copy: all of its readers see codes without their lowest bits
    error = _copied_error(layer) if not stored and coarse.dropped else 0.0
    groups = lower_byte_layer(layer, context)
    means = context.semantics[op.name]
    context.explain(op, means.codes, means.error * WIDE_STEP + error, means.room)
    return [*copies, *groups]


def is_allowed(context: Context) -> bool:
    """Whether the user wants it, and trusts that convolvers take whole features of two bytes."""
    trust = context.facts.target.trust
    return ONE_PASS_WANTED not in context.facts.without and trust.allows(trust.grade(WHOLE))


def wide_layer(op: Op, weights: Tensor, context: Context, source: str, coarse: CoarseCodes) -> ConvLayer:
    if op.kind not in ("conv", "dense"):
        raise Refusal(CONV_MODE, f"{op.kind} of 16 bits", "conv and dense in one pass", "read it byte by byte")
    given = WideFeatures(source, coarse, weights, never_negative(op.inputs[0], context.graph))
    return _layer_of(op, context, weights, given)


def needed_codes(op: Op, weights: Tensor, context: Context) -> CoarseCodes:
    """As fine as sums of all inputs allow. Features that are read as they are need no zero point in front of a layer
    that does not pad: its bias makes up for what units take off."""
    draft = context.draft()
    whole = CoarseCodes(0)
    layer = wide_layer(op, weights, draft, draft.buffer(op.inputs[0]), whole)
    sums = float(layer.possible(whole.zero).max(initial=1.0)) + float(layer.magnitudes.max(initial=0))
    dropped = max(0, ceil(log2(sums / SUM_LIMIT)))
    most = most_dropped(context)
    if dropped > most:
        seen = f"sums of {op.name} need codes without their {dropped} lowest bits"
        raise Refusal(COARSE, seen, f"{most} bits", "read it byte by byte, or accept it with --allow-coarse CODES")
    padded = any(layer.padding)
    return CoarseCodes(dropped) if dropped or padded else CoarseCodes(0, 0)


def most_dropped(context: Context) -> int:
    """Half a step is half of what an operator may be off: the rest is for its own roundings."""
    return int(log2(WIDE_STEP * min(context.facts.coarse, _MOST_COARSE)))


def coarse_copy(
    x: Tensor, coarse: CoarseCodes, context: Context, origin: tuple[str, ...]
) -> tuple[str, list[TaskGroup]]:
    """The first reader makes it for all that need the same."""
    source = context.buffer(x.name)
    key = f"{_COPY} {coarse.dropped} {coarse.zero} of {source}"
    if key in context.shifted_copies:
        return context.shifted_copies[key], []
    target = context.shifted_copies[key] = context.scratch(2 * x.elements, _COPY)
    unit = changed(SCALAR, a=2, c=coarse.zero * coarse.step, shift_c=1, shift_out=coarse.dropped + 1)
    return target, [through([source], target, x.elements, [unit], (origin, f"{_COPY} of {x.name}"))]


def _copied_error(layer: ConvLayer) -> float:
    """Codes of the output: half a step of every feature alike, and of all of them independently. An estimate, as other
    errors are."""
    gain = np.abs(layer.scale)  # codes of the output for one step
    squares = np.square(layer.weights.astype(np.float64)).sum(axis=(1, 2, 3))
    alike = 0.5 * np.abs(weight_sums(layer.weights))
    return float((gain * (alike + _SIGMAS * np.sqrt(squares / 12))).max(initial=0.0))


def coarse_tensors(context: Context, but: frozenset[str]) -> Mapping[str, CoarseCodes]:
    """Tensors that are stored on a coarser scale: written by one such layer and read by others only, each of which says
    how many bits its sums hold."""
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
        if not one_end or not alone or not all(_is_layer(op, context) for op in (*readers, producer)):
            continue
        try:
            needs = [needed_codes(op, context.tensor(op.inputs[1]), context) for op in readers]
        except Refusal:
            continue
        found[name] = CoarseCodes(max(one.dropped for one in needs))
    return found


def _is_layer(op: Op, context: Context) -> bool:
    if op.kind not in ("conv", "dense") or op.name in context.facts.on_cpu:
        return False
    centred = is_centred(context.tensor(op.inputs[0])) and is_centred(context.tensor(op.outputs[0]))
    return centred and _are_weights(context.tensor(op.inputs[1]))


def _are_weights(tensor: Tensor) -> bool:
    return tensor.is_constant and tensor.dtype == "int8" and tensor.quant is not None
