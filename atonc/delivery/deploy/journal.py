"""Several files of a project, replaced together: all of them, or none.

New contents wait in a hidden folder of the project, on the disk, until a list of them is there too: from this moment
they count. Then the one file goes without which `make` fails, each of the others takes its place by renaming, and the
new one of that name comes last. Who is interrupted before the list leaves everything as it was; behind it, `recover`
ends the work, and every later call begins with it. What a file was before its first change stays beside it.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from atonc.machine.base.disk import move, read_file
from atonc.machine.base.errors import InputError

try:
    import fcntl
except ImportError:  # Windows: two at the same time are not kept apart
    fcntl = None  # type: ignore[assignment]

FOLDER, BACKUP = ".atonc-deploy", ".before-atonc"
_STAGE, _LIST, _NEEDED = "stage", "commit.json", "needed"
_MOST_BYTES = 1 << 30
Contents = Mapping[str, bytes]  # path inside the project, with slashes


def current(root: Path, file: str) -> bytes | None:
    path = root / file
    return read_file(path, _MOST_BYTES) if path.is_file() else None


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def changes(root: Path, files: Contents) -> Contents:
    """Those that are not there yet as they should be."""
    return {file: data for file, data in files.items() if current(root, file) != data}


def commit(root: Path, files: Contents, backup: Sequence[str] = (), needed: str = "") -> list[str]:
    """Puts them in place, and names those that changed; of those in `backup` the first state is kept. `needed`: the
    file that is not there while some of several are old and some new."""
    with _guarded(root):
        _finish(root)
        new = dict(changes(root, files))
        for file in new:
            _check_target(root, file)
        for file in backup:
            before = current(root, file)
            if file in new and before is not None and not (root / (file + BACKUP)).exists():
                new[file + BACKUP] = before
        changed = [file for file in new if not file.endswith(BACKUP) and not file.startswith(FOLDER)]
        if len(new) > 1 and (key := new.pop(needed, files.get(needed))) is not None:
            new[needed] = key  # the last one, also where it stays as it is
        if new:
            _stage(root, new, needed)
            _finish(root)
    return changed


def recover(root: Path) -> list[str]:
    """Ends what an interrupted call began: the files that it put in place."""
    if not (root / FOLDER).is_dir():
        return []
    with _guarded(root):
        return _finish(root)


def is_interrupted(root: Path) -> bool:
    return (root / FOLDER / _LIST).is_file()


def unified_diff(root: Path, files: Contents) -> str:
    """What `commit` would change, as a patch; files that are no text by their sizes."""
    return "".join(_diff(file, current(root, file), data) for file, data in changes(root, files).items())


def _diff(file: str, before: bytes | None, after: bytes) -> str:
    try:
        old, new = (before or b"").decode(), after.decode()
    except UnicodeDecodeError:
        old, new = (before or b"").decode("latin-1"), after.decode("latin-1")
    if "\0" in old + new or len(after) > 1 << 20:
        return f"{file}: {len(before or b''):,} -> {len(after):,} bytes\n"
    names = ("/dev/null" if before is None else f"a/{file}", f"b/{file}")
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), *names)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


# ------------------------------------------------------------------------------------------------------------- writing


def _check_target(root: Path, file: str) -> None:
    path = root / file
    where, remedy = str(path), "allow writing, then run it again"
    if path.is_dir():
        raise InputError("is a folder", where=where, remedy="remove it")
    if path.exists() and not stat.S_IMODE(path.stat().st_mode) & 0o222:
        raise InputError("is read-only; nothing was changed", where=where, remedy=remedy)
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError("cannot be written: no permission; nothing was changed", where=where, remedy=remedy)
    if root.resolve() not in path.resolve().parents:
        raise InputError("leads out of the project; nothing was changed", where=where)


def _stage(root: Path, files: Contents, needed: str) -> None:
    """Everything on the disk, then the list that makes it count."""
    stage = root / FOLDER / _STAGE
    stage.mkdir()
    entries = {}
    for number, (file, data) in enumerate(files.items()):
        _write(stage / str(number), data, _mode(root / file))
        entries[file] = [str(number), digest(data), *([_NEEDED] if file == needed and len(files) > 1 else [])]
    _sync(stage)
    listed = root / FOLDER / _LIST
    _write(listed.with_suffix(".new"), json.dumps(entries, indent=1).encode(), 0o644)
    os.replace(listed.with_suffix(".new"), listed)
    _sync(listed.parent)


def _finish(root: Path) -> list[str]:
    """Finishes a stage that has its list, whoever began it; one without a list never counted."""
    folder, done = root / FOLDER, []
    listed = folder / _LIST
    if listed.is_file():
        rows = {file: (folder / _STAGE / row[0], *row[1:]) for file, row in json.loads(listed.read_bytes()).items()}
        whole = [file for file, row in rows.items() if row[0].is_file() and digest(row[0].read_bytes()) == row[1]]
        waiting = {file: rows[file][0] for file in whole}
        for file in waiting:
            if _NEEDED in rows[file]:
                (root / file).unlink(missing_ok=True)
        for file, source in waiting.items():
            target = root / file
            target.parent.mkdir(parents=True, exist_ok=True)
            move(source, target)
            _sync(target.parent)
            done.append(file)
        listed.unlink()
        _sync(folder)
    shutil.rmtree(folder / _STAGE, ignore_errors=True)
    return done


def _write(path: Path, data: bytes, mode: int) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(path, mode)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644


def _sync(folder: Path) -> None:
    """Names are on the disk too; not every system can say so of a folder."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _guarded(root: Path) -> Iterator[None]:
    """One at a time. What the disk refuses is one sentence, and leaves nothing behind unless the list was written."""
    folder = root / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        with _lock(folder):
            try:
                yield
            except BaseException:
                if not (folder / _LIST).is_file():
                    shutil.rmtree(folder / _STAGE, ignore_errors=True)
                raise
    except OSError as error:
        state = "the rest follows at the next run" if (folder / _LIST).is_file() else "nothing was changed"
        where = str(error.filename or root)
        raise InputError(f"cannot be written: {error.strerror or error}; {state}", where=where) from None


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
