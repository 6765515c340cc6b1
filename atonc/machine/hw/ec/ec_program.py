"""Epochs as epoch-controller programs, in the order that every public network keeps.

label; configure processing units, readers, writers; wire the switch; enable writers, units, readers; wait for the
writers; unwire; release every unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.frozen import replace
from atonc.machine.hw import fields, regs
from atonc.machine.hw.ec.instructions import (
    Barrier,
    BurstWriteInc,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
    decode,
    encode,
    merge_writes,
    stored_words,
)
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.units import activ
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ROW_BYTES, WINDOW_ROWS, ArithConfig, used_rows
from atonc.machine.hw.units.stream_engine import StrengConfig
from atonc.machine.hw.units.switch import encode_link

_CLOCK, _CLOCK_GATES = 0, 4
_SWITCH = regs.UNIT_BY_NAME["STRSWITCH0"].id
_TRANSLATE = regs.registers("ARITH")["TRANSLATEADDR"].index
_EN, _CLR, _CONFCLR, _RUNNING = 0, 1, 30, 31
_TIMEOUT = 100  # in every public program; its unit is unknown

UnitWords = Callable[[UnitConfig, bool], int]  # from a unit and whether its table is there already


def program(epochs: Iterable[Epoch]) -> list[Instruction]:
    """All epochs and the final interrupt, writes merged."""
    return [*(instruction for epoch in epochs for instruction in epoch_code(epoch)), Irq(0)]


@memoise
def epoch_code(epoch: Epoch) -> tuple[Instruction, ...]:
    """One epoch as the controller reads it: the same as merging the writes of `epoch_trace`. It begins with a label, so
    that none of them could merge with those of another."""
    return tuple(decode(_encoded(epoch)))


@memoise
def _encoded(epoch: Epoch) -> tuple[int, ...]:
    """The words of `epoch_trace`, merged, without an object for every store: most follow from the unit alone."""
    words = encode([Label(epoch.number)])
    if epoch.empty:
        return tuple(words)
    units, readers, writers = _by_phase(epoch)
    for name in (*units, *readers, *writers):
        words += _clock_words(name)
        words += _configured_words(name, epoch.units[name], name in epoch.kept)
    links = dict(encode_link(link) for link in epoch.links)
    words += _switch_reset_words()
    words += stored_words(_SWITCH, {0: 1, **links})
    order = (*writers, *units, *readers)
    for name in order:
        words += encode([_enable(name, epoch.units[name])]) if name.startswith("CONVACC") else _start_words(name)
    for name in writers:
        words += _wait_words(name)
    words += stored_words(_SWITCH, dict.fromkeys(links, 0))
    for name in order:
        words += _release_words(name)
    return tuple(words)


@cache
def _clock_words(name: str) -> tuple[int, ...]:
    return tuple(encode([_clock(name, 1)]))


@cache
def _switch_reset_words() -> tuple[int, ...]:
    return tuple(encode(_reset(_SWITCH, 0)))


@cache
def _start_words(name: str) -> tuple[int, ...]:
    return tuple(encode([WriteField(_id(name), 0, _EN, 1, 1)]))


@cache
def _wait_words(name: str) -> tuple[int, ...]:
    return tuple(encode([_wait(name)]))


@cache
def _release_words(name: str) -> tuple[int, ...]:
    return tuple(encode(_release(name)))


def _configured_words(name: str, config: UnitConfig, kept: bool) -> list[int]:
    if isinstance(config, ActivConfig) and config.rom0:
        return encode(merge_writes(_configure(name, config, kept)))
    words = stored_words(_id(name), dict(_registers(config)))
    if isinstance(config, ArithConfig) and config.table:
        words += encode(merge_writes(_coefficients(_id(name), config, kept)))
    return words


def words(epochs: Iterable[Epoch]) -> list[int]:
    """The same as the epoch controller reads it."""
    return [*chain.from_iterable(map(_encoded, epochs)), *encode([Irq(0)])]


def written_words(epoch: Epoch) -> int:
    """Length of the epoch's part of the program. For epochs with addresses, whose words somebody wants anyway."""
    return len(_encoded(epoch))


def with_words(epoch: Epoch) -> Epoch:
    """The epoch with the length of its part of the program."""
    return of_length(epoch, written_words(epoch))


@memoise
def of_length(epoch: Epoch, words: int) -> Epoch:
    """Always the same object, for those who remember figures."""
    return replace(epoch, words=words)


def epoch_words(epoch: Epoch, unit_words: UnitWords | None = None) -> int:
    """The same without writing it: what a unit takes is the same in every epoch. `unit_words`: to configure one, where
    somebody else than this program does."""
    if epoch.empty:
        return len(_encoded(epoch))
    writers, configure = set(epoch.writers()), unit_words or _configure_words
    units = [(config, name in epoch.kept, name in writers) for name, config in epoch.units.items()]
    words = sum(configure(config, kept) + _run_words(config.KIND, writes) for config, kept, writes in units)
    wired = tuple(sorted(regs.SWITCH_PORTS[link.destination, link.port] for link in epoch.links))
    return _length([Label(epoch.number)]) + words + _switch_words(wired)


def _configure_words(config: UnitConfig, kept: bool) -> int:
    if isinstance(config, ArithConfig) and config.table:
        # how many rows there are counts, not what is in them: most layers then ask for what is known already
        config = fields.changed(config, table=_ones(len(config.table) // ROW_BYTES, used_rows(config)))
    if isinstance(config, StrengConfig):  # nor does where an engine is, other than at 0
        place = {name: int(vars(config)[name] != 0) for name in fields.PLACE}
        config = fields.changed(config, **place)
    return _plain_configure_words(config, kept)


@cache
def _ones(rows: int, used: int) -> bytes:
    table = np.zeros((rows, 3), "<i2")
    table[:used] = 1
    return table.tobytes()


@lru_cache(maxsize=1 << 14)
def _plain_configure_words(config: UnitConfig, kept: bool) -> int:
    name = _first_of(config.KIND)
    return len(_clock_words(name)) + len(_configured_words(name, config, kept))


@cache
def _run_words(kind: str, writes: bool) -> int:
    """Counts the words to start, wait for and release one unit."""
    name = _first_of(kind)
    wait = [Poll(_id(name), 0, _RUNNING, _RUNNING, _TIMEOUT, 0)] * writes
    enable = Write(_id(name), 0, 1 << _EN) if kind == "CONVACC" else WriteField(_id(name), 0, _EN, 1, 1)
    return _length([enable]) + _length([*wait, *_reset(_id(name), 0), _clock(name, 0)])


@lru_cache(maxsize=1 << 12)
def _switch_words(registers: tuple[int, ...]) -> int:
    wires = [Write(_SWITCH, register, 0) for register in registers]
    return _length([*_reset(_SWITCH, 0), Write(_SWITCH, 0, 1), *wires]) + _length(wires)


def _length(trace: Iterable[Instruction | Barrier]) -> int:
    return len(encode(merge_writes(trace)))


@cache
def _first_of(kind: str) -> str:
    return next(unit.name for unit in regs.UNIT_BY_NAME.values() if unit.kind == kind)


def epoch_trace(epoch: Epoch) -> Iterator[Instruction | Barrier]:
    """One epoch as plain stores, before merging."""
    for _, instructions in epoch_phases(epoch):
        yield from instructions


def epoch_phases(epoch: Epoch) -> Iterator[tuple[str, Iterable[Instruction | Barrier]]]:
    """One epoch in the parts that every public network has, each with a word for it; merging never crosses them."""
    yield "begin", [Label(epoch.number)]
    if epoch.empty:
        return
    units, readers, writers = _by_phase(epoch)
    for name in (*units, *readers, *writers):
        yield f"configure {name}", [_clock(name, 1), *_configure(name, epoch.units[name], name in epoch.kept)]
    links = sorted(encode_link(link) for link in epoch.links)
    wires = [Write(_SWITCH, register, word) for register, word in links]
    yield "wire the stream switch", [*_reset(_SWITCH, 0), Write(_SWITCH, 0, 1), *wires]
    order = (*writers, *units, *readers)
    yield "start", [_enable(name, epoch.units[name]) for name in order]
    yield "wait for the writers", [_wait(name) for name in writers]
    yield "unwire", [Write(_SWITCH, register, 0) for register, _ in links]
    for name in order:
        yield f"release {name}", _release(name)


def _by_phase(epoch: Epoch) -> tuple[list[str], list[str], list[str]]:
    """Processing units, readers and writers, each by number."""
    units = [name for name, config in epoch.units.items() if not isinstance(config, StrengConfig)]
    return sorted(units, key=_id), sorted(epoch.readers(), key=_id), sorted(epoch.writers(), key=_id)


def _id(name: str) -> int:
    return regs.UNIT_BY_NAME[name].id


def _clock(name: str, on: int) -> Instruction:
    return WriteField(_CLOCK, _CLOCK_GATES, regs.CLOCK_BITS[name], 1, on)


def _configure(name: str, config: UnitConfig, kept: bool) -> Iterator[Instruction | Barrier]:
    """Every register that differs from reset, CTRL always; then the tables, unless they are there."""
    for index, word in sorted(_registers(config)):
        yield Write(_id(name), index, word)
    if isinstance(config, ArithConfig) and config.table:
        yield from _coefficients(_id(name), config, kept)
    if isinstance(config, ActivConfig) and config.rom0 and not kept:
        yield from _function_tables(_id(name), config)


def _registers(config: UnitConfig) -> list[tuple[int, int]]:
    resets = _resets(config.KIND)
    told = [(index, word) for index, word in fields.encode(config).items() if word != resets[index] or not index]
    window = _TRANSLATE if isinstance(config, ArithConfig) else None  # written with the coefficients
    return [(index, word) for index, word in told if index != window]


@cache
def _resets(kind: str) -> dict[int, int]:
    return {index: register.reset for index, register in regs.registers_by_index(kind).items()}


def _coefficients(unit: int, config: ArithConfig, kept: bool) -> Iterator[Instruction | Barrier]:
    """Rows 0..383 through the translated window, the rest through the plain one, which then stays. Of rows that are
    kept, only where the window is left."""
    if kept:
        yield Barrier()
        yield Write(unit, _TRANSLATE, config.translate)
        yield Barrier()
        return
    rows, used = config.rows(), used_rows(config)
    yield Barrier()
    yield Write(unit, _TRANSLATE, 1)
    yield Barrier()
    yield _rows(unit, 256, rows[: min(used, WINDOW_ROWS)])
    if used > WINDOW_ROWS:
        yield Barrier()
        yield Write(unit, _TRANSLATE, 0)
        yield Barrier()
        yield _rows(unit, 2 * WINDOW_ROWS, rows[WINDOW_ROWS:used])
    if config.translate != (used <= WINDOW_ROWS):
        yield Barrier()
        yield Write(unit, _TRANSLATE, config.translate)
    yield Barrier()


def _rows(unit: int, register: int, rows: NDArray[np.int16]) -> Instruction:
    """Two words each, one behind the other: A and B, then C and nothing."""
    words = np.zeros((len(rows), 4), "<i2")
    words[:, :3] = rows
    return BurstWriteInc(unit, register, tuple(words.view("<u4").ravel().tolist()))


def _function_tables(unit: int, config: ActivConfig) -> Iterator[Instruction | Barrier]:
    for k, entry in enumerate(config.rom0[: 1 << config.index_bits]):
        yield Write(unit, activ.ROM0 + k, entry)
    rows = np.frombuffer(config.rom1, "<i2").reshape(-1, 3).astype(np.uint16).tolist()
    selectors = np.frombuffer(config.rom0, np.uint8)[: 1 << config.index_bits].astype(int)
    last = int(((selectors & 63) + (1 << (selectors >> 6)) - 1).max())
    for k, (a, b, c) in enumerate(rows[: last + 1]):
        yield Write(unit, activ.ROM1 + 2 * k, a | b << 16)
        yield Write(unit, activ.ROM1 + 2 * k + 1, c)


def _enable(name: str, config: UnitConfig) -> Instruction:
    if name.startswith("CONVACC"):
        return Write(_id(name), 0, fields.encode(config)[0] | 1 << _EN)
    return WriteField(_id(name), 0, _EN, 1, 1)


def _wait(name: str) -> Instruction:
    return Poll(_id(name), 0, _RUNNING, _RUNNING, _TIMEOUT, 0)


def _release(name: str) -> list[Instruction]:
    reset = regs.registers(regs.UNIT_BY_NAME[name].kind)["CTRL"].reset
    return [*_reset(_id(name), reset), _clock(name, 0)]


def _reset(unit: int, control: int) -> list[Instruction]:
    """Clear, then back to reset values; both end by themselves."""
    return [
        Write(unit, 0, control | 1 << _CLR),
        Poll(unit, 0, _CLR, _CLR, _TIMEOUT, 0),
        Write(unit, 0, control | 1 << _CONFCLR),
        Poll(unit, 0, _CONFCLR, _CONFCLR, _TIMEOUT, 0),
    ]
