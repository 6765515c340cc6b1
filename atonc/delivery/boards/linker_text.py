"""The linker fragment of a board: the regions of its application, and every other range as symbols and assertions.

    INCLUDE board.ld

in front of SECTIONS gives the regions to the application's own script; what belongs to networks, loader and flash map
is there as symbols, so that code and later scripts need not repeat an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from atonc.machine.hw.board import APPLICATION, DISPLAY, Board, MemoryArea, PoolSet
from atonc.machine.hw.mpool import MemoryPool

_UNSAFE = re.compile(r"\W+", re.ASCII)


def linker_text(board: Board, set_name: str) -> str:
    pools = board.pool_set(set_name) if board.has_npu else PoolSet("none", "", ())
    return "\n".join(_lines(board, pools)) + "\n"


def symbol(text: str) -> str:
    return _UNSAFE.sub("_", text.strip()).strip("_").lower()


def regions(board: Board) -> tuple[MemoryArea, ...]:
    """What an application may fill."""
    return tuple(area for area in board.areas if area.linker and area.user in (APPLICATION, DISPLAY))


def _lines(board: Board, pools: PoolSet) -> Iterator[str]:
    of_pools = f", pool set {pools.name}" if board.has_npu else ""
    title = board.title.replace("*", "-")  # nothing in it may end the comment
    yield f"/* {title}{of_pools}: written by atonc, change the board file instead."
    yield " * INCLUDE this file in front of SECTIONS. */"
    yield ""
    yield "MEMORY"
    yield "{"
    width = max((len(area.linker) for area in regions(board)), default=0)
    for area in regions(board):
        region = f"{area.linker:<{width}} ({area.attributes})"
        yield f"  {region} : ORIGIN = {area.base:#010x}, LENGTH = {_length(area.size_bytes)}  /* {area.name} */"
    yield "}"
    yield ""
    for area in board.areas:
        yield from _range(f"board_{symbol(area.name)}", area.base, area.end, f"{area.name}: {area.user}")
    yield ""
    for pool in pools.pools:
        end = pool.base + pool.size_bytes
        yield from _range(f"board_pool_{symbol(pool.symbol)}", pool.base, end, f"pool {pool.name}")
    yield ""
    for area in regions(board):
        for pool in pools.pools:
            if pool.size_bytes and area.base < pool.base + pool.size_bytes and pool.base < area.end:
                yield from _assertion(area, pool)


def _range(name: str, start: int, end: int, comment: str) -> Iterator[str]:
    yield f"PROVIDE(_{name}_start = {start:#010x}); PROVIDE(_{name}_end = {end:#010x});  /* {comment} */"


def _assertion(area: MemoryArea, pool: MemoryPool) -> Iterator[str]:
    """Where a pool reaches into a region of the application, linking still works; the reader is told to look."""
    low, high = max(area.base, pool.base), min(area.end, pool.base + pool.size_bytes)
    yield f"/* pool {pool.name} and region {area.linker} share {low:#010x} to {high - 1:#010x}:"
    yield " * run `atonc board check` on the linked image, with --network for what is really used. */"


def _length(size: int) -> str:
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)
