"""Which features of a whole epoch are compared with published programs: roles of units, links, chains, neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from itertools import combinations

from atonc.machine.hw.epoch import has_table
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.limits import BUS_BYTES
from atonc.machine.hw.links import context_form
from atonc.machine.hw.safety.evidence import (
    activ,
    arith,
    convacc,
    copies,
    feature_readers,
    interfaces,
    pool,
    ports,
    sets,
    streng,
    writers,
)
from atonc.machine.hw.safety.evidence.grades import Feature, Named
from atonc.machine.hw.safety.evidence.neighbours import Relation, relation
from atonc.machine.hw.safety.evidence.streng import READ_BACK
from atonc.machine.hw.safety.view import EpochView, kind_of_name
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link

TABLE, LOADED, KEPT = "table", "loaded in the epoch", "of an earlier epoch"
ONE_CHAIN, TWO_CHAINS = "of one chain", "of two chains"  # where a reader and a writer are


def unit_features(config: UnitConfig, port: str = "", memory: str = "") -> Iterator[Feature]:
    """`port` and `memory` matter for stream engines: what it is for, and in which kind of pool it is."""
    return (Feature(f"{config.KIND} {name}", role, value) for name, role, value in named(config, port, memory))


def named(config: UnitConfig, port: str = "", memory: str = "") -> Iterator[Named]:
    """The same without the kind of the unit."""
    if isinstance(config, StrengConfig):
        return streng.features(config, port, memory)
    if isinstance(config, ConvaccConfig):
        return convacc.features(config)
    if isinstance(config, ArithConfig):
        return arith.features(config)
    if isinstance(config, ActivConfig):
        return activ.features(config)
    if isinstance(config, PoolConfig):
        return pool.features(config)
    return iter((("used", "", "yes"),))


def any_value() -> dict[str, dict[str, str]]:
    """Fields that are not judged, or not always, by kind of unit, each with the reason."""
    kinds = {"STRENG": streng, "CONVACC": convacc, "ARITH": arith, "ACTIV": activ, "POOL": pool}
    return {kind: module.ANY_VALUE for kind, module in kinds.items()}


def memory_kind(view: EpochView, engine: str) -> str:
    """Names a memory as features of a unit do: all memory on the chip alike."""
    return str(ports.pool_kind(view, engine))


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
        yield "", Feature(sets.NAME, "", sets.written(view.chains.values()))
    yield from _counts(view)
    yield from _tables(view)
    for part in (ports, copies, interfaces, feature_readers):
        yield from part.features(view)
    yield from _neighbours(view)


def reader_features(view: EpochView, readers: Collection[str]) -> Iterator[tuple[str, Feature]]:
    """Those of them that may change when these readers, and nothing else, move to other addresses."""
    for part in (ports, copies):
        yield from (row for row in part.features(view) if row[0] in readers)
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
    yield from (("", feature) for feature in writers.together(relations))
    yield from _readers_and_writers(view, view.readers)


def _readers_and_writers(view: EpochView, readers: Iterable[str]) -> Iterator[tuple[str, Feature]]:
    home = {unit: number for number, units in enumerate(view.chains) for unit in units}
    for reader in readers:
        port = view.role(reader)
        for writer in view.writers:
            chains = ONE_CHAIN if home.get(reader) == home.get(writer) else TWO_CHAINS
            yield reader, reader_and_writer(_relation(view, reader, writer), chains, port)


def two_writers(one: StrengConfig, other: StrengConfig, relation: Relation) -> Iterator[Feature]:
    """Describes how two writers of one epoch lie to each other."""
    yield _pair("two writers", "", relation)
    yield from writers.features(one, other, relation)


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
