"""Names of the chip's registers, for messages and logs (registers.json, made by tools/gen_board_registers.py)."""

from __future__ import annotations

import json
from bisect import bisect_right
from functools import cache
from importlib.resources import files

_SPAN = 0x2000  # no peripheral is larger than RCC
_ALIAS = 0x1000_0000


@cache
def _tables() -> tuple[list[tuple[int, str, str]], dict[str, dict[int, str]]]:
    data = json.loads(files(__package__).joinpath("registers.json").read_text())
    places = sorted((int(base, 16), name, kind) for name, (kind, base) in data["peripherals"].items())
    names = {
        kind: {
            offset + 4 * k: name if count == 1 else f"{name}[{k}]"
            for name, offset, count in members
            for k in range(count)
        }
        for kind, members in data["registers"].items()
    }
    return places, names


@cache
def base_of(peripheral: str) -> int:
    return next(base for base, name, _ in _tables()[0] if name == peripheral)


@cache
def name_of(address: int) -> str:
    """`RCC.CFGR1`, or the peripheral with an offset, or the address."""
    places, names = _tables()
    address = (address | _ALIAS if address >> 28 == 4 else address) & ~3
    index = bisect_right(places, (address, "\uffff", "")) - 1
    if index < 0 or address - places[index][0] >= _SPAN:
        return f"{address:#010x}"
    base, name, kind = places[index]
    register = names.get(kind, {}).get(address - base)
    return f"{name}.{register}" if register else f"{name}+{address - base:#05x}"
