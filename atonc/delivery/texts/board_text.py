"""Boards: which there are, what one has, what `board check` found, and how a firmware ended on the virtual board."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from atonc.delivery.boards.checking import Checked
from atonc.insight.report.document import Block, Chapter, Column, Document, Mark, SummaryRow, Table, next_row
from atonc.machine.base.words import count
from atonc.machine.hw.board import Board
from atonc.machine.hw.mpool import MemoryPool

if TYPE_CHECKING:
    from atonc.delivery.trials.board_running import BoardRunEnd

_UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"))
BOARDS = (
    Column[Board]("name", lambda board: board.name, left=True),
    Column[Board]("board", lambda board: board.title, left=True),
    Column[Board]("clocks", lambda board: _clocks(board), left=True),
    Column[Board]("external memory", lambda board: _external(board), left=True),
)
Stretch = tuple[int, int, str]  # of memory: start, end, what is there
STRETCHES = (
    Column[Stretch]("from", lambda one: f"{one[0]:#010x} to {max(one[0], one[1] - 1):#010x}"),
    Column[Stretch]("size", lambda one: size(one[1] - one[0]), width=9),
    Column[Stretch]("what", lambda one: one[2], left=True),
)


def listing(boards: Sequence[Board]) -> Document:
    last = next_row("atonc board show NAME; your own board: docs/boards.md")
    return Document(
        sections=[Chapter("", [Table(BOARDS, boards, "Boards", indent=0)])],
        summary=(SummaryRow("in all", count(len(boards), "board")), last),
        data=lambda: {"boards": [as_dict(board) for board in boards]},
    )


def document(board: Board) -> Document:
    rows = (
        SummaryRow("clocks", _clocks(board)),
        SummaryRow("memory", _external(board) or "none outside the chip"),
        SummaryRow("pool sets", ", ".join(board.pool_sets) or "none"),
        next_row(f"atonc generate MODEL --board {board.name}") if board.has_npu else None,
    )
    return Document(sections=list(_chapters(board)), summary=rows, data=lambda: as_dict(board))


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


def _chapters(board: Board) -> Iterator[Chapter]:
    yield Chapter("", [f"{board.title} ({board.name}), {board.machine_name}, {_clocks(board)}"])
    memories, areas = list[Stretch](), list[Stretch]()
    for memory in board.memories:
        speed = f", {memory.mb_per_s:g} MB/s" if memory.mb_per_s else ""
        said = f"{memory.name:<10} {memory.kind}{speed}: {', '.join(memory.users)}"
        memories.append((memory.base, memory.end, said))
    for area in board.areas:
        region = f", linker region {area.linker}" if area.linker else ""
        boot = ", until the application runs" if area.at_boot else ""
        others = [one.name for one in board.areas if one is not area and (one.base, one.end) == (area.base, area.end)]
        instead = f", in place of the {others[0]}" if others else ""
        areas.append((area.base, area.end, f"{area.name}: {area.user}{boot}{region}{instead}"))
    yield Chapter("memories", [Table(STRETCHES, memories, "Memories")])
    yield Chapter("areas", [Table(STRETCHES, areas, "Areas")])
    for found in board.pool_sets.values():
        pools = [(p.base, p.base + p.size_bytes, _pool(p, p.name in found.past_end)) for p in found.pools]
        yield Chapter(f"pool set {found.name}: {found.title}", [Table(STRETCHES, pools, "Pools")])


def _pool(pool: MemoryPool, past_end: bool) -> str:
    words = [] if pool.writable else ["constants only"]
    words += ["constants first"] if pool.writable and pool.constants_preferred else []
    words += ["larger than the memory"] if past_end else []
    return f"{pool.name}: {', '.join(words)}" if words else pool.name


def size(count: int) -> str:
    return next((f"{count // unit} {word}" for unit, word in _UNITS if count and count % unit == 0), f"{count} B")


def _clocks(board: Board) -> str:
    npu = f"NPU {board.clocks['npu_mhz']:g} MHz, " if board.has_npu else "no NPU, "
    return f"{npu}CPU {board.clocks['cpu_mhz']:g} MHz"


def _external(board: Board) -> str:
    outside = board.of_kind("flash", "hyperram", "sdram")
    return ", ".join(f"{memory.name} {size(memory.size_bytes)}" for memory in outside) or "no external memory"


def checked(found: Checked, verbose: bool = False) -> Document:
    said: list[Block] = []
    if verbose:
        said += [f"{s.start:#010x} to {s.end - 1:#010x}  {s.end - s.start:>11,}  {s.what}" for s in found.spans]
    for finding in found.findings:
        word = "note" if finding.note else "OVERLAP"
        said.append(
            f"{word}: {finding.first} and {finding.second} share {finding.start:#010x} to {finding.end - 1:#010x} "
            f"({finding.shared_bytes:,} bytes). Fix: {finding.fix}."
        )
    wrong = len(found.wrong)
    said_of = (count(wrong, "overlap"), Mark.ALARM) if wrong else ("no overlaps", Mark.GOOD)
    rows = (
        SummaryRow("checked", f"{count(len(found.spans), 'range')} against {found.board}"),
        SummaryRow("verdict", *said_of),
        next_row(found.wrong[0].fix if wrong else "flash it; atonc board run FIRMWARE.elf runs it here"),
    )
    return Document(sections=[Chapter("", said)], summary=rows, data=found.as_dict)


def served(found: BoardRunEnd) -> Document:
    """How a firmware ended that ran here, and what its display shows."""
    rows = (
        SummaryRow("ended", found.reason + (f" {found.number:#x}" if found.reason == "bkpt" else "")),
        SummaryRow("ran", f"{count(found.instructions, 'instruction')}, {count(found.epochs, 'epoch')} of the NPU"),
        SummaryRow("UART", f"{count(found.received, 'byte')} in, {count(found.sent, 'byte')} out"),
    )
    return Document(sections=[Chapter("", list(found.picture))], summary=rows, data=lambda: asdict(found))
