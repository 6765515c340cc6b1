"""Clocks, enabling and disabling of units."""

from __future__ import annotations

from collections.abc import Mapping

from atonc.machine.base.errors import InputError
from atonc.machine.hw import regs
from atonc.machine.hw.ec.instructions import Instruction, Poll, Write, WriteField
from atonc.machine.hw.ll.members import unit_id, word

_CLOCKS = regs.UNIT_BY_NAME["CLKCTRL0"].id
_BGATES = regs.registers("CLKCTRL")["BGATES"]
_CTRL = 0
TIMEOUT = 100
_EN, _CLR, _CONFCLR, _RUNNING = 0, 1, 30, 31
_ENABLE_KINDS = ("STRENG", "CONVACC", "DECUN", "ACTIV", "ARITH", "POOL", "RECBUF")


def clock(kind: str, number: object, on: bool, where: str) -> WriteField:
    """The clock gate of a unit."""
    unit_id(kind, number, where)
    return WriteField(_CLOCKS, _BGATES.index, _BGATES.field(f"{kind}{number}").lsb, 1, int(on))


def enable_program(units: object, count: object, controls: Mapping[int, int], where: str) -> list[Instruction]:
    """CONVACC is enabled with its whole CTRL word (`controls` by unit id), the others by one bit."""
    result: list[Instruction] = []
    for kind, number in unit_list(units, count, where):
        unit = unit_id(kind, number, where)
        if kind == "CONVACC":
            result.append(Write(unit, _CTRL, controls.get(unit, word(kind, "CTRL")) | 1))
        else:
            result.append(WriteField(unit, _CTRL, _EN, 1, 1))
    return result


def disable_program(units: object, count: object, where: str) -> list[Instruction]:
    result: list[Instruction] = []
    for kind, number in unit_list(units, count, where):
        result += clear(kind, number, where)
        result.append(clock(kind, number, False, where))
    return result


def clear(kind: str, number: int, where: str) -> list[Instruction]:
    """Flush the pipeline, then back to reset, waiting for each."""
    unit, reset = unit_id(kind, number, where), word(kind, "CTRL")
    return [
        Write(unit, _CTRL, reset | 1 << _CLR),
        Poll(unit, _CTRL, _CLR, _CLR, TIMEOUT, 0),
        Write(unit, _CTRL, reset | 1 << _CONFCLR),
        Poll(unit, _CTRL, _CONFCLR, _CONFCLR, TIMEOUT, 0),
    ]


def wait_program(mask: int) -> list[Instruction]:
    """Waits for the stream engines of a mask, lowest first."""
    engines = [u for u in regs.UNITS if u.kind == "STRENG" and mask >> u.index & 1]
    return [Poll(unit.id, _CTRL, _RUNNING, _RUNNING, TIMEOUT, 0) for unit in engines]


def unit_list(units: object, count: object, where: str) -> list[tuple[str, int]]:
    """`{ {STRENG, 6} }, ...` as (kind, number)."""
    if not isinstance(units, list) or not isinstance(count, int) or not 0 <= count <= len(units):
        raise InputError("the list of units is shorter than its count", where=where)
    return [_unit(entry, where) for entry in units[:count]]


def _unit(entry: object, where: str) -> tuple[str, int]:
    while isinstance(entry, list) and len(entry) == 1:
        entry = entry[0]
    if isinstance(entry, list) and len(entry) == 2:
        kind, number = getattr(entry[0], "name", entry[0]), entry[1]
        if kind in _ENABLE_KINDS and isinstance(number, int):
            return str(kind), number
    raise InputError("an entry of the unit list names no unit", where=where)
