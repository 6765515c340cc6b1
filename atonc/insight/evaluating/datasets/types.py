"""What a data set is to the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from atonc.machine.base.frozen import dataclass

MOST_SAMPLES = 1_000_000


@dataclass(frozen=True)
class DatasetEntry:
    """One sample: a picture, or a row of an array file. `truth` is plain JSON: what the metric compares with."""

    name: str
    file: Path
    row: int | None = None  # of the arrays; None: a picture
    truth: Any = None
    size: tuple[int, int] | None = None  # width, height of the picture


@dataclass(frozen=True)
class Dataset:
    kind: str  # classes, coco, arrays
    entries: tuple[DatasetEntry, ...]
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    coco: Mapping[str, Any] = field(default_factory=dict)  # the annotations, where there are some

    @property
    def labelled(self) -> bool:
        return any(entry.truth is not None for entry in self.entries)
