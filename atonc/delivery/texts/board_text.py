"""Boards as text: which there are, what one has, and what `board check` found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from atonc.delivery.boards.checking import Checked
from atonc.insight.report.document import Mark, SummaryRow, next_row, summary_lines
from atonc.machine.base.words import count
from atonc.machine.hw.board import Board
from atonc.machine.hw.mpool import MemoryPool

_UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"))


def list_lines(boards: Iterable[Board]) -> list[str]:
    rows = [(board.name, board.title, _clocks(board), _external(board)) for board in boards]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    out = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows]
    last = next_row("atonc board show NAME; your own board: docs/boards.md")
    return [*out, *summary_lines((SummaryRow("in all", count(len(rows), "board")), last))]


def show_lines(board: Board) -> list[str]:
    rows = (
        SummaryRow("clocks", _clocks(board)),
        SummaryRow("memory", _external(board) or "none outside the chip"),
        SummaryRow("pool sets", ", ".join(board.pool_sets) or "none"),
        next_row(f"atonc generate MODEL --board {board.name}") if board.has_npu else None,
    )
    head = f"{board.title} ({board.name}), {board.machine_name}, {_clocks(board)}"
    return [head, *_parts(board), *summary_lines(rows)]


def as_dict(board: Board) -> dict[str, Any]:
    return {
        "name": board.name,
        "title": board.title,
        "machine": board.machine_name,
        "file": board.file,
        "clocks": dict(board.clocks),
        "memories": [vars(memory) for memory in board.memories],
        "areas": [vars(area) for area in board.areas],
        "pools": {name: [vars(pool) for pool in found.pools] for name, found in board.pool_sets.items()},
    }


def _parts(board: Board) -> Iterator[str]:
    yield ""
    yield "memories"
    for memory in board.memories:
        speed = f", {memory.mb_per_s:g} MB/s" if memory.mb_per_s else ""
        yield f"  {_range(memory.base, memory.end)}  {memory.name:<10} {memory.kind}{speed}: {', '.join(memory.users)}"
    yield ""
    yield "areas"
    for area in board.areas:
        region = f", linker region {area.linker}" if area.linker else ""
        boot = ", until the application runs" if area.at_boot else ""
        yield f"  {_range(area.base, area.end)}  {area.name}: {area.user}{boot}{region}"
    for found in board.pool_sets.values():
        yield ""
        yield f"pool set {found.name}: {found.title}"
        yield from (f"  {_pool(pool, pool.name in found.past_end)}" for pool in found.pools)


def _pool(pool: MemoryPool, past_end: bool) -> str:
    words = [] if pool.writable else ["constants only"]
    words += ["constants first"] if pool.writable and pool.constants_preferred else []
    words += ["larger than the memory"] if past_end else []
    return f"{_range(pool.base, pool.base + pool.size_bytes)}  {pool.name}" + (f": {', '.join(words)}" if words else "")


def _range(start: int, end: int) -> str:
    return f"{start:#010x} to {max(start, end - 1):#010x}  {size(end - start):>9}"


def size(count: int) -> str:
    return next((f"{count // unit} {word}" for unit, word in _UNITS if count and count % unit == 0), f"{count} B")


def _clocks(board: Board) -> str:
    npu = f"NPU {board.clocks['npu_mhz']:g} MHz, " if board.has_npu else "no NPU, "
    return f"{npu}CPU {board.clocks['cpu_mhz']:g} MHz"


def _external(board: Board) -> str:
    outside = board.of_kind("flash", "hyperram", "sdram")
    return ", ".join(f"{memory.name} {size(memory.size_bytes)}" for memory in outside) or "no external memory"


def check_lines(found: Checked, verbose: bool = False) -> list[str]:
    said = []
    if verbose:
        said = [f"{s.start:#010x} to {s.end - 1:#010x}  {s.end - s.start:>11,}  {s.what}" for s in found.spans]
    for finding in found.findings:
        word = "note" if finding.note else "OVERLAP"
        said.append(
            f"{word}: {finding.first} and {finding.second} share {finding.start:#010x} to {finding.end - 1:#010x} "
            f"({finding.shared_bytes:,} bytes). What to do: {finding.fix}."
        )
    wrong = len(found.wrong)
    said_of = (count(wrong, "overlap"), Mark.ALARM) if wrong else ("no overlaps", Mark.GOOD)
    verdict = SummaryRow("verdict", *said_of)
    checked = SummaryRow("checked", f"{count(len(found.spans), 'range')} against {found.board}")
    step = next_row(found.wrong[0].fix if wrong else "flash it; atonc board run FIRMWARE.elf runs it here")
    return [*said, *summary_lines((checked, verdict, step))]
