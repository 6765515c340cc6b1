"""The keys of a board file: each with its type and limits, read one by one. `board_file` makes a board of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.board import KINDS, MACHINES, USERS
from atonc.machine.hw.mpool import MAX_RATIO, MAX_WIDTH
from atonc.machine.hw.toml_table import TomlTable

_LEVELS = ("LOW", "MID", "HIGH")
_FORMATS = ("FORMAT_RAW", "FORMAT_HEX", "FORMAT_C")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.+-]{0,60}")
_SYMBOL = re.compile(r"[A-Za-z_]\w{0,60}", re.ASCII)
_ATTRIBUTES = re.compile(r"[rwxailRWXAIL!]{1,8}")
_SET_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,60}", re.ASCII)

Read = Callable[[TomlTable, str], Any]
_text, _flag, _size = TomlTable.text, TomlTable.flag, TomlTable.size


def _between(low: float, high: float) -> Read:
    return lambda table, key: table.number(key, low, high)


def _one_of(*choices: str) -> Read:
    return lambda table, key: table.text(key, choices)


def _matching(pattern: re.Pattern[str], rule: str) -> Read:
    def read(table: TomlTable, key: str) -> str:
        value = table.text(key)
        if not pattern.fullmatch(value):
            raise table.wrong(key, f"{value[:40]!r} cannot be used", rule=rule)
        return value

    return read


_name = _matching(_NAME, "a name has letters, digits, spaces and _ . + -, at most 61")
_symbol = _matching(_SYMBOL, "a C identifier")

_TOP: dict[str, Read] = {
    "name": _name,
    "title": _text,
    "based_on": _text,
    "machine": _one_of(*MACHINES),
    "flash_loader": _name,
}
CLOCKS = dict.fromkeys(("npu_mhz", "cpu_mhz", "npu_ram_mhz", "noc_mhz"), _between(1, 10_000))
POOL_KEYS: dict[str, Read] = {
    "postfix": _symbol,
    "byte_width": lambda t, k: int(t.number(k, 1, MAX_WIDTH)),
    "freq_ratio": _between(1 / MAX_RATIO, MAX_RATIO),
    "throughput": _one_of(*_LEVELS),
    "latency": _one_of(*_LEVELS),
    "writable": _flag,
    "cacheable": _flag,
    "constants_preferred": _flag,
    "read_power": _between(0, 1e6),
    "write_power": _between(0, 1e6),
}
_MEMORY: dict[str, Read] = {
    "name": _name,
    "kind": _one_of(*KINDS),
    "base": _size,
    "size": _size,
    "users": lambda t, k: t.texts(k, USERS),
    "mb_per_s": _between(0.001, 1e6),
    **POOL_KEYS,
}
_AREA: dict[str, Read] = {
    "name": _name,
    "user": _one_of(*USERS),
    "base": _size,
    "size": _size,
    "linker": _symbol,
    "attributes": _matching(_ATTRIBUTES, "letters of a linker script: r, w, x, a, i, l"),
    "at_boot": _flag,
}
_SET: dict[str, Read] = {"title": _text, "power": _flag, "use": lambda t, k: [_entry(e, t, k) for e in t.mixed(k)]}
_ENTRY: dict[str, Read] = {
    "of": _name,
    "name": _name,
    "base": _size,
    "size": _size,
    "absolute": _flag,
    "past_end": _flag,
    "format": _one_of(*_FORMATS),
    **POOL_KEYS,
}


@dataclass(frozen=True)
class Raw:
    """What a file says, checked key by key and not yet as a whole."""

    file: str
    top: dict[str, Any] = field(default_factory=dict)
    clocks: dict[str, float] = field(default_factory=dict)
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)
    areas: dict[str, dict[str, Any]] = field(default_factory=dict)
    pools: dict[str, dict[str, Any]] = field(default_factory=dict)
    own: frozenset[str] = frozenset()  # areas and pool sets that the file itself names


def read_keys(root: TomlTable) -> Raw:
    root.finish((*_TOP, "clocks", "memories", "areas", "pools"))
    pools = root.table("pools") if root.has("pools") else None
    sets = {} if pools is None else {_set_name(pools, key): _record(pools.table(key), _SET) for key in pools.entries()}
    areas = _by_name(root, "areas", _AREA)
    return Raw(
        root.file,
        _record(root, _TOP, (*_TOP, "clocks", "memories", "areas", "pools")),
        _record(root.table("clocks"), CLOCKS) if root.has("clocks") else {},
        _by_name(root, "memories", _MEMORY),
        areas,
        sets,
        frozenset((*sets, *areas)),
    )


def _set_name(pools: TomlTable, key: str) -> str:
    if not _SET_NAME.fullmatch(key):
        raise pools.wrong(key[:60], "not a name for a pool set", rule="letters, digits and _ . -")
    return key


def _record(table: TomlTable, schema: Mapping[str, Read], allowed: tuple[str, ...] = ()) -> dict[str, Any]:
    table.finish(allowed or schema)
    return {key: read(table, key) for key, read in schema.items() if table.has(key)}


def _by_name(root: TomlTable, key: str, schema: Mapping[str, Read]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for table in root.tables(key):
        record = _record(table, schema)
        if record.get("name", "") in ("", *found):
            raise table.wrong("name" if table.has("name") else "", "each needs a name of its own")
        found[record["name"]] = record | {"where": table.where()}
    return found


def _entry(item: str | TomlTable, table: TomlTable, key: str) -> dict[str, Any]:
    if isinstance(item, str):
        return {"of": item, "where": table.where(key)}
    record = _record(item, _ENTRY)
    if "of" not in record:
        raise table.wrong(key, "an entry lacks `of`", rule="of = the name of a memory or an area")
    return record | {"where": table.where(key)}
