"""The clocks, external memories and measured constants that a build was made for, kept in NAME_program.json.

A build for the chip's usual ones says nothing: then, and in folders of others, the usual ones hold.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, plain
from atonc.machine.hw.machine import FLASH, HYPERRAM, MEASURABLE, Clocks, Machine, MemoryBank, implausible, stm32n6

if TYPE_CHECKING:
    from atonc.machine.emu.files.types import CompiledNetwork

MAX_BYTES = 1 << 26
_MOST_BANKS = 16
_FASTEST = 1e6  # MHz or MB/s


def machine_row(machine: Machine) -> dict[str, Any]:
    """What the file has to say: nothing for the usual clocks and memories, or for less memory than usual."""
    banks = [asdict(bank) for bank in machine.memories if bank.external]
    if machine.clocks == stm32n6().clocks and all(map(_usual, machine.memories)) and not machine.measured:
        return {}
    row = {"clocks": asdict(machine.clocks), "external_memories": banks}
    measured = {name: machine.constant(name) for name in machine.measured}
    return {"machine": row | ({"measured": measured} if measured else {})}


def _usual(bank: MemoryBank) -> bool:
    known = stm32n6().memory_at(bank.base)
    return known is not None and bank.end <= known.end and replace(bank, size_bytes=known.size_bytes) == known


def build_machine(network: CompiledNetwork) -> Machine:
    """Reads the machine that the build was made for; a file that is damaged or not ours counts as absent."""
    try:
        root = json.loads(read_file(network.directory / f"{network.stem}_program.json", MAX_BYTES))
        return _machine(root["machine"]) if isinstance(root, dict) and "machine" in root else stm32n6()
    except (InputError, ValueError, TypeError, KeyError, RecursionError):
        return stm32n6()


def _machine(row: Any) -> Machine:
    clocks = {member.name: _number(row["clocks"][member.name], 1e-3, _FASTEST) for member in fields(Clocks)}
    rows = row["external_memories"]
    if not isinstance(rows, list) or len(rows) > _MOST_BANKS:
        raise ValueError("external_memories")
    chip = stm32n6()
    inside = tuple(bank for bank in chip.memories if not bank.external)
    machine = replace(chip.with_clocks(**clocks), memories=(*inside, *(_bank(one) for one in rows)))
    return machine.with_measured(_measured(row.get("measured", {}), machine))


def _measured(row: Any, machine: Machine) -> dict[str, float]:
    if not isinstance(row, dict):
        raise ValueError("measured")
    for name, value in row.items():
        if name not in MEASURABLE or implausible(name, _number(value, -1e6, 1e6) / machine.clock_factor(name)):
            raise ValueError("measured")
    return {name: float(value) for name, value in row.items()}


def _bank(row: Any) -> MemoryBank:
    if row["kind"] not in (FLASH, HYPERRAM):
        raise ValueError("kind")
    return MemoryBank(
        plain(str(row["name"]))[:96],
        row["kind"],
        int(_number(row["base"], 0, 1 << 32)),
        int(_number(row["size_bytes"], 1, 1 << 32)),
        int(_number(row["byte_width"], 1, 4096)),
        _number(row["freq_ratio"], 1e-6, 1e6),
        plain(str(row["latency"]))[:20],
    )


def _number(value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ValueError("number")
    return value
