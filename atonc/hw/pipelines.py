"""The canonical text of a pipeline: connected units, written from the sinks back to the sources.

`IN`/`OUT` are reading and writing engines; `a>B`: a feeds the only port of B; `[f=.. k=.. a=..]>CONVACC` features,
kernels, accumulator; `[x=.. y=..]>ARITH`; `~` a gated link; `#n` a unit that feeds several ports, written out where it
comes first; `;` further sinks of the same pipeline. Unit numbers do not appear: they do not matter on the chip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache

from atonc.hw.epoch import Epoch
from atonc.hw.proven import NEVER_SEEN, Sighting, load, sighting
from atonc.hw.units.stream_engine import StrengConfig
from atonc.hw.units.switch import Link

_PORT_LETTERS = {"CONVACC": "fka", "ARITH": "xy"}


def split(epoch: Epoch) -> list[tuple[str, ...]]:
    """The units of each pipeline: sets that no link leaves."""
    group = {unit: unit for unit in epoch.units}

    def find(unit: str) -> str:
        while group[unit] != unit:
            unit = group[unit]
        return unit

    for link in epoch.links:
        if link.source in group and link.destination in group:
            group[find(link.source)] = find(link.destination)
    members: dict[str, list[str]] = {}
    for unit in epoch.units:
        members.setdefault(find(unit), []).append(unit)
    return [tuple(units) for units in members.values()]


def texts(epoch: Epoch) -> dict[tuple[str, ...], str]:
    """The canonical text of each pipeline of an epoch, by its units."""
    writer = _Writer(epoch)
    return {units: writer.text(units) for units in split(epoch)}


class _Writer:
    def __init__(self, epoch: Epoch) -> None:
        self.epoch = epoch
        self.inputs: dict[str, dict[int, Link]] = {}
        for link in epoch.links:
            if link.source in epoch.units:
                self.inputs.setdefault(link.destination, {}).setdefault(link.port, link)
        self.fan_out = Counter(link.source for link in epoch.links)
        self.numbers: dict[str, int] = {}

    def text(self, units: tuple[str, ...]) -> str:
        sinks = [unit for unit in units if self._label(unit) == "OUT"]
        full = {unit: self._expand(unit, ()) for unit in sinks}
        sinks.sort(key=lambda unit: (-len(full[unit]), full[unit]))  # the longest sink first
        self.numbers = {}
        return " ; ".join(self._write(unit, ()) for unit in sinks)

    def _label(self, unit: str) -> str:
        config = self.epoch.units[unit]
        if isinstance(config, StrengConfig):
            return "OUT" if config.to_memory else "IN"
        return config.KIND

    def _expand(self, unit: str, below: tuple[str, ...]) -> str:
        """The whole tree above a unit, shared units repeated: what sinks are sorted by."""
        label = self._label(unit)
        inputs = {} if unit in below else self.inputs.get(unit, {})
        return _join(label, {p: _gate(link) + self._expand(link.source, (*below, unit)) for p, link in inputs.items()})

    def _write(self, unit: str, below: tuple[str, ...]) -> str:
        label = self._label(unit)
        if unit in self.numbers:
            return f"{label}#{self.numbers[unit]}"
        if unit in below:
            return label
        if self.fan_out[unit] > 1:
            self.numbers[unit] = len(self.numbers) + 1
            label = f"{label}#{self.numbers[unit]}"
        inputs = sorted(self.inputs.get(unit, {}).items())
        return _join(label, {p: _gate(link) + self._write(link.source, (*below, unit)) for p, link in inputs})


def _gate(link: Link) -> str:
    return "" if link.permanent else "~"


def _join(label: str, inputs: Mapping[int, str]) -> str:
    if not inputs:
        return label
    if set(inputs) == {0}:
        return f"{inputs[0]}>{label}"
    letters = _PORT_LETTERS.get(label.partition("#")[0], "")
    named = (f"{letters[p] if p < len(letters) else p}={inputs[p]}" for p in sorted(inputs))
    return f"[{' '.join(named)}]>{label}"


@cache
def proven_pipelines() -> Mapping[str, Sighting]:
    return {text: sighting(row) for text, row in load("pipelines")["pipelines"]}


@cache
def proven_topologies() -> Mapping[tuple[str, ...], Sighting]:
    """Pipelines that were seen together in one epoch."""
    known = [text for text, _ in load("pipelines")["pipelines"]]
    rows = load("pipelines")["topologies"]
    return {tuple(sorted(known[number] for number in numbers)): sighting(row) for numbers, row in rows}


def evidence(text: str) -> Sighting:
    return proven_pipelines().get(text, NEVER_SEEN)
