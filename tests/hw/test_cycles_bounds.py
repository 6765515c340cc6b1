"""Bounds from first principles: each worked out on paper, and a model without one of its rules falls below them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.cycles.bounds import bounds, tightest
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import stm32n6
from tests.hw import cycles_epochs as e

MACHINE = stm32n6()


def named(epoch: Epoch) -> Mapping[str, float]:
    return {bound.label: bound.cycles for bound in bounds(epoch, MACHINE)}


def predicted(epoch: Epoch, **constants: float) -> int:
    machine = replace(MACHINE, timing=replace(MACHINE.timing, **constants))
    return hardware.epoch_cycles(epoch, machine, hardware.NOBODY).cycles


def windows(batch: int, kernels: int, **changes: int) -> Epoch:
    """3x3 over 20 x 20 pixels, padded."""
    config, frame = e.conv(20, 20, batch, kernels, 3, pad=1, **changes), 400 * batch
    weights = e.raw(e.FLASH, 9 * batch * kernels)
    return e.convolution(config, e.raw(e.RAM, frame), weights, e.raw(e.RAM2, 400 * kernels))


def one_sided(readers: tuple[str, ...]) -> Epoch:
    """Sums of two pictures, read a byte at a time from two banks."""
    picture = e.raster(e.RAM, (64, 64, 1), 16)
    first, second = readers
    units = {
        first: picture, second: replace(picture, address=e.RAM2), "ARITH0": replace(e.COPY, dual_input=1),
        "STRENG9": e.write(e.raw(e.CPU_RAM, 4096)),
    }  # fmt: skip
    return e.epoch(units, (first, "ARITH0", 0), (second, "ARITH0", 1), ("ARITH0", "STRENG9", 0))


def test_words_of_units_and_engines() -> None:
    found = named(windows(8, 4))
    assert (found["CONVACC0 takes at port 0"], found["CONVACC0 gives"], found["ARITH0 gives"]) == (3200, 1600, 1600)
    assert (found["STRENG0 moves"], found["STRENG1 moves"], found["STRENG2 moves"]) == (3200, 288, 1600)


@pytest.mark.parametrize(("simd", "rate"), [(1, 72), (2, 36), (0, 18)])
def test_products(simd: int, rate: int) -> None:
    changes = {"simd": simd, "feature_bytes": 1 if simd == 1 else 2}
    units = dict(windows(8, 8, **changes).units)
    epoch = replace(windows(8, 8, **changes), units={**units, "STRENG1": e.raw(e.FLASH, 9 * 64, 1, 2 - (simd > 0))})
    assert named(epoch)["CONVACC0 multiplies"] == 3200 * 72 / rate
    assert predicted(epoch) >= tightest(epoch, MACHINE).cycles


def test_banks_and_interfaces_move_a_beat_a_clock_each_way() -> None:
    found = named(one_sided(("STRENG0", "STRENG1")))
    assert found["npuRAM3 read"] == found["npuRAM4 read"] == pytest.approx(4096 / 0.9)
    assert found["interface 0 reads"] == pytest.approx(8192 / 0.9)
    assert found["interface 1 writes"] == pytest.approx(512 / 0.9) and found["cpuRAM2 written"] == 512 * 2.5
    assert named(one_sided(("STRENG0", "STRENG5")))["interface 0 reads"] == pytest.approx(4096 / 0.9)


def test_flash_and_external_ram() -> None:
    found = named(e.copy(e.raw(e.FLASH, 1000, 2), e.raw(e.HYPER, 2000)))
    assert (found["octoFlash read"], found["hyperRAM read"]) == (2.5 * 2000, 2.5 * 2000)
    cached = e.again(e.FLASH, 1000, 1, 4, cacheable=1, cache_allocate=1)
    assert named(e.copy(cached, e.raw(e.RAM, 4000)))["octoFlash read"] == 2.5 * 1000


def test_an_interface_bounds_an_epoch_whose_readers_share_it() -> None:
    near, spread = one_sided(("STRENG0", "STRENG1")), one_sided(("STRENG0", "STRENG5"))
    cycles = hardware.epoch_cycles(near, None, hardware.NOBODY)
    assert cycles.bound_by == hardware.INTERFACE and cycles.cycles == 950 + round(1.1111 * 8192)
    assert hardware.epoch_cycles(spread, None, hardware.NOBODY).bound_by in ("npuRAM3", "npuRAM4")
    slow = MACHINE.with_clocks(npu_mhz=450, npu_ram_mhz=900)
    assert hardware.epoch_cycles(near, slow, hardware.NOBODY).cycles == 950 + round(1.1111 * 8192 * 0.45)


def test_a_model_without_interfaces_falls_below() -> None:
    epoch = one_sided(("STRENG0", "STRENG1"))
    assert predicted(epoch) >= tightest(epoch, MACHINE).cycles > predicted(epoch, interface_beat=0.0)


def test_a_model_without_products_falls_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a filter of 5x5 over three channels of 16 bits: 45 products a result."""
    config = e.conv(128, 128, 3, 3, 3, kernel_width=5, simd=2, feature_bytes=2, pad_top=2, pad_left=2, pad_right=2)
    weights, results = e.raw(e.CPU_RAM, 135), 3 * config.out_size[0] * config.out_size[1]
    epoch = e.convolution(config, e.raw(e.RAM, 3 * 128 * 128), weights, e.raw(e.RAM2, results))
    assert hardware.epoch_cycles(epoch, None, hardware.NOBODY).bound_by == "products"
    assert predicted(epoch) >= tightest(epoch, MACHINE).cycles == results * 45 / 36
    monkeypatch.setattr(hardware, "PRODUCTS", (1e9,) * 4)
    assert predicted(epoch) < tightest(epoch, MACHINE).cycles
