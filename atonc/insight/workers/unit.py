"""A unit of work, and the key by which its result is known: everything that the result depends on, hashed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import field
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from atonc.compiler.frontends.limits import data_files
from atonc.machine.base.about import __version__, package_folder
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

# packages whose numbers end up in results
_PACKAGES = ("numpy", "onnx", "onnxruntime", "ai-edge-litert", "pillow")
_CHUNK = 1 << 20


@dataclass(frozen=True)
class WorkUnit:
    """What to compute: a pure function of the bytes of `files` and of `options`, which are plain JSON values.

    The title is for people. A result must not depend on it, nor on where the files are: only their contents and their
    last suffix count.
    """

    title: str
    files: tuple[Path, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def digests(self) -> tuple[str, ...]:
        return tuple(digest(path) for path in self.files)

    def key(self, function: str, digests: tuple[str, ...]) -> str:
        suffixes = [path.suffix.lower() for path in self.files]
        return _hashed([code_version(), function, suffixes, list(digests), dict(self.options)])

    def as_document(self, digests: tuple[str, ...]) -> dict[str, Any]:
        """Gives the unit as it travels to a worker."""
        files = [os.path.abspath(path) for path in self.files]
        return {"title": self.title, "files": files, "options": dict(self.options), "digests": list(digests)}


def from_document(document: Mapping[str, Any]) -> WorkUnit:
    """The unit, if the files here are those that it was made of."""
    unit = WorkUnit(document["title"], tuple(map(Path, document["files"])), document["options"])
    for path, wanted in zip(unit.files, document["digests"], strict=True):
        if digest(path) != wanted:
            raise InputError(
                "is not the file that the work began with",
                where=str(path),
                remedy="leave files alone meanwhile; all machines must see the same files at the same place",
            )
    return unit


def digest(path: Path) -> str:
    """SHA-256 of a file, and of what it keeps in files beside it; read once as long as nobody writes to it."""
    beside = data_files(path)
    return _hashed([_one_digest(file) for file in (path, *beside)]) if beside else _one_digest(path)


def _one_digest(path: Path) -> str:
    try:
        state = os.stat(path)
        return _digest(os.path.abspath(path), state.st_size, state.st_mtime_ns)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=str(path)) from None


@lru_cache(maxsize=1 << 16)
def _digest(path: str, size_bytes: int, changed: int) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_CHUNK):
            found.update(block)
    return found.hexdigest()


@cache
def code_version() -> str:
    """Identifies everything that computes: a change of any line of ours invalidates earlier results."""
    package = package_folder()
    sources = sorted(path for path in package.rglob("*") if path.suffix in (".py", ".toml", ".json"))
    found = [[path.relative_to(package).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()] for path in sources]
    return f"{__version__}-{_hashed([found, [_version(name) for name in _PACKAGES]])[:16]}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _hashed(value: Any) -> str:
    try:
        text = json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"options of a unit of work must be plain JSON values: {error}") from None
    return hashlib.sha256(text.encode()).hexdigest()
