"""A board as data: memories, who may use which part of them, pools for networks, clocks; and files that say so.

Everything that depends on the board comes from here: the compiler's memory pools, the `.mpool` file and the linker
fragment, the clocks of every prediction, the memories of the virtual board, and what `atonc board check` compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

from atonc.machine.base.declare import did_you_mean
from atonc.machine.base.disk import read_text, read_toml
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import brief, dataclass
from atonc.machine.hw.machine import CPU_RAM, FLASH, HYPERRAM, NPU_RAM, Machine, MemoryBank, secure, stm32n6
from atonc.machine.hw.mpool import MAX_RATIO, MAX_WIDTH, MemoryPool

APPLICATION, NPU, DISPLAY, FSBL = "application", "npu", "display", "fsbl"
USERS = (APPLICATION, NPU, DISPLAY, FSBL)
KINDS = (CPU_RAM, NPU_RAM, FLASH, HYPERRAM, "itcm", "dtcm", "ram", "internal_flash", "sdram")
USER_BUFFERS = "user buffers"  # the area for inputs and outputs that the application supplies
MACHINES = ("stm32n6", "stm32h747")
DEFAULT_SET = "default"
_EXTERNAL = (FLASH, HYPERRAM)
_LEAST_DATA = 128 << 10  # stack, heap and tables of a small firmware
_NPU_KINDS = (CPU_RAM, NPU_RAM, *_EXTERNAL)
# sets that every board has: those of the pools of its default set that are of these kinds
_DERIVED = {
    "allmems": _NPU_KINDS,
    "noextmem": (CPU_RAM, NPU_RAM),
    "extram": (CPU_RAM, NPU_RAM, HYPERRAM),
    "extflash": (CPU_RAM, NPU_RAM, FLASH),
    "nointmem": _EXTERNAL,
}


@dataclass(frozen=True)
class Memory:
    """What answers at a range of addresses. Size 0: the board has none (in a file that is based on another)."""

    name: str
    kind: str
    base: int
    size_bytes: int
    users: tuple[str, ...]
    postfix: str = ""  # in the names of initialiser files and C symbols
    byte_width: int = 1
    freq_ratio: float = 1.0  # NPU clock over memory clock, as pool files have it
    throughput: str = ""
    latency: str = ""
    writable: bool = True
    cacheable: bool = False
    constants_preferred: bool = False
    mb_per_s: float = 0.0  # what a stream of the NPU really gets from an external memory
    read_power: float = 0.0
    write_power: float = 0.0

    @property
    def end(self) -> int:
        return self.base + self.size_bytes

    def holds(self, start: int, end: int) -> bool:
        return self.base <= start and end <= self.end


@dataclass(frozen=True)
class MemoryArea:
    """A part of a memory that belongs to somebody."""

    name: str
    user: str
    base: int
    size_bytes: int
    memory: str
    linker: str = ""  # name of the region in linker scripts
    attributes: str = "xrw"
    at_boot: bool = False  # only until the application runs

    @property
    def end(self) -> int:
        return self.base + self.size_bytes


@dataclass(frozen=True)
class PoolSet:
    """The memory pools of one kind of application: what an `.mpool` file holds."""

    name: str
    title: str
    pools: tuple[MemoryPool, ...]
    past_end: frozenset[str] = frozenset()  # pools that the file knows to be larger than the memory


@dataclass(frozen=True)
class Board:
    name: str
    title: str
    machine_name: str
    clocks: Mapping[str, float]  # MHz, by the names of `machine.Clocks`
    memories: tuple[Memory, ...]
    areas: tuple[MemoryArea, ...] = ()
    pool_sets: Mapping[str, PoolSet] = field(default_factory=dict)
    flash_loader: str = ""  # of STM32CubeProgrammer
    file: str = ""
    __repr__ = brief

    @property
    def has_npu(self) -> bool:
        return self.machine_name == "stm32n6"

    def require_npu(self) -> Board:
        if not self.has_npu:
            raise InputError(
                f"{self.title} has no NPU",
                where=self.file or self.name,
                rule="networks are compiled for boards with an STM32N6",
                remedy="`atonc board list` shows them; `atonc deploy` serves this board with C code for its CPU",
            )
        return self

    def memory(self, name: str) -> Memory | None:
        return next((memory for memory in self.memories if memory.name == name), None)

    def memory_at(self, address: int) -> Memory | None:
        """On an STM32N6 the non-secure address of a memory is the same memory."""
        address = secure(address) if self.has_npu else address
        return next((memory for memory in self.memories if memory.base <= address < memory.end), None)

    def data_places(self) -> tuple[tuple[int, int], ...]:
        """Where a firmware without display may keep its data, the usual place first: start and end of each."""
        own = [area for area in self.areas_of(APPLICATION) if area.linker and self._is_ram(area.memory)]
        taken = {area.memory for area in own}
        others = [m for kind in (CPU_RAM, "ram", "dtcm") for m in self.of_kind(kind) if m.name not in taken]
        roomy = [m for m in others if APPLICATION in m.users and m.size_bytes >= _LEAST_DATA]
        buffers = self.area(USER_BUFFERS)
        places = [*((area.base, area.end) for area in own), *((m.base, m.end) for m in roomy)]
        if buffers is None:
            return tuple(places)
        return tuple((start, min(end, buffers.base) if start < buffers.base < end else end) for start, end in places)

    def _is_ram(self, name: str) -> bool:
        memory = self.memory(name)
        return memory is not None and memory.kind in (CPU_RAM, "ram", "dtcm")

    def areas_of(self, user: str) -> tuple[MemoryArea, ...]:
        return tuple(area for area in self.areas if area.user == user)

    def area(self, name: str) -> MemoryArea | None:
        return next((area for area in self.areas if area.name == name), None)

    def of_kind(self, *kinds: str) -> tuple[Memory, ...]:
        return tuple(memory for memory in self.memories if memory.kind in kinds)

    def pool_set(self, name: str = DEFAULT_SET) -> PoolSet:
        """Finds a set of pools: as the file has it, else one of those that follow from the default."""
        self.require_npu()
        if name in self.pool_sets:
            return self.pool_sets[name]
        if name not in _DERIVED:
            rule = f"the board has {', '.join(self.set_names)}"
            remedy = did_you_mean(name, self.set_names, "take one of these")
            raise InputError(f"no pool set {name[:60]!r}", where=self.file or self.name, rule=rule, remedy=remedy)
        default = self.pool_sets[DEFAULT_SET]
        pools = tuple(pool for pool in default.pools if self._kind(pool) in _DERIVED[name])
        if not any(pool.writable for pool in pools):
            raise InputError(
                f"pool set {name!r} has no memory that may be written",
                where=self.file or self.name,
                remedy="choose another set or profile",
            )
        return replace(default, name=name, title=f"of the default: {name}", pools=pools)

    @property
    def set_names(self) -> tuple[str, ...]:
        return (*self.pool_sets, *(name for name in _DERIVED if name not in self.pool_sets))

    def _kind(self, pool: MemoryPool) -> str:
        memory = self.memory_at(pool.base)
        return memory.kind if memory else ""

    def machine(self) -> Machine:
        """The chip at the clocks of this board and with its external memories."""
        chip = stm32n6()
        speeds = {f"{m.kind}_mb_per_s": m.mb_per_s for m in self.of_kind(*_EXTERNAL) if m.mb_per_s}
        inside = tuple(bank for bank in chip.memories if not bank.external)
        outside = tuple(_bank(memory) for memory in self.of_kind(*_EXTERNAL))
        return replace(chip.with_clocks(**self.clocks, **speeds), memories=(*inside, *outside))


def _bank(memory: Memory) -> MemoryBank:
    return MemoryBank(
        memory.name,
        memory.kind,
        memory.base,
        memory.size_bytes,
        memory.byte_width,
        memory.freq_ratio,
        memory.latency,
    )


MAX_BYTES = 1 << 18
MAX_ITEMS = 64  # tables, or entries of a list
MAX_TEXT = 160
MAX_NUMBER = 1 << 40
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d{1,12})\s?([KMG]?)i?B?", re.ASCII)
_HEADER = re.compile(r"^\s*(\[\[?)\s*([\w.\"'-]+)\s*\]\]?")
_KEY = re.compile(r"^\s*([\w.-]+)\s*=")

KeyPath = tuple[str | int, ...]


def parse_toml(text: str, file: str) -> TomlTable:
    """The whole file as a table."""
    try:
        data = read_toml(text)
    except (ValueError, RecursionError) as error:
        remedy = next((fix for begins, fix in _SYNTAX.items() if str(error).startswith(begins)), "write key = value")
        line, key = _statement(text, str(error))
        where = f"{file}, line {line}" + (f", {plain(key)}" if key else "")
        what = "nested too deeply" if isinstance(error, RecursionError) else plain(str(error))[:200]
        raise InputError(f"not TOML: {what}", where=where, remedy=remedy) from None
    return TomlTable(data, (), file, _lines(text))


# how the parser's message begins -> what to do
_SYNTAX = {
    "Invalid value": 'texts stand in "quotes"; numbers, true and false do not',
    "Cannot": "say each key and each [table] once; begin every entry of a list with two brackets: [[network]]",
    "Illegal character": "close the quotes in their own line, and write \\n for a new line",
    "Un": "close the quotes or the bracket, and write \\\\ for a backslash",
    "Expected newline": 'one key = value a line; what is no number, such as "100K", stands in quotes',
    "Expected ']": "a table is [name], an entry of a list [[name]]",
    "maximum recursion": "write plain lists and tables",
}
_AT_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_MOST_LINES = 40  # of one statement that is looked for


def _statement(text: str, message: str) -> tuple[int, str]:
    """The line where the statement begins that cannot be read, and its key; an open list is noticed lines later."""
    lines = text.split("\n")
    found = _AT_LINE.search(message)
    noticed = int(found[1]) if found else len(text.rstrip().split("\n"))
    for line in range(noticed, max(0, noticed - _MOST_LINES), -1):
        try:
            read_toml("\n".join(lines[: line - 1]))
        except (ValueError, RecursionError):
            continue
        begun = re.match(r"[\s\[]*([\w.-]+)", lines[line - 1])
        return line, begun[1] if begun else ""
    return noticed, ""


def _lines(text: str) -> dict[KeyPath, int]:
    """Where keys and tables begin, as far as lines tell; the parser itself does not say."""
    found: dict[KeyPath, int] = {(): 1}  # what the file lacks is told at its beginning
    counts: dict[str, int] = {}
    inside: KeyPath = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            name = header[2].replace('"', "").replace("'", "")
            first, *others = name.split(".")
            inside = (first, counts[first] - 1, *others) if first in counts and others else (first, *others)
            found.setdefault(inside, number)
            if header[1] == "[[":
                inside = (*inside, counts.get(name, 0))
                counts[name] = counts.get(name, 0) + 1
            found.setdefault(inside, number)
        elif key := _KEY.match(line):
            found.setdefault((*inside, *key[1].split(".")), number)
    return found


class TomlTable:
    """One table of the file; `finish` refuses keys that are not known."""

    def __init__(self, data: dict[str, Any], path: KeyPath, file: str, lines: dict[KeyPath, int]) -> None:
        self.data, self.path, self.file, self._lines = data, path, file, lines

    def where(self, key: str = "") -> str:
        path = (*self.path, *key.split(".")) if key else self.path
        line = next((self._lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self._lines), 0)
        at = f", line {line}" if line else ""
        named = self.data.get("name")
        of = f" {named[:60]!r}" if isinstance(named, str) and self.path else ""
        table = ".".join(str(part) for part in self.path if isinstance(part, str))
        return f"{self.file}{at}{', ' + plain(table) if table else ''}{plain(of)}" + (f", {plain(key)}" if key else "")

    def wrong(self, key: str, what: str, rule: str = "", remedy: str = "") -> InputError:
        return InputError(what, where=self.where(key), rule=rule, remedy=remedy)

    def has(self, key: str) -> bool:
        return key in self.data

    def text(self, key: str, choices: Iterable[str] = ()) -> str:
        value = self._value(key, str, "a text", '"text"')
        allowed = tuple(choices)
        if len(value) > MAX_TEXT or not value.isprintable() or not value.strip():
            rule = f"a text has 1 to {MAX_TEXT} printable characters"
            raise self.wrong(key, f"not a printable text: {value[:40]!r}", rule, "write another text")
        if allowed and value not in allowed:
            remedy = did_you_mean(value, allowed, f'write {key} = "{allowed[0]}", or another of these')
            raise self.wrong(key, f"{value[:40]!r} is not known", f"allowed are: {', '.join(allowed)}", remedy)
        return str(value)

    def texts(self, key: str, choices: Iterable[str]) -> tuple[str, ...]:
        items, allowed = self._value(key, list, "a list", '["text"]'), tuple(choices)
        bad = [item for item in items if item not in allowed]
        if bad or len(items) > MAX_ITEMS:
            raise self.wrong(key, f"{str(bad[:1])[:60]} is not known", rule=f"allowed are: {', '.join(allowed)}")
        return tuple(items)

    def flag(self, key: str) -> bool:
        return bool(self._value(key, bool, "true or false", "true"))

    def number(self, key: str, low: float, high: float) -> float:
        value: float = self._value(key, (int, float), "a number", f"{min(max(low, 1), high):g}")
        if not low <= value <= high:
            remedy = f"write a number from {low:g} to {high:g}"
            raise self.wrong(key, f"{str(value)[:40]} is out of range", remedy=remedy)
        return value  # whole numbers stay whole, so that reports show them as written

    def size(self, key: str) -> int:
        """Bytes: a number, or a text such as "448K" or "16M"."""
        value = self._value(key, (int, str), "a number or a text such as 448K", '"448K"')
        if isinstance(value, str):
            match = _SIZE.fullmatch(value.strip())
            if match is None:
                remedy = 'write a whole number of bytes, without quotes, or "448K", "16M", "1G"'
                raise self.wrong(key, f"{value[:40]!r} is not a size", remedy=remedy)
            value = int(match[1]) * _UNITS[match[2]]
        if not 0 <= value < MAX_NUMBER:
            remedy = f"write 0 to {MAX_NUMBER - 1:#x} bytes"
            raise self.wrong(key, f"{str(self.data[key])[:40]} is out of range", remedy=remedy)
        return int(value)

    def table(self, key: str) -> TomlTable:
        return TomlTable(self._value(key, dict, "a table", "{ ... }"), (*self.path, key), self.file, self._lines)

    def tables(self, key: str) -> list[TomlTable]:
        """`[[key]]`, or nothing."""
        if not self.has(key):
            return []
        items = self.data[key]
        if not isinstance(items, list) or len(items) > MAX_ITEMS or not all(isinstance(item, dict) for item in items):
            remedy = f"begin every entry with a line [[{key}]]"
            raise self.wrong(key, f"{str(items)[:40]!r} is not a list of at most {MAX_ITEMS} tables", remedy=remedy)
        return [TomlTable(item, (*self.path, key, index), self.file, self._lines) for index, item in enumerate(items)]

    def mixed(self, key: str) -> list[str | TomlTable]:
        """A list of names and inline tables."""
        items = self._value(key, list, "a list", '["text"]')
        if len(items) > MAX_ITEMS or not all(isinstance(item, (str, dict)) for item in items):
            raise self.wrong(key, f"not a list of at most {MAX_ITEMS} names or tables")
        path = (*self.path, key)
        return [TomlTable(item, path, self.file, self._lines) if isinstance(item, dict) else item for item in items]

    def entries(self) -> list[str]:
        if len(self.data) > MAX_ITEMS:
            raise self.wrong("", f"more than {MAX_ITEMS} entries")
        return list(self.data)

    def finish(self, allowed: Iterable[str], elsewhere: Mapping[str, str] | None = None) -> None:
        """A mistyped key must not be taken as absent. `elsewhere`: keys of other tables, and what to say of them."""
        known = tuple(allowed)
        for key in self.data:
            if key not in known:
                remedy = (elsewhere or {}).get(key) or did_you_mean(key, known, "leave it out, or take a known one")
                raise self.wrong(str(key)[:60], "unknown key", f"known are: {', '.join(known)}", remedy)

    def _value(self, key: str, kind: type | tuple[type, ...], called: str, example: str) -> Any:
        if key not in self.data:
            raise self.wrong(key, f"lacks {key}", remedy=f"write {key} = {example}")
        value = self.data[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"{str(value)[:40]!r} is not {called}", remedy=f"write {key} = {example}")
        return value


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
    if memory.size_bytes and not memory.base <= base < memory.end:
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
