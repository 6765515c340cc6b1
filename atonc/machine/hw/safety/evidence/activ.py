"""Which features of an ACTIV are compared with published programs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atonc.machine.hw.safety.evidence.grades import Named
from atonc.machine.hw.safety.evidence.modes import mode
from atonc.machine.hw.units.activ import FUNCTION, ActivConfig

ANY_VALUE: dict[str, str] = {}


def features(c: ActivConfig) -> Iterator[Named]:
    yield mode(c)
    yield "FSHIFT FRNDMODE", "", f"{c.feature_shift} {c.feature_round_mode}"
    role = "function" if c.type == FUNCTION else "threshold"
    yield "PARAM FUNC PARAM2", role, f"{c.parameter} {c.normalise} {c.parameter2}"
    yield from (("OUTSHIFT", role, c.out_shift), ("BSHIFT", role, c.shift_b), ("CSHIFT", role, c.shift_c))
    yield "BWIDTH", role, c.index_bits
    if c.type == FUNCTION:
        yield from _tables(c)


def _tables(c: ActivConfig) -> Iterator[Named]:
    selectors = np.frombuffer(c.rom0, np.uint8)[: 1 << c.index_bits].astype(int)
    inner, base = selectors >> 6, selectors & 63
    used = int((base + (1 << inner)).max(initial=0))
    yield from (("most inner bits", "", int(inner.max(initial=0))), ("segments", "", used))
    rows = np.frombuffer(c.rom1, "<i2").reshape(-1, 3)[:used]
    for number, letter in enumerate("ABC"):
        yield f"{letter} of a table", "table", int(rows[:, number].min(initial=0))
        yield f"{letter} of a table", "table", int(rows[:, number].max(initial=0))
