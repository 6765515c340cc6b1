"""Which features of a whole epoch are compared with published programs: roles of units, links, chains, neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache, lru_cache
from itertools import combinations, combinations_with_replacement
from math import gcd
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from atonc.machine.hw.epoch import has_table
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.limits import BUS_BYTES, MOST_WRITERS
from atonc.machine.hw.links import context_form
from atonc.machine.hw.machine import CPU_RAM, stm32n6
from atonc.machine.hw.safety.evidence.grades import Feature, Grade, Graded, Named, Strength
from atonc.machine.hw.safety.evidence.unit_features import (
    READ_BACK,
    activ_features,
    arith_features,
    convacc_features,
    direction,
    pool_features,
    streng_features,
)
from atonc.machine.hw.safety.view import EpochView, PoolKind, kind_of_name, number_of_name
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link

# ----------------------------------------------------------------------------------------------------------------------
# How two stream engines of one epoch are placed relative to each other in memory: do their bytes or bus words meet, and
# how far are they from each other?
#
# An engine touches runs of bytes in nested loops. Two engines that walk one tensor step by the same pixel, so it is
# enough to compare one period of their common step; only where that is not so are the runs listed one by one.

_PERIODS = 3  # that two walks must share before one of them stands for all
Loop = tuple[int, int]  # count, step in bytes
Runs = tuple[NDArray[np.int64], int]  # where they begin, how long they are


class Relation(StrEnum):
    APART = "apart"
    BORDER = "apart, a word at the border in common"
    OWN_WORDS = "interleaved, no word in common"
    SHARED_WORDS = "interleaved, words in common"
    OVERLAP = "bytes in common"
    BEHIND = "bytes in common, moved down"  # of a copy: every byte is read before its place is written
    AHEAD = "bytes in common, moved otherwise"  # of a copy: some are written first, or nobody knows


def relation(one: StrengConfig, other: StrengConfig) -> Relation:
    (_, end), (start, _) = sorted((one.span(), other.span()))
    if end <= start:
        return Relation.BORDER if (end - 1) // BUS_BYTES == start // BUS_BYTES else Relation.APART
    walks = (_ByteRuns.of(one), _ByteRuns.of(other))
    between = _in_turn(*walks)
    if _meet(*walks, 1) if between is None else between < 0:
        return Relation.OVERLAP
    return Relation.SHARED_WORDS if _meet(*walks, BUS_BYTES) else Relation.OWN_WORDS


class _ByteRuns:
    """Runs of `length` bytes from `address` on, repeated by loops: the longest last."""

    def __init__(self, address: int, length: int, loops: tuple[Loop, ...]) -> None:
        self.address, self.length, self.loops = address, length, loops

    @classmethod
    def of(cls, config: StrengConfig) -> _ByteRuns:
        loops = [*config.frame_loops(), *zip(config.stored_shape, config.steps, strict=True)]
        length, merged = config.stored_bytes, list[Loop]()
        walked = sorted(((count, abs(step)) for count, step in loops if count > 1 and step), key=lambda loop: loop[1])
        for count, step in walked:
            if not merged and step == length:
                length *= count
            elif merged and step == merged[-1][0] * merged[-1][1]:
                merged[-1] = (merged[-1][0] * count, merged[-1][1])
            else:
                merged.append((count, step))
        return cls(config.span()[0], length, tuple(sorted(merged)))

    def starts(self, loops: tuple[Loop, ...]) -> NDArray[np.int64]:
        found = np.array([self.address], np.int64)
        for count, step in loops:
            found = (np.arange(count, dtype=np.int64)[:, None] * step + found).reshape(-1)
        return found


def distance(one: StrengConfig, other: StrengConfig) -> int:
    """Bytes between the nearest runs of two engines without a byte in common."""
    walks = (_ByteRuns.of(one), _ByteRuns.of(other))
    found = _in_turn(*walks)
    return _nearest(*(_period(*walks, 1) or _listed(*walks))) if found is None else found


def _in_turn(one: _ByteRuns, other: _ByteRuns) -> int | None:
    """Bytes between runs of two that go side by side for a while, each by the same step; negative: they meet."""
    if len(one.loops) != 1 or len(other.loops) != 1 or one.loops[0][1] != other.loops[0][1]:
        return None
    (count, step), (count2, _) = one.loops[0], other.loops[0]
    shift, ahead = divmod(other.address - one.address, step)
    if min(count, shift + count2) - max(0, shift) < _PERIODS:
        return None
    return min(ahead - one.length, step - ahead - other.length)


def _nearest(one: Runs, other: Runs) -> int:
    (starts, length), (starts2, length2) = one, other
    ends, starts2 = np.sort(starts) + length, np.sort(starts2)
    after = np.searchsorted(starts2, ends)  # the first run of the other that begins behind each one
    behind, before = after < len(starts2), after > 0
    gaps = (starts2[after[behind]] - ends[behind], ends[before] - length - starts2[after[before] - 1] - length2)
    return int(min(gap.min(initial=1 << 32) for gap in gaps))


def shorter_run(one: StrengConfig, other: StrengConfig) -> int:
    """Bytes in a row, of the engine that has fewer of them."""
    return min(_ByteRuns.of(one).length, _ByteRuns.of(other).length)


def _meet(one: _ByteRuns, other: _ByteRuns, unit: int) -> bool:
    """Whether the two touch a unit of memory in common."""
    (starts, length), (starts2, length2) = _period(one, other, unit) or _listed(one, other)
    return _touch(starts, length, starts2, length2, unit)


def _listed(one: _ByteRuns, other: _ByteRuns) -> tuple[Runs, Runs]:
    """All runs of both."""
    return (one.starts(one.loops), one.length), (other.starts(other.loops), other.length)


def _period(one: _ByteRuns, other: _ByteRuns, unit: int) -> tuple[Runs, Runs] | None:
    """Those of one period, where both repeat by the same step; None where the ends of the walks may decide."""
    if not one.loops or not other.loops or one.loops[-1][1] != other.loops[-1][1]:
        return None
    (count, step), (count2, _) = one.loops[-1], other.loops[-1]
    fold = unit // gcd(unit, step)  # steps until the units are aligned as before
    period = fold * step
    shift = (other.address - one.address) // step
    common = min(count, shift + count2) - max(0, shift)
    if common < _PERIODS * fold:
        return None
    first = one.starts((*one.loops[:-1], (fold, step)))
    second = other.starts((*other.loops[:-1], (fold, step))) - shift // fold * period
    around = (second[:, None] + np.arange(-1, 2) * period).reshape(-1)
    return (first, one.length), (around, other.length)


def _touch(starts: NDArray[np.int64], length: int, starts2: NDArray[np.int64], length2: int, unit: int) -> bool:
    firsts, lasts = _units(starts, length, unit)
    firsts2, lasts2 = _units(starts2, length2, unit)
    begun = np.searchsorted(firsts2, lasts, side="right")  # how many of the others begin before each one ends
    reached = np.maximum.accumulate(lasts2)
    some = begun > 0
    return bool((reached[begun[some] - 1] >= firsts[some]).any())


def _units(starts: NDArray[np.int64], length: int, unit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    ordered = np.sort(starts)
    return ordered // unit, (ordered + length - 1) // unit


# ----------------------------------------------------------------------------------------------------------------------
# Engines that read whole numbers of 16 bits for a CONVACC with features of 16 bits and kernels of 8. Published readers
# of that mode extend bytes; whole numbers are read for kernels of 16 bits. So it is said only where it is so: all else
# is every published reader.

FEATURE_PORT = 0  # the port
WHOLE = Feature("STRENG reads features", "simd2", "16 bits")
_SIMD = 2


def read_for(reader: UnitConfig, unit: UnitConfig, port: int) -> tuple[Feature, ...]:
    """What there is to say of a unit that reads from an engine."""
    wide = isinstance(unit, ConvaccConfig) and unit.simd == _SIMD and port == FEATURE_PORT
    return (WHOLE,) if wide and isinstance(reader, StrengConfig) and reader.element_bytes > 1 else ()


def feature_reader_features(view: EpochView) -> Iterator[tuple[str, Feature]]:
    for link in view.links:
        if link.source in view.engines and link.destination in view.units:
            for found in read_for(view.engines[link.source], view.units[link.destination], link.port):
                yield link.source, found


# ----------------------------------------------------------------------------------------------------------------------
# Bus interfaces: stream engines hang on two, and published programs spread the engines of an epoch over both.

ENGINES, SIDES = "engines on each bus interface", "features and kernels of a CONVACC"
_PORTS = (0, 1)  # of a CONVACC: features, kernels
_FEW = 5  # engines that would fit on one interface; more of them use both anyway


@cache
def interface(engine: str) -> int:
    """That of a stream engine; an engine that the chip does not have is on none."""
    number = number_of_name(engine)
    return next((port for port, engines in stm32n6().engine_ports.items() if number in engines), -1)


def interface_features(view: EpochView) -> Iterator[tuple[str, Feature]]:
    many = len(view.engines)
    if many > 1:
        yield "", _spread(tuple(sorted(map(interface, view.engines))))
    role = f"{many} engines" if many <= _FEW else f"more than {_FEW} engines"
    for unit in view.convaccs:
        links = (view.source(unit, port) for port in _PORTS)
        sources = [link.source for link in links if link is not None and link.source in view.engines]
        if len(sources) == len(_PORTS):
            both = len(set(map(interface, sources))) > 1
            yield unit, Feature(SIDES, role, "over both interfaces" if both else "over one interface")


@lru_cache(maxsize=1 << 8)
def _spread(used: tuple[int, ...]) -> Feature:
    """`3 + 2`: unit numbers do not matter, so neither does which of the interfaces has more."""
    counted = Counter(used)
    counts = sorted((counted[port] for port in stm32n6().engine_ports), reverse=True)
    return Feature(ENGINES, "", " + ".join(map(str, counts)))


# ----------------------------------------------------------------------------------------------------------------------
# The memory behind every port: what a stream engine in its role reads from or writes to. Kernels come from flash in
# nearly all published programs and from RAM in a few; a unit that gets its words at another pace, or an engine on
# another path of the bus, is another form. A buffer of the application may be anywhere, so it is judged by direction
# only.

MEMORY = "STRENG memory"
NPU_SIDE, CPU_SIDE = "NPU RAM", "CPU RAM"


def pool_kind(view: EpochView, engine: str) -> PoolKind:
    """What is in no pool belongs to the application."""
    home = view.memory_of[engine]
    return home.kind if home else PoolKind.USER


def memory_side(view: EpochView, engine: str) -> str:
    """The same, with the memories on the chip told apart."""
    kind = pool_kind(view, engine)
    if kind != PoolKind.ON_CHIP:
        return str(kind)
    bank = stm32n6().memory_at(view.engines[engine].address)
    return CPU_SIDE if bank is not None and bank.kind == CPU_RAM else NPU_SIDE


def port_features(view: EpochView) -> Iterator[tuple[str, Feature]]:
    for engine, config in view.engines.items():
        port, place = view.role(engine), memory_side(view, engine)
        yield engine, _port_feature(direction(config) if place == PoolKind.USER else port, place)


@lru_cache(maxsize=1 << 8)
def _port_feature(role: str, place: str) -> Feature:
    return Feature(MEMORY, role, place)


# Kernels that are no constants, since something wrote them in the same inference. `safety.view` knows who, where the
# program is ours; published kernels are constants, or the application writes them before it starts the network.

KERNEL_WRITER, KERNELS_OF = "writer of kernels", "to CONVACC:1"
BY_ENGINES, BY_CPU = (Feature(KERNEL_WRITER, "", who) for who in ("engines", "CPU"))


def kernel_features(view: EpochView) -> Iterator[tuple[str, Feature]]:
    for engine, config in view.engines.items():
        writers = view.context.writers_at(config.address) if view.role(engine) == KERNELS_OF else ()
        yield from ((engine, BY_ENGINES if who == BY_ENGINES.value else BY_CPU) for who in writers)


# ----------------------------------------------------------------------------------------------------------------------
# Copies from memory to memory by two stream engines, and what runs beside them. Copies of activations beside
# convolutions are common; weights that are fetched from flash into RAM while a convolution reads flash are in no
# published program.

COPY, COPY_CHAIN = "copy", "IN>OUT"
CONVOLVED, ACCOMPANIED, ALONE = "beside a convolution", "beside other units", "alone"
BUSIER = {ALONE: (ACCOMPANIED, CONVOLVED), ACCOMPANIED: (CONVOLVED,)}  # what was seen there works with less beside it


def _copy(beside: str, source: str, target: str) -> Feature:
    return Feature(COPY, beside, f"{source} > {target}")


FETCHES = tuple(
    _copy(beside, PoolKind.FLASH, ram) for beside in (CONVOLVED, ACCOMPANIED, ALONE) for ram in (NPU_SIDE, CPU_SIDE)
)  # weights that are fetched ahead


def copy_features(view: EpochView) -> Iterator[tuple[str, Feature]]:
    beside = CONVOLVED if view.convaccs else ACCOMPANIED if view.processing else ALONE
    for units, text in view.chains.items():
        if text == COPY_CHAIN:
            source, target = sorted(units, key=lambda unit: unit in view.writers)
            yield source, _copy(beside, memory_side(view, source), memory_side(view, target))


# ----------------------------------------------------------------------------------------------------------------------
# Sets of chains side by side in one epoch: was a set seen as part of a larger one? What a set asks of the chip, a
# larger set that holds all of its chains asks too: as many units and engines beside each other, and more. So such a
# part is stronger than chains that were only seen one by one.

SIDE_BY_SIDE = "chains side by side"
_AND = " || "


def set_of_chains(texts: Iterable[str]) -> str:
    """A set as one word."""
    return _AND.join(sorted(texts))


def chains_of(word: str) -> list[str]:
    return word.split(_AND)


def larger_set(word: str, seen: Mapping[str, Strength]) -> str | None:
    """The strongest seen set of which these chains, each as often as it is there, are a part."""
    mine = _counted(word)
    around = [other for other in seen if mine <= _counted(other)]
    return max(around, key=lambda other: (seen[other].programs, seen[other].times, other), default=None)


@lru_cache(maxsize=1 << 12)
def _counted(word: str) -> Counter[str]:
    return Counter(chains_of(word))


# ----------------------------------------------------------------------------------------------------------------------
# Writers of one epoch whose bytes interleave: how many they are, how long their runs are, and how far they stay from
# each other.
#
# Pixels of a tensor whose channels come from several chains look so. Published programs have two such writers in an
# epoch, side by side in every pixel. Two that lie otherwise (other runs, a gap between them, two pairs in one epoch),
# and three or more of one buffer, rest on argument S10.

BETWEEN, RUN = "bytes between interleaved writers", "shorter run of interleaved writers"
TOGETHER = "interleaved writers of a buffer"  # as a word: how many there are in each set of them, `3`, `2 2`
INTERLEAVED = (Relation.OWN_WORDS, Relation.SHARED_WORDS)
# sets of three and more, of all that an epoch has: nobody has run them, so they are used only where they are asked for
MANY = frozenset(
    Feature(TOGETHER, "", " ".join(map(str, sizes)))
    for count in range(1, MOST_WRITERS // 2 + 1)
    for sizes in combinations_with_replacement(range(2, MOST_WRITERS + 1), count)
    if sum(sizes) <= MOST_WRITERS and sizes[-1] > 2
)
Name = TypeVar("Name")


class Writers(StrEnum):
    """What an epoch has of them."""

    PUBLISHED = "two as published"
    OTHERWISE = "two otherwise"
    MANY = "three or more"


def writer_features(one: StrengConfig, other: StrengConfig, relation: Relation) -> Iterator[Feature]:
    """How two writers lie to each other, if they interleave."""
    if relation in INTERLEAVED:
        yield Feature(BETWEEN, str(relation), distance(one, other))
        yield Feature(RUN, "", shorter_run(one, other))


def together(relations: Mapping[tuple[Name, Name], Relation]) -> Iterator[Feature]:
    """How many writers of an epoch interleave. `features` say all there is to say of a single pair."""
    sizes = sorted(map(len, _sets(pair for pair, found in relations.items() if found in INTERLEAVED)))
    if sizes not in ([], [2]):
        yield interleaved(*sizes)


def interleaved(*sizes: int) -> Feature:
    """Sets of so many writers each, in one epoch."""
    return Feature(TOGETHER, "", " ".join(map(str, sizes)))


def _sets(pairs: Iterable[tuple[Name, Name]]) -> list[frozenset[Name]]:
    """What hangs together by pairs."""
    found: list[frozenset[Name]] = []
    for pair in pairs:
        touched = [one for one in found if not one.isdisjoint(pair)]
        found = [one for one in found if one not in touched] + [frozenset(pair).union(*touched)]
    return found


def writers_of(forms: Collection[Graded]) -> Writers | None:
    """What an epoch with these forms has."""
    own = [form for form in forms if form.feature.name in (BETWEEN, RUN, TOGETHER)]
    if any(form.feature in MANY for form in own):
        return Writers.MANY
    if any(form.grade.rank > Grade.WITHIN.rank for form in own):
        return Writers.OTHERWISE
    return Writers.PUBLISHED if own else None


TABLE, LOADED, KEPT = "table", "loaded in the epoch", "of an earlier epoch"
ONE_CHAIN, TWO_CHAINS = "of one chain", "of two chains"  # where a reader and a writer are


def unit_features(config: UnitConfig, port: str = "", memory: str = "") -> Iterator[Feature]:
    """`port` and `memory` matter for stream engines: what it is for, and in which kind of pool it is."""
    return (Feature(f"{config.KIND} {name}", role, value) for name, role, value in named(config, port, memory))


def named(config: UnitConfig, port: str = "", memory: str = "") -> Iterator[Named]:
    """The same without the kind of the unit."""
    if isinstance(config, StrengConfig):
        return streng_features(config, port, memory)
    if isinstance(config, ConvaccConfig):
        return convacc_features(config)
    if isinstance(config, ArithConfig):
        return arith_features(config)
    if isinstance(config, ActivConfig):
        return activ_features(config)
    if isinstance(config, PoolConfig):
        return pool_features(config)
    return iter((("used", "", "yes"),))


def memory_kind(view: EpochView, engine: str) -> str:
    """Names a memory as features of a unit do: all memory on the chip alike."""
    return str(pool_kind(view, engine))


def view_features(view: EpochView) -> Iterator[Feature]:
    """All features of an epoch: of its units, then as a whole."""
    for unit, config in view.units.items():
        engine = unit in view.engines
        yield from unit_features(config, view.role(unit), memory_kind(view, unit)) if engine else unit_features(config)
    yield from (feature for _, feature in epoch_features(view))


def epoch_features(view: EpochView) -> Iterator[tuple[str, Feature]]:
    """Features of the epoch as a whole, each with the unit that it is about."""
    yield from _links(view)
    for units, text in view.chains.items():
        yield units[0], Feature("chain", "", text)
    if len(view.chains) > 1:
        yield "", Feature(SIDE_BY_SIDE, "", set_of_chains(view.chains.values()))
    yield from _counts(view)
    yield from _tables(view)
    for features in (port_features, kernel_features, copy_features, interface_features, feature_reader_features):
        yield from features(view)
    yield from _neighbours(view)


def reader_features(view: EpochView, readers: Collection[str]) -> Iterator[tuple[str, Feature]]:
    """Those of them that may change when these readers, and nothing else, move to other addresses."""
    for features in (port_features, kernel_features, copy_features):
        yield from (row for row in features(view) if row[0] in readers)
    yield from _readers_and_writers(view, readers)


def _links(view: EpochView) -> Iterator[tuple[str, Feature]]:
    for link in view.links:
        for feature in _link_features(link):
            yield link.destination, feature
    for unit in view.units:
        links = view.destinations(unit)
        if len(links) > 1:
            fan = sorted(f"{kind_of_name(link.destination)}:{link.port}" for link in links)
            yield unit, Feature("multicast", kind_of_name(unit), " ".join(fan))


@lru_cache(maxsize=1 << 12)
def _link_features(link: Link) -> tuple[Feature, ...]:
    kind = f"{kind_of_name(link.source)} -> {kind_of_name(link.destination)}:{link.port}"
    form = context_form(link) or link.gate or "disabled"
    frames = (link.frames0, link.frames1) if not link.permanent else ()
    return (
        Feature("link", kind, form),
        *(Feature(f"link frames in context {number}", form, count) for number, count in enumerate(frames)),
        Feature("link LINK1 and TICKTYPE", "", f"{link.other_source} {link.tick_type}"),
    )


def _counts(view: EpochView) -> Iterator[tuple[str, Feature]]:
    yield "", Feature("readers in an epoch", "", len(view.readers))
    yield "", Feature("writers in an epoch", "", len(view.writers))
    for kind, count in Counter(config.KIND for config in view.units.values()).items():
        yield "", Feature("units in an epoch", kind, count)
    yield "", Feature("chains in an epoch", "", len(view.chains))
    if view.epoch.words:
        yield "", Feature("words of an epoch", "", view.epoch.words)


def _tables(view: EpochView) -> Iterator[tuple[str, Feature]]:
    for unit, config in view.units.items():
        if has_table(config):
            yield unit, Feature(TABLE, config.KIND, KEPT if unit in view.epoch.kept else LOADED)


def _neighbours(view: EpochView) -> Iterator[tuple[str, Feature]]:
    relations = {pair: _relation(view, *pair) for pair in combinations(view.writers, 2)}
    for (first, second), found in relations.items():
        for feature in two_writers(view.engines[first], view.engines[second], found):
            yield first, feature
    yield from (("", feature) for feature in together(relations))
    yield from _readers_and_writers(view, view.readers)


def _readers_and_writers(view: EpochView, readers: Iterable[str]) -> Iterator[tuple[str, Feature]]:
    home = {unit: number for number, units in enumerate(view.chains) for unit in units}
    for reader in readers:
        port = view.role(reader)
        for writer in view.writers:
            chains = ONE_CHAIN if home.get(reader) == home.get(writer) else TWO_CHAINS
            found = of_copy(view.engines[reader], view.engines[writer], _relation(view, reader, writer), port)
            yield reader, reader_and_writer(found, chains, port)


def two_writers(one: StrengConfig, other: StrengConfig, relation: Relation) -> Iterator[Feature]:
    """Describes how two writers of one epoch lie to each other."""
    yield _pair("two writers", "", relation)
    yield from writer_features(one, other, relation)


def of_copy(reader: StrengConfig, writer: StrengConfig, found: Relation, port: str) -> Relation:
    """Closer where a reader sends what it reads straight to a writer, which leaves it elsewhere in the same bytes."""
    moved = reader.address - writer.address
    if found != Relation.OVERLAP or moved == 0 or not port.startswith("to STRENG"):
        return found
    in_a_row = all(one.raw and one.frames == 1 for one in (reader, writer))
    alike = (reader.element_bytes, reader.elements) == (writer.element_bytes, writer.elements)
    return Relation.BEHIND if in_a_row and alike and moved >= BUS_BYTES else Relation.AHEAD


def reader_and_writer(relation: Relation, chains: str, port: str = "") -> Feature:
    """Describes how a reader and a writer of one epoch lie to each other; `port`: what the reader is for."""
    return _pair("reader and writer", f"{chains}, {port}" if port == READ_BACK else chains, relation)


@lru_cache(maxsize=1 << 8)
def _pair(name: str, role: str, relation: Relation) -> Feature:
    return Feature(name, role, str(relation))


def _relation(view: EpochView, one: str, other: str) -> Relation:
    """Most engines are far from each other: no need to look closer."""
    (low, end), (low2, end2) = view.spans[one], view.spans[other]
    if end + BUS_BYTES <= low2 or end2 + BUS_BYTES <= low:
        return Relation.APART
    return relation(view.engines[one], view.engines[other])
