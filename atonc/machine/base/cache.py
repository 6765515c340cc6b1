"""What a former run worked out, from files of the user's cache folder.

What is kept is the result of a function of values: its key is a digest of everything that it depends on, the source of
this package and the versions below it included. So a result is right or not found, and leaving the cache out changes
nothing but the time. Each result is a file of plain values (`base.content`) with its key and its own digest; it
is written whole and renamed. A file that is damaged, cut off or of somebody else counts as none, and so does a folder
that cannot be read or written.

A digest shows damage, not malice: who may write to the folder of a user can change what this user's programs say, here
as in any cache of a compiler. Nothing in a file is executed, and no path comes from one.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from atonc.machine.base.about import package_folder
from atonc.machine.base.content import BadValueError, NoContentError, digest, packed, unpacked
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

T = TypeVar("T")
VARIABLE, OFF = "ATONC_CACHE_DIR", "off"  # of the environment: another folder, or none
MOST_BYTES = 1 << 26  # of one result
MOST_FOLDER_BYTES, MOST_FILES = 1 << 28, 20_000
_ROOM_LEFT = 0.75  # of both, when the oldest have gone
_PARTS = ("atonc", "results")  # below a folder that others write to as well
_ENDING, _BEGINNING = ".result", ".new-"
_OWN_NAME = re.compile(rf"([0-9a-f]{{64}}){_ENDING}|{re.escape(_BEGINNING)}[a-z0-9_]{{8}}", re.ASCII)  # as `save` gives
_LOST_SECONDS = 3600  # a file that nobody has renamed for so long is left over from a run that was ended


@dataclass
class ResultStore:
    """The folder of one run, and how often it helped."""

    folder: Path
    found: set[str] = field(default_factory=set)  # keys of results of former runs that were used
    written: set[str] = field(default_factory=set)

    def load(self, key: str, known: tuple[object, ...] = ()) -> Any:
        """KeyError where there is no such result. `known`: what `save` was told."""
        path = self.folder / f"{key}{_ENDING}"
        if not path.is_file():
            raise KeyError(key)
        try:
            content = read_file(path, MOST_BYTES)
            head, body = content[:128], memoryview(content)[128:]
            if head != _head(key, body):
                raise KeyError(key)
            value = unpacked(body, known)
        except (InputError, BadValueError):
            raise KeyError(key) from None
        with suppress(OSError):
            os.utime(path)  # those that nobody needs go first
        return value

    def save(self, key: str, value: Any, known: tuple[object, ...] = ()) -> None:
        """`known`: whoever loads it has these; they are referred to."""
        try:
            body = packed(value, known)
        except NoContentError:
            return
        if len(body) + 128 > MOST_BYTES:
            return
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(prefix=_BEGINNING, dir=self.folder)
            try:
                with open(handle, "wb") as file:
                    file.write(_head(key, body) + body)
                os.replace(name, self.folder / f"{key}{_ENDING}")
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
            self.written.add(key)

    def shrink(self) -> None:
        """The oldest go until there is room for others; what this cache has not written neither counts nor goes."""
        with suppress(OSError):
            own = [entry for entry in os.scandir(self.folder) if _OWN_NAME.fullmatch(entry.name)]
            now = [(entry.stat(), entry) for entry in own if entry.is_file(follow_symlinks=False)]
            now.sort(key=lambda one: one[0].st_mtime)
            size, count = sum(stat.st_size for stat, _ in now), len(now)
            newest = now[-1][0].st_mtime if now else 0.0
            full = size > MOST_FOLDER_BYTES or count > MOST_FILES
            for stat, entry in now:
                lost = entry.name.startswith(_BEGINNING) and stat.st_mtime < newest - _LOST_SECONDS
                over = size > _ROOM_LEFT * MOST_FOLDER_BYTES or count > _ROOM_LEFT * MOST_FILES
                if lost or (full and over and _is_result(Path(entry.path))):
                    with suppress(FileNotFoundError):  # another run was faster
                        os.unlink(entry.path)
                    size, count = size - stat.st_size, count - 1


_CACHE: ContextVar[ResultStore | None] = ContextVar("cache", default=None)


@contextmanager
def used(wanted: bool = True) -> Iterator[ResultStore | None]:
    """Results are kept and found again meanwhile, unless the user or the environment says no."""
    cache = _CACHE.get() if wanted else None
    if cache is not None:  # whoever called uses it already
        yield cache
        return
    home = folder() if wanted else None
    cache = ResultStore(home) if home else None
    before = _CACHE.set(cache)
    try:
        yield cache
    finally:
        _CACHE.reset(before)
        if cache and cache.written:
            cache.shrink()


def key_of(*values: object) -> str:
    """The key of a function's result by its values, the first of which says what it is; nothing where no results are
    kept, or where it cannot be told what a value holds."""
    if _CACHE.get() is None:
        return ""
    try:
        return digest(_source(), *values)
    except NoContentError:
        return ""


def remembered(
    key: str,
    work: Callable[[], T],
    kind: type[T],
    known: tuple[object, ...] = (),
    kept: Callable[[T], T] = lambda result: result,
) -> T:
    """What `work` gives, or gave in a former run. `known`: values that are a part of the key, and that the result may
    refer to; `kept`: what to keep of it."""
    cache = _CACHE.get()
    if cache is None or not key:
        return work()
    try:
        found = cache.load(key, known)
    except KeyError:
        found = None
    if not isinstance(found, kind):
        result = work()
        cache.save(key, kept(result), known)
        return result
    if key not in cache.written:
        cache.found.add(key)
    return found


def folder() -> Path | None:
    """Where the platform keeps what can be made again; None where there is no such place, or none is wanted."""
    said = os.environ.get(VARIABLE, "")
    if said.lower() == OFF:
        return None
    try:
        if said:
            return Path(said).expanduser().joinpath(*_PARTS)
        home = Path.home()
    except RuntimeError:  # nobody knows where
        return None
    if sys.platform == "win32":
        place = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        place = home / "Library" / "Caches"
    else:
        place = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return place.joinpath(*_PARTS)


@lru_cache(maxsize=1)
def _source() -> str:
    """Every file of this package, and what computes below it: another version never finds these results."""
    found = hashlib.blake2b()
    for name, path in _files("", str(package_folder())):
        with open(path, "rb", buffering=0) as file:
            content = file.read()
        found.update(f"{name} {len(content)} ".encode())
        found.update(content)
    import numpy  # who asks has loaded it; `--version` and the service do without

    return digest(found.hexdigest(), sys.version, numpy.__version__, platform.machine())


def _files(above: str, folder: str) -> Iterator[tuple[str, str]]:
    """All below a folder that is no byte code, with their names from there, in a fixed order."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files(f"{above}{entry.name}/", entry.path)
        elif not entry.name.endswith(".pyc"):
            yield f"{above}{entry.name}", entry.path


def _head(key: str, body: bytes | memoryview) -> bytes:
    """The first 128 bytes of a file: what it is the result of, and the digest of the rest."""
    return f"{key}{hashlib.sha256(body).hexdigest()}".encode()


def _is_result(path: Path) -> bool:
    """Whether the file begins with the key that it is named after."""
    try:
        with open(path, "rb") as file:
            return file.read(len(path.stem)) == path.stem.encode()
    except OSError:  # another run was faster
        return False
