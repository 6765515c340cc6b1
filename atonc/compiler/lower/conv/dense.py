"""Convolutions that mix all channels: a chain of CONVACCs over the input channels, one ARITH that requantises.

Groups of output channels with a shift of their own are jobs (`lanes`); what no single chain sums up is the matter of
`partial_sums`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from math import lcm

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv import partial_sums
from atonc.compiler.lower.conv.chains import FeatureMode, nearest
from atonc.compiler.lower.conv.channel_groups import ShiftGroups, chosen_shifts, ranges
from atonc.compiler.lower.conv.kernel_parts import Part, unit_parts
from atonc.compiler.lower.conv.lanes import ChainJob, Chains, lanes
from atonc.compiler.lower.conv.layer import ConvLayer, With
from atonc.compiler.lower.conv.partial_sums import Sums, in_bytes
from atonc.compiler.lower.conv.requantise import TwoSteps
from atonc.compiler.lower.conv.tiling import Constraints, Tiling, choose
from atonc.compiler.lower.conv.wide import MOST_BATCH, SideBySide, WideWindows, side_by_side_cycles, wide_parts
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.plan.policy import (
    CHEAP,
    EPOCH_CYCLES,
    FEW_PIXELS,
    GOOD_ENOUGH,
    SOME_CHANNELS,
    TOO_COARSE,
    WINDOW_CHANNELS,
    WORTH_ALWAYS,
    WORTH_MORE,
    WORTH_MUCH,
    affordable,
    closer,
    worth,
)
from atonc.compiler.plan.streams import Area
from atonc.compiler.select.cycles import cycles_of
from atonc.compiler.select.enumerate import AS_IT_IS, Deciding, Found, Pieces
from atonc.compiler.select.enumerate import first as first_of
from atonc.compiler.select.rules import CONV_MODE
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED, MAX_CHAIN, WIDE_ALIGNMENT
from atonc.machine.hw.units.arith import ROWS


def windows(layer: ConvLayer | object, draft: Context) -> Deciding | None:
    """Two units side by side before chains of windows."""
    few = isinstance(layer, ConvLayer) and layer.area.channels <= MOST_BATCH
    return first_of([(SideBySide(),), AS_IT_IS], blame_last=True) if few else None


def strides(layer: ConvLayer | object, draft: Context) -> Deciding | None:
    strided = isinstance(layer, ConvLayer) and layer.stride == (2, 2) and layer.numerics != "2.x"
    return _strides() if strided else None


def _strides() -> Deciding:
    """Chains of several windows with stride 2 were never seen with many channels: then windows without stride, on
    every second pixel."""
    plain = yield AS_IT_IS
    if isinstance(plain, Found) or plain.rule != CONV_MODE:
        return plain
    other = yield (With("native", False),)
    return other.after([plain]) if isinstance(other, Found) else other


def closer_shifted(layer: ConvLayer) -> bool:
    """Whether features without sign are worth a copy: all channels fit one pass, nothing is rounded in between."""
    plain = layer.weights.shape[1:3] == (1, 1) and layer.stride == (1, 1) and not any(layer.padding)
    if layer.features_shifted or layer.coarse or layer.numerics == "2.x" or not (plain and layer.area.contiguous):
        return False
    if layer.area.channels < SOME_CHANNELS or layer.whole_bytes:
        return False
    phases = layer.phases((layer.out.height, layer.out.width))
    first, count = max(layer.runs(ROWS), key=lambda run: run[1])
    parts, other = unit_parts(phases[0], first, count, layer.trust), layer.shifted()
    if len(phases) > 1 or len(parts) > 1:
        return False
    signed, unsigned = (_tiling(some, parts, first, count) for some in (layer, other))
    if signed is None or unsigned is None:
        return False
    before = layer.requantisation_of(signed.mode.offset, signed.passes, first, count)
    cycles = unsigned.cycles + layer.area.height * layer.area.line // 3
    if isinstance(before, TwoSteps) or not worth(cycles, 0.0, signed.cycles, before.mean_error):
        return False
    after = other.requantisation_of(unsigned.mode.offset, unsigned.passes, first, count)
    if isinstance(after, TwoSteps):
        return False
    return worth(cycles, after.mean_error, signed.cycles, before.mean_error)


def faster_shifted(layer: ConvLayer) -> bool | None:
    """Whether a window over few channels holds so many more kernels without a zero point that a copy pays. None: forms
    must tell, since a shorter chain leaves units for other lanes."""
    few = layer.area.channels <= WINDOW_CHANNELS and max(layer.weights.shape[1:3]) > 1
    if layer.zero != -128 or layer.features_shifted or layer.numerics == "2.x" or not (few and layer.area.contiguous):
        return False
    signed, unsigned = (_window_cycles(some) for some in (layer, layer.shifted()))
    if signed is None or unsigned is None:
        return False
    copy = EPOCH_CYCLES + layer.area.height * layer.area.line // 3
    if unsigned[0] + copy < signed[0]:
        return True
    return None if unsigned[0] * unsigned[1] + copy < signed[0] * signed[1] else False


def _window_cycles(layer: ConvLayer) -> tuple[int, int] | None:
    """Prices a kernel that one window, or two side by side, can hold: cycles and units of a chain; None for others."""
    if layer.area.channels <= MOST_BATCH and wide_parts(layer):
        cycles = side_by_side_cycles(layer)
        return None if cycles is None else (cycles, 1)
    first, count = max(layer.runs(ROWS), key=lambda run: run[1])
    try:
        phases = layer.phases((layer.out.height, layer.out.width))
        parts = unit_parts(phases[0], first, count, layer.trust)
    except Refusal:
        return None
    tiling = _tiling(layer, parts, first, count) if len(phases) == len(parts) == 1 else None
    return None if tiling is None else (tiling.cycles, tiling.units)


@dataclass(frozen=True)
class _Plan:
    """Chains of a layer, and what no single chain does."""

    jobs: tuple[ChainJob, ...] = ()
    sums: tuple[Sums, ...] = ()

    def and_then(self, other: _Plan) -> _Plan:
        return _Plan((*self.jobs, *other.jobs), (*self.sums, *other.sums))

    def alike(self, other: _Plan) -> bool:
        """What is summed in pieces has one shift for all channels."""
        mine, others = ([(job.first, job.count, job.tiling) for job in plan.jobs] for plan in (self, other))
        return mine == others


@dataclass(frozen=True, eq=False)
class _PlannedChains:
    """A plan, and in which ways its chains may run side by side."""

    chains: Chains
    sums: tuple[Sums, ...]

    def prepare(self, layer: ConvLayer, draft: Context) -> Pieces | Chains | Sums:
        subjects: list[Chains | Sums] = [*([self.chains] if self.chains.jobs else []), *self.sums]
        return subjects[0] if len(subjects) == 1 else Pieces(tuple((one, AS_IT_IS) for one in subjects))

    @property
    def least_cycles(self) -> float:
        """Sums of several chains are not counted."""
        return min(way.least_cycles for way in self.chains.ways)


def shifts(subject: ConvLayer | WideWindows | object, draft: Context) -> Deciding | None:
    if isinstance(subject, WideWindows):
        return chosen_shifts(subject.layer, draft, subject.rows(), {})
    if not isinstance(subject, ConvLayer):
        return None
    plans = {
        one: _PlannedChains(Chains.of(subject, plan.jobs, draft), plan.sums) for one, plan in _plans(subject).items()
    }
    copies = cycles_of((*draft.before, *draft.behind), draft.buffers, draft.facts.target)
    least = {one: copies + plan.least_cycles for one, plan in plans.items()}
    return chosen_shifts(subject, draft, {one: (plan,) for one, plan in plans.items()}, least)


def _plans(layer: ConvLayer) -> dict[ShiftGroups, _Plan]:
    plans: dict[ShiftGroups, _Plan] = {}
    for shifts in ShiftGroups:
        if shifts is ShiftGroups.MANY and layer.is_whole:
            continue  # cut nowhere, as with few
        if shifts is ShiftGroups.WORDS and not _in_words(layer, plans[ShiftGroups.FEW]):
            continue
        plan = reduce(_Plan.and_then, (_planned(layer, one, shifts) for one in _stretches(layer, shifts)))
        if not any(plan.alike(other) for other in plans.values()):
            plans[shifts] = plan
    return plans


def _in_words(layer: ConvLayer, plan: _Plan) -> bool:
    """Whether there are chains that may share a word."""
    return layer.numerics != "2.x" and len(plan.jobs) > 1


def _stretches(layer: ConvLayer, shifts: ShiftGroups) -> list[OutputStretch]:
    return [
        OutputStretch(unit_parts(phase, first, count, layer.trust), layer.outputs_of(phase), first, count)
        for phase in layer.phases((layer.out.height, layer.out.width))
        for first, count in layer.runs(ROWS, shifts.step(layer))
    ]


@dataclass(frozen=True, eq=False)
class OutputStretch:
    """Output channels first..first+count of a phase."""

    parts: tuple[Part, ...]
    target: Area
    first: int
    count: int

    def some(self, first: int, count: int) -> OutputStretch:
        return replace(self, first=first, count=count)


def _planned(layer: ConvLayer, stretch: OutputStretch, shifts: ShiftGroups) -> _Plan:
    """Whole groups of kernels, then a smaller group for the rest."""
    parts, target, first, count = stretch.parts, stretch.target, stretch.first, stretch.count
    plan = _Plan()
    while count:
        if layer.sliced:
            return _Plan(sums=(Sums(layer, in_bytes(layer, parts), target, first, count, True),))
        tiling = None
        if len(parts) <= MAX_CHAIN and len({part.group for part in parts}) == 1:
            tiling = _tiling(layer, parts, first, count, shifts is ShiftGroups.WORDS)
        if tiling is None:
            held = bool(_held(layer, first, count))
            return plan.and_then(_Plan(sums=(Sums(layer, parts, target, first, count, held),)))
        whole = count // tiling.kernels * tiling.kernels
        step = lcm(tiling.kernels, shifts.step(layer))
        for start, some in ranges(layer, tiling.mode.offset, tiling.passes, first, whole, step, shifts):
            halves = _halves(layer, parts, tiling, start, some, shifts)
            for half in halves:
                plan = plan.and_then(_planned(layer, stretch.some(*half), shifts))
            if not halves:
                rule = layer.requantisation_of(tiling.mode.offset, tiling.passes, start, some)
                plan = plan.and_then(_Plan((ChainJob(parts, target, tiling, start, some, rule),)))
        first, count = first + whole, count - whole
    return plan


def _tiling(layer: ConvLayer, parts: tuple[Part, ...], first: int, count: int, words: bool = False) -> Tiling | None:
    """The fastest one, or one that subtracts the zero point where that is nearly as fast and closer: sums with a zero
    point in them are larger, so more of their bits are cut off. `words`: whose frames are whole words of channels."""
    modes, channels, target = _held(layer, first, count), layer.area.channels, layer.made_for
    if layer.numerics == "2.x":
        share = layer.share()
        for aligned in dict.fromkeys((layer.alignment, 1)):
            if tiling := choose(parts, channels, count, modes, target, Constraints(share, aligned, bands=layer.bands)):
                return tiling
    whole = 1 if layer.out_bytes == 1 else WIDE_ALIGNMENT
    free = Constraints(bands=layer.bands, whole=whole, aligned=WIDE_ALIGNMENT if layer.coarse else 1)
    within = free._replace(aligned=ALIGNED // 2, whole=ALIGNED) if layer.huge or words else free
    if within is not free and choose(parts, channels, count, modes, target, within) is None:
        within = free
    fastest = choose(parts, channels, count, modes, target, within)
    modes = nearest(modes, layer.zero)
    if fastest is None or fastest.mode in modes:
        return fastest
    plain = choose(parts, channels, count, modes, target, within)
    if plain is None or not affordable(plain.cycles, fastest.cycles):
        return fastest
    if plain.passes > fastest.passes and layer.out.height * layer.out.width > FEW_PIXELS:
        return fastest  # roundings between passes are hardly better, and need typical inputs to judge
    rules = [layer.requantisation_of(t.mode.offset, t.passes, first, count) for t in (plain, fastest)]
    errors = [rule.mean_error for rule in rules if not isinstance(rule, TwoSteps)]
    return plain if len(errors) == 2 and closer(*errors) else fastest


def _held(layer: ConvLayer, first: int, count: int) -> list[FeatureMode]:
    """How features may be read so that their sums, all channels together, stay within what units hand on."""
    return [mode for mode in layer.modes() if layer.holds(mode.offset, first, count)]


def _halves(
    layer: ConvLayer, parts: tuple[Part, ...], tiling: Tiling, first: int, count: int, shifts: ShiftGroups
) -> list[tuple[int, int]]:
    """Two smaller groups of kernels, where the scale of one kernel is far from those of its neighbours."""
    rule = layer.requantisation_of(tiling.mode.offset, tiling.passes, first, count)
    if isinstance(rule, TwoSteps) or not 1 < count <= tiling.kernels:
        return []
    gain, cut = layer.best_cut(tiling.mode.offset, tiling.passes, first, count, shifts.step(layer))
    if not cut or gain < WORTH_ALWAYS:
        return []
    few = shifts is not ShiftGroups.MANY
    needed = rule.error > (GOOD_ENOUGH if few else TOO_COARSE) or (not few and gain > WORTH_MUCH * count)
    needed = needed or (not few and gain > WORTH_MORE * count and _cheap(layer, parts, (cut, count - cut)))
    return [(first, cut), (first + cut, count - cut)] if needed else []


def _cheap(layer: ConvLayer, parts: tuple[Part, ...], counts: tuple[int, int]) -> bool:
    """Whether two groups take hardly longer than one."""
    channels, modes, target = layer.area.channels, layer.modes(), layer.made_for
    within = Constraints(bands=layer.bands)
    one, *two = (choose(parts, channels, count, modes, target, within) for count in (sum(counts), *counts))
    return one is not None and None not in two and sum(t.cycles for t in two if t) <= CHEAP * one.cycles


DECISIONS = (windows, strides, shifts, lanes, *partial_sums.DECISIONS)
