"""An epoch: units with their configurations, the links between them, and what ends it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig, derived
from atonc.machine.hw.units.activ import FUNCTION, ActivConfig
from atonc.machine.hw.units.arith import ArithConfig, used_rows
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link


@dataclass(frozen=True)
class Event:
    """One step of the program in the order that it is executed: `what` is configure, link, switch, enable, wait,
    unlink or disable; `detail` carries the value that a rule may want (poll value and timeout)."""

    what: str
    unit: str
    detail: tuple[int, ...] = ()


@dataclass(frozen=True)
class Epoch:
    number: int
    units: Mapping[str, UnitConfig]
    links: tuple[Link, ...]
    waits: tuple[str, ...]  # engines whose end ends the epoch
    events: tuple[Event, ...] = ()
    words: int = 0  # length of its part of the program, or of the one that the epoch controller would have
    registers: Mapping[str, Mapping[int, int]] = field(default_factory=dict, repr=False, compare=False)
    kept: frozenset[str] = frozenset()  # units whose table an earlier epoch of the same program has loaded

    def of_kind(self, kind: str) -> dict[str, UnitConfig]:
        return {name: config for name, config in self.units.items() if kind == config.KIND}

    def engines(self) -> Mapping[str, StrengConfig]:
        return self._engines

    def readers(self) -> Mapping[str, StrengConfig]:
        return self._readers

    def writers(self) -> Mapping[str, StrengConfig]:
        return self._writers

    def sources(self, unit: str) -> Mapping[int, Link]:
        """Links into a unit by port."""
        return self._into.get(unit, {})

    def destinations(self, unit: str) -> tuple[Link, ...]:
        return self._from.get(unit, ())

    @derived
    def _engines(self) -> Mapping[str, StrengConfig]:
        return {name: config for name, config in self.units.items() if isinstance(config, StrengConfig)}

    @derived
    def _readers(self) -> Mapping[str, StrengConfig]:
        return {name: config for name, config in self._engines.items() if not config.to_memory}

    @derived
    def _writers(self) -> Mapping[str, StrengConfig]:
        return {name: config for name, config in self._engines.items() if config.to_memory}

    @derived
    def _into(self) -> Mapping[str, Mapping[int, Link]]:
        found: dict[str, dict[int, Link]] = {}
        for link in self.links:
            found.setdefault(link.destination, {})[link.port] = link
        return found

    @derived
    def _from(self) -> Mapping[str, tuple[Link, ...]]:
        return _grouped((link.source, link) for link in self.links)

    @property
    def empty(self) -> bool:
        return not self.units


def _grouped(links: Iterable[tuple[str, Link]]) -> dict[str, tuple[Link, ...]]:
    """Groups links by unit, in the order of the epoch."""
    found: dict[str, tuple[Link, ...]] = {}
    for unit, link in links:
        found[unit] = (*found.get(unit, ()), link)
    return found


# ----------------------------------------------------------------------------------------------------------------------
# Tables of coefficients that stay in a unit from epoch to epoch.
#
# An ARITH reads its rows from a memory of its own. Releasing a unit clears its registers; nothing published says that
# it clears the memory, and no published program relies on the opposite: each of their epochs writes every row that it
# reads (9,762 tables of ARITHs and 1,650 of ACTIVs in 132 programs). So keeping a table is for those who ask for it.

Held = dict[str, bytes]  # unit -> rows that its memory is known to begin with


def has_table(config: UnitConfig) -> bool:
    if isinstance(config, ActivConfig):
        return config.type == FUNCTION
    return isinstance(config, ArithConfig) and bool(config.table)


def rows_of(config: UnitConfig) -> bytes:
    """The rows of an ARITH that its counters reach; nothing of one without a table, or of another unit."""
    if not isinstance(config, ArithConfig) or not config.table:
        return b""
    return config.rows()[: used_rows(config)].tobytes()


def keep_tables(epoch: Epoch, held: Held) -> Epoch:
    """The epoch without loading what its ARITHs hold already; `held` becomes what they hold after it."""
    tables = {name: rows for name, config in epoch.units.items() if (rows := rows_of(config))}
    kept = frozenset(name for name, rows in tables.items() if held.get(name, b"").startswith(rows))
    held |= {name: rows for name, rows in tables.items() if name not in kept}
    return replace(epoch, kept=kept) if kept != epoch.kept else epoch


def never_loaded(epochs: Iterable[Epoch]) -> list[tuple[int, str]]:
    """Epochs and units that rely on a table which no earlier epoch of the program has loaded, or which is another."""
    held: Held = {}
    found = []
    for epoch in epochs:
        allowed = keep_tables(epoch, held).kept
        found += [(epoch.number, name) for name in sorted(epoch.kept - allowed)]
    return found
