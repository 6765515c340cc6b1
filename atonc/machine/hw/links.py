"""Links between unit kinds and whole chains: which ones have been seen to work, how often, and in which form."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache, lru_cache
from importlib import resources
from typing import Any, NamedTuple

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link

# ----------------------------------------------------------------------------------------------------------------------
# What public networks were seen to do, as data with its evidence. Files written by tools/gen_proven.py.


class Level(StrEnum):
    """How well a form is proven."""

    SHIPPED = "shipped"  # in a program that ST ships as a working demo
    SEEN = "seen"  # in a program compiled by ST's tool, published by others
    NEVER = "never seen"


@dataclass(frozen=True)
class Sighting:
    """How often something was seen, where, and one example."""

    count: int = 0
    networks: int = 0
    shipped: int = 0  # of these networks, shipped by ST
    releases: Mapping[str, int] | None = None
    example: str = ""

    @property
    def level(self) -> Level:
        if self.shipped:
            return Level.SHIPPED
        return Level.SEEN if self.count else Level.NEVER

    def __str__(self) -> str:
        if not self.count:
            return str(Level.NEVER)
        return f"{self.level}: {self.count} times in {self.networks} networks, {self.shipped} of them shipped by ST"


NEVER_SEEN = Sighting()


@dataclass(frozen=True)
class PublishedNetwork:
    name: str  # repository:path
    release: str
    mode: str  # EC or CPU
    hardware_epochs: int
    shipped: bool


@cache
def load(name: str) -> dict[str, list[Any]]:
    text = resources.files("atonc.machine.hw").joinpath("safety", "data", f"{name}.json").read_text(encoding="ascii")
    sections: dict[str, list[Any]] = json.loads(text)
    return sections


@cache
def networks() -> tuple[PublishedNetwork, ...]:
    """The programs behind the evidence."""
    return tuple(PublishedNetwork(*row) for row in load("networks")["networks"])


def sighting(row: list[Any]) -> Sighting:
    count, in_networks, shipped, per_release, (network, epoch) = row
    releases = {name: n for name, n in zip(load("networks")["releases"], per_release, strict=True) if n}
    return Sighting(count, in_networks, shipped, releases, f"{networks()[network].name}, epoch {epoch}")


PORT_NAMES = {("CONVACC", 0): "features", ("CONVACC", 1): "kernels", ("CONVACC", 2): "accumulator"}
PORT_NAMES |= {("ARITH", 0): "X", ("ARITH", 1): "Y"}

PERMANENT = "permanent"
LAST_OF_GROUP = "drop n frames, then keep 1"
PART_OF_GROUP = "drop n frames, then keep m"
FIRST_FRAMES = "keep n frames, then drop 255"


@dataclass(frozen=True)
class LinkKind:
    """A source kind feeding one port of a destination kind."""

    source: str
    destination: str
    port: int

    def __str__(self) -> str:
        port = PORT_NAMES.get((self.destination, self.port), "")
        return f"{self.source} -> {self.destination}{f' ({port})' if port else ''}"


@dataclass(frozen=True)
class ProvenLink:
    kind: LinkKind
    sighting: Sighting  # counts single links
    epochs: int
    instance_pairs: tuple[int, int]  # seen, possible
    contexts: Mapping[str, int]  # links per form of gating

    @property
    def level(self) -> Level:
        return self.sighting.level


@dataclass(frozen=True)
class ContextForm:
    """One way of gating frames, with the frame counts seen and the link kinds that use it."""

    name: str
    frames0: tuple[int, int]
    frames1: tuple[int, int]
    links: Mapping[str, int]
    sighting: Sighting


@cache
def proven_links() -> Mapping[LinkKind, ProvenLink]:
    found = {}
    for source, destination, port, evidence, epochs, instances, contexts in load("links")["pairs"]:
        kind = LinkKind(source, destination, port)
        found[kind] = ProvenLink(kind, sighting(evidence), epochs, tuple(instances), contexts)
    return found


@cache
def contexts() -> Mapping[str, ContextForm]:
    rows = load("links")["contexts"]
    return {
        name: ContextForm(name, tuple(ranges["FNR0"]), tuple(ranges["FNR1"]), links, sighting(evidence))
        for name, links, ranges, evidence in rows
    }


@cache
def _multicasts() -> Mapping[tuple[str, tuple[tuple[str, int], ...]], Sighting]:
    rows = load("links")["multicast"]
    return {(source, tuple(sorted(targets.items()))): sighting(evidence) for source, targets, evidence in rows}


def evidence(kind: LinkKind) -> Sighting:
    """How well a link between unit kinds is proven."""
    proven = proven_links().get(kind)
    return proven.sighting if proven else NEVER_SEEN


def multicast_evidence(source: str, destinations: Iterable[str]) -> Sighting:
    """One source feeding several ports, each given as `KIND:port`; a single destination is no multicast."""
    return _multicasts().get((source, tuple(sorted(Counter(destinations).items()))), NEVER_SEEN)


def context_form(link: Link) -> str | None:
    """The name of the gating form; None for one that no program uses."""
    if link.permanent:
        return PERMANENT if link.enabled0 and not link.enabled1 else None
    if link.enabled0 and not link.enabled1 and link.frames1 == 255:
        return FIRST_FRAMES
    if link.enabled1 and not link.enabled0 and link.frames1:
        return LAST_OF_GROUP if link.frames1 == 1 else PART_OF_GROUP
    return None


# ----------------------------------------------------------------------------------------------------------------------
# The canonical text of a chain: connected units, written from the sinks back to the sources.
#
# `IN`/`OUT` are reading and writing engines; `a>B`: a feeds the only port of B; `[f=.. k=.. a=..]>CONVACC` features,
# kernels, accumulator; `[x=.. y=..]>ARITH`; `~` a gated link; `#n` a unit that feeds several ports, written out where
# it comes first; `;` further sinks of the same chain. Unit numbers do not appear: they do not matter on the chip.

_PORT_LETTERS = {"CONVACC": "fka", "ARITH": "xy"}


class Shape(NamedTuple):
    """An epoch without its configurations: all that the text says."""

    labels: tuple[tuple[str, str], ...]  # unit -> IN, OUT or its kind
    wires: tuple[tuple[str, str, int, bool], ...]  # source, destination, port, gated

    @staticmethod
    def of(units: Mapping[str, UnitConfig], wires: Iterable[tuple[str, str, int, bool]]) -> Shape:
        return Shape(tuple([(name, _label(config)) for name, config in units.items()]), tuple(wires))


def _label(config: UnitConfig) -> str:
    if isinstance(config, StrengConfig):
        return "OUT" if config.to_memory else "IN"
    return config.KIND


def split(epoch: Epoch) -> list[tuple[str, ...]]:
    """The units of each chain: sets that no link leaves."""
    return _split(_shape(epoch))


def texts(epoch: Epoch) -> dict[tuple[str, ...], str]:
    """The canonical text of each chain of an epoch, by its units."""
    return dict(texts_of(_shape(epoch)))


def _shape(epoch: Epoch) -> Shape:
    return Shape.of(epoch.units, ((k.source, k.destination, k.port, not k.permanent) for k in epoch.links))


@lru_cache(maxsize=4096)
def texts_of(shape: Shape) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Few shapes make up a network, so that they are remembered."""
    writer = _ChainWriter(shape)
    return tuple((units, writer.text(units)) for units in _split(shape))


def _split(shape: Shape) -> list[tuple[str, ...]]:
    group = {unit: unit for unit, _ in shape.labels}

    def find(unit: str) -> str:
        while group[unit] != unit:
            unit = group[unit]
        return unit

    for source, destination, _, _ in shape.wires:
        if source in group and destination in group:
            group[find(source)] = find(destination)
    members: dict[str, list[str]] = {}
    for unit in group:
        members.setdefault(find(unit), []).append(unit)
    return [tuple(units) for units in members.values()]


class _ChainWriter:
    def __init__(self, shape: Shape) -> None:
        self.labels = dict(shape.labels)
        self.inputs: dict[str, dict[int, tuple[str, str]]] = {}  # by unit and port: the source, and whether it is gated
        for source, destination, port, gated in shape.wires:
            if source in self.labels:
                self.inputs.setdefault(destination, {}).setdefault(port, ("~" if gated else "", source))
        self.fan_out = Counter(source for source, _, _, _ in shape.wires)
        self.numbers: dict[str, int] = {}

    def text(self, units: tuple[str, ...]) -> str:
        sinks = [unit for unit in units if self.labels[unit] == "OUT"]
        full = {unit: self._expand(unit, ()) for unit in sinks}
        sinks.sort(key=lambda unit: (-len(full[unit]), full[unit]))  # the longest sink first
        self.numbers = {}
        return " ; ".join(self._write(unit, ()) for unit in sinks)

    def _expand(self, unit: str, below: tuple[str, ...]) -> str:
        """The whole tree above a unit, shared units repeated: what sinks are sorted by."""
        label = self.labels[unit]
        inputs = {} if unit in below else self.inputs.get(unit, {})
        return _join(label, {p: gate + self._expand(source, (*below, unit)) for p, (gate, source) in inputs.items()})

    def _write(self, unit: str, below: tuple[str, ...]) -> str:
        label = self.labels[unit]
        if unit in self.numbers:
            return f"{label}#{self.numbers[unit]}"
        if unit in below:
            return label
        if self.fan_out[unit] > 1:
            self.numbers[unit] = len(self.numbers) + 1
            label = f"{label}#{self.numbers[unit]}"
        inputs = sorted(self.inputs.get(unit, {}).items())
        return _join(label, {p: gate + self._write(source, (*below, unit)) for p, (gate, source) in inputs})


def _join(label: str, inputs: Mapping[int, str]) -> str:
    if not inputs:
        return label
    if set(inputs) == {0}:
        return f"{inputs[0]}>{label}"
    letters = _PORT_LETTERS.get(label.partition("#")[0], "")
    named = (f"{letters[p] if p < len(letters) else p}={inputs[p]}" for p in sorted(inputs))
    return f"[{' '.join(named)}]>{label}"


@cache
def proven_chains() -> Mapping[str, Sighting]:
    return {text: sighting(row) for text, row in load("chains")["chains"]}


@cache
def proven_topologies() -> Mapping[tuple[str, ...], Sighting]:
    """Chains that were seen together in one epoch."""
    known = [text for text, _ in load("chains")["chains"]]
    rows = load("chains")["topologies"]
    return {tuple(sorted(known[number] for number in numbers)): sighting(row) for numbers, row in rows}
