"""A folder of a layout on disk: all of its files or none; what the user changed there is never replaced."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from atonc.machine.base.build_folder import write_trees
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError

MANIFEST = "atonc_layout.json"
FORMAT = "atonc layout 1"
_MOST_BYTES, _MOST_HASHED, _MOST_FILES = 1 << 20, 1 << 29, 10_000


def write_folder(folder: Path, files: Mapping[str, bytes], leavings: Sequence[str] = ()) -> list[Path]:
    """Replaces the folder as a whole, if everything in it is as it was written, or only what tools leave behind."""
    require_own(folder, leavings)
    return write_trees(folder.parent, {folder.name: with_manifest(files)})


def with_manifest(files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The files, and one that says what they were: so it can be seen later what the user changed."""
    digests = {path: hashlib.sha256(content).hexdigest() for path, content in sorted(files.items())}
    return {**files, MANIFEST: (json.dumps({"format": FORMAT, "files": digests}, indent=1) + "\n").encode()}


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
