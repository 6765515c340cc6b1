"""One convolution on several chains of units side by side: some of its kernels each, or some of its rows.

Every lane has engines of its own, on the same features, and a writer of its own, as published programs have them. It
keeps the rule of the chain that it is cut from, and its roundings, so results are the same bit for bit. Which cut pays
is asked of the cycle model: lanes share the flash and the banks, and every additional engine makes the program longer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from math import gcd

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import chain_configs
from atonc.compiler.lower.conv.dense_chain import Sets, add_chain, kernel_stream, meaning
from atonc.compiler.lower.conv.engines import output_engine, requantise
from atonc.compiler.lower.conv.even_lanes import Work, even_epochs, in_turns, meeting
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.packed_words import EVEN
from atonc.compiler.lower.conv.requantise import Requantisation, TwoSteps
from atonc.compiler.lower.conv.row_tiles import row_tiles, rows_together
from atonc.compiler.lower.conv.tiling import Tiling, narrower
from atonc.compiler.lower.semantics.sums import LoweredSums, record
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.policy import MAX_CHAINS, MOST_LANE_JOBS, WORTH_LANES
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.plan.types import Buffer
from atonc.compiler.select.enumerate import Deciding, Found, cheapest
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES, UNITS
from atonc.machine.hw.machine import Machine
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence.seen import frame_seen, longest_run, units_trusted

ONE_BY_ONE, SIDE_BY_SIDE = "one chain after the other", "chains side by side"
BY_ROWS, BY_KERNELS = ({n: f"{n} lanes of {what}" for n in range(2, MAX_CHAINS + 1)} for what in ("rows", "kernels"))
EVEN_LANES = {n: f"{n} lanes for as many jobs at a time as end together" for n in range(2, MAX_CHAINS + 1)}
FEW_KERNELS = {1: "eight kernels a frame", 2: "2 lanes of eight kernels a frame"}
ROWS_IN_TURN = {n: f"{n} lanes of rows, one chain after the other" for n in range(2, MAX_CHAINS + 1)}
KERNELS_IN_TURN = "2 lanes of kernels, as many at a time as published writers have"
EVEN_ROWS = "2 lanes of rows that are pooled together"
_COUNTED = (BY_ROWS, BY_KERNELS, EVEN_LANES, ROWS_IN_TURN, FEW_KERNELS)
SAME_BITS = frozenset(
    {
        *(ONE_BY_ONE, SIDE_BY_SIDE, KERNELS_IN_TURN, EVEN_ROWS),
        *(label for labels in _COUNTED for label in labels.values()),
    }
)
POOLED = 8  # channels of a frame that a POOL takes
POOLING = ("mean", "max_pool", "average_pool")


@dataclass(frozen=True, eq=False)
class ChainJob:
    """One chain: output channels that share a shift."""

    parts: tuple[Part, ...]
    target: Area
    tiling: Tiling
    first: int
    count: int
    rule: Requantisation | TwoSteps

    @property
    def sets(self) -> int:
        return self.count // self.tiling.kernels

    def meets(self, other: ChainJob) -> bool:
        """Whether both write into some word of the bus."""
        if self.target.offset != other.target.offset:
            return True  # pixels of other phases lie between each other
        return meeting(self.target, (self.first, self.count), (other.first, other.count))

    @cached_property
    def whole(self) -> LanePiece:
        """All of it: the same piece in every way."""
        return LanePiece(self, self.parts, self.target, self.tiling, 0, self.sets)


@dataclass(frozen=True, eq=False)
class LanePiece:
    """Some kernels of a job, on some of its rows."""

    job: ChainJob
    parts: tuple[Part, ...]
    target: Area
    tiling: Tiling
    first: int  # set of kernels
    sets: int

    @cached_property
    def cycles(self) -> int:
        """A lower bound: the longer of features and results."""
        longest = max(max(unit.feature_words, unit.out_elements) for unit in self.tiling.configs)
        return longest * self.tiling.passes * self.sets


Groups = list[list[LanePiece]]


@dataclass(frozen=True, eq=False)
class Chains:
    """The chains of a layer, before it is known which of them run side by side."""

    layer: ConvLayer
    jobs: tuple[ChainJob, ...]


@dataclass(frozen=True, eq=False)
class Lanes:
    """Pieces of chains, epoch by epoch."""

    layer: ConvLayer
    groups: Groups
    drawn: Drawn

    def prepare(self, subject: Chains, draft: Context) -> Lanes:
        return self

    def build(self, draft: Context) -> list[TaskGroup]:
        layer = self.layer
        for job in dict.fromkeys(piece.job for group in self.groups for piece in group):
            chains = (meaning(job.parts, job.tiling),)
            record(draft, layer, LoweredSums(layer.stored, chains, job.rule, job.target, job.first, job.count))
        return [TaskGroup(tuple([self.drawn.task(layer, draft, piece) for piece in group])) for group in self.groups]


def lanes(chains: Chains | object, draft: Context) -> Deciding | None:
    return _lanes(chains, draft) if isinstance(chains, Chains) else None


def _lanes(chains: Chains, draft: Context) -> Deciding:
    """The chains one after the other, or side by side where that is faster; kernels in several epochs where the facts
    say so."""
    layer, jobs, drawn = chains.layer, chains.jobs, Drawn()
    pieces = [piece for job in jobs for piece in _fetched_in_turn(layer, draft, job)] if draft.facts.cuts else []
    if len(pieces) > len(jobs):
        found = yield (Lanes(layer, [[piece] for piece in pieces], Drawn()),)
        if isinstance(found, Found):
            return found
    ways = [(ONE_BY_ONE, [[job.whole] for job in jobs]), *_ways(layer, draft, jobs)]
    return (yield from cheapest((label, (Lanes(layer, groups, drawn),)) for label, groups in ways))


def _fetched_in_turn(layer: ConvLayer, draft: Context, job: ChainJob) -> list[LanePiece]:
    """Some kernels each, so that those of the first can be fetched ahead where the time before or the RAM does not
    suffice for all: cut at the last sets of kernels before these bytes whose channels begin at whole words. Every piece
    keeps the rule of the chain that it is cut from."""
    stream = kernel_stream(Sets(job.parts, job.tiling, job.first, job.sets))
    aligned = ALIGNED if layer.large else BUS_BYTES
    step = aligned // gcd(aligned, job.tiling.kernels)
    before = {cut * job.sets // stream.size_bytes // step * step for cut in draft.facts.cuts.get(stream.name, ())}
    starts = [0, *sorted(start for start in before if 0 < start < job.sets)]
    ends = [*starts[1:], job.sets]
    return [replace(job.whole, first=a, sets=b - a) for a, b in zip(starts, ends, strict=True)]


def _ways(layer: ConvLayer, context: Context, jobs: Sequence[ChainJob]) -> Iterator[tuple[str, Groups]]:
    if "lanes" in context.facts.without or not 0 < len(jobs) <= MOST_LANE_JOBS:
        return
    whole = [job.whole for job in jobs]
    if len(jobs) > 1:
        yield SIDE_BY_SIDE, [whole]
    if any(op.kind in POOLING for op in context.graph.consumers.get(layer.op.outputs[0], ())):
        yield from _few_kernels(layer, jobs)
    cycles = sum(piece.cycles for piece in whole)
    if cycles < WORTH_LANES * max(1.0, sum(_flash_cycles(job, layer.machine) for job in jobs)):
        return
    ariths = max(_ariths(layer, job) for job in jobs)
    counts = range(2, min(MAX_CHAINS, UNITS["ARITH"] // ariths) + 1)
    if counts and any(job.count > 2 * longest_run(layer.trust) for job in jobs):
        yield KERNELS_IN_TURN, [group for job in jobs for group in _kernels_in_turn(layer, job)]
    for lanes in counts if len(jobs) > 1 else ():
        yield EVEN_LANES[lanes], _evenly(layer, jobs, lanes)
        rows = [_cut(job, layer, lanes, lanes, True) for job in jobs]
        if any(len(pieces) > 1 for pieces in rows):
            yield ROWS_IN_TURN[lanes], rows
    for lanes in counts:
        for by_rows in (False, True):
            cut = [_cut(job, layer, lanes, _share(job, cycles, lanes), by_rows) for job in jobs]
            if any(len(pieces) > 1 for pieces in cut):
                yield (BY_ROWS if by_rows else BY_KERNELS)[lanes], [[piece for pieces in cut for piece in pieces]]
    together = rows_together(layer, context.graph)
    if together > 1 and UNITS["ARITH"] >= 2 * ariths:
        even = [_cut(job, layer, 2, _share(job, cycles, 2), True, together) for job in jobs]
        if any(len(pieces) > 1 for pieces in even):
            yield EVEN_ROWS, [[piece for pieces in even for piece in pieces]]


def _few_kernels(layer: ConvLayer, jobs: Sequence[ChainJob]) -> Iterator[tuple[str, Groups]]:
    """Frames that a POOL behind the convolution could take: slower, unless it follows in the same epoch."""
    if max(job.tiling.kernels for job in jobs) <= POOLED or any(job.count % POOLED for job in jobs):
        return
    for lanes, label in FEW_KERNELS.items():
        found = [_pooled(layer, job, lanes) for job in jobs]
        if all(found):
            yield label, [[piece for pieces in found for piece in pieces]]


def _pooled(layer: ConvLayer, job: ChainJob, lanes: int) -> list[LanePiece]:
    """The job in frames of few kernels; nothing where that needs roundings in between."""
    like, reads = replace(job.tiling, kernels=POOLED), layer.reads
    tiling = narrower(job.parts, layer.area.channels, like, layer.modes(), layer.made_for, lanes, reads)
    if tiling is None or tiling.passes > 1:
        return []
    narrow = replace(job, tiling=tiling)
    return _by_kernels(layer, narrow, lanes) if lanes > 1 else [narrow.whole]


def _evenly(layer: ConvLayer, jobs: Sequence[ChainJob], lanes: int) -> Groups:
    """Jobs with as many lanes each as let all end together."""

    def meet(one: int, other: int) -> bool:
        return jobs[one].meets(jobs[other])

    works = [_work(_narrow(layer, job, lanes), job) for job in jobs]
    cuts = [
        [_shortest(layer, jobs[k], lanes, pieces) for k, pieces in epoch.items()]
        for epoch in even_epochs(works, lanes, meet)
    ]
    return [[piece for pieces in epoch for piece in pieces] for epoch in cuts]


def _kernels_in_turn(layer: ConvLayer, job: ChainJob) -> Groups:
    """Two lanes, again and again, or the whole job: no writer with longer runs than interleaved ones may have."""

    def cut(pieces: int) -> list[LanePiece]:
        return _cut(job, layer, 2, pieces, False)

    return in_turns(cut, lambda piece: piece.sets * piece.tiling.kernels, 2, longest_run(layer.trust)) or [[job.whole]]


def _work(narrow: ChainJob | None, job: ChainJob) -> Work:
    """Counts the cycles of a job in lanes; one that cannot be cut takes as long however many it gets."""
    if narrow is None:
        return Work(job.whole.cycles, job.whole.cycles)
    return Work(narrow.whole.cycles, narrow.tiling.bank_cycles * narrow.sets)


def _shortest(layer: ConvLayer, job: ChainJob, lanes: int, pieces: int) -> list[LanePiece]:
    """Cut into kernels, or into rows where that is more even."""
    cuts = [_cut(job, layer, lanes, pieces, by_rows) for by_rows in (False, True)]
    return min(cuts, key=lambda cut: max(piece.cycles for piece in cut))


def _share(job: ChainJob, cycles: int, lanes: int) -> int:
    """Into how many pieces a job is cut, so that none is longer than a lane's part of all jobs."""
    return min(lanes, -(-job.whole.cycles * lanes // max(1, cycles)))


def _flash_cycles(job: ChainJob, machine: Machine) -> float:
    size = job.count * sum(part.weights[0].size for part in job.parts) * job.tiling.mode.kernel_bytes
    return machine.flash_byte_cycles * size


def _ariths(layer: ConvLayer, job: ChainJob) -> int:
    return job.rule.ariths(min(job.count, 2)) + layer.codes_shifted


# --------------------------------------------------------------------------------------------------------------- cuts


@memoise
def _cut(job: ChainJob, layer: ConvLayer, lanes: int, pieces: int, by_rows: bool, together: int = 1) -> list[LanePiece]:
    """At most so many pieces, on as few units as so many lanes have; the whole job where there is no such cut. Always
    the same ones: ways that have some in common have their tasks in common."""
    narrow = _narrow(layer, job, lanes) if pieces > 1 else None
    if narrow is None:
        return [job.whole]
    found = _by_rows(layer, narrow, pieces, together) if by_rows else _by_kernels(layer, narrow, pieces)
    return found if len(found) > 1 else [job.whole]


def _narrow(layer: ConvLayer, job: ChainJob, lanes: int) -> ChainJob | None:
    reads = layer.reads
    tiling = narrower(job.parts, layer.area.channels, job.tiling, layer.modes(), layer.made_for, lanes, reads)
    return None if tiling is None else replace(job, tiling=tiling)


def _by_kernels(layer: ConvLayer, job: ChainJob, pieces: int) -> list[LanePiece]:
    """Cut where channels begin at whole words: no two writers share one."""
    kernels = job.tiling.kernels
    for aligned in (ALIGNED,) if layer.huge else (ALIGNED, BUS_BYTES):
        step = aligned // gcd(aligned, kernels)
        starts = sorted({job.sets * k // pieces // step * step for k in range(pieces)})
        if len(starts) == pieces and not (job.target.pixel | job.target.line) % BUS_BYTES:
            ends = [*starts[1:], job.sets]
            return [replace(job.whole, first=a, sets=b - a) for a, b in zip(starts, ends, strict=True)]
    return []


def _by_rows(layer: ConvLayer, job: ChainJob, pieces: int, together: int) -> list[LanePiece]:
    writes = ALIGNED if layer.huge or layer.coarse else BUS_BYTES
    reads = max(layer.row_reads, EVEN if job.tiling.mode.deep else 1)
    tiling, found = job.tiling, []
    for parts, target in row_tiles(job.parts, job.target, pieces, writes, reads, together, layer.trust):
        configs = chain_configs(parts, tiling.mode, tiling.batch, tiling.kernels, tiling.units, tiling.passes)
        if configs is None or not all(map(frame_seen, configs)) or not units_trusted(configs, layer.trust):
            return []
        found.append(LanePiece(job, parts, target, replace(tiling, configs=configs), 0, job.sets))
    return found


# -------------------------------------------------------------------------------------------------------------- tasks


class Drawn:
    """What the ways of one layer have in common: whole jobs, and the kernels of pieces that differ in their rows."""

    def __init__(self) -> None:
        self._tasks: dict[LanePiece, Task] = {}
        self._kernels: dict[Hashable, Buffer] = {}

    def task(self, layer: ConvLayer, context: Context, piece: LanePiece) -> Task:
        stream = self._stream(piece)
        known = self._tasks.get(piece)
        if known is not None:
            context.keep(stream)
            return known
        task = _task(layer, context, piece, stream)
        if piece.tiling.loop != "memory":  # which has scratch memory of its own in every way
            self._tasks[piece] = task
        return task

    def _stream(self, piece: LanePiece) -> Buffer:
        tiling, first = piece.tiling, piece.job.first + piece.first * piece.tiling.kernels
        order = tiling.slots, tiling.units, tiling.kernels, tiling.mode.deep
        asked = (*order, first, piece.sets, *(id(part.weights) for part in piece.parts))  # jobs keep them alive
        if asked not in self._kernels:
            self._kernels[asked] = kernel_stream(Sets(piece.parts, tiling, first, piece.sets))
        return self._kernels[asked]


def _task(layer: ConvLayer, context: Context, piece: LanePiece, stream: Buffer) -> Task:
    job, tiling, target = piece.job, piece.tiling, piece.target
    start, count = piece.first * tiling.kernels, piece.sets * tiling.kernels
    b = TaskBuilder(layer.origin, f"conv {layer.op.name}")
    first = job.first + start
    sets = Sets(piece.parts, tiling, first, piece.sets)
    tail = add_chain(b, layer, context, sets, job.rule.out_shift, stream)
    gate = {"drop": tiling.passes - 1, "keep": 1} if tiling.passes > 1 else {}
    units = layer.code_units(job.rule.units(start, count, tiling.kernels, target.height * target.width))
    codes = requantise(b, units, tail, gate)
    b.write(codes, layer.target, output_engine(target, tiling.kernels, first, piece.sets))
    return b.done(piece.cycles)
