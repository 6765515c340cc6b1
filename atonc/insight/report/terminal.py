"""Lines for people: plain text, and the same text in colour where it goes to a terminal.

Colour only marks what the words already say, so nothing is lost in a pipe, in a file or for people who see no colours.
`NO_COLOR` and dumb terminals are respected; `rich` is loaded only when it is needed.

Progress is one line that is redrawn. Its first word comes before `rich` is loaded: people wait less when they see
something.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

from atonc.insight.report.document import Mark, Marked, usual_hang
from atonc.machine.base import progress
from atonc.machine.base.errors import plain

_STYLES = {
    Mark.ALARM: "bold red",
    Mark.DOUBT: "yellow",
    Mark.GOOD: "green",
    Mark.REMEDY: "green",
    Mark.RULE: "bold cyan",
    Mark.HEAD: "bold",
    Mark.PLACE: "bold",
    Mark.ON_CPU: "yellow",
    Mark.COMMAND: "green",
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
    """All that is printed meanwhile is plain; what goes to a closed stream (`>&-`) goes nowhere."""
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout, sys.stderr = (cast(TextIO, PlainStream(stream or nowhere)) for stream in before)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def for_colours(stream: TextIO) -> TextIO:
    """The stream itself, for what makes its colours out of plain text."""
    return stream.stream if isinstance(stream, PlainStream) else stream


def show(lines: Iterable[str], stream: TextIO | None = None, width: int = 0) -> None:
    """Prints: long lines are cut between words where the width is known (or given), and a terminal gets colours."""
    target = stream or sys.stdout
    width = columns(target) or width
    pieces = [piece for line in lines for piece in _pieces(line, width)]
    if not coloured(target):
        for piece in pieces:
            print(piece, file=target)
        target.flush()  # a long step may follow
        return
    from rich.console import Console
    from rich.text import Text

    for pause in _PAUSES:
        pause()
    console = Console(file=for_colours(target), highlight=False, soft_wrap=True)
    for piece in pieces:
        text = Text(piece)
        for mark, start, end in piece.spans if isinstance(piece, Marked) else ():
            text.stylize(_STYLES[mark], start, end)
        console.print(text)


def show_paged(lines: Iterable[str]) -> None:
    """As `show`; on a terminal page by page, with the program of PAGER."""
    from pydoc import pager

    if sys.stdout.isatty():
        pager("\n".join(piece for line in lines for piece in _pieces(line, columns(sys.stdout))))
    else:
        show(lines)


def columns(stream: TextIO) -> int:
    """How wide lines may be; 0: as they come, as in a file or a pipe, unless COLUMNS says how wide the output is."""
    from shutil import get_terminal_size

    asked = stream is sys.stdout and os.environ.get("COLUMNS")
    return get_terminal_size().columns if asked or stream.isatty() else 0


def _pieces(line: str, width: int) -> Iterator[str]:
    """A line cut between words; a command and a word that is longer than the line stay whole."""
    clean = plain(line)
    marked = line if isinstance(line, Marked) and clean == line else None  # one with escaped characters loses its marks
    hang = marked.hang if marked is not None else usual_hang(clean)
    start, indent = 0, ""
    whole = max((b for m, _, b in (marked.spans if marked is not None else ()) if m == Mark.COMMAND), default=0)
    for end in _cuts("x" * whole + clean[whole:], width, hang):
        text = clean[start:end]
        spans = [(m, a - start, b - start) for m, a, b in (marked.spans if marked is not None else ()) if a < end]
        spans = [(m, max(a, 0), min(b, len(text))) for m, a, b in spans if b > 0]
        yield _marked(indent, text, spans) if spans else f"{indent}{text}"
        start = end + len(clean[end:]) - len(clean[end:].lstrip())
        indent = " " * hang


def _cuts(line: str, width: int, hang: int) -> Iterator[int]:
    """Where its pieces end."""
    start, room = 0, width
    while width and len(line) - start > room:
        first = len(line) - len(line[start:].lstrip())  # leading blanks are no place to cut
        end = line.rfind(" ", first, start + room + 1)
        end = end if end > first else line.find(" ", start + room)
        if end < 0 or not line[end:].strip():
            break
        yield end
        start, room = end + len(line[end:]) - len(line[end:].lstrip()), max(width - hang, width // 2)
    yield len(line)


def _marked(indent: str, text: str, spans: Sequence[tuple[Mark, int, int]]) -> Marked:
    parts: list[tuple[str, Mark | None]] = [(indent, None)]
    done = 0
    for mark, start, end in spans:
        parts += [(text[done:start], None), (text[start:end], mark)]
        done = end
    return Marked.of(*parts, (text[done:], None))


def coloured(stream: TextIO | None = None) -> bool:
    terminal = (stream or sys.stdout).isatty()
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") != "dumb"


FIRST = "starting"
NOTEBOOK_SECONDS = 2.0  # shorter work is done before anybody looks for a bar


class Bar:
    """One line that is redrawn; it goes away when anything else is printed, and when the work is done."""

    def __init__(self, console: Any) -> None:
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self.shown = Progress(*columns, console=console, transient=True, refresh_per_second=5,
                              redirect_stdout=False, redirect_stderr=False)  # fmt: skip
        self.task = self.shown.add_task(FIRST, total=None)
        self.title, self.live = FIRST, False

    def start(self) -> None:
        if not self.live:
            self.live = True
            self.shown.start()

    def stop(self) -> None:
        if self.live:
            self.live = False
            self.shown.stop()

    def update(self, title: str, done: int, total: int) -> None:
        self.start()
        if title != self.title:
            self.title = title
            self.shown.update(self.task, description=title, completed=0, total=None)
        self.shown.update(self.task, completed=done, total=total or None)


@contextmanager
def on_terminal(silent: bool) -> Iterator[None]:
    """Shows what `progress.stage` says on standard error, if that is a terminal."""
    if silent or not sys.stderr.isatty() or os.environ.get("TERM", "") == "dumb":
        yield
        return
    stream = for_colours(sys.stderr)
    print(f"{FIRST} ...", end="\r", file=stream, flush=True)  # loading the bar takes longer than this
    from rich.console import Console

    bar = Bar(Console(file=stream))
    print("\x1b[2K", end="", file=stream)
    bar.start()
    with progress.watching(bar.update), pauses(bar.stop):
        try:
            yield
        finally:
            bar.stop()


@contextmanager
def in_notebook() -> Iterator[None]:
    """The same under the cell of a notebook, once the work takes a while; nothing elsewhere or if somebody watches."""
    if progress.is_watched() or "ipykernel" not in sys.modules:
        yield
        return
    from rich.console import Console

    bar: list[Bar] = []
    started, owner = time.monotonic(), threading.get_ident()

    def update(title: str, done: int, total: int) -> None:
        if threading.get_ident() == owner and time.monotonic() - started > NOTEBOOK_SECONDS:
            if not bar:
                bar.append(Bar(Console()))  # rich finds out that it is in a notebook
            bar[0].update(title, done, total)

    with progress.watching(update):
        try:
            yield
        finally:
            for shown in bar:
                shown.stop()
