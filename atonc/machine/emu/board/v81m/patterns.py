"""Instruction encodings as the architecture manual draws them: 0, 1, and letters for fields.

Blanks are for the eye. A letter that stands in several places is one field, most significant bit first; `.` is a bit
that nobody looks at. The first pattern of a table that fits is the instruction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from atonc.machine.base.frozen import dataclass

WIDTH = 32


@dataclass(frozen=True)
class Instruction:
    """An instruction of 32 bits: its name and the contents of its fields."""

    name: str
    word: int
    fields: dict[str, int] = field(default_factory=dict)

    def __getitem__(self, letter: str) -> int:
        return self.fields[letter]


@dataclass(frozen=True)
class Pattern:
    name: str
    mask: int
    value: int
    fields: tuple[tuple[str, tuple[int, ...]], ...]  # letter, positions of its bits, most significant first

    def read(self, word: int) -> Instruction:
        return Instruction(self.name, word, {letter: gather(word, bits) for letter, bits in self.fields})


def gather(word: int, positions: tuple[int, ...]) -> int:
    value = 0
    for position in positions:
        value = value << 1 | word >> position & 1
    return value


def pattern(name: str, drawing: str) -> Pattern:
    drawn = drawing.replace(" ", "")
    if len(drawn) != WIDTH:
        raise ValueError(f"{name}: {len(drawn)} bits")
    mask = value = 0
    fields: dict[str, list[int]] = {}
    for position, character in zip(range(WIDTH - 1, -1, -1), drawn, strict=True):
        if character in "01":
            mask |= 1 << position
            value |= int(character) << position
        elif character != ".":
            fields.setdefault(character, []).append(position)
    return Pattern(name, mask, value, tuple((letter, tuple(bits)) for letter, bits in fields.items()))


class PatternTable:
    """Finds the instruction that a word is; words that were seen once are remembered."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self._by_byte: dict[int, list[Pattern]] = {}
        for entry in patterns:
            for byte in range(256):
                if (byte << 24 ^ entry.value) & entry.mask & 0xFF00_0000 == 0:
                    self._by_byte.setdefault(byte, []).append(entry)
        self._known: dict[int, Instruction | None] = {}

    def find(self, word: int) -> Instruction | None:
        if word not in self._known:
            fits = (p for p in self._by_byte.get(word >> 24, ()) if word & p.mask == p.value)
            first = next(fits, None)
            self._known[word] = None if first is None else first.read(word)
        return self._known[word]
