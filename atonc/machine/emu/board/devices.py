"""The peripherals behind their addresses. What has a model is asked, everything else keeps what is written."""

from __future__ import annotations

from typing import Protocol

from atonc.machine.emu.board import registers
from atonc.machine.emu.board.accesses import Accesses

_SLOT_BITS = 10  # peripherals begin at multiples of 1 KB


class Device(Protocol):
    """Words at offsets. `narrow` devices get smaller writes as they come, others as the whole word that results."""

    narrow: bool

    def read(self, offset: int) -> int: ...
    def write(self, offset: int, value: int) -> None: ...


class Devices:
    def __init__(self, accesses: Accesses) -> None:
        self.accesses = accesses
        self.kept: dict[int, int] = {}  # registers without a model, by address
        self._slots: dict[int, tuple[int, Device]] = {}

    def add(self, name: str, device: Device, size_bytes: int = 1 << _SLOT_BITS) -> None:
        base = registers.base_of(name)
        for slot in range(base >> _SLOT_BITS, (base + size_bytes) >> _SLOT_BITS):
            self._slots[slot] = base, device

    def read(self, address: int, size: int) -> int:
        shift = 8 * (address & 3)
        word = self._word(address & ~3)
        self.accesses.note("read", address & ~3, word)
        return word >> shift & (1 << 8 * size) - 1

    def write(self, address: int, size: int, value: int) -> None:
        base, device = self._slots.get(address >> _SLOT_BITS, (0, None))
        if size < 4 and not (device is not None and device.narrow):
            shift, mask = 8 * (address & 3), (1 << 8 * size) - 1
            value = self._word(address & ~3) & ~(mask << shift) | (value & mask) << shift
        address &= ~3
        self.accesses.note("write", address, value)
        if device is not None:
            device.write(address - base, value)
        else:
            self.kept[address] = value
            self.accesses.note_unmodelled("write", address, value)

    def _word(self, address: int) -> int:
        base, device = self._slots.get(address >> _SLOT_BITS, (0, None))
        if device is not None:
            return device.read(address - base)
        value = self.kept.get(address, 0)
        self.accesses.note_unmodelled("read", address, value)
        return value


class WordRegisters:
    """Registers that keep what is written: the common part of all models."""

    narrow = False

    def __init__(self, words: dict[int, int] | None = None) -> None:
        self.words = dict(words or {})

    def read(self, offset: int) -> int:
        return self.words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        self.words[offset] = value
