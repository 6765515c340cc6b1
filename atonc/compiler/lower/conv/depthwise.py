"""Depthwise convolutions: blocks of channels with kernels that look at one channel each, several blocks in parallel.

How channels of a depthwise convolution are cut into blocks: as many at a time as the units, the memory and the
flash can follow best.

Every kernel of a block is stored with zeros for the other channels of its block, so large blocks read more from flash;
small blocks read fewer bytes at a time from the picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf, lcm

import numpy as np

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import (
    FeatureMode,
    chain_configs,
    least_batch,
    limits,
    no_setting,
    pictures_trusted,
)
from atonc.compiler.lower.conv.channel_groups import ShiftGroups, chosen_shifts, ranges
from atonc.compiler.lower.conv.engines import feature_engine, kernel_buffer, kernel_reader, output_engine, requantise
from atonc.compiler.lower.conv.kernel_parts import Part, unit_parts
from atonc.compiler.lower.conv.lanes import (
    Work,
    epochs_cycles,
    even_epochs,
    in_turns,
    least_cycles,
    meeting,
    most_interleaved,
    row_tiles,
    rows_together,
)
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.partial_sums import Results, add_up, chunks, flat, silent
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.conv.wide import frame, joined, side_by_side, wide_parts
from atonc.compiler.lower.semantics.sums import LoweredSums, SumChain, SumTerm, agree, record
from atonc.compiler.lower.units.wiring import Wiring, pack
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.policy import EPOCH_CYCLES, MAX_CHAINS, TOO_COARSE
from atonc.compiler.plan.streams import Area, Frames, engine
from atonc.compiler.plan.task import Purpose, TaskGroup
from atonc.compiler.select.enumerate import AS_IT_IS, Deciding, Pieces, Steps, best, cheapest_of, tried
from atonc.compiler.select.enumerate import first as first_of
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES, MAX_CHAIN, UNITS
from atonc.machine.hw.safety.evidence.trust import longest_run, units_trusted
from atonc.machine.hw.units.arith import ROWS
from atonc.machine.hw.units.convacc import ConvaccConfig

Slice = tuple[int, int]  # output channels: the first and how many
Slices = list[Slice]


@dataclass(frozen=True)
class Cut:
    """`batch` channels a frame, `kernels` outputs a frame, `repeats` frames for the same channels."""

    mode: FeatureMode
    batch: int
    kernels: int
    repeats: int
    configs: tuple[ConvaccConfig, ...]
    joined: bool = False  # the units side by side and their rounded sums added, instead of one chain

    @property
    def outputs(self) -> int:
        return self.kernels * self.repeats

    @property
    def roundings(self) -> int:
        return 1 + len(self.configs) if self.joined else 1

    def lanes(self, ariths: int) -> int:
        """How many of them an epoch holds, each with so many ARITHs behind the sums."""
        units, kernel_streams = len(self.configs), len(self.configs) if self.joined else 1
        return min(
            MAX_CHAINS,
            UNITS["CONVACC"] // units,
            UNITS["ARITH"] // (ariths + self.joined),
            UNITS["STRENG"] // (units + kernel_streams + 1),
        )


def best_cut(layer: ConvLayer, parts: tuple[Part, ...], channels: int, joined: bool = False) -> Cut | None:
    """The proven block of at most so many channels that takes the fewest cycles."""
    ariths = layer.code_units_behind(layer.zero, 1, channels)
    for mode in layer.modes():
        cuts = list(_blocks_of(layer, parts, mode, range(channels, 0, -1), joined))
        ranked = sorted(cuts, key=lambda cut: _least_cycles(parts, cut, channels, ariths, layer))
        if best := next((cut for cut in ranked if units_trusted(cut.configs, layer.trust)), None):
            return best
    return None


def exact_cut(layer: ConvLayer, batch: int, subtracted: int, parts: tuple[Part, ...]) -> Cut | None:
    """A chain for blocks of so many channels."""
    modes = (mode for mode in layer.modes() if mode.offset == subtracted)
    cuts = (cut for mode in modes for cut in _blocks_of(layer, parts, mode, [batch], False, exactly=True))
    return next((cut for cut in cuts if units_trusted(cut.configs, layer.trust)), None)


def _blocks_of(
    layer: ConvLayer,
    parts: tuple[Part, ...],
    mode: FeatureMode,
    batches: range | list[int],
    joined: bool,
    exactly: bool = False,
) -> Iterator[Cut]:
    if mode.deep or not (joined or pictures_trusted(parts, mode, layer.trust)):
        return
    multiplier = layer.outputs // layer.area.channels
    rows, columns = parts[0].window
    least, channels = least_batch(mode, rows), max(batches)
    most_kernels, most_batch, most_weights, most_line = limits(mode, rows, columns)
    most = min(most_kernels, most_batch, most_line // max(part.area.width for part in parts))
    for batch in batches:
        if not least <= batch <= most or (not exactly and layer.large and ALIGNED % batch):
            continue  # parts of large buffers begin at aligned addresses
        if 0 < channels % batch < least:
            continue  # nothing would fit the channels that are left
        kernels, repeats = _kernels(batch, multiplier, most_kernels)
        if kernels * batch * rows * columns > most_weights:
            continue
        if joined:
            configs = side_by_side(parts, mode, batch, kernels)
        else:
            configs = chain_configs(parts, mode, batch, kernels, len(parts))
        if configs is not None:
            yield Cut(mode, batch, kernels, repeats, configs, joined)


def _kernels(batch: int, multiplier: int, most: int) -> tuple[int, int]:
    """Kernels a frame and frames for the same channels."""
    total = batch * multiplier
    kernels = max(k for k in range(1, min(total, most) + 1) if total % k == 0)
    return kernels, total // kernels


def _least_cycles(parts: tuple[Part, ...], cut: Cut, channels: int, ariths: int, layer: ConvLayer) -> float:
    """A bound for all channels, with as many chains as fit: the slowest of the units, the bank of the picture, the
    flash. So many bands that shall be cut alike are reckoned as one picture. There are up to a hundred cuts a layer and
    tasks of none of them yet, so `Form.cycles` cannot rank them."""
    timing, bands = layer.machine.timing, layer.bands
    blocks, rest = divmod(channels, cut.batch)
    pixels = bands * max(frame(part).height * part.area.width for part in parts)
    rows_out, columns_out = parts[0].out_size
    results = bands * rows_out * columns_out * cut.kernels
    multiplying = max(cut.mode.multiplying(results, part.window, cut.batch) for part in parts)
    unit = max(pixels * cut.batch, results, multiplying)
    if parts[0].window[0] > 1:
        area = parts[0].area
        unit += timing.fill_lines * area.width * cut.batch + timing.fill_per_line * bands * area.height
        unit += timing.fill_constant
    bank = timing.single_read_beat * len(parts) * pixels * -(-cut.batch // BUS_BYTES)
    taps = sum(part.window[0] * part.window[1] for part in parts)
    near = layer.made_for.weights_near and not layer.made_for.ram_scarce  # zeros would take room from other weights
    flash = (0.0 if near else layer.machine.flash_byte_cycles) * taps * cut.kernels * cut.batch * cut.mode.kernel_bytes
    lanes = max(1, min(cut.lanes(ariths), blocks))
    left = EPOCH_CYCLES + unit * cut.repeats * rest / cut.batch if rest else 0.0
    return blocks * cut.repeats * max(unit / lanes, bank, flash) + left


def slices_of(layer: ConvLayer, target: Area, cut: Cut, job: Slice, pieces: int) -> Slices:
    """Output channels in at most so many pieces, which share no word of the bus."""
    first, count = job
    step = lcm(cut.outputs, ALIGNED if layer.large else BUS_BYTES)
    if (target.pixel | target.line) % BUS_BYTES:
        return [job]
    cuts = {(first + count * k // pieces) // step * step for k in range(1, pieces)}
    starts = [first, *sorted(start for start in cuts if first < start < first + count)]
    return [(a, b - a) for a, b in zip(starts, [*starts[1:], first + count], strict=True)]


def share_of(layer: ConvLayer, target: Area, cut: Cut, blocks: int, lanes: int) -> int:
    """Blocks that one chain takes: as few as there are chains for, in slices that share no word of the bus."""
    most = max(1, ROWS // cut.outputs)
    if (target.pixel | target.line) % BUS_BYTES:
        return min(blocks, most)  # slices of such pixels lie in the same words
    share = min(-(-blocks // lanes), most)
    aligned, words = (lcm(cut.outputs, step) // cut.outputs for step in (ALIGNED, BUS_BYTES))
    apart = blocks > aligned and (share >= aligned or layer.large)
    step = aligned if apart or layer.huge else words
    whole = -(-share // step) * step
    return whole if whole <= most else share


BLOCK = 8  # channels of a usual block
SHORTER_STREAMS = (
    "a bound without banks ranks them; the calibrated model would choose otherwise in 10 of 84 depthwise layers of "
    "small networks"
)
SLICES, BANDS, EVEN_BANDS = Variant("slices"), Variant("bands"), Variant("pooled bands")

Band = tuple[tuple[Part, ...], Area, Cut]  # all rows of a layer, or some of them


@dataclass(frozen=True)
class DepthwiseBlocks:
    """Blocks of channels that one chain takes, from `channel` on."""

    parts: tuple[Part, ...]
    cut: Cut
    channel: int
    count: int
    ruled: tuple[int, int] = (0, 0)  # output channels, first and how many, whose rule it keeps; none: it has its own


def is_depthwise(layer: ConvLayer) -> bool:
    return layer.weights.shape[3] == 1 and layer.op.kind == "conv" and int(layer.op.attrs.get("groups", 1)) > 1


def windows(layer: ConvLayer, draft: Context) -> Deciding | None:
    """Two units side by side before chains of windows."""
    if not is_depthwise(layer):
        return None
    rows: list[Steps] = [(InWideWindows(),), (InWindows(),)] if wide_parts(layer) else [(InWindows(),)]
    return first_of(rows, blame_last=True)


@dataclass(frozen=True)
class InWideWindows:
    def prepare(self, layer: ConvLayer, draft: Context) -> Pieces:
        found = _channels(layer, wide_parts(layer), layer.out, 0, layer.area.channels, wide=True)
        return Pieces(tuple((one, AS_IT_IS) for one in found))


@dataclass(frozen=True)
class InWindows:
    def prepare(self, layer: ConvLayer, draft: Context) -> Pieces:
        found: list[tuple[OpenBlocks | DepthwiseSums, Steps]] = []
        for phase in layer.phases((layer.out.height, layer.out.width)):
            target, multiplier = layer.outputs_of(phase), layer.outputs // layer.area.channels
            for first, count in layer.runs(layer.outputs, lcm(BLOCK * multiplier, layer.alignment)):
                parts = unit_parts(phase, first, count, layer.trust)
                some = _channels(layer, parts, target, first // multiplier, count // multiplier)
                found += ((one, AS_IT_IS) for one in some)
        return Pieces(tuple(found))


def _channels(
    layer: ConvLayer, parts: tuple[Part, ...], target: Area, first: int, channels: int, wide: bool = False
) -> Iterator[OpenBlocks | DepthwiseSums]:
    """Whole blocks first, then a smaller block for the channels that are left."""
    while channels:
        chain, cut = (parts, best_cut(layer, parts, channels, True)) if wide else _one_chain(layer, parts, channels)
        if cut is None and wide:
            raise no_setting(parts[0], layer.area.channels, layer.op.name)
        if cut is None:
            yield DepthwiseSums(layer, parts, target, first, channels)
            return
        blocks = channels // cut.batch
        yield OpenBlocks(layer, chain, target, BlockStretch(cut, first, blocks))
        first, channels = first + blocks * cut.batch, channels % cut.batch


def _one_chain(layer: ConvLayer, parts: tuple[Part, ...], channels: int) -> tuple[tuple[Part, ...], Cut | None]:
    """All parts in one chain, with a partner that adds nothing where a shorter chain was never seen."""
    for chain in (parts, (*parts, silent(parts[0]))):
        groups = {part.group for part in chain}
        if len(chain) <= MAX_CHAIN and len(groups) == 1 and (cut := best_cut(layer, chain, channels)) is not None:
            return chain, cut
    return parts, None


@dataclass(frozen=True, eq=False)
class DepthwiseSums:
    """Parts in several chains, one after the other, for as many channels as one ARITH has coefficients."""

    layer: ConvLayer
    parts: tuple[Part, ...]
    target: Area
    first: int
    channels: int

    def build(self, draft: Context) -> list[TaskGroup]:
        layer, step = self.layer, max(1, ROWS // (self.layer.outputs // self.layer.area.channels))
        end = self.first + self.channels
        starts = range(self.first, end, step)
        return [group for start in starts for group in self._summed(layer, start, min(step, end - start), draft)]

    def _summed(self, layer: ConvLayer, start: int, count: int, context: Context) -> list[TaskGroup]:
        parts, target = self.parts, self.target
        multiplier = layer.outputs // layer.area.channels
        groups: list[TaskGroup] = []
        batch = next(k for k in (4, 2, 1) if count % k == 0)
        tried = (chunks(parts, partial(exact_cut, layer, batch, subtracted)) for subtracted in layer.subtracted())
        found = next((chains for chains in tried if chains), [])  # one bias for all chains, so one zero point
        if len(found) < 2 or len({cut.kernels for _, cut in found}) > 1:
            raise no_setting(parts[0], layer.area.channels, layer.op.name)
        outputs = (start * multiplier, count * multiplier)
        rule = layer.requantisation_of(found[0][1].mode.offset, 1 + len(found), *outputs)
        sums = []
        for chain, cut in found:
            sums.append(context.scratch(2 * target.height * target.width * count * multiplier, "parts of a kernel"))
            b = TaskBuilder(layer.origin, f"part of depthwise conv {layer.op.name}", Purpose.PART)
            tail = add_units(b, layer, context, DepthwiseBlocks(chain, cut, start, count // cut.batch), rule.out_shift)
            b.write(tail, sums[-1], engine(flat(target.height * target.width * count * multiplier), write=True))
            groups.append(b.alone())
        chains = tuple(meaning_of(chain, cut) for chain, cut in found)
        record(context, layer, LoweredSums(layer.stored, chains, rule, target, *outputs, multiplier))
        kernels = found[0][1].kernels
        groups += add_up(context, sums, Results(layer, target, rule, *outputs, kernels))
        return groups


@dataclass(frozen=True)
class BlockStretch:
    """Blocks from channel `first` on, and how they are cut further."""

    cut: Cut
    first: int
    blocks: int
    shifts: ShiftGroups = ShiftGroups.FEW

    def outputs(self, layer: ConvLayer, share: int) -> list[tuple[int, int]]:
        """Channels of the result in chains of at most so many blocks: the first and how many."""
        multiplier, cut = layer.outputs // layer.area.channels, self.cut
        cutting = partial(ranges, layer, cut.mode.offset, cut.roundings)
        step, found = lcm(cut.outputs, self.shifts.step(layer)), list[tuple[int, int]]()
        for k in range(0, self.blocks, share):
            first, count = (self.first + k * cut.batch) * multiplier, min(share, self.blocks - k) * cut.outputs
            found += cutting(first, count, step, self.shifts)
        return found


@dataclass(frozen=True, eq=False)
class OpenBlocks:
    """Blocks whose shifts are not decided yet: few, many, or for whole words of channels."""

    layer: ConvLayer
    parts: tuple[Part, ...]
    target: Area
    stretch: BlockStretch

    def rows(self) -> dict[ShiftGroups, Steps]:
        layer, parts, target, cut, blocks = self.layer, self.parts, self.target, self.stretch.cut, self.stretch.blocks
        lanes = _lanes(layer, cut)
        share = share_of(layer, target, cut, blocks, min(lanes, blocks))
        most = min(blocks, max(1, ROWS // cut.outputs))
        found, known = dict[ShiftGroups, Steps](), list[list[Slices]]()
        areas = _bands(layer, parts, target, cut, lanes)
        for shifts in ShiftGroups:
            if shifts is ShiftGroups.MANY and layer.is_whole:
                continue  # cut nowhere, as with few
            one = replace(self.stretch, shifts=shifts)
            if (outputs := [one.outputs(layer, size) for size in (share, most)]) not in known:
                found[shifts] = (CutBlocks(layer, (parts, target, cut), tuple(areas), share, most, one),)
                known.append(outputs)
        return found


def shifts(blocks: OpenBlocks | object, draft: Context) -> Deciding | None:
    return chosen_shifts(blocks.layer, draft, blocks.rows(), {}) if isinstance(blocks, OpenBlocks) else None


def _lanes(layer: ConvLayer, cut: Cut) -> int:
    return cut.lanes(layer.code_units_behind(cut.mode.offset, cut.roundings, cut.outputs))


@dataclass(frozen=True, eq=False)
class CutBlocks:
    """Blocks with their shifts: slices of channels side by side, or bands of rows where that is faster."""

    layer: ConvLayer
    whole: Band
    areas: tuple[Band, ...]  # all rows in bands
    share: int  # blocks that a chain takes: as few as there are chains for
    most: int  # as many as it may
    stretch: BlockStretch

    def prepare(self, subject: OpenBlocks, draft: Context) -> CutBlocks:
        return self

    def epochs(self, areas: Sequence[Band], share: int) -> tuple[DepthwiseChains]:
        """Every area in chains of at most so many blocks."""
        layer, stretch = self.layer, self.stretch
        multiplier = layer.outputs // layer.area.channels
        chains = [
            (target, own)
            for out, some in stretch.outputs(layer, share)
            for parts, target, form in areas
            for own in _divided(layer, DepthwiseBlocks(parts, form, out // multiplier, some // stretch.cut.outputs))
        ]
        return (DepthwiseChains(layer, (tuple(chains),)),)

    def expected(self, row: DepthwiseChains) -> float:
        """As `least_cycles` of its tasks, before there are any: with as many chains in an epoch as units and evidence
        about interleaved writers allow."""
        layer, lanes, cycles = self.layer, _lanes(self.layer, self.whole[2]), 0.0
        sliced = most_interleaved(lanes, layer.trust)
        for group in row.groups:
            targets = {target for target, _ in group}
            works = sorted((_streams(layer, target, own) for target, own in group), reverse=True)
            at_once = sliced if len(targets) == 1 else lanes
            epochs = (works[k : k + at_once] for k in range(0, len(works), at_once))
            cycles += sum(EPOCH_CYCLES + max(some[0][0], sum(flash for _, flash in some)) for some in epochs)
        return cycles

    def even(self, bound: float = inf) -> Iterator[tuple[Variant, tuple[DepthwiseChains]]]:
        """In all lanes and in fewer, where an epoch may not have as many writers: those that may be below the bound."""
        layer, (_, target, cut) = self.layer, self.whole
        jobs = self.stretch.outputs(layer, self.most)
        for count in range(2, _lanes(layer, cut) + 1):
            cycles, epochs = _end_together(layer, self.whole, jobs, count)
            if cycles < bound:
                found = (tuple((target, own) for one in epoch for own in _divided(layer, one)) for epoch in epochs)
                yield Variant("even slices", count), (DepthwiseChains(layer, tuple(found)),)


@dataclass(frozen=True, eq=False)
class DepthwiseChains:
    """Chains of blocks, each with the rows that it writes; those in one group run side by side as far as they fit."""

    layer: ConvLayer
    groups: tuple[tuple[tuple[Area, DepthwiseBlocks], ...], ...]

    def prepare(self, subject: CutBlocks, draft: Context) -> DepthwiseChains:
        return self

    def build(self, draft: Context) -> list[TaskGroup]:
        found: list[TaskGroup] = []
        for group in self.groups:
            chains = [
                Wiring(partial(_chain, self.layer, draft, target, own), cost=own.count * target.height)
                for target, own in group
            ]
            found += pack(chains, self.layer.origin, f"depthwise conv {self.layer.op.name}")
        return found


def cuts(blocks: CutBlocks | object, draft: Context) -> Deciding | None:
    if not isinstance(blocks, CutBlocks):
        return None
    return _as_all_rows(blocks, draft) if blocks.layer.rounds_as is not None else _cuts(blocks, draft)


def _as_all_rows(blocks: CutBlocks, draft: Context) -> Deciding:
    """The cut, among bands of a stripe, that rounds as all rows do."""
    layer, most = blocks.layer, blocks.most
    assert layer.rounds_as is not None
    rows = [(SLICES, blocks.epochs([blocks.whole], blocks.share)), (SLICES, blocks.epochs([blocks.whole], most))]
    rows += [(BANDS, blocks.epochs(blocks.areas, most))] if blocks.areas else []
    found, _ = yield from tried([*rows, *blocks.even()])
    alike = [one for _, one in found if agree(one.form.semantics[layer.op.name], layer.rounds_as)]
    if alike:
        return min(alike, key=lambda one: least_cycles(one.form.groups, draft.facts.target))
    return (yield from _cuts(blocks, draft))


def _cuts(blocks: CutBlocks, draft: Context) -> Deciding:
    """By a bound without banks, and by cost among those that have the same."""
    layer, least = blocks.layer, partial(least_cycles, target=draft.facts.target)
    rows = [(SLICES, blocks.epochs([blocks.whole], blocks.share))]
    rows += [(BANDS, blocks.epochs(blocks.areas, blocks.most))] if blocks.areas else []
    if pooled := _even_bands(layer, draft, *blocks.whole) if blocks.areas else []:
        rows.append((EVEN_BANDS, blocks.epochs(pooled, blocks.most)))
    if draft.facts.enough > 1.0:
        some = [*rows, *blocks.even()]
        expected = [(variant, row, blocks.expected(row[0])) for variant, row in some]
        return (yield from cheapest_of(expected, price=lambda form: 0.0))
    found, refused = yield from tried(rows)
    if layer.rounds_as is None and found and found[0][0] == SLICES:
        more, less = yield from tried(blocks.even(least(found[0][1].form.groups)))
        found, refused = found + more, refused + less
    if not found:
        return refused[0]
    ranks = {variant: least(one.form.groups) for variant, one in found}
    sliced = ranks.keys() - {BANDS, EVEN_BANDS}
    ranks |= dict.fromkeys(sliced, min((ranks[variant] for variant in sliced), default=inf))
    shortest = min(ranks.values())
    variant, chosen = best([offer for offer in found if ranks[offer[0]] == shortest])
    longer = [offer for offer in found if ranks[offer[0]] > shortest]
    return chosen.over(variant, longer, SHORTER_STREAMS).after(refused)


def _end_together(layer: ConvLayer, band: Band, jobs: Slices, lanes: int) -> tuple[float, list[list[DepthwiseBlocks]]]:
    """Epochs in which each job is cut into as many slices as let all end together; and a bound of their cycles, as
    `least_cycles`. A slice keeps the rule of its job: the bits are those of one chain for each."""
    (parts, target, cut), multiplier = band, layer.outputs // layer.area.channels
    pixels = max(frame(part).height * part.area.width for part in parts)
    block = max(pixels * cut.batch * cut.repeats, target.height * target.width * cut.outputs)
    works = [Work(block * count // cut.outputs, 0) for _, count in jobs]

    def meet(one: int, other: int) -> bool:
        return meeting(target, jobs[one], jobs[other])

    def slices(job: Slice, pieces: int) -> list[DepthwiseBlocks]:
        cuts = slices_of(layer, target, cut, job, pieces)
        return [DepthwiseBlocks(parts, cut, a // multiplier, n // cut.outputs, job) for a, n in cuts]

    epochs = even_epochs(works, lanes, meet)
    found = [group for epoch in epochs for group in _in_turns(layer, slices, [(jobs[k], n) for k, n in epoch.items()])]
    return epochs_cycles(epochs, works) + EPOCH_CYCLES * (len(found) - len(epochs)), found


def _streams(layer: ConvLayer, target: Area, blocks: DepthwiseBlocks) -> tuple[int, float]:
    """Cycles of a chain: the longer of features and results, and its kernels from flash."""
    cut, taps = blocks.cut, sum(part.window[0] * part.window[1] for part in blocks.parts)
    pixels = max(frame(part).height * part.area.width for part in blocks.parts)
    longest = max(pixels * cut.batch * cut.repeats, target.height * target.width * cut.outputs)
    fetched = layer.made_for.weight_byte_cycles * cut.outputs * cut.batch * taps
    return blocks.count * longest, blocks.count * fetched


def _in_turns(
    layer: ConvLayer, slices: Callable[[Slice, int], list[DepthwiseBlocks]], epoch: list[tuple[Slice, int]]
) -> list[list[DepthwiseBlocks]]:
    """One epoch; several of a job alone whose writers would have longer runs than interleaved ones may have."""
    (job, lanes), *others = epoch
    turns = in_turns(partial(slices, job), lambda own: own.count * own.cut.outputs, lanes, longest_run(layer.trust))
    if others or lanes == 1 or turns is None:
        return [[own for job, pieces in epoch for own in slices(job, pieces)]]
    return turns


def _even_bands(layer: ConvLayer, context: Context, parts: tuple[Part, ...], target: Area, cut: Cut) -> list[Band]:
    """Two bands, for both POOLs, of rows that a pooling behind the layer takes together; they round as other bands."""
    together = rows_together(layer, context.graph)
    return _bands(layer, parts, target, cut, UNITS["POOL"], together) if together > 1 else []


def _bands(
    layer: ConvLayer, parts: tuple[Part, ...], target: Area, cut: Cut, count: int, together: int = 1
) -> list[Band]:
    if cut.joined:
        return []  # such units leave out lines of the whole picture
    writes, reads = (ALIGNED, ALIGNED // 2) if layer.large else (BUS_BYTES, 1)
    if layer.coarse:
        writes = reads = ALIGNED
    found = []
    for some, place in row_tiles(parts, target, count, writes, reads, together, layer.trust):
        configs = chain_configs(some, cut.mode, cut.batch, cut.kernels, len(some))
        if configs is None or not units_trusted(configs, layer.trust):
            return []
        found.append((some, place, replace(cut, configs=configs)))
    return found


def _divided(layer: ConvLayer, blocks: DepthwiseBlocks) -> list[DepthwiseBlocks]:
    """One chain, or one for every channel where the scales inside a block differ too much."""
    multiplier, cut = layer.outputs // layer.area.channels, blocks.cut
    outputs = blocks.channel * multiplier, blocks.count * cut.outputs
    if blocks.ruled not in ((0, 0), outputs):
        return [blocks]  # of a larger group
    rule = layer.requantisation_of(cut.mode.offset, cut.roundings, *outputs)
    coarse = isinstance(rule, Requantisation) and rule.error > TOO_COARSE
    single = best_cut(layer, blocks.parts, 1, cut.joined) if coarse and blocks.count == 1 and cut.batch > 1 else None
    if single is None:
        return [blocks]
    return [DepthwiseBlocks(blocks.parts, single, blocks.channel + k, 1) for k in range(cut.batch)]


def _chain(layer: ConvLayer, context: Context, target: Area, blocks: DepthwiseBlocks, b: TaskBuilder) -> None:
    multiplier, cut = layer.outputs // layer.area.channels, blocks.cut
    out, count = blocks.channel * multiplier, blocks.count * cut.outputs
    first, ruled = blocks.ruled if any(blocks.ruled) else (out, count)
    rule = layer.requantisation_of(cut.mode.offset, cut.roundings, first, ruled)
    tail = add_units(b, layer, context, blocks, rule.out_shift)
    units = layer.code_units(rule.units(out - first, count, cut.kernels, target.height * target.width))
    codes = requantise(b, units, tail, {})
    b.write(codes, layer.target, output_engine(target, cut.kernels, out, count // cut.kernels))
    if out == first:  # once for all slices of a group
        chains = tuple(meaning_of(chain, cut) for chain in _chains(blocks))
        record(context, layer, LoweredSums(layer.stored, chains, rule, target, first, ruled, multiplier))


def meaning_of(parts: tuple[Part, ...], cut: Cut) -> SumChain:
    return SumChain((tuple(SumTerm(part, 0, 1) for part in parts),), cut.mode.offset)


def _chains(blocks: DepthwiseBlocks) -> list[tuple[Part, ...]]:
    """One chain, or units side by side."""
    return [(part,) for part in blocks.parts] if blocks.cut.joined else [blocks.parts]


def add_units(b: TaskBuilder, layer: ConvLayer, context: Context, blocks: DepthwiseBlocks, out_shift: int) -> str:
    """Every chain with a stream of kernels."""
    tails, cut = [], blocks.cut
    configs = iter(cut.configs)
    for chain in _chains(blocks):
        stream = kernel_buffer(_kernel_bytes(layer, replace(blocks, parts=chain)), cut.mode)
        kernels = b.read(context.keep(stream), kernel_reader(stream, cut.mode))
        tail = ""
        for unit, part in enumerate(chain, 1):
            view = frame(part).channels_from(blocks.channel, cut.batch)
            frames = Frames(cut.repeats, 0, blocks.count, cut.batch * view.element_bytes)
            features = b.read(layer.source, feature_engine(view, frames, cut.mode))
            config = changed(next(configs), out_shift=out_shift if unit == len(chain) else 0)
            tail = b.unit(config, features, kernels, tail or None)
        tails.append(tail)
    return joined(b, tails) if cut.joined else tails[0]


def _kernel_bytes(layer: ConvLayer, blocks: DepthwiseBlocks) -> bytes:
    """[block][repeat][unit][kernel][row][column][channel]: zeros except for the channel of each kernel."""
    multiplier, cut, count = layer.outputs // layer.area.channels, blocks.cut, blocks.count
    first, outputs = blocks.channel * multiplier, count * cut.outputs
    of_channel = np.arange(cut.outputs) // multiplier
    stacked = []
    for part in blocks.parts:
        own = part.weights[first : first + outputs, :, :, 0]
        own = own.reshape(count, cut.outputs, *part.window)
        full = np.zeros((count, cut.outputs, *part.window, cut.batch), np.int8)
        full[:, np.arange(cut.outputs), :, :, of_channel] = own.transpose(1, 0, 2, 3)
        stacked.append(full.reshape(count, cut.repeats, cut.kernels, *part.window, cut.batch))
    return np.ascontiguousarray(np.stack(stacked, axis=2)).tobytes()


DECISIONS = (windows, shifts, cuts)
