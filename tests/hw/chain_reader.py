"""Reads the canonical text of a chain back into an epoch: the inverse that the tests need."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from atonc.machine.hw import regs
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link

_NODE = re.compile(r"([A-Z]+)(?:#(\d+))?")
_CONFIGS: dict[str, UnitConfig] = {
    "IN": StrengConfig(to_memory=0),
    "OUT": StrengConfig(to_memory=1),
    "CONVACC": ConvaccConfig(),
    "ARITH": ArithConfig(),
    "ACTIV": ActivConfig(),
    "POOL": PoolConfig(),
}
_PORTS = {"f": 0, "k": 1, "a": 2, "x": 0, "y": 1}


@dataclass
class Reader:
    """Recursive descent over `~[f=.. k=..]>CONVACC#1>ARITH>OUT ; ...`."""

    text: str
    position: int = 0
    units: dict[str, UnitConfig] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    shared: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def read(self) -> Epoch:
        self._chain()
        while self.text.startswith(" ; ", self.position):
            self.position += 3
            self._chain()
        assert self.position == len(self.text)
        return Epoch(1, self.units, tuple(self.links), ())

    def _chain(self, port_letter: str = "") -> tuple[str, bool]:
        """The last unit of a chain, and whether the link that leaves it is gated.

        The text does not say which link of a chain a mark belongs to; in front of a feature port it is the last one,
        elsewhere, and for a second mark, the first one.
        """
        marks = int(self._take("~")) + int(self._take("~"))
        last = marks > 0 and port_letter == "f"
        first = marks > int(last)
        unit = self._first()
        while self._take(">"):
            after = self._unit()
            self._link(unit, after, 0, first)
            first, unit = False, after
        return unit, first or last

    def _first(self) -> str:
        if not self._take("["):
            return self._unit()
        inputs = []
        while not self._take("]"):
            letter = self.text[self.position]
            self.position += 2
            inputs.append((_PORTS[letter], *self._chain(letter)))
            self._take(" ")
        assert self._take(">")
        unit = self._unit()
        for port, source, gated in inputs:
            self._link(source, unit, port, gated)
        return unit

    def _unit(self) -> str:
        match = _NODE.match(self.text, self.position)
        assert match, self.text[self.position :]
        self.position = match.end()
        label, number = match.groups()
        if number and number in self.shared:
            return self.shared[number]
        kind = "STRENG" if label in ("IN", "OUT") else label
        name = f"{kind}{self.counts.get(kind, 0)}"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.units[name] = _CONFIGS[label]
        if number:
            self.shared[number] = name
        return name

    def _link(self, source: str, destination: str, port: int, gated: bool) -> None:
        frames = (3, 1) if gated else (0, 0)
        self.links.append(Link(source, destination, port, not gated, frames[0], gated, frames[1], regs.SOURCES[source]))

    def _take(self, text: str) -> bool:
        found = self.text.startswith(text, self.position)
        self.position += len(text) * found
        return found


def read_chain(text: str) -> Epoch:
    return Reader(text).read()
