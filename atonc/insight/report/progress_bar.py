"""Progress for people: stage, share and elapsed time, on terminals and in notebooks.

The first word comes before `rich` is loaded: people wait less when they see something.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from atonc.insight.report.terminal import for_colours, pauses
from atonc.machine.base import progress

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
