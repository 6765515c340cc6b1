"""Records by name, written as they come: a long run may be stopped, and goes on where it was."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

Record = dict[str, Any]
HOME = Path(tempfile.gettempdir())  # of what is only kept for the next run


def read(file: Path | None) -> dict[str, Any]:
    """A JSON file of records; none where there is no such file."""
    return dict(json.loads(file.read_text())) if file is not None and file.is_file() else {}


def read_lines(file: Path | None) -> list[Record]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file is not None and file.is_file() else []


def write(file: Path, records: Any, indent: int | None = 1) -> None:
    """Whole or not at all: what was kept before stays when the process ends here."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.part")
    partial.write_text(json.dumps(records, indent=indent) + "\n")
    partial.replace(file)


class Kept(dict[str, Any]):
    """The records of one file, all written again after each new one."""

    def __init__(self, file: Path | None, fresh: bool = False) -> None:
        super().__init__({} if fresh else read(file))
        self.file = file

    def of(self, name: str, make: Callable[[], Any]) -> Any:
        """The record of this name, made now if there is none."""
        if name not in self:
            self[name] = make()
            self.add(name)
            print(name, file=sys.stderr, flush=True)
        return self[name]

    def add(self, name: str) -> None:
        if self.file is not None:
            write(self.file, self)


class KeptLines(Kept):
    """One line a record, `{name: record}`: several processes may add to the file."""

    def __init__(self, file: Path | None, fresh: bool = False) -> None:
        super().__init__(None)
        self.file = file
        for line in [] if fresh else read_lines(file):
            self.update(line)

    def add(self, name: str) -> None:
        if self.file is not None:
            append(self.file, {name: self[name]})


def append(file: Path | None, record: Record) -> None:
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps(record) + "\n")


def in_folder(folder: Path, name: str, make: Callable[[], Any], fresh: bool = False) -> Any:
    """One file a record, so that shards share a folder."""
    file = folder / f"{name}.json"
    if fresh or not file.is_file():
        write(file, make(), indent=None)
        print(folder.name, name, file=sys.stderr, flush=True)
    return json.loads(file.read_text())
