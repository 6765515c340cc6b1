"""Ways to damage bytes and texts."""

from __future__ import annotations

import random
import re
import struct
from typing import Any

INTEGERS = (0, 1, 2, 7, 255, 256, 65_535, 65_537, 1 << 20, 1 << 24, (1 << 31) - 1, -1, -2, -128, -(1 << 31))
REALS = (0.0, -0.0, -1.0, float("nan"), float("inf"), 1e-45, 1e-12, 1e38, 0.5, 3.0)
VALUES: tuple[Any, ...] = (
    *("0", "-1", "1", "0.5", "1e308", "1e400", "NaN", "-Infinity", "18446744073709551616", "9" * 400, "null", "true"),
    *('""', '"x"', '"0x"', '"\\u001b[2J"', '"../../x"', "[]", "{}", "[[[[]]]]", '{"a": []}', '"MBYTES"', "4294967295"),
)  # fmt: skip
_NUMBER = re.compile(r"-?\b\d+(?:\.\d+)?\b|\"[^\"\n]*\"|\btrue\b|\bfalse\b")


def damaged_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flipped, cut, doubled, exchanged; half of it near the start, where headers are."""
    raw = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        if not raw:
            break
        place = rng.randrange(min(len(raw), 128) if rng.random() < 0.3 else len(raw))
        _WAYS[rng.randrange(len(_WAYS))](raw, place, rng)
    return bytes(raw)


def _flip(raw: bytearray, place: int, rng: random.Random) -> None:
    raw[place] ^= 1 << rng.randrange(8)


def _byte(raw: bytearray, place: int, rng: random.Random) -> None:
    raw[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])


def _word(raw: bytearray, place: int, rng: random.Random) -> None:
    """A number where one may be: files of models keep theirs at multiples of four."""
    place &= ~3
    value = struct.pack("<i", rng.choice(INTEGERS)) if rng.random() < 0.7 else struct.pack("<f", rng.choice(REALS))
    raw[place : place + 4] = value[: len(raw) - place]


def _step(raw: bytearray, place: int, rng: random.Random) -> None:
    raw[place] = (raw[place] + rng.choice([1, -1, 4, -4])) & 0xFF


def _cut(raw: bytearray, place: int, rng: random.Random) -> None:
    if rng.random() < 0.3:
        del raw[place:]


def _drop(raw: bytearray, place: int, rng: random.Random) -> None:
    del raw[place : place + rng.choice([1, 4, 8, 200])]


def _double(raw: bytearray, place: int, rng: random.Random) -> None:
    raw[place:place] = raw[place : place + rng.choice([1, 4, 8, 200])]


def _swap(raw: bytearray, place: int, rng: random.Random) -> None:
    other = rng.randrange(len(raw)) & ~3
    place &= ~3
    if place + 4 <= len(raw) and other + 4 <= len(raw):
        raw[place : place + 4], raw[other : other + 4] = raw[other : other + 4], raw[place : place + 4]


_WAYS = (_flip, _flip, _byte, _word, _word, _word, _step, _cut, _drop, _double, _swap)


def damaged_values(text: str, rng: random.Random) -> str:
    """Numbers and strings of a JSON or C text exchanged for others."""
    for _ in range(rng.choice([1, 1, 2, 4])):
        spots = list(_NUMBER.finditer(text))
        if not spots:
            break
        spot = rng.choice(spots)
        new = rng.choice(VALUES) if rng.random() < 0.7 else rng.choice(spots)[0]
        text = text[: spot.start()] + new + text[spot.end() :]
    return text
