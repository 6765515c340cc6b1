"""Reads the regions of a linker script: names, addresses and sizes of its MEMORY command, and symbols they use."""

from __future__ import annotations

import re
from pathlib import Path

from atonc.machine.base.disk import read_text
from atonc.machine.base.errors import InputError, plain
from atonc.machine.base.frozen import dataclass

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
