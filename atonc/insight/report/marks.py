"""Lines that know what they are: who makes a line says what matters in it, a terminal only picks the colour."""

from __future__ import annotations

from enum import StrEnum

PLAIN_HANG = 2  # columns that the rest of a long line is indented by, beside the indent of the line


class Mark(StrEnum):
    ALARM = "alarm"  # what costs most and should not be, what failed
    DOUBT = "doubt"  # a note, or how far a figure may be off
    GOOD = "good"  # what was checked and holds
    REMEDY = "remedy"
    RULE = "rule"  # the name of a rule
    HEAD = "head"  # the words that begin a section
    PLACE = "place"  # where a layer runs
    ON_CPU = "on the CPU"


class Marked(str):
    """A line with parts of it marked; wherever else it goes it is plain text."""

    spans: tuple[tuple[Mark, int, int], ...]
    hang: int  # columns before whatever does not fit on the first line

    def __new__(cls, mark: Mark, part: str, before: str = "", after: str = "") -> Marked:
        return cls.of((before, None), (part, mark), (after, None))

    @classmethod
    def of(cls, *parts: tuple[str, Mark | None], hang: int | None = None) -> Marked:
        line = super().__new__(cls, "".join(text for text, _ in parts))
        spans, start = [], 0
        for text, mark in parts:
            spans += [(mark, start, start + len(text))] if mark is not None and text else []
            start += len(text)
        line.spans, line.hang = tuple(spans), usual_hang(line) if hang is None else hang
        return line


def usual_hang(line: str) -> int:
    return len(line) - len(line.lstrip()) + PLAIN_HANG


def note(text: str, indent: str = "") -> Marked:
    return Marked(Mark.DOUBT, f"{indent}note: {text}")


def head(words: str, rest: str = "") -> Marked:
    return Marked(Mark.HEAD, words, after=rest)
