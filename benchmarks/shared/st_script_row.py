"""One line of the table of ST's scripts: which script of which repository called us, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    repository: str
    commit: str
    script: str
    called: str
    result: str
    passed: bool
