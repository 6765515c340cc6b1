"""How a convolution is cut for the CONVACC units: features a pass, kernels a pass, units in a chain, passes.

Candidates come from the limits of the unit; only those whose settings occur in public networks are kept, and the one
with the fewest cycles is taken.

Units of the deep mode take words of three bytes: where features and kernels may lie for that stands here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from math import ceil, gcd, lcm
from typing import NamedTuple

from atonc.compiler.lower.conv.chains import (
    ChainForm,
    FeatureMode,
    Outline,
    chain_configs,
    form_of,
    least_batch,
    limits,
    pictures_trusted,
    shape_of,
)
from atonc.compiler.lower.conv.engines import PACKED, feature_engine
from atonc.compiler.lower.conv.kernel_parts import MAX_PADDING, Part
from atonc.compiler.plan.evidence import untrusted_unit
from atonc.compiler.plan.policy import CHEAP, EPOCH_CYCLES, MAX_CHAINS, MOST_TRIED, UNIT_CYCLES
from atonc.compiler.plan.streams import Area, Frames
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.limits import BUS_BYTES, LEAST_READ_BACK, MAX_CHAIN, MOST_PASSES, UNITS
from atonc.machine.hw.machine import Timing
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.target import Target
from atonc.machine.hw.units.convacc import ConvaccConfig

EVEN = 2  # such words were read from even addresses
FLAT = 16  # and a whole frame of them, without steps, from such an address


def can_read(mode: FeatureMode, areas: Iterable[Area], batch: int) -> bool:
    """Whether an engine reads so many channels of these pictures in the words that units of the mode take."""
    if not mode.deep:
        return True
    if mode.packed_frame:
        return all(batch == area.channels and _in_a_row(area) for area in areas)
    return all(packable(area) and _words_fit(area, batch) for area in areas)


def _in_a_row(area: Area) -> bool:
    """Whether packed words may be read across all pixels."""
    return area.contiguous and area.offset % FLAT == 0


def packable(area: Area) -> bool:
    """Whether packed words may be read from all pixels."""
    steps = [area.pixel] * (area.width > 1) + [area.line] * (area.height > 1)
    return area.offset % EVEN == 0 and not any(step % PACKED for step in steps)


def _words_fit(area: Area, batch: int) -> bool:
    """Whether the last word of a pixel ends inside it: words that reach into the next pixel were never seen."""
    steps = [area.pixel] * (area.width > 1) + [area.line] * (area.height > 1)
    return all(-(-batch // 3) * 3 <= step for step in steps)


FEATURES = "to CONVACC:0"


class Slots(NamedTuple):
    """Which channels each unit of a chain reads in each pass.

    Passes begin `step` channels apart and see `reach` channels each; what is left of the last unit's batch lies over
    that of the unit before, so that nothing behind the channels is read.
    """

    batch: int  # channels of one feature frame
    passes: int  # frames that are summed through a loop
    reach: int
    step: int

    def start(self, unit: int, number: int = 0) -> int:
        return min(unit * self.batch, self.reach - self.batch) + number * self.step

    def aligned(self, units: int, step: int) -> bool:
        """Whether all units begin at multiples of this, in every pass."""
        if step == 1:
            return True
        starts = [*(self.start(unit) for unit in range(units)), *([self.step] if self.passes > 1 else [])]
        return not any(start % step for start in starts)

    def own(self, unit: int, number: int) -> tuple[int, int]:
        """First and one past the last channel that nobody has read before."""
        earlier = (number - 1) * self.step + self.reach if number else 0
        first = max(earlier, number * self.step + min(unit * self.batch, self.reach))
        return first, max(first, self.start(unit, number) + self.batch)


@dataclass(frozen=True)
class Tiling:
    mode: FeatureMode
    slots: Slots
    kernels: int  # outputs of one frame
    units: int  # CONVACCs in the chain
    configs: tuple[ConvaccConfig, ...]
    cycles: int  # at least: the longer of features and results of every frame, an epoch for what is left. No tasks yet
    bank_cycles: int  # of the memory that holds the features: lanes share it

    @property
    def batch(self) -> int:
        return self.slots.batch

    @property
    def passes(self) -> int:
        return self.slots.passes

    @property
    def loop(self) -> str:
        """How partial sums return to the first unit: not at all, through the switch, through memory."""
        return "" if self.passes == 1 else "ring" if self.configs[0].generate_first_sum else "memory"


class Constraints(NamedTuple):
    """What a tiling has to keep to."""

    share: int | None = None  # that many channels in every pass
    aligned: int = 1  # parts of the channels begin at multiples of this
    whole: int = 1  # kernels that are left over begin at multiples of this
    memory_loops: bool = True  # partial sums may return through memory
    most_units: int = MAX_CHAIN
    bands: float = 1.0  # so many of these pictures shall be cut alike
    lanes: int = 1  # such chains side by side, all of which read the same memory


FREE = Constraints()


def choose(
    parts: tuple[Part, ...],
    channels: int,
    outputs: int,
    modes: list[FeatureMode],
    target: Target,
    constraints: Constraints = FREE,
) -> Tiling | None:
    """The cheapest proven tiling of `outputs` kernels over `channels` inputs; None when there is none."""
    return _chosen(tuple(map(_outline, parts)), channels, outputs, tuple(modes), target, constraints)


@memoise
def _outline(part: Part) -> Outline:
    step = FLAT if part.area.contiguous or part.area.element_bytes > 1 else EVEN
    return Outline(replace(part.area, offset=part.area.offset % step), part.window, part.padding, part.stride)


@lru_cache(maxsize=4096)
def _chosen(
    parts: tuple[Outline, ...],
    channels: int,
    outputs: int,
    modes: tuple[FeatureMode, ...],
    target: Target,
    within: Constraints,
) -> Tiling | None:
    if any(max(part.padding) > MAX_PADDING for part in parts):
        return None
    loops, whole = within.memory_loops, within.whole
    candidates = [c for mode in modes for c in _candidates(parts, channels, outputs, mode, target, within)]
    candidates = [c for c in candidates if loops or c.slots.passes == 1 or (c.form.ring and c.units == 1)]
    candidates = [c for c in candidates if not outputs % c.kernels or not (outputs - outputs % c.kernels) % whole]
    rounded = within.share is not None or not loops  # passes and pieces round: releases 2.x decide how many there are
    preference = _by_work if rounded else _preference
    best = _first_trusted(candidates, preference, parts, outputs, target)
    if best is None or best[0].bank_cycles <= best[0].unit_cycles:
        return None if best is None else _tiled(*best)
    # units that are left for other kernels do more than the last few cycles
    fastest = best[0]
    near = [c for c in candidates if c.slots.passes == fastest.slots.passes and c.cycles <= CHEAP * fastest.cycles]
    best = _first_trusted(near, lambda c: (c.units, *preference(c)), parts, outputs, target)
    assert best is not None  # the fastest is one of them
    return _tiled(*best)


def _tiled(candidate: TilingCandidate, configs: tuple[ConvaccConfig, ...]) -> Tiling:
    c = candidate
    return Tiling(c.mode, c.slots, c.kernels, c.units, configs, c.cycles, c.bank_cycles)


def _first_trusted(
    candidates: Iterable[TilingCandidate],
    key: Callable[[TilingCandidate], tuple[int, ...]],
    parts: tuple[Outline, ...],
    outputs: int,
    target: Target,
) -> tuple[TilingCandidate, tuple[ConvaccConfig, ...]] | None:
    """The best one whose units and readers may be relied on."""
    for best in sorted(candidates, key=key):
        configs = chain_configs(parts, best.mode, best.slots.batch, best.kernels, best.units, best.slots.passes)
        if configs is not None and _trusted(best, configs, parts, outputs, target):
            return best, configs
    return None


def _trusted(
    c: TilingCandidate, configs: tuple[ConvaccConfig, ...], parts: tuple[Outline, ...], outputs: int, target: Target
) -> bool:
    trust = target.trust
    if any(untrusted_unit(config, "", trust) for config in configs):
        return False
    step = c.slots.step * parts[0].area.element_bytes
    frames = Frames(c.slots.passes, step, max(1, outputs // c.kernels), 0)
    for unit in range(c.units):
        area = parts[unit if len(parts) > 1 else 0].area
        view = area.channels_from(c.slots.start(unit if len(parts) == 1 else 0), c.slots.batch)
        if untrusted_unit(feature_engine(view, frames, c.mode), FEATURES, trust):
            return False
    return True


def narrower(
    parts: tuple[Part, ...],
    channels: int,
    like: Tiling,
    modes: list[FeatureMode],
    target: Target,
    lanes: int,
    aligned: int = 1,
) -> Tiling | None:
    """Other units that compute the same: as few as so many lanes have, with the same kernels a frame and the same
    roundings."""
    alike = tuple(mode for mode in modes if mode.offset == like.mode.offset)
    outlines = tuple(map(_outline, parts))
    few = min(UNITS["CONVACC"] // lanes, UNITS["STRENG"] // lanes - 2)
    within = Constraints(aligned=aligned, most_units=few, lanes=lanes)
    return _narrower(outlines, channels, like.passes, like.kernels, alike, target, within)


def of_one_unit(
    parts: tuple[Part, ...], channels: int, kernels: int, modes: list[FeatureMode], target: Target
) -> Tiling | None:
    """A unit that holds all channels at once, with so many kernels a frame."""
    within = Constraints(most_units=1)
    return _narrower(tuple(map(_outline, parts)), channels, 1, kernels, tuple(modes), target, within)


@lru_cache(maxsize=4096)
def _narrower(
    parts: tuple[Outline, ...],
    channels: int,
    passes: int,
    kernels: int,
    modes: tuple[FeatureMode, ...],
    target: Target,
    within: Constraints,
) -> Tiling | None:
    found = [c for mode in modes for c in _candidates(parts, channels, kernels, mode, target, within)]
    fitting = [c for c in found if c.units <= within.most_units and (c.slots.passes, c.kernels) == (passes, kernels)]
    fitting = [c for c in fitting if c.slots.passes == 1 or c.form.ring]

    def preference(c: TilingCandidate) -> tuple[int, ...]:
        return max(-(-c.unit_cycles // within.lanes), c.bank_cycles), c.units, -c.slots.batch

    best = _first_trusted(fitting, preference, parts, kernels, target)
    return None if best is None else _tiled(*best)


class TilingCandidate(NamedTuple):
    mode: FeatureMode
    slots: Slots
    kernels: int
    units: int
    form: ChainForm
    unit_cycles: int
    bank_cycles: int  # of the memory that holds the features
    left_cycles: int  # an epoch for kernels that are left over
    least: int  # cycles with as many such chains side by side as there are units for, and kernels from flash
    lane: int  # the same where kernels are at hand

    @property
    def cycles(self) -> int:
        return max(self.unit_cycles, self.bank_cycles) + self.left_cycles


def _preference(c: TilingCandidate) -> tuple[int, ...]:
    """Lanes are cut later, from what is chosen here: a chain that leaves units for others is worth more than a long one
    that is hardly faster. Cycles that one more unit takes to be programmed are not worth looking at."""
    return max(c.least, UNIT_CYCLES), max(c.lane, UNIT_CYCLES), c.units, *_by_work(c)


def _by_work(c: TilingCandidate) -> tuple[int, ...]:
    return c.least, c.lane, c.units, -c.kernels, -c.slots.batch


def _candidates(
    parts: tuple[Outline, ...],
    channels: int,
    outputs: int,
    mode: FeatureMode,
    target: Target,
    within: Constraints,
) -> Iterator[TilingCandidate]:
    aligned = within.aligned
    rows, columns = parts[0].window
    if (mode.deep and (rows, columns) != (1, 1)) or not pictures_trusted(parts, mode, target.trust):
        return
    least = least_batch(mode, rows)
    most_kernels, most_batch, most_weights, most_line = limits(mode, rows, columns)
    width = max(part.area.width for part in parts)
    rows_out, columns_out = parts[0].out_size
    shapes = tuple(map(shape_of, parts))
    values = outputs * channels * rows * columns * len(parts)
    flash = ceil(target.weight_byte_cycles * values * mode.kernel_bytes)
    words = -(-values // (3 if mode.deep else 1)) if target.weights_near else 0  # one a cycle; the flash is slower
    if mode.deep and not mode.packed_frame:
        if not all(packable(part.area) for part in parts):
            return
        aligned = lcm(aligned, EVEN)
    for units in _unit_counts(parts, channels):
        beside = units if len(parts) == 1 else 1  # units that read different channels
        for slots in _slots(channels, beside, min(most_batch, most_line // width), within.share, aligned):
            batch, passes = slots.batch, slots.passes
            if batch < least or (mode.deep and not can_read(mode, [part.area for part in parts], batch)):
                continue
            features = max([_feature_words(part, mode, batch) for part in parts])
            bank = ceil(feature_bank_cycles(parts, batch, units, target.machine.timing)) if rows > 1 else 0
            most = min(most_kernels, most_weights // (rows * columns * batch))
            for kernels in _kernels(outputs, most, within.whole):
                results = rows_out * columns_out * kernels
                form = form_of(shapes, mode, units, passes > 1, results < LEAST_READ_BACK)
                if form is None:
                    continue
                frame = max(features, results, ceil(mode.multiplying(results, parts[0].window, batch)), 1)
                sets = -(-outputs // kernels)
                unit_cycles, bank_cycles = (ceil(within.bands * one) * sets * passes for one in (frame, bank))
                left = EPOCH_CYCLES if outputs % kernels else 0
                lane = max(unit_cycles, bank_cycles, words)
                if passes == 1 or form.ring:
                    lane = ceil(lane * _longest_lane(units, sets, kernels, rows > 1))
                yield TilingCandidate(
                    *(mode, slots, kernels, units, form),
                    unit_cycles=unit_cycles,
                    bank_cycles=bank_cycles,
                    left_cycles=left,
                    least=max(lane, flash) + left,
                    lane=lane,
                )


def _longest_lane(units: int, sets: int, kernels: int, window: bool) -> float:
    """What part of all its sets of kernels the longest of the lanes takes that an epoch holds: each has so many units,
    and engines for features, kernels and results. Bands of rows are even, but those of windows were seldom seen."""
    lanes = min(MAX_CHAINS, UNITS["CONVACC"] // units, UNITS["STRENG"] // (units + 2))
    if not window:
        return 1 / lanes
    together = BUS_BYTES // gcd(BUS_BYTES, kernels)  # sets whose results fill whole words
    return min(1.0, -(-sets // together // lanes) * together / sets)


def _feature_words(part: Outline, mode: FeatureMode, batch: int) -> int:
    pixels = part.area.height * part.area.width
    if not mode.deep:
        return pixels * batch
    return -(-pixels * batch // 3) if mode.packed_frame else pixels * -(-batch // 3)


def feature_bank_cycles(parts: Sequence[Outline | Part], batch: int, units: int, timing: Timing) -> float:
    """For one frame of every unit, all of them in the memory that holds the features: runs of few bytes cost a beat of
    the bus each, or two where they lie across its words."""
    total = 0.0
    for part in parts if len(parts) > 1 else [*parts] * units:
        area, run = part.area, batch * part.area.element_bytes
        if run == area.pixel:
            total += timing.read_beat * area.height * -(-area.width * run // BUS_BYTES)
            continue
        step = gcd(area.pixel, BUS_BYTES)
        starts = range(area.offset % step, BUS_BYTES, step)
        beats = sum(-(-(start + run) // BUS_BYTES) for start in starts) / len(starts)
        beat = timing.single_read_beat if run <= BUS_BYTES else timing.read_beat
        total += beat * beats * area.height * area.width
    return total


def _unit_counts(parts: tuple[Outline, ...], channels: int) -> list[int]:
    if len(parts) > 1:
        return [len(parts)]
    return list(range(1, MAX_CHAIN + 1))


@lru_cache(maxsize=4096)
def _slots(channels: int, units: int, most: int, wanted: int | None, aligned: int) -> tuple[Slots, ...]:
    """Ways worth trying to spread the channels over units and passes: evenly, all of them beginning at aligned
    places, the largest batches first."""
    if wanted is not None:
        found = [Slots(wanted // units, channels // wanted, wanted, wanted)] if wanted % units == 0 else []
        return tuple(slots for slots in found if 0 < slots.batch <= most and slots.aligned(units, aligned))
    kept: list[Slots] = []
    for passes in range(1, min(-(-channels // units), MOST_PASSES) + 1):
        step = channels // passes // aligned * aligned
        reach = channels - (passes - 1) * step
        batch = min(reach, -(-reach // units // aligned) * aligned) if units > 1 else reach
        if not 0 < batch <= most or (kept and batch >= kept[-1].batch):
            continue
        slots = Slots(batch, passes, reach, step)
        if slots.aligned(units, aligned):
            kept.append(slots)
            if len(kept) == MOST_TRIED:
                break
    return tuple(kept)


@lru_cache(maxsize=4096)
def _kernels(outputs: int, most: int, whole: int) -> tuple[int, ...]:
    """As many as fit, spread evenly over the groups, or in groups that begin at multiples of `whole`; and as many as
    leave none over, which would take an epoch of their own."""
    if most < 1:
        return ()
    groups = -(-outputs // most)
    even = next(k for k in range(min(most, outputs), 0, -1) if outputs % k == 0)
    if whole > 1 and groups > 1:
        aligned = most - most % whole if most >= whole else 1 << (most.bit_length() - 1)
        return (aligned,)
    return tuple(dict.fromkeys((-(-outputs // groups), even)))
