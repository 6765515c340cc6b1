"""Results by key, one file each: whole or not there. A file that is not what was written counts as not there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from atonc.machine.base.disk import write_file
from atonc.machine.base.frozen import dataclass

_MARK = "atonc result 1"


@dataclass(frozen=True)
class Cache:
    folder: Path

    def get(self, key: str) -> bytes | None:
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        head, _, result = content.partition(b"\n")
        return result if head == _head(key, result) else None

    def put(self, key: str, result: bytes) -> None:
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, _head(key, result) + b"\n" + result)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key


def _head(key: str, result: bytes) -> bytes:
    return f"{_MARK} {key} {hashlib.sha256(result).hexdigest()}".encode()


def default_folder() -> Path:
    """Where results are kept unless the user says another place."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "atonc" / "results"
