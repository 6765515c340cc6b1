"""A burst means what its stores one by one mean, whichever way the decoder takes."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.machine.hw import regs
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec.instructions import BurstWriteInc, Instruction, Label, Poll, Write
from atonc.machine.hw.epoch import Epoch

ARITH, ENGINE, SWITCH = (regs.UNIT_BY_NAME[name].id for name in ("ARITH1", "STRENG2", "STRSWITCH0"))
VECTORS = 1 << 7 | 1 << 21 | 1 << 22  # of all three coefficients


def _epoch(stores: list[Instruction]) -> Epoch:
    wait = Poll(ENGINE, 0, 31, 31, 100, 0)
    (found,) = decode_epochs([Label(1), *stores, Write(ARITH, 0, VECTORS | 1), Write(ENGINE, 0, 1), wait])
    return found


def _one_by_one(burst: BurstWriteInc) -> list[Instruction]:
    return [Write(burst.unit, burst.reg + k, value) for k, value in enumerate(burst.values)]


@pytest.mark.parametrize(
    ("unit", "register", "count"),
    [
        (ARITH, 256, 14),  # whole rows
        (ARITH, 257, 14),  # begins and ends in the middle of a row
        (ARITH, 256, 7),
        (ARITH, 768, 256),  # rows that only the translated window reaches
        (ENGINE, 2, 9),
        (ENGINE, 0, 3),
        (ENGINE, 250, 12),  # past the ordinary registers
        (SWITCH, 2, 12),
    ],
)
@pytest.mark.parametrize("window", [0, 1])
def test_a_burst_is_its_stores(unit: int, register: int, count: int, window: int) -> None:
    random = np.random.default_rng(register + count)
    values = random.integers(0, 1 << 32 if unit != SWITCH else 1 << 6, count) & ~3  # CTRL: neither cleared nor enabled
    burst = BurstWriteInc(unit, register, tuple(values.tolist()))
    first: list[Instruction] = [Write(ARITH, 11, window)]
    together, apart = _epoch([*first, burst]), _epoch([*first, *_one_by_one(burst)])
    assert together.units == apart.units and together.links == apart.links
    assert together.registers == apart.registers and together.events == apart.events
    assert together.units["ARITH1"] != _epoch(first).units["ARITH1"] or unit != ARITH
