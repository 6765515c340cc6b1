"""One convolution on several chains of units side by side: some of its kernels each, or some of its rows.

Every lane has engines of its own, on the same features, and a writer of its own, as published programs have them. It
keeps the rule of the chain that it is cut from, and its roundings, so results are the same bit for bit. Which cut pays
is asked of the cycle model: lanes share the flash and the banks, and every additional engine makes the program longer.

Which jobs of a layer share an epoch, and how many of its lanes each gets, so that all lanes end together.

Groups of channels have shifts of their own, so a chain does one group. Side by side as they are, the longest lets the
other lanes wait, and groups that meet in a word of the bus cannot stand side by side at all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import combinations
from math import gcd, lcm
from typing import NamedTuple, TypeVar

from atonc.compiler.ir import Graph, Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import chain_configs
from atonc.compiler.lower.conv.dense_chain import Sets, add_chain, kernel_stream, meaning
from atonc.compiler.lower.conv.engines import output_engine, requantise
from atonc.compiler.lower.conv.kernel_parts import Part, padded_as_seen
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.requantise import Requantisation, TwoSteps
from atonc.compiler.lower.conv.tiling import EVEN, Tiling, feature_bank_cycles, narrower
from atonc.compiler.lower.semantics.sums import LoweredSums, record
from atonc.compiler.ops.conv import pair
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.policy import EPOCH_CYCLES, FEWEST_ROWS, MAX_CHAINS, MOST_LANE_JOBS, WORTH_LANES
from atonc.compiler.plan.streams import Area
from atonc.compiler.plan.task import Task, TaskGroup
from atonc.compiler.plan.types import Buffer
from atonc.compiler.schedule.pack import fills, packed
from atonc.compiler.select.cycles import cycles_of
from atonc.compiler.select.enumerate import Deciding, Found, cheapest_of
from atonc.compiler.select.form import Form
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.cycles.hardware import CONTROLLER
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES, UNITS
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.safety.evidence import PUBLISHED, Trust
from atonc.machine.hw.safety.evidence.epochs import interleaved
from atonc.machine.hw.safety.evidence.trust import frame_seen, longest_run, units_trusted
from atonc.machine.hw.target import Target

T = TypeVar("T")


class Work(NamedTuple):
    """Cycles of a job in one lane: of its units, which are fewer with more lanes, and of the memory that all read."""

    unit_cycles: int
    bank_cycles: int


Shares = Mapping[int, int]  # of an epoch: job -> how many it gets


def even_epochs(works: Sequence[Work], lanes: int, meet: Callable[[int, int], bool]) -> list[Shares]:
    """Epoch by epoch with the longest job that is left: alone, or beside others where that is more work a cycle."""
    left = sorted(range(len(works)), key=lambda job: -works[job].unit_cycles)
    found: list[Shares] = []
    while left:
        found.append(min(_epochs_with(left, works, lanes, meet), key=lambda epoch: _pace(epoch, works)))
        left = [job for job in left if job not in found[-1]]
    return found


def epochs_cycles(epochs: Sequence[Shares], works: Sequence[Work]) -> float:
    """A bound that knows no banks, as for tilings: there are no tasks yet."""
    return sum(_longest(epoch, works) + EPOCH_CYCLES for epoch in epochs)


def in_turns(
    cut: Callable[[int], Sequence[T]], size_bytes: Callable[[T], int], lanes: int, longest: int
) -> list[list[T]] | None:
    """What `cut` gives for a number of pieces, so many lanes at a time, none longer than that; in one turn if possible.
    None where pieces cannot be so short."""
    whole = sum(map(size_bytes, cut(1)))
    first = -(-whole // (lanes * longest))
    for turns in (first, first + 1):  # pieces begin at whole words, so that some are longer than others
        pieces = cut(lanes * turns)
        if max(map(size_bytes, pieces)) <= longest:
            return [list(pieces[k : k + lanes]) for k in range(0, len(pieces), lanes)]
    return None


def _epochs_with(
    left: Sequence[int], works: Sequence[Work], lanes: int, meet: Callable[[int, int], bool]
) -> Iterator[Shares]:
    for others in range(min(lanes, len(left))):
        for some in combinations(left[1:], others):
            jobs = (left[0], *some)
            if not any(meet(*pair) for pair in combinations(jobs, 2)):
                yield _shared(jobs, works, lanes)


def _shared(jobs: Sequence[int], works: Sequence[Work], lanes: int) -> Shares:
    """One lane for each, every further one for whoever takes longest."""
    found = dict.fromkeys(jobs, 1)
    for _ in range(lanes - len(jobs)):
        found[max(jobs, key=lambda job: works[job].unit_cycles / found[job])] += 1
    return found


def _longest(epoch: Shares, works: Sequence[Work]) -> float:
    banks = sum(works[job].bank_cycles for job in epoch)
    return max(banks, *(works[job].unit_cycles / count for job, count in epoch.items()))


def _pace(epoch: Shares, works: Sequence[Work]) -> float:
    """Cycles for the work of an epoch."""
    return (_longest(epoch, works) + EPOCH_CYCLES) / max(1.0, sum(works[job].unit_cycles for job in epoch))


def meeting(target: Area, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two ranges of channels of the same pixels lie in some word of the bus; each its first and how many."""
    if (target.pixel | target.line) % BUS_BYTES:
        return True
    starts = [target.offset + first for first, _ in (one, other)]
    words = [
        (start // BUS_BYTES, (start + count - 1) // BUS_BYTES)
        for start, (_, count) in zip(starts, (one, other), strict=True)
    ]
    return words[0][0] <= words[1][1] and words[1][0] <= words[0][1]


KERNELS = 1  # port of a CONVACC


def rows_together(layer: ConvLayer, graph: Graph) -> int:
    """Rows that a pooling behind the layer takes at a time, if it could follow in the same epoch; or 1."""
    pools = (op for op in _readers(layer, graph) if op.kind in ("max_pool", "average_pool"))
    return max((pair(op.attrs["stride"])[0] for op in pools if op.attrs["stride"] == op.attrs["window"]), default=1)


def _readers(layer: ConvLayer, graph: Graph) -> Sequence[Op]:
    """Whoever reads the results; nobody else does where they are a summand only."""
    (name,) = layer.op.outputs
    return graph.consumers.get(name, ()) if graph.producers[name].name == layer.op.name else ()


def row_tiles(
    parts: tuple[Part, ...],
    target: Area,
    count: int,
    writes: int,
    reads: int,
    together: int = 1,
    trust: Trust = PUBLISHED,
) -> list[tuple[tuple[Part, ...], Area]]:
    """At most so many bands, with the rows that each of them sees, that write and read from multiples of so many bytes
    on; none where they would be too low. `together`: rows that stay in one band."""
    unit = lcm(writes // gcd(writes, target.line), together)
    size = -(-target.height // count // unit) * unit
    if count < 2 or size < FEWEST_ROWS:
        return []
    found = []
    for row in range(0, target.height, size):
        rows = min(size, target.height - row)
        some = tuple(padded_as_seen(_rows(part, row, rows), trust) for part in parts)
        found.append((some, target.rows(row, rows)))
    seen = [part.area for some, _ in found for part in some]
    return [] if any(area.height < 2 or area.offset % reads for area in seen) else found


def _rows(part: Part, row: int, count: int) -> Part:
    """What some rows of the output see."""
    top, left, _, right = part.padding
    start = row * part.stride - top
    end = start + (count - 1) * part.stride + part.window[0]
    first, last = max(0, start), min(end, part.area.height)
    area = part.area.rows(first, last - first)
    return replace(part, area=area, padding=(max(0, -start), left, max(0, end - part.area.height), right))


def least_cycles(groups: Sequence[TaskGroup], target: Target) -> float:
    """A bound that knows no banks: the longest stream of every epoch or its constants from flash, and a usual epoch.
    It ranks slices and bands (`depthwise.SHORTER_STREAMS`); what a form takes is `Form.cycles`."""
    return sum(_epoch_cycles(tasks, target) for tasks in packed(groups, target.trust))


def _epoch_cycles(tasks: Sequence[Task], target: Target) -> float:
    longest, flash = 0, 0.0
    for task in tasks:
        kernels = {wire.source for wire in task.wires if wire.port == KERNELS}
        for name, use in task.engines.items():
            if name in kernels:
                flash += target.weight_byte_cycles * use.config.elements
            else:
                longest = max(longest, use.config.elements)
    return EPOCH_CYCLES + max(longest, flash)


ONE_BY_ONE, SIDE_BY_SIDE = Variant("chains in turn"), Variant("chains beside")
KERNELS_IN_TURN, EVEN_ROWS = Variant("kernels in turn"), Variant("pooled rows beside")
FEW_KERNELS = {1: Variant("pooled kernels"), 2: Variant("pooled kernels beside", 2)}  # by lanes
BY_ROWS, BY_KERNELS, EVEN_LANES, ROWS_IN_TURN = "rows beside", "kernels beside", "even beside", "rows in turn"
SAME_BITS = frozenset(
    {
        *(BY_ROWS, BY_KERNELS, EVEN_LANES, ROWS_IN_TURN),
        *(one.name for one in (ONE_BY_ONE, SIDE_BY_SIDE, KERNELS_IN_TURN, EVEN_ROWS, *FEW_KERNELS.values())),
    }
)
LEAST_WORDS = 140  # of a program for one convolution with its ARITH and three engines; the least seen are 145
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

    def meets(self, other: LanePiece) -> bool:
        """Whether both write into some word of the bus for sure: the same rows, and channels that lie together."""
        if not self.target == other.target == self.job.target:
            return False
        one, two = ((p.job.first + p.first * p.tiling.kernels, p.sets * p.tiling.kernels) for p in (self, other))
        return meeting(self.target, one, two)

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
    ways: tuple[Way, ...]

    @classmethod
    def of(cls, layer: ConvLayer, jobs: tuple[ChainJob, ...], draft: Context) -> Chains:
        ways = [(ONE_BY_ONE, [[job.whole] for job in jobs]), *_ways(layer, draft, jobs)]
        different = {tuple(tuple(map(id, group)) for group in way[1]): way for way in reversed(ways)}
        least = partial(_least_cycles, layer, draft.facts.target, draft.facts.enough > 1.0)
        return cls(layer, jobs, tuple(Way(*way, least(way[1])) for way in reversed(different.values())))


class Way(NamedTuple):
    """The pieces of all chains, epoch by epoch, and cycles that no program of them is below."""

    variant: Variant
    groups: Groups
    least_cycles: float


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
    copies = cycles_of((*draft.before, *draft.behind), draft.buffers, draft.facts.target)
    rows = [(way.variant, (Lanes(layer, way.groups, drawn),), copies + way.least_cycles) for way in chains.ways]
    if draft.facts.enough > 1.0:
        return (yield from cheapest_of(rows, draft.facts.enough, _if_not_as_expected))
    return (yield from cheapest_of(rows))


def _if_not_as_expected(form: Form) -> float:
    """Nothing, where every epoch has all that it has room for."""
    return 0.0 if all(fills(group, form.target.trust) for group in form.groups) else form.cost


def _least_cycles(layer: ConvLayer, target: Target, banked: bool, groups: Groups) -> float:
    """Cycles that no program of these pieces is below: of their units or of their kernels from where they are meant to
    lie, and what starts the epochs. `banked`: what is to be expected, with the banks that hold the features."""
    banks = max(1.0, layer.area.height * layer.area.line / target.machine.npu_ram[0].size_bytes)
    machine = target.machine

    def read(piece: LanePiece) -> float:
        tiling, frames = piece.tiling, piece.tiling.passes * piece.sets
        return frames * feature_bank_cycles(piece.parts, tiling.batch, tiling.units, machine.timing)

    word = machine.timing.controller_word if target.programmed_by == CONTROLLER else 0.0
    cycles = 0.0
    for some in (apart for group in groups for apart in _apart(group)):
        longest = _longest_of_epochs(layer, some)
        fetched = target.weight_byte_cycles * sum(map(_kernel_bytes, some))
        cycles += max(sum(longest), fetched, sum(map(read, some)) / banks if banked and len(some) > 1 else 0.0)
        cycles += machine.timing.epoch * len(longest) + word * LEAST_WORDS * len(some)
        if len(longest) == 1:  # its first kernels come before anything else
            cycles += min(longest[0], fetched) / max(piece.sets * piece.tiling.passes for piece in some)
    return cycles


def _apart(group: Sequence[LanePiece]) -> list[list[LanePiece]]:
    """Pieces that may share epochs: those of each job for itself, where all write into the same words."""
    jobs = dict.fromkeys(piece.job for piece in group)
    pairs = ((one, other) for one, other in combinations(group, 2) if one.job is not other.job)
    if not all(one.meets(other) for one, other in pairs):
        return [list(group)]
    return [[piece for piece in group if piece.job is job] for job in jobs]


def _longest_of_epochs(layer: ConvLayer, pieces: Sequence[LanePiece]) -> list[int]:
    """Cycles of the longest piece of each epoch, if every epoch were full: there are no fewer, and none is shorter."""
    units = min(piece.tiling.units for piece in pieces)
    ariths = min(piece.job.rule.ariths(min(piece.job.count, 2)) for piece in pieces) + layer.codes_shifted
    needed = {"CONVACC": units, "ARITH": ariths, "STRENG": units + 2}  # features, kernels of each unit, results
    at_once = max(1, min(UNITS[kind] // count for kind, count in needed.items()))
    (target, *others) = {piece.target for piece in pieces}
    if not others and target.height * target.width > 1:  # channels of the same pixels
        at_once = most_interleaved(at_once, layer.trust)
    return sorted((piece.cycles for piece in pieces), reverse=True)[::at_once]


def most_interleaved(chains: int, trust: Trust) -> int:
    """As many of these as may write channels of the same pixels in one epoch."""
    return next(n for n in range(chains, 0, -1) if n < 3 or trust.allows(trust.grade(interleaved(n))))


def _kernel_bytes(piece: LanePiece) -> float:
    kernels = piece.sets * piece.tiling.kernels
    return kernels * sum(part.weights[0].size for part in piece.parts) * piece.tiling.mode.kernel_bytes


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


def _ways(layer: ConvLayer, context: Context, jobs: Sequence[ChainJob]) -> Iterator[tuple[Variant, Groups]]:
    if "lanes" in context.facts.without or not 0 < len(jobs) <= MOST_LANE_JOBS:
        return
    whole = [job.whole for job in jobs]
    if len(jobs) > 1:
        yield SIDE_BY_SIDE, [whole]
    if any(op.kind in POOLING for op in _readers(layer, context.graph)):
        yield from _few_kernels(layer, jobs)
    cycles = sum(piece.cycles for piece in whole)
    from_flash = sum(layer.made_for.weight_byte_cycles * _kernel_bytes(job.whole) for job in jobs)
    if cycles < WORTH_LANES * max(1.0, from_flash):
        return
    ariths = max(job.rule.ariths(min(job.count, 2)) for job in jobs) + layer.codes_shifted
    counts = range(2, min(MAX_CHAINS, UNITS["ARITH"] // ariths) + 1)
    if counts and any(job.count > 2 * longest_run(layer.trust) for job in jobs):
        yield KERNELS_IN_TURN, [group for job in jobs for group in _kernels_in_turn(layer, job)]
    for lanes in counts if len(jobs) > 1 else ():
        yield Variant(EVEN_LANES, lanes), _evenly(layer, jobs, lanes)
        rows = [_cut(job, layer, lanes, lanes, True) for job in jobs]
        if any(len(pieces) > 1 for pieces in rows):
            yield Variant(ROWS_IN_TURN, lanes), rows
    for lanes in counts:
        for by_rows in (False, True):
            cut = [_cut(job, layer, lanes, _share(job, cycles, lanes), by_rows) for job in jobs]
            if any(len(pieces) > 1 for pieces in cut):
                yield (
                    Variant(BY_ROWS if by_rows else BY_KERNELS, lanes),
                    [[piece for pieces in cut for piece in pieces]],
                )
    together = rows_together(layer, context.graph)
    if together > 1 and UNITS["ARITH"] >= 2 * ariths:
        even = [_cut(job, layer, 2, _share(job, cycles, 2), True, together) for job in jobs]
        if any(len(pieces) > 1 for pieces in even):
            yield EVEN_ROWS, [[piece for pieces in even for piece in pieces]]


def _few_kernels(layer: ConvLayer, jobs: Sequence[ChainJob]) -> Iterator[tuple[Variant, Groups]]:
    """Frames that a POOL behind the convolution could take: slower, unless it follows in the same epoch."""
    if max(job.tiling.kernels for job in jobs) <= POOLED or any(job.count % POOLED for job in jobs):
        return
    for lanes, variant in FEW_KERNELS.items():
        found = [_pooled(layer, job, lanes) for job in jobs]
        if all(found):
            yield variant, [[piece for pieces in found for piece in pieces]]


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
