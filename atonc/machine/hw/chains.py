"""The canonical text of a chain: connected units, written from the sinks back to the sources.

`IN`/`OUT` are reading and writing engines; `a>B`: a feeds the only port of B; `[f=.. k=.. a=..]>CONVACC` features,
kernels, accumulator; `[x=.. y=..]>ARITH`; `~` a gated link; `#n` a unit that feeds several ports, written out where it
comes first; `;` further sinks of the same chain. Unit numbers do not appear: they do not matter on the chip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.proven import Sighting, load, sighting
from atonc.machine.hw.units.stream_engine import StrengConfig

_PORT_LETTERS = {"CONVACC": "fka", "ARITH": "xy"}


@dataclass(frozen=True)
class Shape:
    """An epoch without its configurations: all that the text says."""

    labels: tuple[tuple[str, str], ...]  # unit -> IN, OUT or its kind
    wires: tuple[tuple[str, str, int, bool], ...]  # source, destination, port, gated

    @staticmethod
    def of(units: Mapping[str, UnitConfig], wires: Iterable[tuple[str, str, int, bool]]) -> Shape:
        return Shape(tuple((name, _label(config)) for name, config in units.items()), tuple(wires))


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
