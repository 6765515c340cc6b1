"""Replays an epoch-controller program into epochs.

The replay keeps the registers and coefficient memories as the chip would. When the program begins to wait for its
stream engines (or, if it does not, to clear up), everything is configured and enabled: that is the moment the epoch
is read off the registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.hw import regs
from atonc.machine.hw.ec.instructions import (
    BurstWrite,
    BurstWriteInc,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
    WriteFieldLong,
)
from atonc.machine.hw.epoch import Epoch, Event, has_table
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units import activ, arith, convacc, decompress, pool, stream_engine
from atonc.machine.hw.units.arith import MEMORY
from atonc.machine.hw.units.switch import Link, decode_link

_EN, _CLR, _CONFCLR, _RUNNING = 0, 1, 30, 31
_TRANSLATE = 11  # ARITH.TRANSLATEADDR
_TABLES = ("ARITH", "ACTIV")  # that have any
_PROCESSING = ("STRENG", "CONVACC", "ARITH", "ACTIV", "POOL", "DECUN", "RECBUF")  # what an epoch consists of


class Replay:
    """Registers of all units, written instruction by instruction."""

    def __init__(self) -> None:
        self.words: dict[int, dict[int, int]] = {unit.id: {} for unit in regs.UNITS}
        self.arith = {unit.id: np.zeros((arith.ROWS, 3), np.int16) for unit in regs.UNITS if unit.kind == "ARITH"}
        self.rom0 = {unit.id: np.zeros(activ.ROM0_ROWS, np.uint8) for unit in regs.UNITS if unit.kind == "ACTIV"}
        self.rom1 = {unit.id: np.zeros((activ.ROM1_ROWS, 3), np.int16) for unit in regs.UNITS if unit.kind == "ACTIV"}
        self.loaded: set[int] = set()  # units whose table was written in this epoch

    def value(self, unit: regs.Unit, register: int) -> int:
        known = regs.registers_by_index(unit.kind).get(register)
        return self.words[unit.id].get(register, known.reset if known else 0)

    def store(self, unit: regs.Unit, register: int, value: int) -> None:
        if register >= MEMORY:
            self.store_memory(unit, register, (value,))
            return
        if register == 0 and value >> _CONFCLR & 1:
            self.words[unit.id].clear()  # back to reset; coefficient memories survive
            return
        if register == 0:
            value &= ~(1 << _CLR)
        self.words[unit.id][register] = value

    def store_field(self, unit: regs.Unit, register: int, lsb: int, width: int, value: int) -> None:
        mask = (1 << width) - 1
        word = self.value(unit, register)
        self.store(unit, register, word & ~(mask << lsb) | (value & mask) << lsb)

    def store_memory(self, unit: regs.Unit, register: int, values: Sequence[int]) -> None:
        """Values to neighbouring registers from this one on, all behind the ordinary ones."""
        self.loaded.add(unit.id)
        if unit.kind == "ARITH":
            place = arith.memory_row(register, bool(self.words[unit.id].get(_TRANSLATE, 0) & 1))
            if place is not None:
                _store_rows(self.arith[unit.id], 2 * place[0] + place[1], values)
        elif unit.kind == "ACTIV":
            first = [v & 0xFF for v in values[: max(0, activ.ROM0 + activ.ROM0_ROWS - register)]]
            if register >= activ.ROM0:
                self.rom0[unit.id][register - activ.ROM0 :][: len(first)] = first
            _store_rows(self.rom1[unit.id], register - activ.ROM1, values)

    def enabled(self) -> list[regs.Unit]:
        return [u for u in regs.UNITS if u.kind in _PROCESSING and self.words[u.id].get(0, 0) & 1]

    def config(self, unit: regs.Unit) -> UnitConfig:
        words = self.words[unit.id]
        if unit.kind == "STRENG":
            return stream_engine.decode(words)
        if unit.kind == "CONVACC":
            return convacc.decode(words)
        if unit.kind == "ARITH":
            return arith.decode(words, self.arith[unit.id])
        if unit.kind == "ACTIV":
            return activ.decode(words, self.rom0[unit.id], self.rom1[unit.id])
        if unit.kind == "POOL":
            return pool.decode(words)
        return decompress.decode(unit.kind, words)

    def links(self) -> tuple[Link, ...]:
        switch = regs.UNIT_BY_NAME["STRSWITCH0"]
        found = (decode_link(register, word) for register, word in sorted(self.words[switch.id].items()))
        return tuple(link for link in found if link is not None)


def _store_rows(rows: NDArray[np.int16], first: int, values: Sequence[int]) -> None:
    """Each row has two words, A with B and C; `first` counts words. What lies outside goes nowhere."""
    if len(values) == 1:  # the same without arrays: programs before merging have nothing else
        _store_word(rows, *divmod(first, 2), values[0])
        return
    words = np.array(values, np.uint32)
    start, count = first // 2, len(words) // 2
    if first % 2 == len(words) % 2 == 0 and 0 <= start <= len(rows) - count:  # whole rows: A, B, C and two bytes more
        rows[start : start + count] = words.astype("<u4").view("<i2").reshape(-1, 4)[:, :3]
        return
    row, half = np.divmod(np.arange(first, first + len(words)), 2)
    inside = (row >= 0) & (row < len(rows))
    for column, (word, shift) in enumerate(((0, 0), (0, 16), (1, 0))):
        chosen = inside & (half == word)
        rows[row[chosen], column] = (words[chosen] >> np.uint32(shift)).astype(np.uint16).view(np.int16)


def _store_word(rows: NDArray[np.int16], row: int, half: int, value: int) -> None:
    if not 0 <= row < len(rows):
        return
    if half == 0:
        rows[row, :2] = np.array([value & 0xFFFF, value >> 16 & 0xFFFF], np.uint16).view(np.int16)
    else:
        rows[row, 2] = np.uint16(value & 0xFFFF).view(np.int16)


@lru_cache(maxsize=1 << 12)
def _event(what: str, unit: str, detail: tuple[int, ...]) -> Event:
    return Event(what, unit, detail)


class _Builder:
    """Collects one epoch while its instructions pass."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.events: list[Event] = []
        self.units: dict[str, UnitConfig] = {}
        self.registers: dict[str, dict[int, int]] = {}
        self.links: tuple[Link, ...] = ()
        self.waits: list[str] = []
        self.kept: frozenset[str] = frozenset()
        self.words = 0
        self._configured: set[str] = set()
        self._last: tuple[str, str, tuple[int, ...]] | None = None  # event

    def note(self, what: str, unit: str, *detail: int) -> None:
        if what == "configure":
            if unit in self._configured or self.waits:
                return
            self._configured.add(unit)
        if self._last != (what, unit, detail):
            self._last = what, unit, detail
            self.events.append(_event(what, unit, detail))

    def snapshot(self, replay: Replay) -> None:
        """Reads the epoch off the registers; a program that never waits is read when it begins to clear up."""
        if self.units or not any(event.what == "enable" for event in self.events):
            return
        self.links = replay.links()
        for unit in replay.enabled():
            self.units[unit.name] = config = replay.config(unit)
            self.registers[unit.name] = dict(replay.words[unit.id])
            if unit.id not in replay.loaded and has_table(config):
                self.kept |= {unit.name}

    def build(self) -> Epoch:
        wired = self.units, self.links, tuple(self.waits), tuple(self.events)
        return Epoch(self.number, *wired, self.words, self.registers, self.kept)


def decode_epochs(program: Iterable[Instruction], replay: Replay | None = None, number: int = 0) -> list[Epoch]:
    """The epochs of a program, empty ones (labels of CPU epochs) included.

    `replay` carries the state over from an earlier program; `number` is used until the first label.
    """
    replay = replay or Replay()
    builder, epochs = _Builder(number), []
    for instruction in program:
        if isinstance(instruction, Label):
            builder.snapshot(replay)
            epochs.append(builder.build())
            builder = _Builder(instruction.value)
            replay.loaded.clear()
        if not isinstance(instruction, Irq):  # ends the program, and is no epoch's
            builder.words += instruction.size
        step = _STEPS.get(type(instruction))
        if step is not None:
            step(instruction, replay, builder)
    builder.snapshot(replay)
    epochs.append(builder.build())
    return [epoch for epoch in epochs if epoch.words]


def _write(instruction: Write, replay: Replay, builder: _Builder) -> None:
    unit = regs.UNIT_BY_ID.get(instruction.unit)
    if unit is not None:
        _observe(unit, instruction.reg, instruction.value, replay, builder)
        replay.store(unit, instruction.reg, instruction.value)


def _burst(instruction: BurstWrite, replay: Replay, builder: _Builder) -> None:
    unit = regs.UNIT_BY_ID.get(instruction.unit)
    if unit is None:
        return
    for value in instruction.values:
        _observe(unit, instruction.reg, value, replay, builder)
        replay.store(unit, instruction.reg, value)


def _burst_inc(instruction: BurstWriteInc, replay: Replay, builder: _Builder) -> None:
    unit, first = regs.UNIT_BY_ID.get(instruction.unit), instruction.reg
    if unit is None:
        return
    if unit.kind in _TABLES and first >= MEMORY:
        builder.note("configure", unit.name)
        replay.store_memory(unit, first, instruction.values)
    elif unit.kind in _PROCESSING and 0 < first <= MEMORY - len(instruction.values):
        builder.note("configure", unit.name)
        replay.words[unit.id].update(enumerate(instruction.values, first))
    else:
        for register, value in enumerate(instruction.values, first):
            _observe(unit, register, value, replay, builder)
            replay.store(unit, register, value)


def _poll(instruction: Poll, replay: Replay, builder: _Builder) -> None:
    unit = regs.UNIT_BY_ID.get(instruction.unit)
    if unit is None:
        return
    if unit.kind == "STRENG" and (instruction.reg, instruction.lsb) == (0, _RUNNING):
        builder.snapshot(replay)
        builder.waits.append(unit.name)
        builder.note("wait", unit.name, instruction.value, instruction.timeout)
    else:
        builder.note("poll", unit.name, instruction.value, instruction.timeout)


def _field(instruction: WriteField | WriteFieldLong, replay: Replay, builder: _Builder) -> None:
    unit = regs.UNIT_BY_ID.get(instruction.unit)
    if unit is None:
        return
    if unit.kind not in ("CLKCTRL", "STRSWITCH") and (instruction.reg, instruction.lsb) == (0, _EN):
        builder.note("enable" if instruction.value else "disable", unit.name)
    replay.store_field(unit, instruction.reg, instruction.lsb, instruction.width, instruction.value)


def _observe(unit: regs.Unit, register: int, value: int, replay: Replay, builder: _Builder) -> None:
    """What a store means for the order rules."""
    if unit.kind == "CLKCTRL":
        return
    if unit.kind == "STRSWITCH":
        if register == 0:
            clears = value >> _CLR & 1 or value >> _CONFCLR & 1
            builder.note("switch clear" if clears else "switch enable", unit.name)
        elif value & 0x10001:
            builder.note("link", unit.name)
        else:
            builder.snapshot(replay)
            builder.note("unlink", unit.name)
        return
    if register == 0:
        if value >> _CLR & 1 or value >> _CONFCLR & 1:
            builder.snapshot(replay)
            builder.note("disable", unit.name)
            return
        if value & 1 and not replay.words[unit.id].get(0, 0) & 1:
            builder.note("enable", unit.name)
            return
    builder.note("configure", unit.name)


_STEPS: dict[type, Callable[[Any, Replay, _Builder], None]] = {
    Poll: _poll,
    Write: _write,
    WriteField: _field,
    WriteFieldLong: _field,
    BurstWrite: _burst,
    BurstWriteInc: _burst_inc,
}
