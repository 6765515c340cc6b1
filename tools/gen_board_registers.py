"""Writes atonc/machine/emu/board/registers.json: where the peripherals of the STM32N6 are and what their registers are
called.

gen_board_registers.py HEADER, where HEADER is the CMSIS device header stm32n657xx.h. Only names and addresses are kept.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

OUTPUT = Path(__file__).resolve().parents[1] / "atonc" / "machine" / "emu" / "board" / "registers.json"
SIZES = {"uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "uint64_t": 8}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
STRUCT = re.compile(r"typedef struct\s*\{([^{}]*)\}\s*(\w+)_TypeDef\s*;", re.S)
MEMBER = re.compile(r"(?:__\w+\s+|volatile\s+|const\s+)*(\w+?)(_TypeDef)?\s+(\w+)\s*(?:\[\s*([^\]]+?)\s*\])?\s*;")
BASE = re.compile(r"#define\s+(\w+_BASE_S)\s+\(?\s*(?:([A-Z]\w*)(?:\s*\+\s*)?)?(0x[0-9A-Fa-f]+)?(?:UL)?\s*\)?\s*\n")
INSTANCE = re.compile(r"#define\s+(\w+)_S\s+\(\(\s*(\w+?)_?TypeDef\s*\*\s*\)\s*(\w+)\s*\)")

Layout = list[tuple[str, int, int]]  # name, offset, how many words of the same name follow each other


def layouts(text: str) -> tuple[dict[str, Layout], dict[str, int]]:
    found: dict[str, Layout] = {}
    sizes = dict(SIZES)
    for body, name in STRUCT.findall(text):
        offset, members = 0, []
        for kind, _, member, count in MEMBER.findall(body):
            if kind not in sizes:
                break
            times = int(count.rstrip("UL"), 0) if count else 1
            offset += -offset % min(4, sizes[kind])
            if not member.startswith("RESERVED"):
                members += inner(found.get(kind), member, offset, sizes[kind], times)
            offset += sizes[kind] * times
        else:
            found[name], sizes[name] = members, offset
    return found, sizes


def inner(parts: Layout | None, member: str, offset: int, size: int, times: int) -> Layout:
    if parts is None:
        return [(member, offset, times)]
    return [(f"{member}{k}.{name}", offset + k * size + at, n) for k in range(times) for name, at, n in parts]


def bases(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, parent, value in BASE.findall(text):
        if not parent or parent in found:
            found[name] = found.get(parent, 0) + int(value or "0", 16)
    return found


def main() -> None:
    text = COMMENT.sub("", Path(sys.argv[1]).read_text(errors="replace"))
    types, _ = layouts(text)
    addresses = bases(text)
    places = {
        name: [kind, f"{addresses[base]:#010x}"]
        for name, kind, base in INSTANCE.findall(text)
        if base in addresses
    }
    used = {kind for kind, _ in places.values()} & types.keys()
    lines = ['{"peripherals": {']
    lines.append(",\n".join(f" {json.dumps(name)}: {json.dumps(where)}" for name, where in sorted(places.items())))
    lines.append('}, "registers": {')
    lines.append(",\n".join(f" {json.dumps(kind)}: {json.dumps(types[kind])}" for kind in sorted(used)))
    lines.append("}}")
    OUTPUT.write_text("\n".join(lines) + "\n")
    print(f"{OUTPUT}: {len(places)} peripherals, {sum(len(types[kind]) for kind in used)} registers")


if __name__ == "__main__":
    main()
