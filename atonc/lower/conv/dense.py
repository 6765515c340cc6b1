"""Convolutions that mix all channels: a chain of CONVACCs over the input channels, one ARITH that requantises."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import lcm

import numpy as np
from numpy.typing import NDArray

from atonc.hw.limits import ALIGNED, MAX_CHAIN, SYNC_UP_TO
from atonc.hw.units.arith import ROWS
from atonc.hw.units.convacc import ConvaccConfig
from atonc.hw.units.stream_engine import StrengConfig
from atonc.lower.context import Context
from atonc.lower.conv.chains import no_setting
from atonc.lower.conv.channel_groups import ranges
from atonc.lower.conv.engines import feature_engine, kernel_engine, output_engine, requantise
from atonc.lower.conv.forms_2x import lower_2x
from atonc.lower.conv.kernel_parts import Part, unit_parts
from atonc.lower.conv.layer import (
    Layer,
)
from atonc.lower.conv.one_patch import one_patch
from atonc.lower.conv.pad_first import lower_padded
from atonc.lower.conv.partial_sums import Piece, Results, chunks, sum_pieces
from atonc.lower.conv.requantise import TwoSteps
from atonc.lower.conv.shift_first import shift_first, worth_shifting
from atonc.lower.conv.tiling import Tiling, choose
from atonc.lower.conv.wide import lower_side_by_side
from atonc.lower.conv.wide_windows import MOST_BATCH
from atonc.lower.semantics.sums import Chain, Term, record
from atonc.plan.build import TaskBuilder
from atonc.plan.streams import Area, Frames, engine
from atonc.plan.task import TaskGroup
from atonc.select.choose import attempt, in_order
from atonc.select.choose import choose as choose_form
from atonc.select.form import Form
from atonc.select.policy import (
    CHEAP,
    FEW_PIXELS,
    SOME_CHANNELS,
    TOO_COARSE,
    WORTH_ALWAYS,
    WORTH_MORE,
    WORTH_MUCH,
    affordable,
    closer,
    worth,
)
from atonc.select.preferences import SHIFTED_COPY, WIDE_WINDOWS

BETWEEN_PASSES = "partial sums"  # of a chain that runs several times


def lower(layer: Layer, context: Context) -> list[TaskGroup]:
    by = lower_2x if layer.numerics == "2.x" else lower_padded
    layer = one_patch(layer)
    if not (worth_shifting(layer) or _closer_shifted(layer)):
        return by(layer, context, _lower)

    def on_a_copy(context: Context) -> list[TaskGroup]:
        copies, shifted = shift_first(layer, context)
        return [*copies, *by(replace(shifted, zero=layer.zero + 128), context, _lower)]

    def as_it_is(context: Context) -> list[TaskGroup]:  # some forms were seen with signed features only
        return by(layer, context, _lower)

    return choose_form(context, in_order(SHIFTED_COPY, [on_a_copy, as_it_is]), blame_last=True)


def _closer_shifted(layer: Layer) -> bool:
    """Whether features without sign are worth a copy: all channels fit one pass, nothing is rounded in between."""
    plain = layer.weights.shape[1:3] == (1, 1) and layer.stride == (1, 1) and not any(layer.padding)
    if layer.features_shifted or layer.numerics == "2.x" or not (plain and layer.area.contiguous):
        return False
    if layer.area.channels < SOME_CHANNELS or layer.whole_bytes:
        return False
    phases = layer.phases((layer.out.height, layer.out.width))
    first, count = max(layer.runs(ROWS), key=lambda run: run[1])
    parts, other = unit_parts(phases[0], first, count), layer.shifted()
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


def _lower(layer: Layer, context: Context) -> list[TaskGroup]:
    """Chains of several windows with stride 2 were never seen with many channels: then windows without stride, on
    every second pixel."""
    if layer.area.channels <= MOST_BATCH:
        draws = [partial(lower_side_by_side, layer), partial(_in_windows, layer)]
        return choose_form(context, in_order(WIDE_WINDOWS, draws), blame_last=True)
    return _in_windows(layer, context)


def _in_windows(layer: Layer, context: Context) -> list[TaskGroup]:
    plain = attempt(context, partial(_windows, layer))
    if isinstance(plain, Form) or plain.rule != "CONV-MODE" or layer.stride != (2, 2) or layer.numerics == "2.x":
        return context.take(plain)
    context.refused.append(plain)
    return _windows(replace(layer, native=False), context)


def _windows(layer: Layer, context: Context) -> list[TaskGroup]:
    plans: list[TaskGroup] = []
    size = (layer.out.height, layer.out.width)
    for phase in layer.phases(size):
        target = layer.outputs_of(phase)
        for first, count in layer.runs(ROWS):
            plans += _output_range(layer, context, unit_parts(phase, first, count), target, first, count)
    return plans


def _output_range(
    layer: Layer, context: Context, parts: tuple[Part, ...], target: Area, first: int, count: int
) -> list[TaskGroup]:
    """Output channels first..first+count: whole groups of kernels, then a smaller group for the rest."""
    plans: list[TaskGroup] = []
    while count:
        tiling = None
        if len(parts) <= MAX_CHAIN and len({part.group for part in parts}) == 1:
            tiling = _tiling(layer, parts, first, count)
        if tiling is None:
            return [*plans, *_summed(layer, context, parts, target, first, count)]
        whole = count // tiling.kernels * tiling.kernels
        step = lcm(tiling.kernels, layer.alignment)
        for start, some in ranges(layer, tiling.mode.offset, tiling.passes, first, whole, step):
            halves = _halves(layer, parts, tiling, start, some)
            for half in halves:
                plans += _output_range(layer, context, parts, target, *half)
            if not halves:
                plans.append(_epoch(layer, context, parts, target, tiling, start, some))
        first, count = first + whole, count - whole
    return plans


def _tiling(layer: Layer, parts: tuple[Part, ...], first: int, count: int) -> Tiling | None:
    """The fastest one, or one that subtracts the zero point where that is nearly as fast and closer: sums with a zero
    point in them are larger, so more of their bits are cut off."""
    modes, channels = layer.modes(), layer.area.channels
    if layer.numerics == "2.x":
        share = layer.share()
        for aligned in dict.fromkeys((layer.alignment, 1)):
            if tiling := choose(parts, channels, count, modes, share=share, aligned=aligned):
                return tiling
    reads, writes = (ALIGNED // 2, ALIGNED) if layer.huge else (1, 1)
    if layer.huge and choose(parts, channels, count, modes, aligned=reads, whole=writes) is None:
        reads, writes = 1, 1
    fastest = choose(parts, channels, count, modes, aligned=reads, whole=writes)
    if fastest is None or fastest.mode.offset == layer.zero:
        return fastest
    modes = [mode for mode in modes if mode.offset == layer.zero]
    plain = choose(parts, channels, count, modes, aligned=reads, whole=writes)
    if plain is None or not affordable(plain.cycles, fastest.cycles):
        return fastest
    if plain.passes > fastest.passes and layer.out.height * layer.out.width > FEW_PIXELS:
        return fastest  # roundings between passes are hardly better, and need typical inputs to judge
    rules = [layer.requantisation_of(t.mode.offset, t.passes, first, count) for t in (plain, fastest)]
    errors = [rule.mean_error for rule in rules if not isinstance(rule, TwoSteps)]
    return plain if len(errors) == 2 and closer(*errors) else fastest


def _halves(layer: Layer, parts: tuple[Part, ...], tiling: Tiling, first: int, count: int) -> list[tuple[int, int]]:
    """Two smaller groups of kernels, where the scale of one kernel is far from those of its neighbours."""
    rule = layer.requantisation_of(tiling.mode.offset, tiling.passes, first, count)
    if isinstance(rule, TwoSteps) or not 1 < count <= tiling.kernels:
        return []
    gain, cut = layer.best_cut(tiling.mode.offset, tiling.passes, first, count, layer.alignment)
    if not cut or gain < WORTH_ALWAYS:
        return []
    needed = rule.error > TOO_COARSE or gain > WORTH_MUCH * count
    needed = needed or (gain > WORTH_MORE * count and _cheap(layer, parts, (cut, count - cut)))
    return [(first, cut), (first + cut, count - cut)] if needed else []


def _cheap(layer: Layer, parts: tuple[Part, ...], counts: tuple[int, int]) -> bool:
    """Whether two groups take hardly longer than one."""
    one, *two = (choose(parts, layer.area.channels, count, layer.modes()) for count in (sum(counts), *counts))
    return one is not None and None not in two and sum(t.cycles for t in two if t) <= CHEAP * one.cycles


def _summed(
    layer: Layer, context: Context, parts: tuple[Part, ...], target: Area, first: int, count: int
) -> list[TaskGroup]:
    """Parts in several chains, one after the other."""
    channels = layer.area.channels
    group, found = _chains(layer, parts, count)
    if len(found) < 2 or (layer.cut and len(found) > len({part.group for part in parts})):
        raise no_setting(parts[0], channels, layer.op.name)
    roundings = 1 + sum(tiling.passes for _, tiling in found)
    rule = layer.requantisation_of(found[0][1].mode.offset, roundings, first, count)
    pieces = [_piece(layer, chain, tiling, rule.out_shift) for chain, tiling in found]
    plans, order = sum_pieces(context, pieces, Results(layer, target, rule, first, count, group))
    record(context, layer, [_meaning(*found[k]) for k in order], rule, target, first, count)
    return plans


def _piece(layer: Layer, parts: tuple[Part, ...], tiling: Tiling, out_shift: int) -> Piece:
    def add(b: TaskBuilder, context: Context, first: int, count: int) -> str:
        return add_chain(b, layer, context, parts, tiling, first, count // tiling.kernels, out_shift)

    return Piece(add, tiling.units, tiling.passes)


def _chains(layer: Layer, parts: tuple[Part, ...], count: int) -> tuple[int, list[tuple[tuple[Part, ...], Tiling]]]:
    """Kernels a frame, the same in every chain, and the chains; none where nothing fits.

    All chains subtract the same from the features, since one bias makes up for it: whatever makes them faster.
    """
    for group in (k for k in (4, 2, 1) if count % k == 0):
        tried = (chunks(parts, partial(_with_kernels, layer, group, number)) for number in layer.subtracted())
        best = min((found for found in tried if found), key=_chain_cycles, default=None)
        if best:
            return group, best
    return 1, []


def _chain_cycles(found: list[tuple[tuple[Part, ...], Tiling]]) -> int:
    return sum(tiling.cycles for _, tiling in found)


def _with_kernels(layer: Layer, kernels: int, subtracted: int, parts: tuple[Part, ...]) -> Tiling | None:
    channels = parts[0].weights.shape[3]  # those of the layer, or twice as many where pixels go in pairs
    modes = [mode for mode in layer.modes() if mode.offset == subtracted]
    tiling = choose(parts, channels, kernels, modes, memory_loops=False)
    return tiling if tiling is not None and tiling.kernels == kernels else None


def _epoch(
    layer: Layer, context: Context, parts: tuple[Part, ...], target: Area, tiling: Tiling, first: int, count: int
) -> TaskGroup:
    groups, pixels = count // tiling.kernels, target.height * target.width
    rule = layer.requantisation_of(tiling.mode.offset, tiling.passes, first, count)
    b = TaskBuilder(layer.origin, f"conv {layer.op.name}")
    tail = add_chain(b, layer, context, parts, tiling, first, groups, rule.out_shift)
    gate = {"drop": tiling.passes - 1, "keep": 1} if tiling.passes > 1 else {}
    units = layer.code_units(rule.units(0, count, tiling.kernels, pixels))
    codes = requantise(b, units, tail, gate)
    b.write(codes, layer.target, output_engine(target, tiling.kernels, first, groups))
    record(context, layer, [_meaning(parts, tiling)], rule, target, first, count)
    return b.alone()


def _meaning(parts: tuple[Part, ...], tiling: Tiling) -> Chain:
    """Which channels every unit sums in every pass."""
    chains = []
    for number in range(tiling.passes):
        ranges = [tiling.slots.own(unit, number) for unit in _readers(parts, tiling)]
        units = zip(_each(parts, tiling), ranges, strict=True)
        chains.append(tuple(Term(part, first, end - first) for part, (first, end) in units))
    return Chain(tuple(chains), tiling.mode.offset)


def _each(parts: tuple[Part, ...], tiling: Tiling) -> tuple[Part, ...]:
    """The part of every unit: one for all of them, or one for each."""
    return parts * tiling.units if len(parts) == 1 else parts


def _readers(parts: tuple[Part, ...], tiling: Tiling) -> list[int]:
    """Of every unit, whose channels it reads: units with parts of their own all read the same."""
    return list(range(tiling.units)) if len(parts) == 1 else [0] * tiling.units


def add_chain(
    b: TaskBuilder,
    layer: Layer,
    context: Context,
    parts: tuple[Part, ...],
    tiling: Tiling,
    first: int,
    groups: int,
    out_shift: int,
) -> str:
    """The units that sum all parts and channels; returns the last one."""
    stream = kernel_bytes(parts, tiling, first, groups)
    kernels = b.read(context.constant(stream, "kernels"), kernel_engine(len(stream), tiling.mode))
    tail, head = "", ""
    for unit, config in enumerate(_with_shifts(tiling, out_shift)):
        features = b.read(layer.source, _features(parts, tiling, unit, groups))
        tail = b.unit(config, features, kernels, tail or None)
        head = head or tail
    if tiling.loop == "ring":
        b.link(tail, head, 2)
    elif tiling.loop == "memory":
        height, width = parts[0].out_size
        _loop_through_memory(b, context, tail, head, height * width * tiling.kernels, groups * tiling.passes)
    return tail


def _with_shifts(tiling: Tiling, out_shift: int) -> list[ConvaccConfig]:
    configs = list(tiling.configs)
    configs[-1] = replace(configs[-1], out_shift=out_shift)
    if tiling.passes > 1:
        configs[0] = replace(configs[0], in_shift=out_shift)
    return configs


def _loop_through_memory(b: TaskBuilder, context: Context, tail: str, head: str, elements: int, frames: int) -> None:
    scratch = context.scratch(2 * elements, BETWEEN_PASSES)
    area = Area(1, 1, elements, 2 * elements, 2 * elements, 0, 2)
    again = Frames(frames, 0)
    writer = b.write(tail, scratch, engine(area, again, write=True))
    follows = writer if elements <= SYNC_UP_TO else ""
    b.link(b.read(scratch, engine(area, again, signed=True), follows), head, 2)


def _features(parts: tuple[Part, ...], tiling: Tiling, unit: int, groups: int) -> StrengConfig:
    """Frames: for every group of kernels all passes."""
    start = tiling.slots.start(_readers(parts, tiling)[unit])
    view = _each(parts, tiling)[unit].area.channels_from(start, tiling.batch)
    return feature_engine(view, Frames(tiling.passes, tiling.slots.step, groups, 0), tiling.mode)


def kernel_bytes(parts: tuple[Part, ...], tiling: Tiling, first: int, groups: int) -> bytes:
    """[group][pass][unit][kernel][row][column][channel]; channels that were read before weigh nothing."""
    slots, window = tiling.slots, parts[0].window
    ordered = np.zeros((groups, tiling.passes, tiling.units, tiling.kernels, *window, tiling.batch), np.int8)
    for unit, (part, reader) in enumerate(zip(_each(parts, tiling), _readers(parts, tiling), strict=True)):
        weights = part.weights[first : first + groups * tiling.kernels]
        weights = weights.reshape(groups, tiling.kernels, *window, weights.shape[3])
        for number in range(tiling.passes):
            (start, end), at = slots.own(reader, number), slots.start(reader, number)
            ordered[:, number, unit, ..., start - at : end - at] = weights[..., start:end]
    if tiling.mode.deep:
        return _deep_order(ordered.reshape(-1, tiling.kernels, tiling.batch))
    return ordered.tobytes()


def _deep_order(sets: NDArray[np.signedinteger]) -> bytes:
    """[set][eight kernels][channel][kernel]; every set fills whole words of three bytes."""
    count, kernels, batch = sets.shape
    size = -(-kernels * batch // 3) * 3
    out = np.zeros((count, size), np.int8)
    for first in range(0, kernels, 8):
        eight = sets[:, first : first + 8].swapaxes(1, 2).reshape(count, -1)
        out[:, first * batch : first * batch + eight.shape[1]] = eight
    return out.tobytes()
