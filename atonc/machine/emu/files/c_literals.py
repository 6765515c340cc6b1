"""Literals and operators of C on Python numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import lru_cache

from atonc.machine.emu.files.types import CValue


@lru_cache(maxsize=65536)
def number(text: str) -> int | float | None:
    """A C number literal, a sign in front allowed; None if it is not one."""
    if text[:1] in ("-", "+"):
        value = _unsigned(text[1:].strip())
        return -value if value is not None and text[0] == "-" else value
    return _unsigned(text)


def _unsigned(text: str) -> int | float | None:
    match = _LITERAL.fullmatch(text)
    if match is None:
        return None
    if match["hex"]:
        return int(match["hex"], 16)
    if match["binary"]:
        return int(match["binary"], 2)
    if match["octal"]:
        return int(match["octal"], 8)
    if match["decimal"]:
        return int(match["decimal"])
    try:
        return float.fromhex(match["hexfloat"]) if match["hexfloat"] else float(match["float"])
    except (ValueError, OverflowError):  # no digits, or beyond what a double holds
        return None


_LITERAL = re.compile(
    r"(?:0[xX](?P<hex>[0-9a-fA-F]{1,16})|0[bB](?P<binary>[01]{1,64})|(?P<octal>0[0-7]{0,22})|(?P<decimal>[1-9]\d{0,19}))"
    r"[uUlL]{0,3}"
    r"|(?P<hexfloat>0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][-+]?\d{1,4})[fFlL]?"
    r"|(?P<float>(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d{1,4})?)[fFlL]?"
)
_FLAT = re.compile(r"\{[-+0-9.,eEf\s]*\}")
_SINGLE = re.compile(r"(?<=\d)f\b")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "\\": "\\", "'": "'"}
NARROW = {
    "short": (16, True), "int16_t": (16, True), "uint16_t": (16, False), "unsigned short": (16, False),
    "int8_t": (8, True), "uint8_t": (8, False), "char": (8, True), "unsigned char": (8, False),
    "int32_t": (32, True), "uint32_t": (32, False), "int": (32, True), "unsigned int": (32, False),
    "unsigned": (32, False),
}  # fmt: skip
SIZES = {"float": 4, "double": 8, "long": 4, "uint64_t": 8, "int64_t": 8} | {k: b // 8 for k, (b, _) in NARROW.items()}


def _divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


BINARY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": _divide, "%": lambda a, b: a - b * _divide(a, b),
    "|": lambda a, b: a | b, "&": lambda a, b: a & b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << b, ">>": lambda a, b: a >> b,
    "==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b), "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b), "<=": lambda a, b: int(a <= b), ">=": lambda a, b: int(a >= b),
    "&&": lambda a, b: int(bool(a) and bool(b)), "||": lambda a, b: int(bool(a) or bool(b)),
}  # fmt: skip


def flat_list(text: str) -> list[CValue] | None:
    """A brace list of plain numbers, quickly; None if it is anything else."""
    if len(text) >= 16 and not _FLAT.fullmatch(text):
        return None
    inner = text.strip()[1:-1].rstrip().removesuffix(",")
    plain = _SINGLE.sub("", inner)
    try:
        values = json.loads(f"[{plain}]")
    except (ValueError, RecursionError):
        return None
    kinds = set(map(type, values))
    if not kinds <= {float} and not (kinds <= {float, int} and len(plain) == len(inner)):
        return None  # something that is no number, or an integer with the suffix of a float
    return None if int in kinds and max(map(abs, values)) >= 1 << 64 else values


def unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[1]), text)
