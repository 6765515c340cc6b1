"""Small epochs made by hand, whose words and cycles can be worked out on paper."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.machine import PoolTiming
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import Link

RAM, RAM2, CPU_RAM, FLASH, HYPER = 0x3420_0000, 0x3427_0000, 0x3410_0000, 0x7040_0000, 0x9000_0000
BANK = 0x7_0000
POOLS = (
    PoolTiming("cpuRAM2", CPU_RAM, 0x10_0000, 8, 2.5),
    PoolTiming("npuRAM3", RAM, BANK, 8, 1.25),
    PoolTiming("npuRAM4", RAM2, BANK, 8, 1.25),
    PoolTiming("octoFlash", FLASH, 0x100_0000, 1, 6.0),
    PoolTiming("hyperRAM", HYPER, 0x100_0000, 2, 5.0),
    PoolTiming("npuRAM3_npuRAM4", RAM, 2 * BANK, 8, 1.25),  # virtual
)
COPY = ArithConfig(a=1, bytes_x=1, out_bytes=1)


def raw(address: int, elements: int, frames: int = 1, size: int = 1, **changes: int) -> StrengConfig:
    """An engine of contiguous frames."""
    plain = {
        "raw": 1, "continuous": 1, "size0": 8, "size1": 8 * (size > 1), "size2": 8 * (size > 2),
        "address": address, "fsize_low": elements & 0xFFFF, "fsize_high": elements >> 16, "frames": frames,
        "frame_limit_enabled": 1,
    }  # fmt: skip
    return StrengConfig(**{**plain, **changes})


def again(address: int, elements: int, frames: int, times: int, **changes: int) -> StrengConfig:
    """Reads `frames` frames `times` times over."""
    size = 1 + bool(changes.get("size1")) + bool(changes.get("size2"))
    loops = {"frame_offset": elements * size, "frame_repeat": frames, "repeat_offset": 0}
    return raw(address, elements, frames * times, continuous=0, **{**loops, **changes})


def raster(address: int, shape: tuple[int, int, int], channels: int, frames: int = 1, **changes: int) -> StrengConfig:
    """Frames of [lines, pixels, depth] inside a channel-last tensor of one-byte elements."""
    lines, pixels, depth = shape
    plain = {
        "size0": 8, "address": address, "fsize_low": pixels, "fsize_high": lines, "depth": depth,
        "pixel_offset_low": channels, "line_offset_low": pixels * channels, "frame_offset": depth, "frames": frames,
        "frame_limit_enabled": 1,
    }  # fmt: skip
    return StrengConfig(**{**plain, **changes})


def write(engine: StrengConfig) -> StrengConfig:
    return replace(engine, to_memory=1)


def conv(height: int, width: int, batch: int, kernels: int, kernel: int = 1, **changes: int) -> ConvaccConfig:
    """An 8-bit convolution without padding; `pad` adds one pixel on every side."""
    pad = changes.pop("pad", 0)
    plain: dict[str, Any] = {
        "simd": 1, "height": height, "line_elements": width * batch, "batch": batch, "kernels": kernels,
        "kernel_width": kernel, "kernel_height": kernel, "feature_bytes": 1, "out_bytes": 2, "no_sum": 1,
        "pad_top": pad, "pad_bottom": pad, "pad_left": pad, "pad_right": pad,
    }  # fmt: skip
    return ConvaccConfig(**{**plain, **changes})


def epoch(units: dict[str, UnitConfig], *links: tuple[str, str, int] | Link, words: int = 0) -> Epoch:
    wired = tuple(link if isinstance(link, Link) else Link(*link) for link in links)
    waits = tuple(name for name, unit in units.items() if isinstance(unit, StrengConfig) and unit.to_memory)
    return Epoch(7, units, wired, waits, words=words)


def convolution(
    config: ConvaccConfig, features: StrengConfig, kernels: StrengConfig, output: StrengConfig, words: int = 0
) -> Epoch:
    """Features and kernels from memory through one CONVACC and one ARITH back to memory."""
    units = {
        "STRENG0": features, "STRENG1": kernels, "CONVACC0": config, "ARITH0": COPY, "STRENG2": write(output),
    }  # fmt: skip
    inputs = ("STRENG0", "CONVACC0", 0), ("STRENG1", "CONVACC0", 1)
    return epoch(units, *inputs, ("CONVACC0", "ARITH0", 0), ("ARITH0", "STRENG2", 0), words=words)


def copy(source: StrengConfig, target: StrengConfig, words: int = 0) -> Epoch:
    return epoch({"STRENG0": source, "STRENG9": write(target)}, ("STRENG0", "STRENG9", 0), words=words)
