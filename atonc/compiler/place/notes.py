"""What the user should know about where things lie."""

from __future__ import annotations

from collections.abc import Iterator

from atonc.compiler.place.pools import BoardMemory
from atonc.compiler.place.types import Layout


def placement_notes(layout: Layout, board: BoardMemory) -> Iterator[str]:
    for pool in board.pools:
        start, end = board.application_from.get(pool.name, 0), pool.base + pool.size_bytes
        inside = [h for h in layout.placed.values() if not h.user_allocated and pool.base <= h.address < end]
        reached = max((home.end for home in inside), default=0)
        if start and reached > start:
            yield (
                f"{pool.name} is used up to {reached:#x}, but ST's applications for this board keep their frame "
                f"buffers from {start:#x} on: move these, or take a smaller network or input"
            )
        if not pool.absolute and inside:
            yield (f"{pool.name} is of relative mode in the pool file; the program takes {pool.base:#x} as its address")
