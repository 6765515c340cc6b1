"""A build folder is one whole build: every reader sees all files of one compilation, whatever happened to the writer.

A writer puts its files into a hidden folder inside the target, which therefore may be a mount point or a link. Then
NAME_manifest.json takes its place: from this moment the new build counts. Old C files go, the files take their places
behind it, C files last: a compiler finds those of one build or none, whenever the writer dies. A reader
that finds a file which no manifest describes waits for the writer, or ends its work if it died; and a reader reads
again if the manifest changed meanwhile. Folders without a manifest, such as ST's, are read as they are.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from atonc.machine.base.disk import HIDDEN, move, read_file
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass

try:
    import fcntl
except ImportError:  # Windows: writers at the same time find out afterwards
    fcntl = None  # type: ignore[assignment]

_T = TypeVar("_T")
SUFFIX = "_manifest.json"
REPLACED = "replaced"  # in the hidden folder: the manifest that was there before
REPORTS = (".html", ".txt")
FORMAT = "atonc build 1"
WAIT_SECONDS = 30.0
ATTEMPTS = 8
_ABANDONED_SECONDS = 600.0  # a hidden folder as old as this has no writer, where that cannot be seen from a lock
_MOST_BYTES, _MOST_FILES, _MOST_HASHED = 1 << 20, 10_000, 1 << 29
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Manifest:
    path: Path
    files: Mapping[str, str]  # name -> SHA-256
    mark: tuple[bytes, int, int]  # differs between any two manifests that ever were there


# ------------------------------------------------------------------------------------------------------------- writing


def write_whole(folder: Path, files: Mapping[str, bytes], name: str) -> list[Path]:
    """Files of the same names are replaced, those of the last build of this name removed, all others stay."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(ATTEMPTS):
            with _lock(folder) as locked:
                _finish(folder, locked)
                _put(folder, files, name + SUFFIX)
            if locked or _stranger(folder, _manifests(folder)) is None:
                return [folder / file for file in (*files, name + SUFFIX)]
            time.sleep(random.uniform(0.0, 0.02 * 2**attempt))  # so that one of two writers comes second
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", where=str(folder)) from None
    raise _busy(folder)


def _put(folder: Path, files: Mapping[str, bytes], manifest: str) -> None:
    hidden = Path(tempfile.mkdtemp(prefix=HIDDEN, dir=folder))
    try:
        for file, content in files.items():
            if (folder / file).is_dir():
                raise InputError("is a folder", where=str(folder / file), remedy="remove it or name another folder")
            (hidden / file).write_bytes(content)
        (hidden / manifest).write_bytes(describe(files))
        if (folder / manifest).is_file():
            shutil.copyfile(folder / manifest, hidden / REPLACED)
        ours = _read_manifest(hidden / manifest)
        move(hidden / manifest, folder / manifest)
    except Exception:  # an interrupt may come behind the last line: then others end or clear it
        shutil.rmtree(hidden, ignore_errors=True)
        raise
    for file in filter(_is_source, files):  # without them no firmware is built of old and new files
        with suppress(OSError):  # a mount point: then it is overwritten as it stands
            (folder / file).unlink(missing_ok=True)
    _remove_former(folder, _read_manifest(hidden / REPLACED))
    for file in sorted(files, key=_is_source):
        move(hidden / file, folder / file)
    shutil.rmtree(hidden, ignore_errors=True)
    _remove_former(folder, ours)  # nothing, unless another writer's manifest took the place of ours meanwhile


def _is_source(file: str) -> bool:
    """Whether a build of the firmware begins with it: such files go first and come last."""
    return file.endswith(".c")


def describe(files: Mapping[str, bytes]) -> bytes:
    digests = {file: hashlib.sha256(content).hexdigest() for file, content in sorted(files.items())}
    return (json.dumps({"format": FORMAT, "files": digests}, indent=1) + "\n").encode()


def _finish(folder: Path, locked: bool) -> None:
    """Ends what writers began that died; one that died before its manifest was in place leaves nothing."""
    for hidden in _hidden(folder):
        if not (locked or _is_old(hidden)):
            continue
        _remove_former(folder, _read_manifest(hidden / REPLACED))
        for manifest in _manifests(folder):
            for file, digest in sorted(manifest.files.items(), key=lambda entry: _is_source(entry[0])):
                if _digest(hidden / file) == digest != _digest(folder / file):
                    move(hidden / file, folder / file)
        shutil.rmtree(hidden, ignore_errors=True)


def _remove_former(folder: Path, former: Manifest | None) -> None:
    """Files of a build that was replaced which the new one does not have, unless somebody changed them."""
    listed = {file for manifest in _manifests(folder) for file in manifest.files}
    for file, digest in (former.files if former else {}).items():
        if file not in listed and _digest(folder / file) == digest:
            (folder / file).unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------------------- reading


def read_whole(place: Path, read: Callable[[], _T]) -> _T:
    """What `read` gives for a folder, or one file of it, while nobody else changes it."""
    folder = place if place.is_dir() else place.parent
    for _ in range(ATTEMPTS):
        before = _settled(folder)
        try:
            found = read()
        except AtoncError:
            if _is_still(folder, before):
                raise
            continue
        if _is_still(folder, before):
            return found
    raise _busy(folder)


def _settled(folder: Path) -> list[Any]:
    """What tells this build from others, once all its files are in place."""
    for attempt in range(ATTEMPTS):
        manifests = _manifests(folder)
        if (wrong := _stranger(folder, manifests)) is None:
            return _marks(manifests)
        try:
            with _lock(folder) as locked:
                _finish(folder, locked)
        except OSError:  # we may only read
            locked = False
        if locked and _stranger(folder, _manifests(folder)) is not None:
            break
        time.sleep(0.01 * 2**attempt * (not locked))
    raise InputError(
        f"{wrong} is not the file that was generated with the others",
        where=str(folder),
        rule=f"the files of a build have the hashes that are in its {SUFFIX.lstrip('_')} file",
        remedy=f"generate the folder again, or delete *{SUFFIX} in it if you changed the file yourself",
    )


def _is_still(folder: Path, before: list[Any]) -> bool:
    """The files are looked at again too: without locks a writer may lag behind another one's manifest."""
    manifests = _manifests(folder)
    return _marks(manifests) == before and _stranger(folder, manifests) is None


def _stranger(folder: Path, manifests: Sequence[Manifest]) -> str | None:
    """A file of which no manifest knows the contents, or that still waits for its place. If one is missing that does
    not, somebody took it away: who needs it says so. Reports are for people, who may have made new ones."""
    known: dict[str, set[str]] = {}
    for manifest in manifests:
        for file, digest in manifest.files.items():
            known.setdefault(file, set()).add(digest)  # networks in one folder share the kernels
    waiting = {name for hidden in _hidden(folder) for name in _names(hidden)}
    for file, digests in known.items():
        found = _digest(folder / file)
        matters = found is not None and not file.endswith(REPORTS)
        if found not in digests and (matters or file in waiting):
            return file
    return None


def _hidden(folder: Path) -> list[Path]:
    return [folder / name for name in _names(folder) if name.startswith(HIDDEN)]


def _names(folder: Path) -> list[str]:
    """Sorted; none where there is no folder (any more)."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _marks(manifests: Sequence[Manifest]) -> list[Any]:
    return [(manifest.path.name, manifest.mark) for manifest in manifests]


def _manifests(folder: Path) -> list[Manifest]:
    found = (_read_manifest(folder / name) for name in _names(folder) if name.endswith(SUFFIX))
    return [manifest for manifest in found if manifest is not None]


def _read_manifest(path: Path) -> Manifest | None:
    """None if there is none, or if it is a file of somebody else. A damaged one describes no contents, not even its
    own."""
    try:
        data, state = read_file(path, _MOST_BYTES), path.stat()
    except (InputError, OSError):
        return None
    if FORMAT.encode() not in data:
        return None
    return Manifest(path, _listed(data) or {path.name: ""}, (data, state.st_ino, state.st_mtime_ns))


def _listed(data: bytes) -> Mapping[str, str] | None:
    try:
        files = json.loads(data)["files"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    sound = isinstance(files, dict) and len(files) <= _MOST_FILES and all(map(_is_entry, files, files.values()))
    return files if sound else None


def _is_entry(file: object, digest: object) -> bool:
    plain = isinstance(file, str) and os.path.basename(file) == file and file.strip(".\0") == file.strip(".") != ""
    return plain and isinstance(digest, str) and _DIGEST.fullmatch(digest) is not None


def _digest(path: Path) -> str | None:
    """None if there is no such file; what is no file, or larger than any of ours, has no digest of a manifest."""
    try:
        return hashlib.sha256(read_file(path, _MOST_HASHED)).hexdigest()
    except InputError:
        return "unreadable" if path.exists() else None


# ------------------------------------------------------------------------------------------------------------- locking


@contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Nobody else writes; False where the file system does not know locks. The lock ends with its process."""
    if fcntl is None:
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield _taken(handle, folder)
    finally:
        os.close(handle)


def _taken(handle: int, folder: Path) -> bool:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.005)
        except OSError:
            return False
    raise _busy(folder)


def _is_old(hidden: Path) -> bool:
    try:
        return time.time() - hidden.stat().st_mtime > _ABANDONED_SECONDS
    except OSError:
        return False


def _busy(folder: Path) -> InputError:
    return InputError("others write to it at the same time", where=str(folder), remedy="wait, or name another folder")
