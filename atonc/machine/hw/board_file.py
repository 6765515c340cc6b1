"""Board files: one `.toml` each, read strictly. A file may be based on another and say only what differs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.disk import read_text
from atonc.machine.base.errors import InputError
from atonc.machine.hw.board import DEFAULT_SET, Board, Memory, MemoryArea, PoolSet
from atonc.machine.hw.board_schema import CLOCKS, POOL_KEYS, Raw, read_keys
from atonc.machine.hw.mpool import MemoryPool
from atonc.machine.hw.toml_table import MAX_BYTES, MAX_ITEMS, parse_toml

TEMPLATE = "_template"
_DEEPEST = 4  # files that are based on each other
_CHOICE = re.compile(r"([A-Za-z0-9][\w.-]{0,60})@(.+)", re.DOTALL)

# ------------------------------------------------------------------------------------------------------- which board


@cache
def board_names() -> tuple[str, ...]:
    """The boards that ship with atonc: whatever files are there."""
    files = (Path(str(entry)) for entry in resources.files("atonc.machine.boards").iterdir())
    return tuple(sorted(path.stem for path in files if path.suffix == ".toml" and not path.stem.startswith("_")))


def board_text(name: str) -> str:
    """The file of a board that ships with atonc."""
    return resources.files("atonc.machine.boards").joinpath(f"{name}.toml").read_text("utf-8")


def split_choice(text: str) -> tuple[str, str]:
    """`SET@BOARD` as set and board; a board alone is its default set."""
    match = _CHOICE.fullmatch(text)
    return (match[1], match[2]) if match else (DEFAULT_SET, text)


def find_board(choice: str) -> Board:
    """A board by name (spelling of case and separators is free) or by its file; a pool set in front is passed over."""
    name = split_choice(choice)[1]
    return read_board_file(Path(name)) if name.endswith(".toml") else _shipped(_known(name))


def read_board_file(path: Path) -> Board:
    return parse_board(read_text(path, MAX_BYTES), str(path))


def parse_board(text: str, file: str) -> Board:
    return _board(_with_base(read_keys(parse_toml(text, file)), 0))


@cache
def _shipped(name: str) -> Board:
    return parse_board(board_text(name), f"{name}.toml")


def _known(name: str) -> str:
    """By its name, the part behind the first dash, or a beginning that no other has."""
    wanted = _plain(name)
    matching = [known for known in board_names() if wanted in (_plain(known), _plain(known.split("-", 1)[-1]))]
    matching = matching or [known for known in board_names() if _plain(known).startswith(wanted)]
    if len(matching) == 1 and wanted:
        return matching[0]
    raise InputError(
        f"no board {name[:60]!r}",
        rule=f"known boards: {', '.join(board_names())}",
        remedy=did_you_mean(
            name.lower(),
            board_names(),
            "give a board file of your own (docs/boards.md) as --board FILE.toml, or a .mpool file",
        ),
    )


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


# -------------------------------------------------------------------------------------------------- files on files


def _with_base(raw: Raw, depth: int) -> Raw:
    if "based_on" not in raw.top:
        return raw
    if depth == _DEEPEST:
        raise InputError(f"more than {_DEEPEST} files are based on each other", where=f"{raw.file}, based_on")
    named = raw.top["based_on"]
    if named.endswith(".toml"):
        path = Path(raw.file).parent / named
        text, file = read_text(path, MAX_BYTES), str(path)
    else:
        known = _known(named)
        text, file = board_text(known), f"{known}.toml"
    base = _with_base(read_keys(parse_toml(text, file)), depth + 1)
    return Raw(
        raw.file,
        {**base.top, **{k: v for k, v in raw.top.items() if k != "based_on"}},
        base.clocks | raw.clocks,
        _merged(base.memories, raw.memories),
        _merged(base.areas, raw.areas),
        base.pools | raw.pools,
        raw.own,
    )


def _merged(base: dict[str, dict[str, Any]], own: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Entries of the same name are changed key by key; new ones come behind."""
    return {name: base.get(name, {}) | own.get(name, {}) for name in (*base, *(n for n in own if n not in base))}


# ------------------------------------------------------------------------------------------------------- as a whole


def _board(raw: Raw) -> Board:
    _require(raw.top, ("name", "machine"), raw.file)
    memories = [_memory(record) for record in raw.memories.values()]
    fitted = tuple(memory for memory in memories if memory.size_bytes)
    if not fitted:
        raise InputError("names no memory", where=raw.file, rule="[[memories]] lists them")
    _apart(fitted, raw.file)
    areas = tuple(_areas(raw, fitted))
    npu = raw.top["machine"] == "stm32n6"
    _require(raw.clocks, tuple(CLOCKS) if npu else ("cpu_mhz",), f"{raw.file}, clocks")
    sets = dict(_pool_sets(raw, memories, areas))
    if npu and DEFAULT_SET not in sets:
        raise InputError("has no [pools.default]", where=raw.file, rule="networks need a set of memory pools")
    return Board(
        name=raw.top["name"],
        title=raw.top.get("title", raw.top["name"]),
        machine_name=raw.top["machine"],
        clocks=raw.clocks,
        memories=fitted,
        areas=areas,
        pool_sets=sets,
        flash_loader=raw.top.get("flash_loader", ""),
        file=raw.file,
    )


def _require(record: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    missing = [key for key in keys if key not in record]
    if missing:
        raise InputError(f"lacks {', '.join(missing)}", where=where, remedy="or base the file on a board: based_on")


def _memory(record: dict[str, Any]) -> Memory:
    _require(record, ("kind", "base", "size", "users"), record["where"])
    fields = {key: value for key, value in record.items() if key not in ("size", "where")}
    memory = Memory(size_bytes=record["size"], **fields)
    if memory.end > 1 << 32:
        raise InputError(f"ends at {memory.end:#x}", where=record["where"], rule="addresses have 32 bits")
    return memory


def _apart(memories: tuple[Memory, ...], file: str) -> None:
    for low, high in pairwise(sorted(memories, key=lambda memory: memory.base)):
        if low.end > high.base:
            raise InputError(f"memories {low.name} and {high.name} overlap at {high.base:#010x}", where=file)


def _areas(raw: Raw, memories: tuple[Memory, ...]) -> Iterator[MemoryArea]:
    """An area of the board below where this one has no memory is left out; what the file itself names must fit."""
    for name, record in raw.areas.items():
        if record.get("size") == 0:
            continue
        try:
            yield _area(record, memories)
        except InputError:
            if name in raw.own:
                raise


def _area(record: dict[str, Any], memories: tuple[Memory, ...]) -> MemoryArea:
    _require(record, ("user", "base"), record["where"])
    base, where = record["base"], record["where"]
    memory = next((m for m in memories if m.base <= base < m.end), None)
    if memory is None:
        raise InputError(
            f"no memory at {base:#010x}",
            where=where,
            rule="an area lies in memory",
            remedy="correct base; or size = 0 takes the area out, if the board has no such memory",
        )
    size = record.get("size", memory.end - base)
    touched = _touched(base, base + size, memories)
    if base + size > touched[-1].end:
        raise InputError(
            f"ends at {base + size:#010x}, {touched[-1].name} at {touched[-1].end:#010x}",
            where=where,
            rule="an area lies in one memory, or in several that follow each other",
            remedy="correct size, or leave it out: to the end of the memory",
        )
    barred = [m.name for m in touched if record["user"] not in m.users]
    if barred:
        raise InputError(f"{record['user']} is not among the users of {barred[0]}", where=where)
    fields = {key: record[key] for key in ("name", "user", "linker", "attributes", "at_boot") if key in record}
    return MemoryArea(base=base, size_bytes=size, memory=memory.name, **fields)


def _touched(start: int, end: int, memories: tuple[Memory, ...]) -> list[Memory]:
    """The memory at `start`, and those that follow without a gap up to `end`."""
    found = [next(m for m in memories if m.base <= start < m.end)]
    while found[-1].end < end:
        following = next((m for m in memories if m.base == found[-1].end), None)
        if following is None:
            break
        found.append(following)
    return found


# ------------------------------------------------------------------------------------------------------------- pools


def _pool_sets(raw: Raw, memories: list[Memory], areas: tuple[MemoryArea, ...]) -> Iterator[tuple[str, PoolSet]]:
    """A set of the board below that does not fit this one is left out; the default and the own ones must fit."""
    for name, record in raw.pools.items():
        try:
            yield name, _pool_set(name, record, memories, areas)
        except InputError:
            if name == DEFAULT_SET or name in raw.own:
                raise


def _pool_set(name: str, record: dict[str, Any], memories: list[Memory], areas: tuple[MemoryArea, ...]) -> PoolSet:
    pools, past = [], set[str]()
    for entry in record.get("use", []):
        memory, base, size = _place_of(entry, memories, areas)
        if not memory.size_bytes:
            continue  # the board has none
        pool = _pool(entry, memory, base, size, bool(record.get("power")))
        if base + size > memory.end:
            if not entry.get("past_end"):
                raise InputError(
                    f"pool {pool.name} ends at {base + size:#010x}, {memory.name} at {memory.end:#010x}",
                    where=entry["where"],
                    remedy="correct base or size; past_end = true if a published file is to be kept as it is",
                )
            past.add(pool.name)
        pools.append(pool)
    if len(pools) > MAX_ITEMS:
        raise InputError(f"more than {MAX_ITEMS} pools", where=name)
    return PoolSet(name, record.get("title", ""), tuple(pools), frozenset(past))


def _place_of(entry: dict[str, Any], memories: list[Memory], areas: tuple[MemoryArea, ...]) -> tuple[Memory, int, int]:
    """The memory, and which part of it: of the area, or from `base` on, to the end unless `size` says less."""
    named = entry["of"]
    area = next((area for area in areas if area.name == named), None)
    memory = next((m for m in memories if m.name == (area.memory if area else named)), None)
    if memory is None:
        known = ", ".join([*(m.name for m in memories), *(a.name for a in areas)])
        raise InputError(f"no memory or area {named!r}", where=entry["where"], rule=f"the board has {known}")
    base = entry.get("base", area.base if area else memory.base)
    end = area.end if area and "base" not in entry else memory.end
    if not memory.base <= base <= memory.end:
        raise InputError(f"{base:#010x} is not in {memory.name}", where=entry["where"])
    return memory, base, entry.get("size", end - base)


def _pool(entry: dict[str, Any], memory: Memory, base: int, size: int, power: bool) -> MemoryPool:
    powers = {key: getattr(memory, key) if power else 0.0 for key in ("read_power", "write_power")}
    shared = {key: getattr(memory, key) for key in POOL_KEYS if key not in powers}
    own = {key: value for key, value in entry.items() if key in POOL_KEYS}
    return MemoryPool(
        name=entry.get("name", memory.name),
        base=base,
        size_bytes=size,
        absolute=entry.get("absolute", True),
        file_format=entry.get("format", "FORMAT_RAW"),
        **{**shared, **powers, **own},
    )
