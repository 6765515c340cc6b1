"""Chips that answer otherwise than the emulator: each differs in one thing that a probe asks about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.emu import npu
from atonc.machine.emu.board.npu import Execute
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.npu import run_epoch
from atonc.machine.hw import stream
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.machine import SPEEDS, Machine, stm32n6
from atonc.machine.hw.units import arith, convacc
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.wide_sums import wrapped
from tests.probes.virtual import Chip

_FLASH = range(0x7000_0000, 0x8000_0000)
_CPU_RAM, _NPU_RAM = range(0x3400_0000, 0x3420_0000), range(0x3420_0000, 0x343C_0000)
_SCRATCH = range(0x3435_0000, 0x343C_0000)  # where probes write what they read later
_SPARE = 0x3440_0000  # the video encoder's RAM: nobody uses it here


def _with_units(change: Callable[[UnitConfig], UnitConfig]) -> Execute:
    def execute(epoch: Epoch, memory: AddressSpace) -> None:
        run_epoch(replace(epoch, units={name: change(unit) for name, unit in epoch.units.items()}), memory)

    return execute


def _hanging(when: Callable[[Epoch], bool]) -> Execute:
    def execute(epoch: Epoch, memory: AddressSpace) -> None:
        if when(epoch):
            raise InputError("planted: this epoch never ends")
        run_epoch(epoch, memory)

    return execute


def _wrong(when: Callable[[Epoch], bool]) -> Execute:
    """A wrong byte at the start of what the first writer has written."""

    def execute(epoch: Epoch, memory: AddressSpace) -> None:
        run_epoch(epoch, memory)
        if when(epoch):
            address = next(iter(epoch.writers().values())).address
            memory.write(address, memory.read(address, 1) ^ np.uint8(0x55))

    return execute


def _one_sided(unit: UnitConfig) -> UnitConfig:
    """A pad on top alone is put below."""
    if isinstance(unit, ConvaccConfig) and unit.stride_y == 1 and unit.pad_top and not unit.pad_bottom:
        return changed(unit, pad_top=0, pad_bottom=unit.pad_top)
    return unit


def _rows_in_the_middle(unit: UnitConfig) -> UnitConfig:
    """With stride 2 a pad left and right, and none above and below, is put on the right."""
    if isinstance(unit, ConvaccConfig) and (unit.stride_y, *unit.padding) == (2, 0, 0, 1, 1):
        return changed(unit, pad_left=0, pad_right=2)
    return unit


def _short_shifts(unit: UnitConfig) -> UnitConfig:
    """Sums of two streams of 16 bits shift by at most 23."""
    if isinstance(unit, ArithConfig) and unit.dual_input and unit.bytes_x == 2 and unit.shift_out > 23:
        return changed(unit, shift_out=23)
    return unit


def _convolutions(epoch: Epoch) -> int:
    return len(epoch.of_kind("CONVACC"))


def _kernel_readers(epoch: Epoch) -> list[StrengConfig]:
    names = {link.source for link in epoch.links if link.destination.startswith("CONVACC") and link.port == 1}
    return [engine for name, engine in epoch.readers().items() if name in names]


def _kernels_in(where: range) -> Callable[[Epoch], bool]:
    return lambda epoch: any(engine.address in where for engine in _kernel_readers(epoch))


def _copies_flash_beside(epoch: Epoch) -> bool:
    readers, writers = epoch.readers(), epoch.writers()
    copied = [link.source for link in epoch.links if link.source in readers and link.destination in writers]
    return bool(_convolutions(epoch)) and any(readers[name].address in _FLASH for name in copied)


def _readers_on_first(epoch: Epoch) -> bool:
    copies = len(epoch.readers()) == 4 and not _convolutions(epoch)
    return copies and set(epoch.readers()) <= {f"STRENG{number}" for number in range(5)}


def _interleaved_by_64(epoch: Epoch) -> bool:
    writers = sorted(engine.address for engine in epoch.writers().values())
    return not _convolutions(epoch) and len(writers) == 2 and writers[1] - writers[0] == 64


def _five_writers(epoch: Epoch) -> bool:
    return not _convolutions(epoch) and len(epoch.writers()) == 5


def _two_pairs(epoch: Epoch) -> bool:
    """Four rasters of which two begin far from the others."""
    starts = sorted(engine.address for engine in epoch.writers().values() if not engine.raw)
    return len(starts) == 4 and starts[2] - starts[1] > 64


def _frames_behind_pool(epoch: Epoch) -> bool:
    apart = any(engine.frames > 1 and engine.frame_offset > engine.frame_bytes for engine in epoch.writers().values())
    return bool(epoch.of_kind("POOL")) and apart


def _whole_by_two(epoch: Epoch) -> bool:
    """Features of 16 bits in memory, with stride 2."""
    sources = {link.source: link.destination for link in epoch.links if link.port == 0}
    units = (epoch.units.get(sources.get(name, "")) for name, engine in epoch.readers().items() if engine.size1 == 8)
    return any(isinstance(unit, ConvaccConfig) and unit.simd == 2 and unit.stride_x == 2 for unit in units)


def wrapping_sums(epoch: Epoch, memory: AddressSpace) -> None:
    """A chip whose CONVACC has 24 bits for a sum, and wraps."""

    def finish(config: ConvaccConfig, total: Any) -> Any:
        return usual(config, wrapped(total))

    usual = convacc.finish
    with patch.object(npu, "_require_24_bits", lambda where, total: None), patch.object(convacc, "finish", finish):
        run_epoch(epoch, memory)


def _narrow_sums(epoch: Epoch, memory: AddressSpace) -> None:
    """An ARITH that has 32 bits for a sum, and wraps."""

    def finish(total: Any, *more: Any) -> Any:
        return stream.finish(total.astype(np.int32).astype(np.int64), *more)

    with patch.object(arith, "finish", finish):
        run_epoch(epoch, memory)


def high_nibble_first(epoch: Epoch, memory: AddressSpace) -> None:
    """A chip that reads values of four bits, the upper half of each byte first, sign extended."""
    units: dict[str, UnitConfig] = {}
    at = _SPARE
    for name, unit in epoch.units.items():
        if isinstance(unit, StrengConfig) and unit.size0 == 4 and not unit.to_memory:
            count = unit.elements * unit.element_bytes
            packed = memory.read(unit.address, -(-count // 2))
            nibbles = np.stack([packed >> 4, packed & 15], axis=-1).reshape(-1)[:count]
            memory.write(at, ((nibbles ^ 8) - np.uint8(8)).astype(np.uint8))
            sizes: dict[str, Any] = {f"size{k}": 8 if getattr(unit, f"size{k}") else 0 for k in range(3)}
            unit = changed(unit, address=at, sign_extend=0, align_right=0, cacheable=0, **sizes)
            at += count + 64
        units[name] = unit
    run_epoch(replace(epoch, units=units), memory)


# what differs -> the chip
BEHAVIOURS: dict[str, Execute] = {
    "pad on top alone": _with_units(_one_sided),
    "pads left and right alone": _with_units(_rows_in_the_middle),
    "long shifts": _with_units(_short_shifts),
    "two convolutions hang": _hanging(lambda epoch: _convolutions(epoch) == 2),
    "three convolutions hang": _hanging(lambda epoch: _convolutions(epoch) == 3),
    "copies from flash beside convolutions hang": _hanging(_copies_flash_beside),
    "kernels in the CPU's RAM": _wrong(_kernels_in(_CPU_RAM)),
    "kernels in the NPU's RAM": _wrong(_kernels_in(_NPU_RAM)),
    "readers on one interface": _wrong(_readers_on_first),
    "writers 64 bytes apart": _wrong(_interleaved_by_64),
    "five writers": _wrong(_five_writers),
    "two pairs of writers": _wrong(_two_pairs),
    "frames behind a POOL": _wrong(_frames_behind_pool),
    "whole features by two": _wrong(_whole_by_two),
    "kernels that were written": _wrong(_kernels_in(_SCRATCH)),
    "sums of 32 bits": _narrow_sums,
}


def _machine(constant: str, value: float) -> Machine:
    usual = stm32n6()
    if constant in SPEEDS:
        return replace(usual, clocks=replace(usual.clocks, **{constant: value}))
    return replace(usual, timing=replace(usual.timing, **{constant: value}))


# chips with other cycles: constant -> its value there
CONSTANTS = {
    "controller_word": 8.6,
    "frame_turn": 20.0,
    "read_beat": 1.4,
    "interface_beat": 1.3,
    "write_beat": 1.5,
    "hyperram_mb_per_s": 250.0,
}
AS_EMULATED = "as emulated"
CHIPS: dict[str, Chip] = {
    AS_EMULATED: Chip(),
    **{what: Chip(execute) for what, execute in BEHAVIOURS.items()},
    **{constant: Chip(machine=_machine(constant, value)) for constant, value in CONSTANTS.items()},
}
