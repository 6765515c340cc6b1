"""TOML of strangers: typed access with limits, unknown keys refused by name, and the line in every error."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable
from typing import Any

from atonc.machine.base.errors import InputError, plain

MAX_BYTES = 1 << 18
MAX_ITEMS = 64  # tables, or entries of a list
MAX_TEXT = 160
MAX_NUMBER = 1 << 40
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d{1,12})\s?([KMG]?)i?B?", re.ASCII)
_HEADER = re.compile(r"^\s*(\[\[?)\s*([\w.\"'-]+)\s*\]\]?")
_KEY = re.compile(r"^\s*([\w-]+)\s*=")

Path = tuple[str | int, ...]


def parse_toml(text: str, file: str) -> TomlTable:
    """The whole file as a table."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        what = "nested too deeply" if isinstance(error, RecursionError) else plain(str(error))[:200]
        raise InputError(f"not TOML: {what}", where=file) from None
    return TomlTable(data, (), file, _lines(text))


def _lines(text: str) -> dict[Path, int]:
    """Where keys and tables begin, as far as lines tell; the parser itself does not say."""
    found: dict[Path, int] = {}
    counts: dict[str, int] = {}
    inside: Path = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            name = header[2].replace('"', "").replace("'", "")
            inside = tuple(name.split("."))
            if header[1] == "[[":
                inside = (name, counts.get(name, 0))
                counts[name] = counts.get(name, 0) + 1
            found.setdefault(inside, number)
        elif key := _KEY.match(line):
            found.setdefault((*inside, key[1]), number)
    return found


class TomlTable:
    """One table of the file; `finish` refuses keys that are not known."""

    def __init__(self, data: dict[str, Any], path: Path, file: str, lines: dict[Path, int]) -> None:
        self.data, self.path, self.file, self._lines = data, path, file, lines

    def where(self, key: str = "") -> str:
        path = (*self.path, key) if key else self.path
        line = next((self._lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self._lines), 0)
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
        value = self._value(key, str, "a text")
        allowed = tuple(choices)
        if len(value) > MAX_TEXT or not value.isprintable() or not value.strip():
            raise self.wrong(key, f"not a printable text of 1 to {MAX_TEXT} characters")
        if allowed and value not in allowed:
            raise self.wrong(key, f"{value[:40]!r} is not known", rule=f"allowed are: {', '.join(allowed)}")
        return str(value)

    def texts(self, key: str, choices: Iterable[str]) -> tuple[str, ...]:
        items, allowed = self._value(key, list, "a list"), tuple(choices)
        bad = [item for item in items if item not in allowed]
        if bad or len(items) > MAX_ITEMS:
            raise self.wrong(key, f"{str(bad[:1])[:60]} is not known", rule=f"allowed are: {', '.join(allowed)}")
        return tuple(items)

    def flag(self, key: str) -> bool:
        return bool(self._value(key, bool, "true or false"))

    def number(self, key: str, low: float, high: float) -> float:
        value: float = self._value(key, (int, float), "a number")
        if not low <= value <= high:
            raise self.wrong(key, f"{str(value)[:40]} is out of range", rule=f"from {low:g} to {high:g}")
        return value  # whole numbers stay whole, so that reports show them as written

    def size(self, key: str) -> int:
        """Bytes: a number, or a text such as "448K" or "16M"."""
        value = self._value(key, (int, str), "a number or a text such as 448K")
        if isinstance(value, str):
            match = _SIZE.fullmatch(value.strip())
            if match is None:
                raise self.wrong(key, f"{value[:40]!r} is not a size", rule='a number of bytes, or "448K", "16M"')
            value = int(match[1]) * _UNITS[match[2]]
        if not 0 <= value < MAX_NUMBER:
            raise self.wrong(key, f"{value:#x} is out of range", rule=f"0 to {MAX_NUMBER - 1:#x}")
        return int(value)

    def table(self, key: str) -> TomlTable:
        return TomlTable(self._value(key, dict, "a table"), (*self.path, key), self.file, self._lines)

    def tables(self, key: str) -> list[TomlTable]:
        """`[[key]]`, or nothing."""
        if not self.has(key):
            return []
        items = self._value(key, list, "a list of tables")
        if len(items) > MAX_ITEMS or not all(isinstance(item, dict) for item in items):
            raise self.wrong(key, f"not a list of at most {MAX_ITEMS} tables")
        return [TomlTable(item, (*self.path, key, index), self.file, self._lines) for index, item in enumerate(items)]

    def mixed(self, key: str) -> list[str | TomlTable]:
        """A list of names and inline tables."""
        items = self._value(key, list, "a list")
        if len(items) > MAX_ITEMS or not all(isinstance(item, (str, dict)) for item in items):
            raise self.wrong(key, f"not a list of at most {MAX_ITEMS} names or tables")
        path = (*self.path, key)
        return [TomlTable(item, path, self.file, self._lines) if isinstance(item, dict) else item for item in items]

    def entries(self) -> list[str]:
        if len(self.data) > MAX_ITEMS:
            raise self.wrong("", f"more than {MAX_ITEMS} entries")
        return list(self.data)

    def finish(self, allowed: Iterable[str]) -> None:
        """A mistyped key must not be taken as absent."""
        known = tuple(allowed)
        for key in self.data:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                remedy = f"did you mean {near[0]}?" if near else ""
                raise self.wrong(str(key)[:60], "unknown key", rule=f"known are: {', '.join(known)}", remedy=remedy)

    def _value(self, key: str, kind: type | tuple[type, ...], called: str) -> Any:
        if key not in self.data:
            raise self.wrong("", f"lacks {key}")
        value = self.data[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.wrong(key, f"{str(value)[:40]!r} is not {called}")
        return value
