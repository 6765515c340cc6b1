"""Sums of several chains: parts of a kernel, or slices of the input channels, one chain after the other.

Where sums go beyond what units hand on, the input channels go in slices, each summed by itself: every slice leaves 16
bits in memory, and ARITHs add them up. So it is with kernels whose parts cannot all be in one chain. A partial result
is stored in the order in which it leaves the units: [group of kernels][pixel][kernel]. The last chain adds what is in
memory to its own sums where a chain of that kind was seen, so that nothing is read once more for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.lower.context import Context
from atonc.compiler.lower.conv.chains import limits, no_setting
from atonc.compiler.lower.conv.dense_chain import Sets, add_chain, meaning
from atonc.compiler.lower.conv.engines import output_engine, requantise
from atonc.compiler.lower.conv.kernel_parts import Part
from atonc.compiler.lower.conv.layer import ConvLayer
from atonc.compiler.lower.conv.requantise import Requantisation, TwoSteps
from atonc.compiler.lower.conv.tiling import FLAT, Constraints, Tiling, choose
from atonc.compiler.lower.conv.weight_sums import ends, extreme_sums
from atonc.compiler.lower.conv.wide import SUM
from atonc.compiler.lower.registry import Refusal
from atonc.compiler.lower.semantics.sums import LoweredSums, record
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.evidence import chain_texts
from atonc.compiler.plan.policy import (
    MAX_CHAINS,
    WORTH_ALWAYS,
    WORTH_SPLITTING,
)
from atonc.compiler.plan.streams import Area, engine
from atonc.compiler.plan.task import Purpose, Task, TaskGroup
from atonc.compiler.select.enumerate import AS_IT_IS, Deciding, Found, Pieces, cheapest
from atonc.compiler.select.enumerate import first as first_of
from atonc.compiler.select.form import RefusedForm
from atonc.compiler.select.rules import COARSE, CONV_MODE, SUM_ROOM
from atonc.compiler.select.variants import Variant
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import BUS_BYTES, MAX_CHAIN, SUM_LIMIT, UNITS, WIDE_ALIGNMENT, WRITE_ALIGNMENT
from atonc.machine.hw.safety.evidence.trust import chain_seen
from atonc.machine.hw.units.arith import ArithConfig

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


def in_bytes(layer: ConvLayer, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """As many slices as single chains need for features that nothing is subtracted from."""
    modes = (mode for mode in layer.modes() if not (mode.offset or mode.deep))
    most = max((limits(mode, *parts[0].window).channels for mode in modes), default=1)
    return sliced(parts, -(-parts[0].weights.shape[3] // (MAX_CHAIN * most)))


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


Share = tuple[int, int]  # of the output channels: the first and how many


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

    @property
    def whole(self) -> Share:
        return 0, self.count

    def shares(self, most: int) -> list[Share]:
        """At most so many, each of as many groups of kernels, which begin at whole words of memory."""
        elements, groups = self.pixels * self.kernels, self.count // self.kernels
        counts = (n for n in range(most, 1, -1) if groups % n == 0 and elements * groups // n >= WORTH_SPLITTING)
        step = BUS_BYTES if (self.target.pixel | self.target.line) % BUS_BYTES == 0 else self.count
        even = (n for n in counts if self.count // n % step == 0 == 2 * elements * groups // n % WRITE_ALIGNMENT)
        number = next(even, 1)
        return [(self.count // number * k, self.count // number) for k in range(number)]

    def units(self, first: int, count: int) -> list[ArithConfig]:
        return self.layer.code_units(self.rule.units(first, count, self.kernels, self.pixels))

    def write(self, b: TaskBuilder, codes: str, first: int, count: int) -> None:
        groups = count // self.kernels
        b.write(codes, self.layer.target, output_engine(self.target, self.kernels, self.first + first, groups))

    def stored(self, first: int, count: int) -> Area:
        """Where partial results lie in memory."""
        return replace(flat(self.pixels * count), offset=2 * self.pixels * first)


def with_the_last(pieces: Sequence[PartialSum], results: Results, context: Context) -> list[TaskGroup]:
    """Partial results in memory, which the last chain adds to its own."""
    sums: list[str] = []
    groups = [partial_sum(context, piece, results, sums) for piece in pieces[:-1]]
    b = TaskBuilder(results.layer.origin, f"conv {results.layer.op.name}")
    total, units = pieces[-1].add(b, context, results.first, results.count), results.units(*results.whole)
    ariths, gate = UNITS["ARITH"], pieces[-1].gate
    if len(sums) + len(units) > ariths:
        raise Refusal(CONV_MODE, f"{len(sums)} partial results", f"{ariths} ARITHs", "add them up before")
    for buffer in sums:
        total, gate = b.unit(SUM, total, b.read(buffer, engine(flat(results.pixels * results.count))), **gate), {}
    results.write(b, requantise(b, units, total, gate), *results.whole)
    task = b.done()
    (text,) = chain_texts(task)
    if not chain_seen(text):
        raise Refusal(CONV_MODE, f"a chain {text}", "chains of ST programs", "add up the parts by themselves")
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
        b.write(tail, sums[-1], engine(results.stored(start, some), write=True), **piece.gate)
        tasks.append(b.done(pixels * some))
    return TaskGroup(tuple(tasks))


def silent(part: Part) -> Part:
    return replace(part, weights=np.zeros_like(part.weights))


def flat(elements: int) -> Area:
    """16-bit numbers in a row."""
    return Area(1, 1, elements, 2 * elements, 2 * elements, 0, 2)


def add_up(context: Context, sums: list[str], results: Results) -> list[TaskGroup]:
    """The sum of the partial results, requantised into output channels."""
    ariths = len(results.units(*results.whole))
    together = 2 if ariths < MOST_UNITS else 1  # how many the last epoch takes
    groups: list[TaskGroup] = []
    while len(sums) > together:
        total = context.scratch(2 * results.pixels * results.count, "sum of parts")
        groups.append(_add(results, sums[0], sums[1], total))
        sums = [total, *sums[2:]]
    lanes = UNITS["ARITH"] // (ariths + len(sums) - 1)
    tasks = (_last_sum(results, sums, *share) for share in results.shares(min(lanes, 2)))
    return [*groups, TaskGroup.of(*tasks)]


def _last_sum(results: Results, sums: Sequence[str], first: int, count: int) -> Task:
    b = TaskBuilder(results.layer.origin, f"conv {results.layer.op.name} from its parts")
    streams = [b.read(buffer, engine(results.stored(first, count))) for buffer in sums]
    total = b.unit(SUM, *streams) if len(streams) > 1 else streams[0]
    results.write(b, requantise(b, results.units(first, count), total, {}), first, count)
    return b.done(results.pixels * count)


def _add(results: Results, left: str, right: str, total: str) -> TaskGroup:
    tasks = []
    for share in results.shares(MAX_CHAINS):
        area = results.stored(*share)
        b = TaskBuilder(results.layer.origin, f"sum of parts of conv {results.layer.op.name}", Purpose.PART)
        both = [b.read(buffer, engine(area)) for buffer in (left, right)]
        b.write(b.unit(SUM, *both), total, engine(area, write=True))
        tasks.append(b.done(area.width))
    return TaskGroup(tuple(tasks))


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
    for group in (k for k in (8, 4, 2, 1) if count % k == 0):
        tried = (chunks(parts, partial(_with_kernels, layer, group, n)) for n in numbers)
        best = min(filter(None, tried), key=lambda one: sum(tiling.cycles for _, tiling in one), default=None)
        if best:
            return group, best
    return 1, []


def _with_kernels(layer: ConvLayer, kernels: int, subtracted: int, parts: tuple[Part, ...]) -> Tiling | None:
    channels = parts[0].weights.shape[3]  # those of the layer, or twice as many where pixels go in pairs
    modes = [mode for mode in layer.modes() if mode.offset == subtracted]
    within = Constraints(memory_loops=False, bands=layer.bands, aligned=WIDE_ALIGNMENT if layer.coarse else 1)
    tiling = choose(parts, channels, kernels, modes, layer.made_for, within)
    return tiling if tiling is not None and tiling.kernels == kernels else None


DECISIONS = (slices, order_of_sums)
