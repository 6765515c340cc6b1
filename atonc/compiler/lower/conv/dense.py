"""Convolutions that mix all channels: a chain of CONVACCs over the input channels, one ARITH that requantises.

Where sums go beyond what units hand on, the input channels go in slices, each summed by itself: every slice leaves 16
bits in memory, and ARITHs add them up. So it is with kernels whose parts cannot all be in one chain. A partial result
is stored in the order in which it leaves the units: [group of kernels][pixel][kernel]. The last chain adds what is in
memory to its own sums where a chain of that kind was seen, so that nothing is read once more for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from math import lcm
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import FeatureMode, limits, nearest, no_setting
from atonc.compiler.lower.conv.channel_groups import ShiftGroups, chosen_shifts, ranges
from atonc.compiler.lower.conv.dense_chain import Sets, add_chain, meaning
from atonc.compiler.lower.conv.engines import output_engine, requantise
from atonc.compiler.lower.conv.kernel_parts import Part, unit_parts
from atonc.compiler.lower.conv.lanes import ChainJob, Chains, lanes
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.prepare import With
from atonc.compiler.lower.conv.requantise import Requantisation, TwoSteps
from atonc.compiler.lower.conv.tiling import FLAT, Constraints, Tiling, choose
from atonc.compiler.lower.conv.weight_sums import ends, extreme_sums
from atonc.compiler.lower.conv.wide import MOST_BATCH, SUM, SideBySide, WideWindows, side_by_side_cycles, wide_parts
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.sums import LoweredSums, record
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.policy import (
    CHEAP,
    EPOCH_CYCLES,
    FEW_PIXELS,
    GOOD_ENOUGH,
    MAX_CHAINS,
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
from atonc.compiler.plan.streams import Area, engine
from atonc.compiler.plan.task import Purpose, TaskGroup
from atonc.compiler.schedule.check import forms
from atonc.compiler.select.cycles import cycles_of
from atonc.compiler.select.enumerate import AS_IT_IS, Deciding, Found, Pieces, cheapest
from atonc.compiler.select.enumerate import first as first_of
from atonc.compiler.select.form import RefusedForm
from atonc.compiler.select.rules import COARSE, CONV_MODE, SUM_ROOM
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED, MAX_CHAIN, SUM_LIMIT, UNITS, WIDE_ALIGNMENT, WRITE_ALIGNMENT
from atonc.machine.hw.safety.evidence.trust import chain_seen
from atonc.machine.hw.units.arith import ROWS, ArithConfig

Ints = NDArray[np.int64]


def slicings(layer: ConvLayer, parts: tuple[Part, ...], first: int, count: int) -> Iterator[tuple[Part, ...]]:
    """Ways worth trying: as few slices as sums allow, and so many that each is summed without a rounding on the way."""
    channels, window = parts[0].weights.shape[3], parts[0].window
    modes = [mode for mode in layer.modes() if window == (1, 1) or not mode.deep]
    deepest = max(limits(mode, *window).channels for mode in modes) * (MAX_CHAIN if len(parts) == 1 else 1)
    least = -(-_most(layer, parts, first, count) // SUM_LIMIT)
    numbers = range(max(2, least), channels + 1)
    fewest = next((n for n in numbers if _most(layer, sliced(parts, n), first, count) <= SUM_LIMIT), 0)
    for number in dict.fromkeys((fewest, max(fewest, -(-channels // deepest)))) if fewest else ():
        yield sliced(parts, number)


def sliced(parts: tuple[Part, ...], number: int) -> tuple[Part, ...]:
    """Each part over so many slices of its channels, those of one slice in a group of their own."""
    channels = parts[0].weights.shape[3]
    step = -(-channels // number)
    step = -(-step // FLAT) * FLAT if channels >= number * FLAT else step
    return tuple(_slice(part, k, start, step) for k, start in enumerate(range(0, channels, step)) for part in parts)


def _slice(part: Part, number: int, first: int, step: int) -> Part:
    count = min(step, part.weights.shape[3] - first)
    weights = part.weights[..., first : first + count]
    return replace(part, area=part.area.channels_from(first, count), weights=weights, group=(number, 0))


def holding(layer: ConvLayer, parts: tuple[Part, ...], first: int, count: int) -> list[int]:
    """Numbers that units can subtract so that no input takes a sum of any group too far."""
    return [n for n in layer.subtracted() if _largest(layer, parts, first, count, n) <= SUM_LIMIT]


def _most(layer: ConvLayer, parts: tuple[Part, ...], first: int, count: int) -> int:
    """The largest sum of any slice that any input gives, with the best number that units can subtract."""
    return min(_largest(layer, parts, first, count, number) for number in layer.subtracted())


def _largest(layer: ConvLayer, parts: tuple[Part, ...], first: int, count: int, subtracted: int) -> int:
    low, high = (end - subtracted for end in ends(layer))
    sums: dict[tuple[int, int], Ints] = {}
    for part in parts:
        own = extreme_sums(part.weights, low, high)[first : first + count]
        sums[part.group] = sums.get(part.group, 0) + own
    return max(int(own.max(initial=0)) for own in sums.values())


T = TypeVar("T")

MOST_UNITS = 3  # ARITHs in a row, as seen


def chunks(
    parts: tuple[Part, ...], attempt: Callable[[tuple[Part, ...]], T | None]
) -> list[tuple[tuple[Part, ...], T]]:
    """Cuts the parts into chains for which `attempt` finds settings; an empty list when it finds none.

    A single unit without padding was never seen, so such a part gets a partner that adds nothing.
    """
    found: list[tuple[tuple[Part, ...], T]] = []
    rest = tuple(sorted(parts, key=lambda part: part.group))
    while rest:
        together = sum(1 for part in rest[:MAX_CHAIN] if part.group == rest[0].group)
        for count in range(together, 0, -1):
            for chain in (rest[:count], (*rest[:count], silent(rest[0]))[:MAX_CHAIN]):
                settings = attempt(chain)
                if settings is not None:
                    break
            if settings is not None:
                found.append((chain, settings))
                rest = rest[count:]
                break
        else:
            return []
    return found


@dataclass(frozen=True)
class PartialSum:
    """A chain of units that leaves a partial result: `add` wires it for some output channels and returns its tail."""

    add: Callable[[TaskBuilder, Context, int, int], str]
    units: int
    passes: int = 1

    @property
    def gate(self) -> dict[str, int]:
        return {"drop": self.passes - 1, "keep": 1} if self.passes > 1 else {}

    def lanes(self, groups: int) -> int:
        """How many of them an epoch holds, each for some groups of kernels."""
        most = min(MAX_CHAINS, UNITS["CONVACC"] // self.units, UNITS["STRENG"] // (self.units + 2))
        return max(1, min(most, groups)) if self.passes == 1 else 1


@dataclass(frozen=True)
class Results:
    """Output channels first..first+count of a layer, in groups of so many kernels."""

    layer: ConvLayer
    target: Area
    rule: Requantisation | TwoSteps
    first: int
    count: int
    kernels: int

    @property
    def pixels(self) -> int:
        return self.target.height * self.target.width

    def units(self) -> list[ArithConfig]:
        return self.layer.code_units(self.rule.units(0, self.count, self.kernels, self.pixels))

    def write(self, b: TaskBuilder, codes: str) -> None:
        groups = self.count // self.kernels
        b.write(codes, self.layer.target, output_engine(self.target, self.kernels, self.first, groups))


def with_the_last(pieces: Sequence[PartialSum], results: Results, context: Context) -> list[TaskGroup]:
    """Partial results in memory, which the last chain adds to its own."""
    sums: list[str] = []
    groups = [partial_sum(context, piece, results, sums) for piece in pieces[:-1]]
    b = TaskBuilder(results.layer.origin, f"conv {results.layer.op.name}")
    total, units = pieces[-1].add(b, context, results.first, results.count), results.units()
    ariths, gate = UNITS["ARITH"], pieces[-1].gate
    if len(sums) + len(units) > ariths:
        raise Refusal(CONV_MODE, f"{len(sums)} partial results", f"{ariths} ARITHs", "add them up before")
    for buffer in sums:
        total, gate = b.unit(SUM, total, b.read(buffer, engine(flat(results.pixels * results.count))), **gate), {}
    results.write(b, requantise(b, units, total, gate))
    task = b.done()
    (text,) = forms(task)
    if not chain_seen(text):
        raise Refusal(CONV_MODE, f"a chain {text}", "chains of public networks", "add up the parts by themselves")
    return [*groups, TaskGroup.of(task)]


def partial_sum(context: Context, piece: PartialSum, results: Results, sums: list[str]) -> TaskGroup:
    """One partial result, the groups of kernels spread over chains side by side; its buffer is added to `sums`."""
    pixels, groups = results.pixels, results.count // results.kernels
    sums.append(context.scratch(2 * pixels * results.count, "parts of a kernel"))
    share = -(-groups // piece.lanes(groups)) * results.kernels
    while 2 * pixels * share % WRITE_ALIGNMENT:
        share += results.kernels  # lanes write into words of their own; published ones begin at whole pairs of them
    tasks = []
    for start in range(0, results.count, share):
        some = min(share, results.count - start)
        b = TaskBuilder(results.layer.origin, f"part of conv {results.layer.op.name}", Purpose.PART)
        tail = piece.add(b, context, results.first + start, some)
        area = replace(flat(pixels * some), offset=2 * pixels * start)
        b.write(tail, sums[-1], engine(area, write=True), **piece.gate)
        tasks.append(b.done(pixels * some))
    return TaskGroup(tuple(tasks))


def silent(part: Part) -> Part:
    return replace(part, weights=np.zeros_like(part.weights))


def flat(elements: int) -> Area:
    """16-bit numbers in a row."""
    return Area(1, 1, elements, 2 * elements, 2 * elements, 0, 2)


def add_up(context: Context, sums: list[str], results: Results) -> list[TaskGroup]:
    """The sum of the partial results, requantised into output channels."""
    layer, elements = results.layer, results.pixels * results.count
    units = results.units()
    together = 2 if len(units) < MOST_UNITS else 1  # how many the last epoch takes
    groups: list[TaskGroup] = []
    while len(sums) > together:
        total = context.scratch(2 * elements, "sum of parts")
        groups.append(_add(layer, sums[0], sums[1], total, elements))
        sums = [total, *sums[2:]]
    b = TaskBuilder(layer.origin, f"conv {layer.op.name} from its parts")
    streams = [b.read(buffer, engine(flat(elements))) for buffer in sums]
    results.write(b, requantise(b, units, b.unit(SUM, *streams) if len(streams) > 1 else streams[0], {}))
    return [*groups, b.alone()]


def _add(layer: ConvLayer, left: str, right: str, total: str, elements: int) -> TaskGroup:
    b = TaskBuilder(layer.origin, f"sum of parts of conv {layer.op.name}", Purpose.PART)
    both = [b.read(buffer, engine(flat(elements))) for buffer in (left, right)]
    b.write(b.unit(SUM, *both), total, engine(flat(elements), write=True))
    return b.alone()


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
    after = other.requantisation_of(unsigned.mode.offset, unsigned.passes, first, count)
    if isinstance(before, TwoSteps) or isinstance(after, TwoSteps):
        return False
    cycles = unsigned.cycles + layer.area.height * layer.area.line // 3
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


@dataclass(frozen=True, eq=False)
class Sums:
    """Output channels whose parts are in several chains, one after the other. `held`: no input takes a sum of them
    beyond what units hand on; else the channels go in slices, each summed by itself."""

    layer: ConvLayer
    parts: tuple[Part, ...]
    target: Area
    first: int
    count: int
    held: bool

    def prepare(self, subject: Sums, draft: Context) -> Sums:
        return self


@dataclass(frozen=True)
class HalvedSums:
    """Fewer kernels at a time, where one shift is too coarse."""

    cut: int
    again = True  # they are decided as the whole was

    def prepare(self, sums: Sums, draft: Context) -> Pieces:
        halves = (
            replace(sums, count=self.cut),
            replace(sums, first=sums.first + self.cut, count=sums.count - self.cut),
        )
        return Pieces(tuple((half, AS_IT_IS) for half in halves))


def slices(sums: Sums | object, draft: Context) -> Deciding | None:
    return _slices(sums) if isinstance(sums, Sums) and not sums.held else None


def _slices(sums: Sums) -> Deciding:
    """Few slices with roundings on the way, or many without."""
    layer, first, count = sums.layer, sums.first, sums.count
    seen = f"sums of {layer.op.name} beyond 24 bits"
    none = RefusedForm(SUM_ROOM, seen, "24 bits between units", "fewer inputs a sum: cut the layer in two")
    rows = [
        (Variant("channel slices", len({part.group for part in some})), (replace(sums, parts=some, held=True),))
        for some in slicings(layer, sums.parts, first, count)
    ]
    found = yield from cheapest(rows, none, blame_last=True)
    if isinstance(found, Found) or found.rule != COARSE:
        return found
    gain, cut = layer.best_cut(layer.subtracted()[0], len(sums.parts) + 1, first, count, layer.alignment)
    return (yield (HalvedSums(cut),)) if cut and gain >= WORTH_ALWAYS else found


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


def order_of_sums(sums: Sums | object, draft: Context) -> Deciding | None:
    """The last chain adds what is in memory to its own sums, or ARITHs add up all of them."""
    if not isinstance(sums, Sums):
        return None
    layer, parts, first, count = sums.layer, sums.parts, sums.first, sums.count
    group, found = _chains(layer, parts, first, count)
    if len(found) < 2 or (layer.cut and len(found) > len({part.group for part in parts})):
        raise no_setting(parts[0], layer.area.channels, layer.op.name)
    roundings = 1 + sum(tiling.passes for _, tiling in found)
    rule = layer.requantisation_of(found[0][1].mode.offset, roundings, first, count)
    results = Results(layer, sums.target, rule, first, count, group)
    in_order = SummedChains(results, tuple(found))
    longest_last = replace(in_order, chains=tuple(sorted(found, key=lambda chain: chain[1].units)), joined=True)
    return first_of([(longest_last,), (in_order,)], told=False)


@dataclass(frozen=True, eq=False)
class SummedChains:
    """Chains that leave partial results, in the order in which they run. `joined`: the last one adds the others."""

    results: Results
    chains: tuple[tuple[tuple[Part, ...], Tiling], ...]
    joined: bool = False

    def prepare(self, subject: Sums, draft: Context) -> SummedChains:
        return self

    def build(self, draft: Context) -> list[TaskGroup]:
        results, layer = self.results, self.results.layer
        pieces = [_piece(layer, chain, tiling, results.rule.out_shift) for chain, tiling in self.chains]
        if self.joined:
            groups = with_the_last(pieces, results, draft)
        else:
            sums: list[str] = []
            groups = [partial_sum(draft, piece, results, sums) for piece in pieces]
            groups += add_up(draft, sums, results)
        summed = (self.chains[-1], *self.chains[:-1]) if self.joined else self.chains
        chains = tuple(meaning(*one) for one in summed)
        record(
            draft, layer, LoweredSums(layer.stored, chains, results.rule, results.target, results.first, results.count)
        )
        return groups


def _piece(layer: ConvLayer, parts: tuple[Part, ...], tiling: Tiling, out_shift: int) -> PartialSum:
    def add(b: TaskBuilder, context: Context, first: int, count: int) -> str:
        return add_chain(b, layer, context, Sets(parts, tiling, first, count // tiling.kernels), out_shift)

    return PartialSum(add, tiling.units, tiling.passes)


def _chains(
    layer: ConvLayer, parts: tuple[Part, ...], first: int, count: int
) -> tuple[int, list[tuple[tuple[Part, ...], Tiling]]]:
    """Kernels a frame, the same in every chain, and the chains; none where nothing fits.

    All chains subtract the same from the features, since one bias makes up for it: whatever makes them faster, of the
    numbers with which no input saturates a sum.
    """
    numbers = layer.subtracted() if layer.numerics == "2.x" else holding(layer, parts, first, count)
    for group in (k for k in (4, 2, 1) if count % k == 0):
        tried = (chunks(parts, partial(_with_kernels, layer, group, n)) for n in numbers)
        best = min((found for found in tried if found), key=_chain_cycles, default=None)
        if best:
            return group, best
    return 1, []


def _chain_cycles(found: list[tuple[tuple[Part, ...], Tiling]]) -> int:
    return sum(tiling.cycles for _, tiling in found)


def _with_kernels(layer: ConvLayer, kernels: int, subtracted: int, parts: tuple[Part, ...]) -> Tiling | None:
    channels = parts[0].weights.shape[3]  # those of the layer, or twice as many where pixels go in pairs
    modes = [mode for mode in layer.modes() if mode.offset == subtracted]
    within = Constraints(memory_loops=False, bands=layer.bands, aligned=WIDE_ALIGNMENT if layer.coarse else 1)
    tiling = choose(parts, channels, kernels, modes, layer.made_for, within)
    return tiling if tiling is not None and tiling.kernels == kernels else None


DECISIONS = (windows, strides, shifts, lanes, slices, order_of_sums)
