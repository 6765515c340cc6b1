"""`LL_Switch_Init` and `LL_Switch_Deinit`: links of the stream switch from their structs."""

from __future__ import annotations

from atonc.machine.base.errors import InputError
from atonc.machine.hw import regs
from atonc.machine.hw.ec.instructions import Instruction, Write
from atonc.machine.hw.ll.generation import Generation
from atonc.machine.hw.ll.members import Members, word, write
from atonc.machine.hw.ll.units import clear

KIND = "STRSWITCH"
UNIT = regs.UNIT_BY_NAME["STRSWITCH0"].id
_LINK_REGISTER = "DSTSTRENG0"  # all link registers have the same fields


def link_program(links: object, count: object, generation: Generation, where: str) -> list[Instruction]:
    words: list[Instruction] = [Write(UNIT, *_link(entry, where)) for entry in _entries(links, count, where)]
    enable = write(KIND, UNIT, "CTRL", EN=1)
    if generation.resets_switch_first:
        return [*clear(KIND, 0, where), enable, *words]
    return [*words, enable]


def unlink_program(links: object, count: object, generation: Generation, where: str) -> list[Instruction]:
    off: list[Instruction] = [
        Write(UNIT, _port(Members(entry, where).values.get("dest"), where), 0)
        for entry in _entries(links, count, where)
    ]
    return off if generation.resets_switch_first else [*clear(KIND, 0, where), *off]


def _entries(links: object, count: object, where: str) -> list[object]:
    if links is None or links == 0:
        links = []
    if not isinstance(links, list) or not isinstance(count, int) or not 0 <= count <= len(links):
        raise InputError("the list of links is shorter than its count", where=where)
    return links[:count]


def _link(entry: object, where: str) -> tuple[int, int]:
    """Register index and word of one link."""
    m = Members(entry, where)
    fields: dict[str, int] = {}
    for context in (0, 1):
        source = m.values.get(f"source{context}")
        fields |= {
            f"EN{context}": m.flag(f"context{context}"),
            f"LINK{context}": 0 if source is None or source == 0 else _source(source, where),
            f"FNR{context}": m[f"frames{context}"],
        }
    return _port(m.values.get("dest"), where), word(KIND, _LINK_REGISTER, **fields)


def _place(port: object, where: str) -> tuple[str, int]:
    m = Members(port, where)
    unit = m.values.get("unit")
    return f"{getattr(unit, 'name', unit)}{m['instance']}", m["port"]


def _port(port: object, where: str) -> int:
    place = _place(port, where)
    if place not in regs.SWITCH_PORTS:
        raise InputError(f"the stream switch has no input port {place[0]}:{place[1]}", where=where)
    return regs.SWITCH_PORTS[place]


def _source(port: object, where: str) -> int:
    name, _ = _place(port, where)
    if name not in regs.SOURCES:
        raise InputError(f"the stream switch has no source {name}", where=where)
    return regs.SOURCES[name]
