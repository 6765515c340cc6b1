"""Depthwise convolutions: blocks of channels with kernels that look at one channel each, several blocks in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import inf, lcm

import numpy as np

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import chain_configs, no_setting
from atonc.compiler.lower.conv.channel_groups import ShiftGroups, choose_shifts, ranges
from atonc.compiler.lower.conv.depthwise_cuts import Cut, Slice, Slices, best_cut, exact_cut, share_of, slices_of
from atonc.compiler.lower.conv.engines import feature_engine, kernel_buffer, kernel_reader, output_engine, requantise
from atonc.compiler.lower.conv.even_lanes import Work, epochs_cycles, even_epochs, in_turns, meeting
from atonc.compiler.lower.conv.forms_2x import lower_2x
from atonc.compiler.lower.conv.kernel_parts import Part, unit_parts
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.pad_first import lower_padded
from atonc.compiler.lower.conv.partial_sums import Results, add_up, chunks, flat, silent
from atonc.compiler.lower.conv.requantise import Requantisation
from atonc.compiler.lower.conv.row_tiles import least_cycles, row_tiles, rows_together
from atonc.compiler.lower.conv.shift_first import needs_shifting, shift_first
from atonc.compiler.lower.conv.wide_windows import frame, joined, wide_parts
from atonc.compiler.lower.semantics.sums import LoweredSums, SumChain, SumTerm, agree, record
from atonc.compiler.lower.units.wiring import Wiring, pack
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.policy import EPOCH_CYCLES, TOO_COARSE
from atonc.compiler.plan.streams import Area, Frames, engine
from atonc.compiler.plan.task import Purpose, TaskGroup
from atonc.compiler.select.choose import Offer, attempt, choose, in_order, take_best
from atonc.compiler.select.form import Form, RefusedForm
from atonc.compiler.select.preferences import SHORTER_STREAMS, WIDE_WINDOWS
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import changed
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES, MAX_CHAIN, UNITS
from atonc.machine.hw.safety.evidence.seen import longest_run, units_trusted
from atonc.machine.hw.units.arith import ROWS

BLOCK = 8  # channels of a usual block
SLICES = "slices of channels"
EVEN_SLICES = {n: f"{n} slices of channels that end together" for n in range(2, UNITS["CONVACC"] + 1)}
BANDS, EVEN_BANDS = "bands of rows", "two bands of rows that are pooled together"

Band = tuple[tuple[Part, ...], Area, Cut]  # all rows of a layer, or some of them


@dataclass(frozen=True)
class DepthwiseBlocks:
    """Blocks of channels that one chain takes, from `channel` on."""

    parts: tuple[Part, ...]
    cut: Cut
    channel: int
    count: int
    ruled: tuple[int, int] = (0, 0)  # output channels, first and how many, whose rule it keeps; none: it has its own


def lower(layer: ConvLayer, context: Context) -> list[TaskGroup]:
    by = lower_2x if layer.numerics == "2.x" else lower_padded
    if not needs_shifting(layer):
        return by(layer, context, _lower)
    copies, shifted = shift_first(layer, context)
    return [*copies, *by(shifted, context, _lower)]


def _lower(layer: ConvLayer, context: Context) -> list[TaskGroup]:
    if wide := wide_parts(layer):
        draws = [partial(_in_wide_windows, layer, wide), partial(_in_windows, layer)]
        return choose(context, in_order(WIDE_WINDOWS, draws), blame_last=True)
    return _in_windows(layer, context)


def _in_wide_windows(layer: ConvLayer, parts: tuple[Part, ...], context: Context) -> list[TaskGroup]:
    return _channels(layer, context, parts, layer.out, 0, layer.area.channels, wide=True)


def _in_windows(layer: ConvLayer, context: Context) -> list[TaskGroup]:
    groups: list[TaskGroup] = []
    size = (layer.out.height, layer.out.width)
    for phase in layer.phases(size):
        target, multiplier = layer.outputs_of(phase), layer.outputs // layer.area.channels
        for first, count in layer.runs(layer.outputs, lcm(BLOCK * multiplier, layer.alignment)):
            parts = unit_parts(phase, first, count, layer.trust)
            groups += _channels(layer, context, parts, target, first // multiplier, count // multiplier)
    return groups


def _channels(
    layer: ConvLayer,
    context: Context,
    parts: tuple[Part, ...],
    target: Area,
    first: int,
    channels: int,
    wide: bool = False,
) -> list[TaskGroup]:
    """Whole blocks first, then a smaller block for the channels that are left."""
    groups: list[TaskGroup] = []
    while channels:
        chain, cut = (parts, best_cut(layer, parts, channels, True)) if wide else _one_chain(layer, parts, channels)
        if cut is None and wide:
            raise no_setting(parts[0], layer.area.channels, layer.op.name)
        if cut is None:
            return [*groups, *_summed(layer, context, parts, target, first, channels)]
        blocks = channels // cut.batch
        groups += _blocks(layer, context, chain, target, BlockStretch(cut, first, blocks))
        first, channels = first + blocks * cut.batch, channels % cut.batch
    return groups


def _one_chain(layer: ConvLayer, parts: tuple[Part, ...], channels: int) -> tuple[tuple[Part, ...], Cut | None]:
    """All parts in one chain, with a partner that adds nothing where a shorter chain was never seen."""
    for chain in (parts, (*parts, silent(parts[0]))):
        groups = {part.group for part in chain}
        if len(chain) <= MAX_CHAIN and len(groups) == 1 and (cut := best_cut(layer, chain, channels)) is not None:
            return chain, cut
    return parts, None


def _summed(
    layer: ConvLayer, context: Context, parts: tuple[Part, ...], target: Area, first: int, channels: int
) -> list[TaskGroup]:
    """Parts in several chains, one after the other, for as many channels as one ARITH has coefficients."""
    multiplier = layer.outputs // layer.area.channels
    groups: list[TaskGroup] = []
    step = max(1, ROWS // multiplier)
    for start in range(first, first + channels, step):
        count = min(step, first + channels - start)
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


def _blocks(
    layer: ConvLayer, context: Context, parts: tuple[Part, ...], target: Area, stretch: BlockStretch
) -> list[TaskGroup]:
    """With few shifts, with many, or for whole words of channels."""
    cut, blocks = stretch.cut, stretch.blocks
    lanes = _lanes(layer, cut)
    share = share_of(layer, target, cut, blocks, min(lanes, blocks))
    most = min(blocks, max(1, ROWS // cut.outputs))
    ways = dict[ShiftGroups, BlockStretch]()
    known = list[list[Slices]]()
    for shifts in ShiftGroups:
        one = replace(stretch, shifts=shifts)
        if (outputs := [one.outputs(layer, size) for size in (share, most)]) not in known:
            ways[shifts] = one
            known.append(outputs)
    areas = _bands(layer, parts, target, cut, lanes)
    draw = partial(_cut_blocks, layer, [(parts, target, cut)], areas, (share, most))
    return choose_shifts(layer, context, {shifts: partial(draw, one) for shifts, one in ways.items()})


def _lanes(layer: ConvLayer, cut: Cut) -> int:
    return cut.lanes(layer.code_units_behind(cut.mode.offset, cut.roundings, cut.outputs))


def _cut_blocks(
    layer: ConvLayer,
    whole: list[Band],
    areas: list[Band],
    shares: tuple[int, int],
    stretch: BlockStretch,
    context: Context,
) -> list[TaskGroup]:
    """Slices of channels side by side, or bands of rows where that is faster."""
    share, most = shares
    slices = attempt(context, partial(_epochs, layer, whole, stretch, share))
    if layer.rounds_as is not None:
        one = attempt(context, partial(_epochs, layer, whole, stretch, most))
        rows = attempt(context, partial(_epochs, layer, areas, stretch, most)) if areas else one
        even = [form for _, form in _even_forms(layer, context, whole[0], stretch.outputs(layer, most))]
        tried = [form for form in (slices, one, rows, *even) if isinstance(form, Form)]
        alike = [form for form in tried if agree(form.semantics[layer.op.name], layer.rounds_as)]
        if alike:
            return context.take(min(alike, key=lambda form: least_cycles(form.groups, context.facts.target)))
    labelled = [(SLICES, slices)]
    if areas:
        labelled.append((BANDS, attempt(context, partial(_epochs, layer, areas, stretch, most))))
    if pooled := _even_bands(layer, context, *whole[0]) if areas else []:
        labelled.append((EVEN_BANDS, attempt(context, partial(_epochs, layer, pooled, stretch, most))))
    least = partial(least_cycles, target=context.facts.target)
    if layer.rounds_as is None and isinstance(slices, Form):
        labelled += _even_forms(layer, context, whole[0], stretch.outputs(layer, most), least(slices.groups))
    forms = [(label, form) for label, form in labelled if isinstance(form, Form)]
    context.refused += [form for _, form in labelled if isinstance(form, RefusedForm)]
    if not forms:
        return context.take(slices)
    ranks = {label: least(form.groups) for label, form in forms}
    sliced = ranks.keys() - {BANDS, EVEN_BANDS}
    ranks |= dict.fromkeys(sliced, min((ranks[label] for label in sliced), default=inf))
    return take_best(context, [Offer(form, label, ranks[label], SHORTER_STREAMS) for label, form in forms])


def _epochs(
    layer: ConvLayer, areas: list[Band], stretch: BlockStretch, share: int, context: Context
) -> list[TaskGroup]:
    """Every area in chains of at most so many blocks."""
    multiplier = layer.outputs // layer.area.channels
    found = []
    for out, some in stretch.outputs(layer, share):
        for parts, target, form in areas:
            whole = DepthwiseBlocks(parts, form, out // multiplier, some // stretch.cut.outputs)
            for own in _divided(layer, whole):
                build = partial(_chain, layer, context, target, own)
                found.append(Wiring(build, cost=own.count * target.height))
    return pack(found, layer.origin, f"depthwise conv {layer.op.name}")


def _even_forms(
    layer: ConvLayer, context: Context, band: Band, jobs: Slices, bound: float = inf
) -> Iterator[tuple[str, Form | RefusedForm]]:
    """In all lanes and in fewer, where an epoch may not have as many writers: those that may be below the bound."""
    for count in range(2, _lanes(layer, band[2]) + 1):
        cycles, slices = _end_together(layer, band, jobs, count)
        if cycles < bound:
            yield EVEN_SLICES[count], attempt(context, partial(_in_epochs, layer, band[1], slices))


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


def _in_turns(
    layer: ConvLayer, slices: Callable[[Slice, int], list[DepthwiseBlocks]], epoch: list[tuple[Slice, int]]
) -> list[list[DepthwiseBlocks]]:
    """One epoch; several of a job alone whose writers would have longer runs than interleaved ones may have."""
    (job, lanes), *others = epoch
    turns = in_turns(partial(slices, job), lambda own: own.count * own.cut.outputs, lanes, longest_run(layer.trust))
    if others or lanes == 1 or turns is None:
        return [[own for job, pieces in epoch for own in slices(job, pieces)]]
    return turns


def _in_epochs(
    layer: ConvLayer, target: Area, epochs: list[list[DepthwiseBlocks]], context: Context
) -> list[TaskGroup]:
    groups: list[TaskGroup] = []
    for epoch in epochs:
        divided = (own for blocks in epoch for own in _divided(layer, blocks))
        found = [Wiring(partial(_chain, layer, context, target, own), own.count * target.height) for own in divided]
        groups += pack(found, layer.origin, f"depthwise conv {layer.op.name}")
    return groups


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
