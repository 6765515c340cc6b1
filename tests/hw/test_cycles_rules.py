"""Rules of the hardware model that meet in no measured epoch, each where it alone decides."""

from __future__ import annotations

import pytest

from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.units.arith import ArithConfig
from tests.hw import cycles_epochs as e

TIMING = stm32n6().timing
BANKS = (e.RAM, e.RAM2, e.RAM2 + e.BANK, e.RAM2 + 2 * e.BANK)


def body(made: Epoch) -> tuple[float, str]:
    """Cycles without the fixed part and programming."""
    result = hardware.epoch_cycles(made, None, hardware.NOBODY)
    return result.cycles - TIMING.epoch, result.bound_by


def window(inputs: int, outputs: int, **changes: int) -> Epoch:
    """3x3 over 16 x 16, kernels on the chip."""
    config = e.conv(16, 16, inputs, outputs, 3, **changes)
    kernels = e.raw(e.RAM2 + e.BANK, 9 * inputs * outputs)
    return e.convolution(config, e.raw(e.RAM, 256 * inputs), kernels, e.raw(e.RAM2, config.out_elements))


def test_lines_are_filled_behind_the_last_row_only_where_every_row_counts() -> None:
    filling = TIMING.fill_lines * 16 * 8 + TIMING.fill_per_line * 16 + TIMING.fill_constant
    assert body(window(8, 8, pad=1)) == (pytest.approx(256 * 8 + filling, abs=1), "feature")
    assert body(window(8, 8, pad=1, stride_x=2, stride_y=2)) == (256 * 8, "feature")


def test_the_first_results_wait_for_the_lines_that_no_padding_replaces() -> None:
    results = 16 * 16 * 16
    for top, waited in ((1, 1), (0, 2)):
        made = window(8, 16, pad_top=top, pad_bottom=2 - top, pad_left=1, pad_right=1)
        bounds = [cycles for cycles, label in _unit_bounds(made) if label == "output"]
        assert bounds == [results + waited * 16 * 8 + 8]


def _unit_bounds(made: Epoch) -> list[tuple[float, str]]:
    flow = hardware.element_counts(made)
    return [(bound.cycles, bound.label) for bound in hardware._unit_bounds(made, flow, stm32n6())]


def test_frames_that_follow_each_other_take_no_turn() -> None:
    units = {"STRENG0": e.raw(e.RAM, 4, 1000), "ARITH0": e.COPY, "STRENG1": e.write(e.raw(e.RAM2, 4000))}
    assert body(e.epoch(units, ("STRENG0", "ARITH0", 0), ("ARITH0", "STRENG1", 0)))[0] == 4000


def test_an_overlong_reader_pays_for_what_its_unit_takes() -> None:
    """Ten times what the sum needs, a byte a beat: only a tenth is on the bus."""
    units = {
        "STRENG0": e.raw(e.RAM, 1600), "STRENG1": e.raster(e.RAM2, (16, 1000, 1), 16),
        "ARITH0": ArithConfig(dual_input=1), "STRENG2": e.write(e.raw(e.RAM2 + e.BANK, 1600)),
    }  # fmt: skip
    made = e.epoch(units, ("STRENG0", "ARITH0", 0), ("STRENG1", "ARITH0", 1), ("ARITH0", "STRENG2", 0))
    assert body(made) == (pytest.approx(TIMING.single_read_beat * 1600, abs=1), "npuRAM4")


def test_an_interface_carries_reads_and_writes_at_the_same_time() -> None:
    """Two of each on one interface, three bytes a word, each in a bank of its own: 0.83 cycles a word each way."""
    readers = {f"STRENG{k}": e.raw(BANKS[k], 8000, 1, 3) for k in range(2)}
    writers = {f"STRENG{k}": e.write(e.raw(BANKS[k], 8000, 1, 3)) for k in (2, 3)}
    made = e.epoch({**readers, **writers}, ("STRENG0", "STRENG2", 0), ("STRENG1", "STRENG3", 0))
    assert body(made)[0] == 8000, "a word a cycle, and the interface keeps up"
    more = {"STRENG4": e.raw(BANKS[2], 8000, 1, 3)}
    crowded = e.epoch({**readers, **more, **writers}, ("STRENG0", "STRENG2", 0), ("STRENG1", "STRENG3", 0))
    assert body(crowded) == (pytest.approx(TIMING.interface_beat * 3 * 3000, abs=1), hardware.INTERFACE)


def test_a_bank_is_read_and_written_at_the_same_time() -> None:
    """Both a byte a beat: the slower way decides, not their sum."""
    made = e.copy(e.raster(e.RAM, (16, 16, 1), 16, frames=16), e.raster(e.RAM + 0x8000, (16, 16, 1), 16, frames=16))
    assert body(made) == (pytest.approx(TIMING.single_read_beat * 4096, abs=1), "npuRAM3")


def test_the_slower_of_two_external_memories_decides() -> None:
    units = {
        "STRENG0": e.raw(e.FLASH, 500), "STRENG1": e.raw(e.HYPER, 4000),
        "STRENG5": e.write(e.raw(e.RAM, 500)), "STRENG6": e.write(e.raw(e.RAM2, 4000)),
    }  # fmt: skip
    made = e.epoch(units, ("STRENG0", "STRENG5", 0), ("STRENG1", "STRENG6", 0))
    assert body(made) == (2.5 * 4000, "hyperRAM")
