"""Small legal epochs with one field of one unit changed by one: what the safety rules say, which forms are no longer
those of published programs, what it costs, and what the emulator computes or refuses. All of it is a record; other
tests say why a rule, a grade or a figure is right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.npu import run_epoch
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.cycles.doubts import doubts
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import changed, places
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.safety import check_epoch
from atonc.machine.hw.safety.evidence import grade_epoch
from atonc.machine.hw.units.arith import ROWS, ArithConfig
from tests.hw import safety_epochs as legal
from tests.hw.safety_parts import CPU_RAM1, CPU_RAM2, FLASH, NPU_RAM3, NPU_RAM4, NPU_RAM5
from tests.outcomes import Outcomes, figure

MACHINE = stm32n6()
MEMORIES = {
    base: np.random.default_rng(base).integers(0, 256, 1 << 15).astype(np.uint8)
    for base in (CPU_RAM1, CPU_RAM2, NPU_RAM3, NPU_RAM4, NPU_RAM5, FLASH)
}


TABLE = np.random.default_rng(1).integers(-99, 100, (ROWS, 3)).astype("<i2").tobytes()


def with_tables(epoch: Epoch) -> Epoch:
    """The same with coefficients for an ARITH that comes to read them, as a decoded program has them."""
    bare = {unit: one for unit, one in epoch.units.items() if isinstance(one, ArithConfig) and not one.table}
    return replace(epoch, units={**epoch.units, **{unit: changed(one, table=TABLE) for unit, one in bare.items()}})


def others(epoch: Epoch) -> Iterator[tuple[str, Epoch]]:
    for unit, config in epoch.units.items():
        for name, _ in places(type(config)):
            value = int(getattr(config, name))
            for near in (value - 1, value + 1):
                if near >= 0 or value < 0:
                    yield f"{unit}.{name}", replace(epoch, units={**epoch.units, unit: changed(config, **{name: near})})


def computed(epoch: Epoch) -> tuple[str, int]:
    """What the emulator says, or that it computed; and a sum of all bytes by their places."""
    memory = AddressSpace()
    for base, data in MEMORIES.items():
        memory.add(f"{base:#x}", base, data.size).data[:] = data
    try:
        run_epoch(epoch, memory)
    except AtoncError as error:
        return error.what, 0
    found = 0
    for number, (region, data) in enumerate(zip(memory.regions, MEMORIES.values(), strict=True)):
        at = np.flatnonzero(region.data != data)
        found += int(((at + 1) * (1 + number) * region.data[at]).sum())
    return "computed", found


@pytest.mark.parametrize("name", legal.LEGAL)
def test_one_field_by_one(name: str, outcomes: Outcomes) -> None:
    assert check_epoch(legal.LEGAL[name]()) == []
    epoch = with_tables(legal.LEGAL[name]())
    for place, other in [("as it is", epoch), *others(epoch)]:
        grade = grade_epoch(other)
        forms = sorted(f"{form.unit} {form.graded.feature.name} {form.graded.grade}" for form in grade.forms)
        priced = hardware.epoch_cycles(other, MACHINE, hardware.CONTROLLER)
        why = dict(doubts(other, MACHINE, hardware.CONTROLLER, priced))
        found = [*map(str, check_epoch(other)), grade.grade, *forms, figure(priced.cycles)]
        found += [f"{cause} {figure(share)}" for cause, share in sorted(why.items())]
        outcomes.add(*(str(one) for one in computed(other)), place, *found)
