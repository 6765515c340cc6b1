"""The hardware model: epochs that were measured on a board, and each rule on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from atonc.machine.hw.cycles import EpochCost, hardware, network_cycles
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import stm32n6
from atonc.machine.hw.units.arith import ArithConfig
from tests.hw import cycles_epochs as e
from tests.patience import growth, operations

FIX = 950


def body(made: Epoch, warm_cache: bool = False) -> tuple[int, str]:
    """Cycles without the fixed part and programming."""
    result = hardware.epoch_cycles(made, None, hardware.NOBODY, warm_cache)
    return result.cycles - FIX, result.bound_by


def pointwise(frames: int, kernels_at: int) -> Epoch:
    """Deep 1x1, 14 x 14 x 96 to 16: 6,272 cycles and 3,072 kernel bytes per frame, half of them for another unit."""
    config = e.conv(14, 14, 96, 16, deep=1, kernel_set_enable=3, kernels_per_round=32, feature_bytes=3)
    features = e.raw(e.RAM, 6272, frames, 3, continuous=0)
    return e.convolution(config, features, e.raw(kernels_at, 1024 * frames, 1, 3), e.raw(e.RAM2, 3136, frames))


def depthwise(size: int, frames: int) -> Epoch:
    config, frame = e.conv(size, size, 8, 8, 3, pad=1), size * size * 8
    kernels = e.raw(e.FLASH, 576 * frames)
    return e.convolution(config, e.raw(e.RAM, frame, frames), kernels, e.raw(e.RAM2, frame, frames))


def test_flash_bound_with_double_buffered_kernels() -> None:
    """Measured 37,998: four kernel sets of 7,680 and the compute of the last."""
    assert body(pointwise(4, e.FLASH)) == (4 * 7680 + 6272, "octoFlash")


def test_kernels_on_chip_are_hidden() -> None:
    assert body(pointwise(4, e.CPU_RAM))[0] == 4 * 6272


@pytest.mark.parametrize(("size", "frames", "measured"), [(28, 24, 164_810), (14, 48, 89_660), (56, 18, 471_633)])
def test_depthwise_pays_for_filling_its_lines(size: int, frames: int, measured: int) -> None:
    cycles, bound = body(depthwise(size, frames))
    assert bound == "feature"
    assert cycles + FIX == pytest.approx(measured, rel=0.001)


def test_scattered_writes_cost_beats() -> None:
    """A transposed copy moves one byte per beat."""
    assert body(e.copy(e.raw(e.RAM, 4096), e.raster(e.RAM2, (16, 16, 1), 16, frames=16))) == (
        round(1.17 * 4096), "npuRAM4",
    )  # fmt: skip
    assert body(e.copy(e.raster(e.RAM2, (16, 16, 1), 16), e.raw(e.RAM, 256))) == (round(1.30 * 256), "npuRAM4")


def test_cpu_ram_runs_at_the_bus_clock() -> None:
    assert body(e.copy(e.raw(e.CPU_RAM, 16_000, 1, 2), e.raw(e.RAM, 16_000, 1, 2))) == (16_000, "read")
    assert body(e.copy(e.raw(e.CPU_RAM, 16_000, 1, 3), e.raw(e.RAM, 16_000, 1, 3))) == (16_000, "read")
    streams = {f"STRENG{k}": e.raw(e.CPU_RAM + 4000 * k, 4000) for k in range(4)}
    writers = {f"STRENG{k}": e.write(e.raw(e.RAM + 4000 * k, 4000)) for k in range(5, 9)}
    links = tuple((f"STRENG{k}", f"STRENG{k + 5}", 0) for k in range(4))
    assert body(e.epoch({**streams, **writers}, *links)) == (2.5 * 4 * 500, "cpuRAM2")


def test_short_frames_that_lie_apart_take_a_turn_round() -> None:
    reader = e.again(e.RAM, 4, frames=10, times=100)
    units = {"STRENG0": reader, "ARITH0": e.COPY, "STRENG1": e.write(e.raw(e.RAM2, 4000))}
    assert body(e.epoch(units, ("STRENG0", "ARITH0", 0), ("ARITH0", "STRENG1", 0))) == (1000 * 40, "read")


def test_cached_streams_are_fetched_once_and_pay_per_turn() -> None:
    reader = e.again(e.FLASH, 56, frames=1, times=28, cacheable=1, cache_allocate=1)
    add = ArithConfig(dual_input=1)
    units = {
        "STRENG0": e.raw(e.RAM, 1568), "STRENG1": reader, "ARITH0": add, "STRENG2": e.write(e.raw(e.RAM2, 1568)),
    }  # fmt: skip
    made = e.epoch(units, ("STRENG0", "ARITH0", 0), ("STRENG1", "ARITH0", 1), ("ARITH0", "STRENG2", 0))
    turns = 2.24 * 28 * 7 + 36 * 28
    assert body(made) == (pytest.approx(2.5 * 56 + turns, abs=0.5), "octoFlash")
    assert body(made, warm_cache=True) == (1568, "compute")  # 1,447 by the cache
    uncached = replace(made, units={**units, "STRENG1": replace(reader, cache_allocate=0)})
    assert body(uncached) == (2.5 * 1568, "octoFlash")


def test_programming_by_controller_or_cpu() -> None:
    made = e.copy(e.raw(e.RAM, 100), e.raw(e.RAM2, 100), words=400)
    controlled = hardware.epoch_cycles(made)
    assert (controlled.cycles, controlled.bound_by) == (FIX + 100 + 7 * 400, "programming")
    by_cpu = hardware.epoch_cycles(made, None, hardware.CPU)
    assert by_cpu.detail["programming"] == 1.25 * (25 * 400 - 2000 + 343 + 2 * 225)
    short = replace(made, words=10)
    assert hardware.epoch_cycles(short, None, hardware.CPU).detail["programming"] == 1.25 * (343 + 2 * 225)


def test_an_epoch_of_labels_costs_its_words() -> None:
    result = hardware.epoch_cycles(e.epoch({}, words=3))
    assert (result.cycles, result.compute, result.bound_by) == (21, 0, "programming")
    assert hardware.epoch_cycles(e.epoch({}), None, hardware.CPU).cycles == 0


def test_clocks_scale_what_depends_on_them() -> None:
    slow = stm32n6().with_clocks(npu_mhz=500, npu_ram_mhz=900, flash_mb_per_s=100)
    flash = hardware.epoch_cycles(pointwise(4, e.FLASH), slow, hardware.NOBODY)
    assert flash.cycles == FIX + 4 * 5 * 3072 + 6272
    scattered = hardware.epoch_cycles(
        e.copy(e.raw(e.RAM, 4096), e.raster(e.RAM2, (16, 16, 1), 16, frames=16)), slow, hardware.NOBODY
    )
    assert scattered.cycles == FIX + 4096  # where memory keeps its clock a beat takes 0.6 NPU cycles
    clocks = [stm32n6().with_clocks(npu_mhz=npu).clocks.npu_ram_mhz for npu in (1000, 950, 800, 400)]
    assert clocks == [900, 900, 800, 400], "else it follows a slower NPU"
    assert slow.milliseconds(500_000) == 1.0
    assert slow.npu_cycles(800) == 500


def test_external_ram_counts_for_reads_and_writes() -> None:
    assert body(e.copy(e.raw(e.HYPER, 1000), e.raw(e.HYPER + 4096, 1000))) == (2.5 * 2000, "hyperRAM")


def test_a_network_adds_its_epochs_up() -> None:
    costs = [
        EpochCost(1, "npu", 600_000, 0, "feature"),
        EpochCost(2, "cpu", 0, 160_000),
        EpochCost(3, "hybrid", 100_000, 80_000, known=False),
    ]
    total = network_cycles(costs)
    assert (total.cycles, total.milliseconds) == (1_000_000, 1.0)
    assert (total.npu_milliseconds, total.cpu_milliseconds) == (0.7, pytest.approx(0.3))
    assert total.bound_by == {"feature": 0.6, "cpu": 0.4}
    assert (total.guessed, total.guessed_milliseconds) == ((3,), 0.2)
    assert network_cycles([]).bound_by == {}


def test_cycles_of_an_epoch_are_few_steps() -> None:
    """Searches ask for those of thousands: as many steps for a large picture as for a small one."""

    def asked(width: int) -> Callable[[], object]:
        made = depthwise(width, 24)
        hardware.epoch_cycles(pointwise(4, e.FLASH))  # what the machine alone decides is known then
        return lambda: hardware.epoch_cycles(made)

    assert growth(asked, 28) < 1.2 and operations(asked(28)) < 4000
