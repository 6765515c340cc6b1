"""ST's estimate, rule by rule, on epochs small enough to count by hand."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from atonc.machine.hw.cycles import element_counts, st_estimate
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.machine import PoolTiming
from atonc.machine.hw.units.switch import Link
from tests.hw import cycles_epochs as e


def cycles(made: Epoch, count_runs: bool = False) -> tuple[int, int, str]:
    result = st_estimate.epoch_cycles(made, e.POOLS, count_runs)
    return result.cycles, result.compute, result.bound_by


def test_features_outputs_or_weights_bound_a_convolution() -> None:
    kernels = e.raw(e.RAM, 8 * 16 * 2)
    large = e.convolution(e.conv(100, 100, 16, 8), e.raw(e.RAM, 160_000, 2), kernels, e.raw(e.RAM2, 80_000, 2))
    assert cycles(large) == (320_000, 320_000, "feature")
    wide = e.convolution(e.conv(100, 100, 4, 16), e.raw(e.RAM, 40_000, 2), e.raw(e.RAM, 128), e.raw(e.RAM2, 160_000, 2))
    assert cycles(wide) == (320_000, 320_000, "output")
    tiny = e.convolution(e.conv(1, 1, 64, 24), e.raw(e.RAM, 64), e.raw(e.RAM, 1536), e.raw(e.RAM2, 24))
    assert cycles(tiny) == (1536, 1536, "weights")


def test_flash_takes_six_cycles_per_byte() -> None:
    made = e.convolution(e.conv(1, 1, 64, 24), e.raw(e.RAM, 64), e.raw(e.FLASH, 1536), e.raw(e.RAM2, 24))
    assert cycles(made) == (9216, 1536, "octoFlash")


def test_reads_and_writes_of_a_pool_add_up() -> None:
    assert cycles(e.copy(e.raw(e.RAM, 64_000), e.raw(e.RAM + 0x20000, 64_000))) == (20_000, 0, "npuRAM3")
    assert cycles(e.copy(e.raw(e.RAM, 64_000), e.raw(e.CPU_RAM, 64_000))) == (20_000, 0, "cpuRAM2")
    assert cycles(e.copy(e.raw(e.HYPER, 1000), e.raw(e.RAM, 1000))) == (2500, 0, "hyperRAM")


def test_virtual_pools_do_not_count_twice() -> None:
    names = [pool.name for pool in st_estimate.physical(e.POOLS)]
    assert names == ["cpuRAM2", "npuRAM3", "npuRAM4", "octoFlash", "hyperRAM"]
    assert st_estimate.physical([PoolTiming("unused", e.RAM, 0, 8, 1.0)]) == ()


def test_one_stream_across_pools_is_not_faster_than_in_one() -> None:
    made = e.copy(e.raw(e.RAM2 - 1600, 64_000), e.raw(e.CPU_RAM, 6400))
    assert cycles(made) == (10_000, 0, "npuRAM3")


@pytest.mark.parametrize(("height", "frames"), [(7, 1), (8, 6)])
def test_small_feature_frames_count_once(height: int, frames: int) -> None:
    """7 x 48 x 8 = 2,688 elements are below the limit, 8 x 48 x 8 = 3,072 are not."""
    size = height * 48 * 8
    made = e.convolution(
        e.conv(height, 48, 8, 2), e.again(e.RAM, size, 1, 6), e.raw(e.RAM2, 96), e.raw(e.RAM2, height * 48 * 2, 6)
    )
    assert st_estimate.counted_bytes(made, "STRENG0", made.readers()["STRENG0"], element_counts(made)) == frames * size
    assert cycles(made)[1] == (frames * size if frames > 1 else 6 * height * 48 * 2)


def test_a_cached_stream_counts_the_span_of_its_buffer() -> None:
    """Two engines read every second frame of one buffer, again and again; only the first allocates."""
    plain = {"continuous": 0, "frame_offset": 200, "frame_repeat": 2, "repeat_offset": 0, "cacheable": 1}
    first = e.raw(e.HYPER, 100, 20, cache_allocate=1, **plain)
    second = e.raw(e.HYPER + 100, 100, 20, **plain)
    units = {
        "STRENG0": first, "STRENG1": second, "STRENG2": e.write(e.raw(e.RAM, 2000)),
        "STRENG3": e.write(e.raw(e.RAM, 2000)),
    }  # fmt: skip
    made = e.epoch(units, ("STRENG0", "STRENG2", 0), ("STRENG1", "STRENG3", 0))
    assert st_estimate.pool_bytes(made, e.POOLS)["hyperRAM"] == (400.0 + 2000.0, 0.0)


def test_a_sum_through_memory_also_writes_a_byte_per_finished_element() -> None:
    conv = e.conv(40, 40, 8, 4, no_sum=0, accumulator_filter=3, frames_per_sum=4, sum_first=1, sum_last=3)
    loop = {"continuous": 0, "frame_offset": 0, "size1": 8}
    units = {
        "STRENG0": e.raw(e.RAM, 12_800, 8), "STRENG1": e.raw(e.RAM2, 256), "CONVACC0": conv, "ARITH0": e.COPY,
        "STRENG2": e.write(e.raw(e.CPU_RAM, 6400, 2)), "STRENG3": e.write(e.raw(e.RAM2 + 1024, 6400, 8, **loop)),
        "STRENG4": e.raw(e.RAM2 + 1024, 6400, 8, **loop),
    }  # fmt: skip
    gate = Link("CONVACC0", "ARITH0", 0, enabled0=False, frames0=3, enabled1=True, frames1=1)
    links = (
        ("STRENG0", "CONVACC0", 0), ("STRENG1", "CONVACC0", 1), ("STRENG4", "CONVACC0", 2), gate,
        ("ARITH0", "STRENG2", 0), ("CONVACC0", "STRENG3", 0),
    )  # fmt: skip
    counts = st_estimate.pool_bytes(e.epoch(units, *links), e.POOLS)
    assert counts["npuRAM4"] == (256 + 8 * 12_800, 8 * 12_800 + 2 * 6400)
    assert counts["cpuRAM2"] == (0, 2 * 6400)


def test_deep_padding_does_not_count() -> None:
    config = e.conv(20, 20, 100, 16, deep=1, kernel_set_enable=3)  # one pixel takes 34 words for 100 bytes
    features = e.raster(e.RAM, (20, 20, 34), 100, size1=8, size2=8)
    made = e.convolution(config, features, e.raw(e.FLASH, 534, 1, 3), e.raw(e.RAM2, 6400))
    assert cycles(made)[1] == -(-20 * 20 * 100 // 3)
    counts = st_estimate.pool_bytes(made, e.POOLS)
    assert (counts["npuRAM3"][0], counts["octoFlash"][0]) == (40_000, 1600)


def test_newer_tools_charge_scattered_pixels() -> None:
    made = e.copy(e.raw(e.RAM, 4096), e.raster(e.RAM2, (16, 16, 1), 16, frames=16))
    assert cycles(made) == (640, 0, "npuRAM3")
    assert cycles(made, count_runs=True) == (5120, 0, "npuRAM4")
    assert st_estimate.counts_runs("atonn-v1.1.3-8-g80369096")
    assert not st_estimate.counts_runs("atonn-v1.1.1-14-ge619e860")


def test_an_overlong_second_input_does_not_count() -> None:
    add = replace(e.COPY, dual_input=1)
    units = {
        "STRENG0": e.raw(e.RAM, 800), "STRENG1": e.raw(e.FLASH, 60_000), "ARITH0": add,
        "STRENG2": e.write(e.raw(e.RAM, 800)),
    }  # fmt: skip
    made = e.epoch(units, ("STRENG0", "ARITH0", 0), ("STRENG1", "ARITH0", 1), ("ARITH0", "STRENG2", 0))
    assert cycles(made) == (4800, 800, "octoFlash")


def test_an_empty_epoch_takes_nothing() -> None:
    assert cycles(e.epoch({})) == (0, 0, "")


def test_against_published_compilations() -> None:
    fetched = os.environ.get("ATONC_FETCHED")
    if not fetched:
        pytest.skip("ATONC_FETCHED does not name a folder of fetched networks")
    from benchmarks import st_cycles as check

    folders = check.folders([Path(fetched)])
    rows = [row for folder in folders for row in check.scores(folder, list(check.networks(folder)), set())]
    epochs = sum(row.epochs for row in rows)
    assert epochs and sum(r.compute for r in rows) >= 0.98 * epochs and sum(r.cycles for r in rows) >= 0.95 * epochs
