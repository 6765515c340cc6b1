"""One change of a folder: its files take their places together, whatever happens to the writer.

1. Everything is staged in a hidden folder inside the target, which therefore may be a mount point or a link. A writer
   that dies here has changed nothing; the next one clears what it left.
2. One rename makes the hidden folder *ready*. From now on the change counts: whoever comes next with atonc ends it.
3. Folders that are replaced as a whole and the files that `make` needs go. 4. All other files take their places.
5. The new folders come, and last the new files that `make` needs.

So who knows nothing of atonc finds all files of before, all new ones, or not the file that `make` needs.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path, PurePosixPath

from atonc.machine.base.disk import HIDDEN, move, read_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

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
