"""Finds networks compiled by ST among files fetched from public repositories.

`ST_SETS.csv` (in the corpus) says which files make up one compilation, as `owner/name[@commit]:path`; the fetched
folder holds them as `owner+name[@commit]/path`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shared.corpus import asked_for, corpus_dir

_CELL = re.compile(r"([\w.-]+)/([\w.-]+)(@[\w.~^-]+)?:(.+)")


@dataclass(frozen=True)
class Compilation:
    model: str
    tool: str
    epoch_controller: bool
    verified_pair: bool  # program and weights are known to belong together
    model_file: Path | None
    network_c: Path | None
    ecblobs: Path | None
    weights: tuple[Path, ...]
    c_info: tuple[Path, ...]
    trace: Path | None

    @property
    def title(self) -> str:
        return f"{self.model} {self.tool}{'' if self.epoch_controller else ' (no EC)'}"


def complete(fetched: Path, only: Sequence[str]) -> list[Compilation]:
    """One compilation per title with all its files; weights known to match, or (4.0.0) of the right size."""
    with (corpus_dir() / "ST_SETS.csv").open(newline="") as file:
        items = [_row(row, fetched) for row in csv.DictReader(file)]
    chosen: dict[str, Compilation] = {}
    for item in items:
        files = item.network_c and item.weights and (item.ecblobs or not item.epoch_controller)
        if files and asked_for(only, item.title) and (item.verified_pair or item.tool == "4.0.0"):
            chosen.setdefault(item.title, item)
    return list(chosen.values())


def _row(row: dict[str, str], fetched: Path) -> Compilation:
    def paths(column: str) -> tuple[Path, ...]:
        found = (_path(cell, fetched) for cell in (row[column] or "").split(";"))
        return tuple(p for p in found if p is not None)

    def one(column: str) -> Path | None:
        return next(iter(paths(column)), None)

    local_model = corpus_dir() / "models"
    model_file = one("model_file") or next(iter(sorted(local_model.glob(row["model"] + ".*"))), None)
    return Compilation(
        row["model"],
        row["tool"],
        row["EC"] == "True",
        row["weights_check"] == "True",
        model_file,
        one("network_c"),
        one("ecblobs"),
        paths("weights"),
        paths("c_info"),
        one("trace"),
    )


def _path(cell: str, fetched: Path) -> Path | None:
    match = _CELL.fullmatch(cell.strip())
    if match is None:
        return None
    owner, name, commit, path = match.groups()
    found = fetched / f"{owner}+{name}{commit or ''}" / path
    return found if found.is_file() else None
