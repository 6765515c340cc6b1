"""Which spelling an application expects, read off its own sources."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from atonc.delivery.deploy.app_config.types import CURRENT, ZOO
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError

_OLD = b"AI_OBJDETECT_"  # how names of the post-processing began before the wrapper got a file per model
_MOST_FILES, _MOST_BYTES = 20_000, 4 << 20


def dialect_of(project: Path) -> str:
    """Sources that use the old names want all of that time; every other application wants those of today."""
    return ZOO if any(_OLD in read_file(path, _MOST_BYTES) for path in _sources(project)) else CURRENT


def _sources(project: Path) -> Iterator[Path]:
    for number, path in enumerate(sorted(project.rglob("*postprocess*.c"))):
        if number >= _MOST_FILES:
            raise InputError("has too many files", where=str(project), remedy="say --dialect zoo or current")
        if path.is_file():
            yield path
