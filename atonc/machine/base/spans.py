"""Spans of addresses: the first one, and the first one behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Span = tuple[int, int]


def gaps(span: Span, taken: Iterable[Span], alignment: int = 1) -> Iterator[Span]:
    """What is free of a span; what is taken comes in order, and counts up to the next multiple of `alignment`."""
    cursor, stop = span
    for start, end in taken:
        if start < stop and end > cursor:
            if start > cursor:
                yield cursor, start
            cursor = max(cursor, -(-end // alignment) * alignment)
    if cursor < stop:
        yield cursor, stop
