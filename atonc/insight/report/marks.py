"""Lines that know what they are: who makes a line says what matters in it, a terminal only picks the colour."""

from __future__ import annotations

from enum import StrEnum


class Mark(StrEnum):
    ALARM = "alarm"  # what costs most and should not be
    DOUBT = "doubt"  # a note, or how far a figure may be off
    REMEDY = "remedy"
    RULE = "rule"  # the name of a rule
    HEAD = "head"  # the words that begin a section
    PLACE = "place"  # where a layer runs
    ON_CPU = "on the CPU"


class Marked(str):
    """A line with one part of it marked; wherever else it goes it is plain text."""

    mark: Mark
    start: int
    end: int

    def __new__(cls, mark: Mark, part: str, before: str = "", after: str = "") -> Marked:
        line = super().__new__(cls, f"{before}{part}{after}")
        line.mark, line.start, line.end = mark, len(before), len(before) + len(part)
        return line


def note(text: str, indent: str = "") -> Marked:
    return Marked(Mark.DOUBT, f"{indent}note: {text}")


def head(words: str, rest: str = "") -> Marked:
    return Marked(Mark.HEAD, words, after=rest)
