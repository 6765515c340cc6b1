"""A build folder says whose files it holds, and every reader sees all files of one build or none.

NAME_manifest.json has the owner of a build and the SHA-256 of its files. No build writes over files of another one, and
readers hold the files against every manifest that lists them. How files take their places together, whatever happens
to the writer, is in `folder_change.py`: a reader that finds such a change waits for its writer, or ends it if that one
died; and it reads again if a manifest changed meanwhile. Folders without a manifest, such as ST's, are read as they
are.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from atonc.machine.base.disk import read_file
from atonc.machine.base.disk import write_files as write_loose
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.folder_change import FolderChange, apply, digest_of, finish, names_in, open_changes
from atonc.machine.base.frozen import dataclass

try:
    import fcntl
except ImportError:  # Windows: writers at the same time find out afterwards
    fcntl = None  # type: ignore[assignment]

_T = TypeVar("_T")
SUFFIX = "_manifest.json"
REPORTS = (".html", ".txt")
FORMAT = "atonc build 1"
WAIT_SECONDS = 30.0
ATTEMPTS = 8
_ELSEWHERE = "name another folder with -o"
_MOST_BYTES, _MOST_FILES = 1 << 20, 10_000
_DIGEST = re.compile(r"[0-9a-f]{64}")
Trees = Mapping[str, Mapping[str, bytes]]


class BuildKind(Enum):
    """What wrote a build. Networks may lie side by side with images of them; an application's folder is its own, since
    the memory of everything in it was planned together."""

    NETWORK = "network"
    IMAGE = "relocatable image"
    UPDATE = "update"
    APPLICATION = "application"

    def goes_with(self, other: BuildKind) -> bool:
        loose = (BuildKind.NETWORK, BuildKind.IMAGE)
        return (self in loose and other in loose) or self is other is BuildKind.UPDATE


@dataclass(frozen=True)
class Owner:
    """Whose files these are."""

    kind: BuildKind
    name: str

    @property
    def manifest(self) -> str:
        return f"{self.name}_rel{SUFFIX}" if self.kind is BuildKind.IMAGE else f"{self.name}{SUFFIX}"

    def __str__(self) -> str:
        return f"{self.kind.value} {self.name!r}"


def network_build(name: str) -> Owner:
    return Owner(BuildKind.NETWORK, name)


@dataclass(frozen=True)
class Manifest:
    path: Path
    owner: Owner | None  # None: written before builds had one, or damaged
    files: Mapping[str, str]  # name -> SHA-256
    mark: tuple[bytes, int, int]  # differs between any two manifests that ever were there

    @property
    def whose(self) -> str:
        return f"{self.owner or 'another build'} ({self.path.name})"


# ------------------------------------------------------------------------------------------------------------- writing


def write_whole(folder: Path, files: Mapping[str, bytes], owner: Owner, trees: Trees | None = None) -> list[Path]:
    """Files of the last build of this owner are replaced or removed, all others stay; files of other builds are not
    written over. `trees`: folders inside, which are replaced as a whole in the same step."""
    complete = {**files, owner.manifest: describe(files, owner)}
    with written(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for attempt in range(ATTEMPTS):
            with _lock(folder) as locked:
                finish(folder, locked)
                require_free(folder, owner, files)
                apply(folder, FolderChange(complete, _former(folder, owner, files), trees or {}))
            if locked or _stranger(folder, _manifests(folder)) is None:
                return [folder / file for file in complete] + _paths(folder, trees or {})
            time.sleep(random.uniform(0.0, 0.02 * 2**attempt))  # so that one of two writers comes second
    raise _busy(folder)


def write_trees(folder: Path, trees: Trees) -> list[Path]:
    """Folders alone, each as a whole."""
    with written(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder) as locked:
            finish(folder, locked)
            apply(folder, FolderChange(trees=trees))
    return _paths(folder, trees)


def write_beside(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Texts that belong to no build; a build's own reports may be made anew, its other files not."""
    require_free(folder, None, {file: data for file, data in files.items() if not file.endswith(REPORTS)})
    return write_loose(folder, files)


def _paths(folder: Path, trees: Trees) -> list[Path]:
    return [folder / tree / path for tree, files in trees.items() for path in files]


@contextmanager
def written(folder: Path) -> Iterator[None]:
    """What the disk refuses is the user's to mend."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", where=str(folder)) from None


def describe(files: Mapping[str, bytes], owner: Owner) -> bytes:
    digests = {file: _sha256(content) for file, content in sorted(files.items())}
    told = {"format": FORMAT, "owner": {"kind": owner.kind.value, "name": owner.name}, "files": digests}
    return (json.dumps(told, indent=1) + "\n").encode()


def require_free(folder: Path, owner: Owner | None, files: Mapping[str, bytes] | None = None) -> None:
    """No other build has the folder for itself, or a file of one of these names with other contents. Without files it
    is the question that can be asked before there are any."""
    new = {file.casefold(): _sha256(data) for file, data in (files or {}).items()}
    for manifest in _manifests(folder):
        there = manifest.owner
        if owner is not None and manifest.path.name == owner.manifest and (there is None or there == owner):
            continue
        if owner is not None and there is not None and not owner.kind.goes_with(there.kind):
            rule = "an application, or updates of one, have a folder of their own"
            raise InputError(f"belongs to {manifest.whose}", where=str(folder), rule=rule, remedy=_ELSEWHERE)
        for file, digest in manifest.files.items():
            if new.get(file.casefold(), digest) != digest:
                what, rule = f"{file} belongs to {manifest.whose}", "no build writes over files of another"
                raise InputError(what, where=str(folder), rule=rule, remedy=f"{_ELSEWHERE}, or another name with -n")


def _former(folder: Path, owner: Owner, files: Mapping[str, bytes]) -> dict[str, str]:
    """Files of the build that is replaced which neither the new one nor another build has."""
    own = _read_manifest(folder / owner.manifest)
    others = [manifest for manifest in _manifests(folder) if manifest.path.name != owner.manifest]
    listed = {*files, *(file for manifest in others for file in manifest.files)}
    return {file: digest for file, digest in (own.files if own else {}).items() if file not in listed}


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
    wrong = None
    for attempt in range(ATTEMPTS):
        before = _marks(folder)
        if not open_changes(folder) and (wrong := _stranger(folder, _manifests(folder))) is None:
            return before
        try:
            with _lock(folder) as locked:
                finish(folder, locked)
        except OSError:  # we may only read
            locked = False
        before, wrong = _marks(folder), _stranger(folder, _manifests(folder))
        if locked and wrong is not None:
            break
        if not locked and wrong is None and not open_changes(folder, overtaken=False):
            return before
        time.sleep(0.01 * 2**attempt * (not locked))
    raise _mixed(folder, wrong) if wrong else _unfinished(folder)


def _mixed(folder: Path, file: str) -> InputError:
    return InputError(
        f"{file} is not the file that was generated with the others",
        where=str(folder),
        rule=f"the files of a build have the hashes that are in its {SUFFIX.lstrip('_')} file",
        remedy=f"generate the folder again, or delete *{SUFFIX} in it if you changed the file yourself",
    )


def _unfinished(folder: Path) -> InputError:
    return InputError(
        "its files are not all in place: a writer is at work, or died",
        where=str(folder),
        remedy="wait; or generate the folder again; or read it as somebody who may write there",
    )


def _is_still(folder: Path, before: list[Any]) -> bool:
    """The files are looked at again too: without locks a writer may lag behind another one's manifest."""
    return _marks(folder) == before and _stranger(folder, _manifests(folder)) is None


def _stranger(folder: Path, manifests: Sequence[Manifest]) -> str | None:
    """A file that is not as one of the manifests says. If one is missing, somebody took it away: who needs it says so.
    Reports are for people, who may have made new ones."""
    found: dict[str, str | None] = {}
    for manifest in manifests:
        for file, digest in manifest.files.items():
            if file.endswith(REPORTS):
                continue
            if file not in found:
                found[file] = digest_of(folder / file)
            if found[file] not in (None, digest):
                return file
    return None


def _marks(folder: Path) -> list[Any]:
    """What differs whenever somebody wrote the folder, or is about to."""
    return [*((manifest.path.name, manifest.mark) for manifest in _manifests(folder)), *open_changes(folder)]


def _manifests(folder: Path) -> list[Manifest]:
    found = (_read_manifest(folder / name) for name in names_in(folder) if name.endswith(SUFFIX))
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
    owner, files = _told(data) or (None, {path.name: ""})
    return Manifest(path, owner, files, (data, state.st_ino, state.st_mtime_ns))


def _told(data: bytes) -> tuple[Owner | None, Mapping[str, str]] | None:
    try:
        told = json.loads(data)
        files, row = told["files"], told.get("owner")
        owner = None if row is None else Owner(BuildKind(row["kind"]), str(row["name"]))
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return None
    sound = isinstance(files, dict) and len(files) <= _MOST_FILES and all(map(_is_entry, files, files.values()))
    return (owner, files) if sound else None


def _is_entry(file: object, digest: object) -> bool:
    plain = isinstance(file, str) and os.path.basename(file) == file and file.strip(".\0") == file.strip(".") != ""
    return plain and isinstance(digest, str) and _DIGEST.fullmatch(digest) is not None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# ------------------------------------------------------------------------------------------------------------- locking


@contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Nobody else writes; False where the file system does not know locks. The lock ends with its process."""
    if fcntl is None:
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield _is_locked(handle, folder)
    finally:
        os.close(handle)


def _is_locked(handle: int, folder: Path) -> bool:
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


def _busy(folder: Path) -> InputError:
    return InputError("others write to it at the same time", where=str(folder), remedy="wait, or name another folder")
