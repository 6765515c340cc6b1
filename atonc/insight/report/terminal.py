"""Lines for people: plain text, and the same text in colour where it goes to a terminal.

Colour only marks what the words already say, so nothing is lost in a pipe, in a file or for people who see no colours.
`NO_COLOR` and dumb terminals are respected; `rich` is loaded only when it is needed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from atonc.insight.report.marks import Mark, Marked
from atonc.machine.base.errors import plain

_STYLES = {
    Mark.ALARM: "bold red",
    Mark.DOUBT: "yellow",
    Mark.REMEDY: "green",
    Mark.RULE: "bold cyan",
    Mark.HEAD: "bold",
    Mark.PLACE: "bold",
    Mark.ON_CPU: "yellow",
}


_PAUSES: list[Callable[[], None]] = []  # what else is on the screen and must go before anything is printed


@contextmanager
def pauses(pause: Callable[[], None]) -> Iterator[None]:
    """Meanwhile `pause` is called before anything is printed."""
    _PAUSES.append(pause)
    try:
        yield
    finally:
        _PAUSES.remove(pause)


class PlainStream:
    """Standard output or error as names of strangers may reach it: printable, and in the encoding that is there."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        for pause in _PAUSES:
            pause()
        encoding = self.stream.encoding or "utf-8"
        lines = "\n".join(map(plain, text.split("\n")))
        self.stream.write(lines.encode(encoding, "backslashreplace").decode(encoding))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def plain_streams() -> Iterator[None]:
    """All that is printed meanwhile is plain."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, PlainStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def for_colours(stream: TextIO) -> TextIO:
    """The stream itself, for what makes its colours out of plain text."""
    return stream.stream if isinstance(stream, PlainStream) else stream


def show(lines: Iterable[str]) -> None:
    """Prints; in colour on a terminal only."""
    if not coloured():
        for line in lines:
            print(plain(line))
        return
    from rich.console import Console
    from rich.text import Text

    for pause in _PAUSES:
        pause()
    console = Console(file=for_colours(sys.stdout), highlight=False, soft_wrap=True)
    for line in map(plain, lines):
        text = Text(line)
        if isinstance(line, Marked):  # one with escaped characters in it stays without
            text.stylize(_STYLES[line.mark], line.start, line.end)
        console.print(text)


def coloured() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM", "") != "dumb"
