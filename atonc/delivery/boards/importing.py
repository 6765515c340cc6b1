"""`atonc board import X.mpool X.ld`: a board file from a pair that exists. It says only what differs from a board. Of
the linker script the regions are read: names, addresses and sizes of its MEMORY command, and symbols they use."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from atonc.machine.base.disk import read_text
from atonc.machine.base.errors import InputError, InternalError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.board import APPLICATION, DISPLAY, Board, Memory
from atonc.machine.hw.board_file import find_board, parse_board
from atonc.machine.hw.machine import FLASH, HYPERRAM, secure
from atonc.machine.hw.mpool import MemoryPool, read_mpool

MAX_BYTES = 1 << 18
MAX_REGIONS = 64
_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_SPACE = re.compile(r"[^\S\n]+|\s*\n\s*")
_MEMORY = re.compile(r"\bMEMORY\s*\{([^{}]*)\}")
_REGION = re.compile(
    r"([A-Za-z_.][\w.$-]*)\s*(?:\(\s*([!A-Za-z]*)\s*\))?\s*:\s*(?:ORIGIN|org|o)\s*=\s*([^,\n]+?)\s*,"
    r"\s*(?:LENGTH|len|l)\s*=\s*([^,\n]+?)\s*(?=$|\n|,)",
    re.MULTILINE,
)
_ASSIGNMENT = re.compile(r"^\s*(?:PROVIDE\s*\(\s*)?([A-Za-z_.$][\w.$]*)\s*=\s*([^;=]+?)\s*\)?\s*;", re.MULTILINE)
_NUMBER = re.compile(r"(0[xX][0-9a-fA-F]{1,16}|\d{1,19})([KkMm]?)")
_TOKEN = re.compile(r"\s*(?:(0[xX][0-9a-fA-F]{1,16}[KkMm]?|\d{1,19}[KkMm]?)|([A-Za-z_.$][\w.$]*)|([-+*()]))")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}
_DEEPEST = 8
_MOST_TOKENS = 64


@dataclass(frozen=True)
class LinkerRegion:
    name: str
    attributes: str
    base: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.base + self.size_bytes


def read_regions(path: Path) -> tuple[LinkerRegion, ...]:
    return parse_regions(read_text(path, MAX_BYTES), str(path))


def parse_regions(text: str, where: str) -> tuple[LinkerRegion, ...]:
    """Every region of all MEMORY commands; expressions of numbers, K and M, symbols, + - * are worked out."""
    text = _SPACE.sub(lambda match: "\n" if "\n" in match[0] else " ", _COMMENT.sub(" ", text))
    symbols = {match[1]: match[2] for match in _ASSIGNMENT.finditer(text)}
    found = []
    for match in (match for block in _MEMORY.finditer(text) for match in _REGION.finditer(block[1])):
        base, size = (_value(match[number], symbols, where, match[1]) for number in (3, 4))
        found.append(LinkerRegion(match[1], match[2] or "", base, size))
    if not found:
        rule = "MEMORY { NAME (xrw) : ORIGIN = ..., LENGTH = ... }"
        raise InputError("names no memory region", where=where, rule=rule)
    names = [region.name for region in found]
    if len(found) > MAX_REGIONS or len(set(names)) < len(names):
        twice = next((name for name in names if names.count(name) > 1), "")
        what = f"region {plain(twice)[:60]} is there twice" if twice else f"more than {MAX_REGIONS} regions"
        raise InputError(what, where=where)
    return tuple(found)


def _value(text: str, symbols: dict[str, str], where: str, region: str, depth: int = 0) -> int:
    """Left to right with * before + and -, parentheses, and symbols of the same script."""
    tokens = _tokens(text, where, region)
    if depth > _DEEPEST or len(tokens) > _MOST_TOKENS:
        raise InputError(f"{plain(text)[:60]!r} is too deep to work out", where=where, rule=f"region {region}")

    def term() -> int:
        value = factor()
        while tokens and tokens[0] == "*":
            tokens.pop(0)
            value *= factor()
        return value

    def total() -> int:
        value = term()
        while tokens and tokens[0] in "+-":
            sign = 1 if tokens.pop(0) == "+" else -1
            value += sign * term()
        return value

    def factor() -> int:
        token = tokens.pop(0) if tokens else ""
        if token == "(":
            value = total()
            if not tokens or tokens.pop(0) != ")":
                raise _unknown(text, where, region)
            return value
        if match := _NUMBER.fullmatch(token):
            return int(match[1], 0) * _UNITS[match[2].lower()]
        if token in symbols:
            return _value(symbols[token], symbols, where, region, depth + 1)
        raise _unknown(text, where, region)

    value = total()
    if tokens or not 0 <= value < 1 << 40:
        raise _unknown(text, where, region)
    return value


def _tokens(text: str, where: str, region: str) -> list[str]:
    found, at, text = list[str](), 0, text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unknown(text, where, region)
        found.append(match[0].strip())
        at = match.end()
    return found


def _unknown(text: str, where: str, region: str) -> InputError:
    return InputError(
        f"cannot work out {plain(text)[:60]!r}",
        where=f"{where}, region {plain(region)[:60]}",
        rule="numbers, K, M, symbols of the same script, + - * and parentheses",
    )


_WINDOW = 28  # bits: addresses of one external memory controller
_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]+")
_SPEED = ("byte_width", "freq_ratio", "throughput", "latency")
_SHARED = ("postfix", *_SPEED, "writable", "cacheable", "constants_preferred")
_POWERS = ("read_power", "write_power")


def import_board(pool_file: Path, script: Path | None, name: str = "", based_on: str = "") -> str:
    """The text of the file; read back, it gives the same pools and regions."""
    pools = tuple(pool for pool in read_mpool(pool_file).usable if not pool.name.endswith("params pool"))
    regions = read_regions(script) if script else ()
    base = find_board(based_on or _likely(pools, regions)).require_npu()
    name = _UNSAFE.sub("-", name or pool_file.stem).strip("-.") or "imported"
    text = "\n".join(_lines(name, pools, regions, base, (pool_file.name, script.name if script else ""))) + "\n"
    _require_same(parse_board(text, f"{name}.toml"), pools, regions, str(pool_file))
    return text


def _likely(pools: Sequence[MemoryPool], regions: Sequence[LinkerRegion]) -> str:
    """A pair that knows external RAM is of a board that has some."""
    outside = [*(p.base for p in pools if p.writable), *(r.base for r in regions)]
    return "stm32n6570-dk" if any(address >> _WINDOW == 9 for address in outside) else "nucleo-n657x0-q"


def _lines(
    name: str, pools: Sequence[MemoryPool], regions: Sequence[LinkerRegion], base: Board, files: tuple[str, str]
) -> Iterator[str]:
    sources = " and ".join(_UNSAFE.sub("-", file) for file in files if file)
    yield f"# made from {sources}; clocks and memories are those of {base.title} unless said here"
    yield ""
    yield f"name = {_quoted(name)}"
    yield f"based_on = {_quoted(base.name)}"
    memories = _memories(pools, regions, base)
    for memory in memories:
        if base.memory(memory.name) != memory:
            yield from _table("[[memories]]", _memory_keys(memory, base.memory(memory.name)))
    yield from _areas(pools, regions, base, memories)
    power = any(pool.read_power or pool.write_power for pool in pools)
    yield ""
    yield "[pools.default]"
    yield f"power = {_quoted(power)}"
    yield "use = ["
    for pool in pools:
        yield f"    {_inline(_pool_keys(pool, _home(memories, pool.base), power))},"
    yield "]"


# ---------------------------------------------------------------------------------------------------------- memories


def _memories(pools: Sequence[MemoryPool], regions: Sequence[LinkerRegion], base: Board) -> list[Memory]:
    """Those of the board; larger where a pool begins or a region ends behind them, and new where there was none."""
    found = {memory.name: memory for memory in base.memories}
    wanted: list[tuple[int, int, MemoryPool | None]] = [(p.base, p.size_bytes, p) for p in pools]
    wanted += [(region.base, region.size_bytes, None) for region in regions]
    for start, size, pool in wanted:
        start = secure(start)
        home = _home(list(found.values()), start)
        grows = pool is None and home is not None and home.kind in (FLASH, HYPERRAM) and start + size > home.end
        if home is None or grows:
            near = [m for m in found.values() if m.base >> _WINDOW == start >> _WINDOW and m.kind in (FLASH, HYPERRAM)]
            old = near[0] if near else _new(start, pool)
            found[old.name] = replace(old, size_bytes=1 << (start + size - old.base - 1).bit_length())
    for region in regions:  # the script is the witness that the application uses them
        user = _user(region, list(found.values()))
        for memory in found.values():
            if memory.base < secure(region.base) + region.size_bytes and secure(region.base) < memory.end:
                found[memory.name] = replace(memory, users=tuple(dict.fromkeys((*memory.users, user))))
    return list(found.values())


def _new(start: int, pool: MemoryPool | None) -> Memory:
    """What a pool says of an external memory that the board did not have."""
    kind = HYPERRAM if pool is None or pool.writable else FLASH
    users = ("npu", "application", "display") if kind == HYPERRAM else ("fsbl", "application", "npu")
    name = _UNSAFE.sub("-", pool.name) if pool else f"memory-{start >> _WINDOW:x}"
    own = {key: getattr(pool, key) for key in (*_SHARED, *_POWERS)} if pool else {}
    if pool:
        own["postfix"] = pool.symbol
    return Memory(name, kind, start >> _WINDOW << _WINDOW, 0, users, **own)


def _home(memories: Sequence[Memory], address: int) -> Memory | None:
    address = secure(address)
    return next((memory for memory in memories if memory.base <= address < memory.end), None)


def _memory_keys(memory: Memory, known: Memory | None) -> dict[str, Any]:
    if known is not None:
        grown = {"size": memory.size_bytes} if memory.size_bytes != known.size_bytes else {}
        return {"name": memory.name} | grown | ({"users": list(memory.users)} if memory.users != known.users else {})
    keys: dict[str, Any] = {"name": memory.name, "kind": memory.kind, "base": memory.base, "size": memory.size_bytes}
    rest = {key: getattr(memory, key) for key in (*_SHARED, *_POWERS)}
    return keys | {"users": list(memory.users)} | {key: value for key, value in rest.items() if value != ""}


# ------------------------------------------------------------------------------------------------- areas and flash map


def _areas(
    pools: Sequence[MemoryPool], regions: Sequence[LinkerRegion], base: Board, memories: Sequence[Memory]
) -> Iterator[str]:
    for area in base.areas:
        if area.linker and regions:
            yield from _table("[[areas]]", {"name": area.name, "size": 0})
    for region in regions:
        if region.size_bytes:
            yield from _table("[[areas]]", _area_keys(region, memories))
    homes = [(pool.base, _home(memories, pool.base)) for pool in pools if not pool.writable]
    flash = [start for start, memory in homes if memory is not None and memory.kind == FLASH]
    if flash:  # weights begin where the pool does; the image of the application ends there
        weights, slot = min(flash), base.area("application image")
        yield from _table("[[areas]]", {"name": "weights", "base": weights})
        if slot is not None and weights != slot.end:
            yield from _table("[[areas]]", {"name": slot.name, "size": max(weights - slot.base, 0)})


def _area_keys(region: LinkerRegion, memories: Sequence[Memory]) -> dict[str, Any]:
    keys: dict[str, Any] = {"name": f"region {_UNSAFE.sub('-', region.name)}", "user": _user(region, memories)}
    keys |= {"base": secure(region.base), "size": region.size_bytes}
    return keys | {"linker": _symbol(region)} | ({"attributes": region.attributes} if region.attributes else {})


def _user(region: LinkerRegion, memories: Sequence[Memory]) -> str:
    """Regions in external RAM are where applications keep their frame buffers."""
    memory = _home(memories, region.base)
    return DISPLAY if memory is not None and memory.kind == HYPERRAM else APPLICATION


def _symbol(region: LinkerRegion) -> str:
    return re.sub(r"\W", "_", region.name, flags=re.ASCII)


# ------------------------------------------------------------------------------------------------------------- writing


def _pool_keys(pool: MemoryPool, memory: Memory | None, power: bool) -> dict[str, Any]:
    if memory is None:
        raise InternalError(f"pool {pool.name} has no memory")
    keys: dict[str, Any] = {"of": memory.name, "base": secure(pool.base), "size": pool.size_bytes}
    keys |= {"name": _UNSAFE.sub("-", pool.name)} if pool.name != memory.name else {}
    own = {key: getattr(pool, key) for key in (*_SHARED, *(_POWERS if power else ()))} | {"postfix": pool.symbol}
    keys |= {key: value for key, value in own.items() if value != getattr(memory, key) and value != ""}
    keys |= {} if pool.absolute else {"absolute": False}
    keys |= {} if pool.file_format in ("", "FORMAT_RAW") else {"format": pool.file_format}
    return keys | ({"past_end": True} if secure(pool.base) + pool.size_bytes > memory.end else {})


def _table(head: str, keys: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield head
    yield from (f"{key} = {_written(key, value)}" for key, value in keys.items())


def _inline(keys: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {_written(key, value)}" for key, value in keys.items()) + " }"


def _written(key: str, value: Any) -> str:
    return f"{value:#010x}" if key == "base" else _size(value) if key == "size" else _quoted(value)


def _size(value: int) -> str:
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if value and value % unit == 0:
            return _quoted(f"{value // unit}{letter}")
    return str(value)


def _quoted(value: Any) -> str:
    return json.dumps(value)


# ------------------------------------------------------------------------------------------------------------- checking


def _require_same(board: Board, pools: Sequence[MemoryPool], regions: Sequence[LinkerRegion], where: str) -> None:
    """What was written says what was read; a pool that cannot be said is an error, not a silent change."""
    for ours, theirs in zip(board.pool_set().pools, pools, strict=True):
        if same_pool(ours, theirs) != "":
            raise InputError(f"pool {theirs.name} cannot be kept: {same_pool(ours, theirs)}", where=where)
    known = {area.linker: area for area in board.areas if area.linker}
    for region in regions:
        area = known.get(_symbol(region))
        kept = area is not None and (area.base, area.size_bytes) == (secure(region.base), region.size_bytes)
        if region.size_bytes and not kept:
            raise InputError(f"region {region.name} cannot be kept", where=where)


def same_pool(ours: MemoryPool, theirs: MemoryPool) -> str:
    """What differs between two pools, in words; nothing if they mean the same."""
    for key in ("base", "size_bytes", "absolute", "file_format", *_SHARED, *_POWERS):
        one, other = getattr(ours, key), getattr(theirs, key)
        one, other = (secure(one), secure(other)) if key == "base" else (one, other)
        one, other = (ours.symbol, theirs.symbol) if key == "postfix" else (one, other)
        if one != other and other != "":
            return f"{key} is {one} instead of {other}"
    return ""
