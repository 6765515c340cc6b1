"""Edits of C files that keep everything else: bytes, line ends, comments, what people wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence

from atonc.machine.base.errors import InputError

START = b"/*** @GENERATED CODE START - DO NOT TOUCH@ ***/"
STOP = b"/*** @GENERATED CODE STOP - DO NOT TOUCH@ ***/"


def line_end(data: bytes) -> bytes:
    """Finds the line end that most lines of the file have."""
    return b"\r\n" if data.count(b"\r\n") * 2 > data.count(b"\n") else b"\n"


def replace_generated(data: bytes, lines: Sequence[str], where: str) -> bytes:
    """What stands between the two marks; they stay."""
    start, stop = (_line_of(data, mark, where) for mark in (START, STOP))
    if stop[0] < start[1]:
        raise _refused("the mark of the end of generated code stands before that of its start", where)
    end = line_end(data)
    return data[: start[1]] + b"".join(line.encode() + end for line in lines) + data[stop[0] :]


def _line_of(data: bytes, mark: bytes, where: str) -> tuple[int, int]:
    """Where the line with the mark begins and ends."""
    found = list(re.finditer(rb"^[ \t]*" + re.escape(mark) + rb"[ \t]*(?:\r?\n|\Z)", data, re.MULTILINE))
    if len(found) != 1:
        count = "no line" if not found else f"{len(found)} lines"
        raise _refused(f"{count} with the mark {mark.decode()}", where)
    return found[0].start(), found[0].end()


def set_define(data: bytes, name: str, value: str, where: str) -> bytes:
    """The value of a macro, wherever it is defined; a comment behind it stays."""
    pattern = rb"^([ \t]*#[ \t]*define[ \t]+" + name.encode() + rb")[ \t]+[^\r\n]*?([ \t]*(?://|/\*)[^\r\n]*)?(?=\r?$)"
    changed, count = re.subn(pattern, rb"\g<1> " + value.encode() + rb"\2", data, flags=re.MULTILINE)
    if not count:
        raise _refused(f"#define {name} is not there", where)
    return changed


def set_section(data: bytes, variable: str, memory: str, where: str) -> bytes:
    """The memory at the end of the name of a variable's section."""
    pattern = rb'(__attribute__\s*\(\(\s*section\s*\(\s*"\.' + variable.encode() + rb"_)\w+"
    changed, count = re.subn(pattern, rb"\g<1>" + memory.encode(), data)
    if not count:
        raise _refused(f"no section attribute of {variable}", where)
    return changed


def _refused(what: str, where: str) -> InputError:
    remedy = "take the file from the application as published, and put your changes outside the generated parts"
    return InputError(f"{what}; nothing was changed", where=where, remedy=remedy)
