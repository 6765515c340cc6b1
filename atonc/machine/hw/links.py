"""Stream links between unit kinds: which ones have been seen to work, how often, and in which form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.proven import NEVER_SEEN, Level, Sighting, load, sighting
from atonc.machine.hw.units.switch import Link

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
