"""A build folder says whose files it holds, and every reader sees all files of one build or none.

NAME_manifest.json has the owner of a build and the SHA-256 of its files. No build writes over files of another one, and
readers hold the files against every manifest that lists them. How files take their places together, whatever happens
to the writer, stands below: a reader that finds such a change waits for its writer, or ends it if that one
died; and it reads again if a manifest changed meanwhile. Folders without a manifest, such as ST's, are read as they
are.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from atonc.machine.base.disk import HIDDEN, move, read_file
from atonc.machine.base.disk import write_files as write_loose
from atonc.machine.base.errors import AtoncError, InputError
from atonc.machine.base.frozen import dataclass

# ----------------------------------------------------------------------------------------------------------------------
# One change of a folder: its files take their places together, whatever happens to the writer.
#
# 1. Everything is staged in a hidden folder inside the target, which therefore may be a mount point or a link. A writer
# that dies here has changed nothing; the next one clears what it left. 2. One rename makes the hidden folder *ready*.
# From now on the change counts: whoever comes next with atonc ends it. 3. Folders that are replaced as a whole and the
# files that `make` needs go. 4. All other files take their places. 5. The new folders come, and last the new files that
# `make` needs.
#
# So who knows nothing of atonc finds all files of before, all new ones, or not the file that `make` needs.

STAGED, READY = f"{HIDDEN}new-", f"{HIDDEN}ready-"
ABANDONED_SECONDS = 600.0  # a hidden folder as old as this has no writer, where that cannot be seen from a lock
NEEDED = (".c", "_rel.bin", "_rel.hex")  # a firmware begins with C files, an update with its image
_FILES, _TREES, _OLD, _GONE = "files", "trees", "old", "gone.json"
_MOST_HASHED = 1 << 29


@dataclass(frozen=True)
class FolderChange:
    files: Mapping[str, bytes] = field(default_factory=dict)  # name in the folder -> contents
    gone: Mapping[str, str] = field(default_factory=dict)  # name -> SHA-256: goes, unless somebody changed it
    trees: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)  # folders inside, replaced as a whole


def apply(folder: Path, change: FolderChange) -> None:
    """The caller has the lock of the folder, if there are locks."""
    for file in change.files:
        if (folder / file).is_dir():
            raise InputError("is a folder", where=str(folder / file), remedy="remove it or name another folder")
    staged = Path(tempfile.mkdtemp(prefix=STAGED, dir=folder))
    ready = staged.with_name(READY + staged.name.removeprefix(STAGED))
    try:
        _stage(staged, change)
        os.rename(staged, ready)
    except Exception:  # an interrupt may come behind the last line: then others end or clear it
        shutil.rmtree(staged, ignore_errors=True)
        raise
    try:
        _take_out_trees(folder, ready)
    except OSError:  # nothing else has changed yet
        _discard(ready)
        raise
    _finish(folder, ready)


def finish(folder: Path, locked: bool) -> None:
    """Ends what writers began that died, and clears what never counted. `locked`: none of them lives."""
    for hidden in hidden_folders(folder):
        if not (locked or _is_old(hidden)):
            continue
        if not hidden.name.startswith(READY):
            shutil.rmtree(hidden, ignore_errors=True)
        elif not locked and _is_overtaken(folder, hidden):
            _discard(hidden)
        else:
            _take_out_trees(folder, hidden)
            _finish(folder, hidden)


def open_changes(folder: Path, overtaken: bool = True) -> list[str]:
    """Changes that count and are not at their end; also those that somebody has written over since (`overtaken`)."""
    ready = [hidden for hidden in hidden_folders(folder) if hidden.name.startswith(READY)]
    return [hidden.name for hidden in ready if overtaken or not _is_overtaken(folder, hidden)]


def hidden_folders(folder: Path) -> list[Path]:
    return [folder / name for name in names_in(folder) if name.startswith((STAGED, READY))]


def names_in(folder: Path) -> list[str]:
    """Sorted; none where there is no folder (any more)."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def digest_of(path: Path) -> str | None:
    """None if there is no such file; what is no file, or larger than any of ours, has no digest of a manifest."""
    try:
        return hashlib.sha256(read_file(path, _MOST_HASHED)).hexdigest()
    except InputError:
        return "unreadable" if path.exists() else None


# --------------------------------------------------------------------------------------------------------------- steps


def _stage(staged: Path, change: FolderChange) -> None:
    for part in (_FILES, _TREES, _OLD):
        (staged / part).mkdir()
    for file, content in change.files.items():
        (staged / _FILES / _inside(file)).write_bytes(content)
    for tree, files in change.trees.items():
        for path, content in files.items():
            target = staged / _TREES / _inside(tree) / _inside(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    (staged / _GONE).write_bytes(json.dumps(dict(change.gone)).encode())


def _inside(path: str) -> PurePosixPath:
    """Names are our own words and the name of the network; whatever else they become stays inside."""
    found = PurePosixPath(path)
    if found.is_absolute() or ".." in found.parts or "\\" in path or "\0" in path:
        raise InputError(f"{path[:100]!r} is no path inside a folder", rule="files of a build stay in its folder")
    return found


def _take_out_trees(folder: Path, ready: Path) -> None:
    """Old folders whose new one still waits; all of them or none."""
    taken: list[str] = []
    try:
        for tree in names_in(ready / _TREES):
            if (folder / tree).exists():
                os.rename(folder / tree, ready / _OLD / tree)
                taken.append(tree)
    except OSError:
        for tree in taken:
            os.rename(ready / _OLD / tree, folder / tree)
        raise


def _finish(folder: Path, ready: Path) -> None:
    """What waits in the hidden folder is what is left to do, so it can be begun again after any of its steps."""
    waiting = names_in(ready / _FILES)
    needed = [file for file in waiting if is_needed(file)]
    for file in needed:
        with suppress(OSError):  # a mount point: then it is overwritten as it stands
            (folder / file).unlink(missing_ok=True)
    _remove_gone(folder, ready)
    _move_all(ready / _FILES, folder, (file for file in waiting if not is_needed(file)))
    for tree in names_in(ready / _TREES):
        os.rename(ready / _TREES / tree, folder / tree)
    _move_all(ready / _FILES, folder, needed)
    _discard(ready)


def _discard(ready: Path) -> None:
    """By one rename it does not count any more: nobody finds half of it."""
    done = ready.with_name(STAGED + ready.name.removeprefix(READY))
    os.rename(ready, done)
    shutil.rmtree(done, ignore_errors=True)


def is_needed(file: str) -> bool:
    """Whether a build of the firmware begins with it: such files go first and come last."""
    return file.endswith(NEEDED)


def _remove_gone(folder: Path, ready: Path) -> None:
    gone: dict[str, str] = json.loads((ready / _GONE).read_bytes())
    for file in sorted(gone, key=is_needed, reverse=True):
        if digest_of(folder / file) == gone[file]:
            (folder / file).unlink(missing_ok=True)


def _move_all(source: Path, folder: Path, files: Iterable[str]) -> None:
    for file in files:
        move(source / file, folder / file)


def _is_overtaken(folder: Path, ready: Path) -> bool:
    """Whether somebody wrote later what still waits here: where there are no locks, nobody waits for the dead."""
    try:
        made = ready.stat().st_mtime_ns
        there = [folder / file for file in names_in(ready / _FILES)]
        return any(path.stat().st_mtime_ns > made for path in there if path.is_file())
    except OSError:  # it is gone meanwhile
        return True


def _is_old(hidden: Path) -> bool:
    try:
        return time.time() - hidden.stat().st_mtime > ABANDONED_SECONDS
    except OSError:
        return False


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
            with folder_lock(folder) as locked:
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
        with folder_lock(folder) as locked:
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
    for attempt in range(ATTEMPTS):
        before = _settled(folder)
        try:
            found = read()
        except AtoncError:
            if _is_still(folder, before):
                # Without locks, a writer that another one overtook may be dead, or only slow and about to put it there.
                if not open_changes(folder) or attempt == ATTEMPTS - 1:
                    raise
                time.sleep(0.01 * 2**attempt)
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
            with folder_lock(folder) as locked:
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
def folder_lock(folder: Path) -> Iterator[bool]:
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
