"""`atonc board check`: a linked image against pools, networks and the board."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from atonc.delivery.boards import spans
from atonc.delivery.boards.elf_map import read_elf_map
from atonc.delivery.boards.overlaps import OverlapFinding, find_overlaps
from atonc.delivery.boards.spans import Span
from atonc.machine.base.errors import plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.board import Board
from atonc.machine.hw.mpool import read_mpool


@dataclass(frozen=True)
class CheckRequest:
    board: Board
    pool_set: str
    images: tuple[Path, ...] = ()
    pool_files: tuple[Path, ...] = ()
    networks: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Checked:
    board: str
    spans: tuple[Span, ...]
    findings: tuple[OverlapFinding, ...]

    @property
    def wrong(self) -> tuple[OverlapFinding, ...]:
        return tuple(finding for finding in self.findings if not finding.note)

    def as_dict(self) -> dict[str, Any]:
        rows = [{"what": s.what, "kind": s.kind.value, "start": s.start, "end": s.end} for s in self.spans]
        found = [finding.as_dict() for finding in self.findings]
        return {"board": self.board, "ok": not self.wrong, "spans": rows, "findings": found}


def check(asked: CheckRequest) -> Checked:
    """Pools are those of the files; without files, what the networks use; without both, the board's set."""
    board, found = asked.board, list[Span]()
    for path in asked.images:
        found += spans.of_elf(read_elf_map(path), board)
    for name, path in zip(_names(asked.pool_files), asked.pool_files, strict=True):
        found += spans.of_pools(read_mpool(path).usable, name, board)
    for folder in asked.networks:
        found += spans.of_network(folder, board)
    if not asked.pool_files and not asked.networks and board.has_npu:
        found += spans.of_pools(board.pool_set(asked.pool_set).pools, f"{asked.pool_set}@{board.name}", board)
    found += spans.of_board(board)
    return Checked(board.title, tuple(sorted(found, key=lambda s: (s.start, s.end))), find_overlaps(found, board))


def _names(paths: Sequence[Path]) -> list[str]:
    """File names; with the folder where two are called the same."""
    names = [path.name for path in paths]
    return [plain(p.name if names.count(p.name) == 1 else f"{p.parent.name}/{p.name}") for p in paths]
