"""Tables in Markdown, and the mean that their ratios have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator


def row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def head(*columns: str) -> tuple[str, str]:
    """Two lines; a column whose name begins with `>` is of figures and stands to the right."""
    rule = "".join("|---:" if name.startswith(">") else "|---" for name in columns)
    return row(name.removeprefix(">") for name in columns), f"{rule}|"


def table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    yield from head(*columns)
    yield from map(row, rows)


def in_a_cell(text: object, most: int = 200) -> str:
    """A sentence that would break the table: on one line, without bars, cut."""
    return " ".join(str(text).split())[:most].replace("|", "/")


def short(name: str, most: int = 60) -> str:
    """Shortens a long name to both its ends."""
    return name if len(name) < most else f"{name[: most // 3]}...{name[-most // 3 :]}"


def geometric_mean(ratios: Iterable[float]) -> float:
    """1 where there is nothing to compare."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0
