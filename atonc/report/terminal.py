"""Lines for people: plain text, and the same text in colour where it goes to a terminal.

Colour only marks what the words already say, so nothing is lost in a pipe, in a file or for people who see no colours.
`NO_COLOR` and dumb terminals are respected; `rich` is loaded only when it is needed.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

_HEAD = "bold"
# first match wins; groups are coloured, the rest stays as it is
_STYLES = (
    (re.compile(r"^(SPILL:.*)$"), "bold red"),
    (re.compile(r"^(expected error of the prediction:.*|note:.*|\s+note:.*)$"), "yellow"),
    (re.compile(r"^\s+(what to do:.*)$"), "green"),
    (re.compile(r"^\s+((?:BOUND|MODE|CPU|CONV|POOL|MEAN|MOVE|RESIZE|TABLE)-[A-Z0-9-]+)"), "bold cyan"),
    (
        re.compile(r"^(model |memory on |latency |CPU:|coverage:|quantised:|verification:|peak of memory:|epochs$)"),
        _HEAD,
    ),
    (re.compile(r"^\S+ .*: (NPU|CPU|HYBRID), epoch"), "bold"),
    (re.compile(r"^\s+\d+ (cpu) "), "yellow"),
    (re.compile(r"(what would help, each tried:)"), _HEAD),
)


def show(lines: Iterable[str]) -> None:
    """Prints; in colour on a terminal only."""
    if not coloured():
        for line in lines:
            print(line)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        text = Text(line)
        for found, style in styles(line):
            text.stylize(style, *found)
        console.print(text)


def coloured() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM", "") != "dumb"


def styles(line: str) -> list[tuple[tuple[int, int], str]]:
    """Spans of a line with their style."""
    for pattern, style in _STYLES:
        match = pattern.search(line)
        if match:
            return [(match.span(1), style)]
    return []
