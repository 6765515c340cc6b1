"""A unit of work; the key by which its result is known: everything that the result depends on, hashed; a function by
its name, and what calling it gave; and results by key, one file each: whole or not there."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from atonc.compiler.frontends.limits import data_files
from atonc.machine.base import errors
from atonc.machine.base.about import __version__, package_folder
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import AtoncError, InputError, InternalError, ToolError
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


Function = Callable[[WorkUnit], bytes]
Answer = tuple[dict[str, Any], bytes]  # {} and the result, or {"error": ...} and nothing


def name_of(function: Function | str) -> str:
    """`module:function`, which another process can find."""
    if isinstance(function, str):
        return function
    module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    if not name.isidentifier() or module in ("", "__main__"):
        raise InputError(f"workers cannot find {name or function!r}", remedy="give a function of an importable module")
    return f"{module}:{name}"


def find(name: str) -> Function:
    module, _, attribute = name.partition(":")
    try:
        found: Function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"workers cannot find {name}: {error}") from None
    return found


def answer(function: str, document: Mapping[str, Any], version: str) -> Answer:
    """Never raises: whatever went wrong is part of the answer."""
    try:
        if version != code_version():
            raise ToolError(
                f"a worker has atonc {code_version()}, here is {version}",
                remedy="install the same version of atonc and of its packages on every machine",
            )
        result = find(function)(from_document(document))
        if not isinstance(result, bytes):
            raise InternalError(f"{function} gave {type(result).__name__}, not bytes")
        return {}, result
    except AtoncError as error:
        return {"error": error.as_dict()}, b""
    except MemoryError:
        return {"error": ToolError("needs more memory than there is", where=str(document["title"])).as_dict()}, b""
    except Exception as error:
        what = f"atonc itself failed: {type(error).__name__}: {str(error)[:300]}"
        return {"error": InternalError(what, where=str(document["title"])).as_dict()}, b""


def as_error(words: Mapping[str, Any]) -> AtoncError:
    """The error of an answer, of its own kind where it is one of ours."""
    kind = getattr(errors, str(words["kind"]), None)
    known = kind if isinstance(kind, type) and issubclass(kind, AtoncError) else AtoncError
    error = known(words["what"], where=words["where"], rule=words["rule"], remedy=words["remedy"])
    error.details = tuple(words.get("details", ()))
    error.exit_code = int(words["exit_code"])
    return error


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
