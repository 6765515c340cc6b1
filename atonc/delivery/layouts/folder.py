"""A folder of a layout on disk: all of its files or none; what the user changed there is never replaced."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from atonc.machine.base.disk import read_file, umask
from atonc.machine.base.errors import InputError

MANIFEST = "atonc_layout.json"
FORMAT = "atonc layout 1"
_HIDDEN = ".atonc_layout-"  # not the prefix of build folders, whose next writer clears away what has no manifest
_ABANDONED_SECONDS = 600.0  # no writer takes as long: one that left such a folder was killed
_MOST_BYTES, _MOST_HASHED, _MOST_FILES = 1 << 20, 1 << 29, 10_000


def write_folder(folder: Path, files: Mapping[str, bytes], leavings: Sequence[str] = ()) -> list[Path]:
    """Replaces the folder as a whole, if everything in it is as it was written, or only what tools leave behind."""
    with staged_folder(folder, files, leavings) as put:
        return put()


@contextmanager
def staged_folder(
    folder: Path, files: Mapping[str, bytes], leavings: Sequence[str] = ()
) -> Iterator[Callable[[], list[Path]]]:
    """The files lie beside the folder, all of them; what is given then only moves them there."""
    require_own(folder, leavings)
    complete = {**files, MANIFEST: _manifest(files)}
    with _written(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        _clear_abandoned(folder.parent)
        hidden = Path(tempfile.mkdtemp(prefix=_HIDDEN, dir=folder.parent))
    try:
        new = hidden / "new"
        with _written(folder):
            for path, content in complete.items():
                target = new / _inside(path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            new.chmod(0o777 & ~umask())

        def put() -> list[Path]:
            with _written(folder):
                _exchange(new, folder, hidden / "old")
            return [folder / path for path in complete]

        yield put
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


@contextmanager
def _written(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", where=str(folder)) from None


def _clear_abandoned(parent: Path) -> None:
    """What killed writers left behind."""
    for hidden in parent.glob(f"{_HIDDEN}*"):
        if hidden.is_dir() and not hidden.is_symlink() and time.time() - hidden.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(hidden, ignore_errors=True)


def _exchange(new: Path, folder: Path, old: Path) -> None:
    """Two moves; if the second fails, the first is undone."""
    if not folder.exists():
        os.rename(new, folder)
        return
    os.rename(folder, old)
    try:
        os.rename(new, folder)
    except OSError:
        os.rename(old, folder)
        raise


def _inside(path: str) -> PurePosixPath:
    """Paths of layouts are our own words and the name of the network; whatever else they become stays inside."""
    found = PurePosixPath(path)
    if found.is_absolute() or ".." in found.parts or "\\" in path or "\0" in path:
        raise InputError(f"{path[:100]!r} is no path inside a folder", rule="files of a layout stay in its folder")
    return found


def _manifest(files: Mapping[str, bytes]) -> bytes:
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
    return (json.dumps({"format": FORMAT, "files": digests}, indent=1) + "\n").encode()


def require_own(folder: Path, leavings: Sequence[str] = ()) -> None:
    """A folder that is there holds what a layout wrote and what tools write again (`leavings`), nothing else."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir() or folder.is_symlink():
        raise InputError("is there, and is not a folder of ours", where=str(folder), remedy="name another -o")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):  # a folder without that cannot be moved away either
        raise InputError("cannot be replaced: no permission", where=str(folder), remedy="name another -o")
    there = {path.relative_to(folder).as_posix() for path in _files(folder)}
    strange = sorted(path for path in _changed(folder, there) if not any(fnmatchcase(path, one) for one in leavings))
    if strange:
        more = f" and {len(strange) - 3} more" if len(strange) > 3 else ""
        raise InputError(
            f"has files that atonc did not write, or that were changed: {', '.join(strange[:3])}{more}",
            where=str(folder),
            rule="a layout replaces its folder as a whole",
            remedy="keep your files beside the folder, not in it; or move the folder away, or name another -o",
        )


def _files(folder: Path) -> list[Path]:
    found = []
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            found.append(path)
        if len(found) > _MOST_FILES:
            break
    return found


def _changed(folder: Path, there: set[str]) -> set[str]:
    if MANIFEST not in there:
        return there
    try:
        told = json.loads(read_file(folder / MANIFEST, _MOST_BYTES))
        digests = told["files"] if told["format"] == FORMAT else {}
        return {path for path in there - {MANIFEST} if _digest(folder / path) != digests.get(path)}
    except (InputError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {MANIFEST}


def _digest(path: Path) -> str:
    """Nothing for what cannot be read: then it is not as it was written."""
    try:
        return "" if path.is_symlink() else hashlib.sha256(read_file(path, _MOST_HASHED)).hexdigest()
    except InputError:
        return ""
