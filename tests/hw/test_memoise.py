from __future__ import annotations

import gc
from dataclasses import dataclass, replace

from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.target import Target
from tests.hw.cycles_epochs import FLASH, RAM, copy, raw, write


@dataclass(frozen=True)
class Thing:
    number: int


def test_works_it_out_memoise_and_keeps_no_object_alive() -> None:
    asked: list[int] = []

    @memoise
    def double(thing: Thing) -> int:
        asked.append(thing.number)
        return 2 * thing.number

    one, same = Thing(1), Thing(1)
    assert [double(one), double(one), double(same)] == [2, 2, 2]
    assert asked == [1, 1]  # equal, but not the same
    for number in range(2, 50):  # whatever address they get, it is never an old result
        assert double(Thing(number)) == 2 * number
    del one, same
    gc.collect()
    assert double(Thing(7)) == 14


def test_an_epoch_has_a_price_for_every_target() -> None:
    """Prices are remembered: neither another machine, nor another programmer, nor another length may find them."""
    epoch, usual = copy(raw(FLASH, 4096), write(raw(RAM, 4096))), stm32n6()
    slow = usual.with_clocks(npu_mhz=usual.clocks.npu_mhz / 4, cpu_mhz=usual.clocks.cpu_mhz)
    targets = [Target(machine, who) for machine in (usual, slow) for who in (hardware.CONTROLLER, hardware.CPU)]
    for target in [*targets, *targets]:
        for words in (100, 900, 100):
            long = ec_program.of_length(epoch, words)
            anew = hardware.epoch_cycles(replace(epoch, words=words), target.machine, target.programmed_by)
            assert target.cycles(long) == anew
    assert len({target.cycles(long).cycles for target in targets}) == len(targets)
    assert ec_program.with_words(epoch) is targets[0].with_words(epoch)
