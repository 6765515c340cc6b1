"""Tables of coefficients that stay in a unit from epoch to epoch.

An ARITH reads its rows from a memory of its own. Releasing a unit clears its registers; nothing published says that it
clears the memory, and no published program relies on the opposite: each of their epochs writes every row that it reads
(9,762 tables of ARITHs and 1,650 of ACTIVs in 132 programs). So keeping a table is for those who ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units.activ import FUNCTION, ActivConfig
from atonc.machine.hw.units.arith import ArithConfig, used_rows

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
