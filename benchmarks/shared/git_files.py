"""Files of a bare git directory, without those whose contents its snapshot lacks (large ones)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_DONE = ".unpacked"
_LINK, _PROGRAM = "120000", "100755"


def commit(repository: Path) -> str:
    return _git(repository, "rev-parse", "HEAD").decode().strip()


def unpack(repository: Path, folder: Path) -> None:
    """The newest commit's files; once."""
    if (folder / _DONE).exists():
        return
    rows = [row.partition("\t") for row in _git(repository, "ls-tree", "-r", "-z", "HEAD").decode().split("\0") if row]
    command = ["git", f"--git-dir={repository}", "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        for meta, _, name in rows:
            mode, kind, number = meta.split()
            if kind != "blob":
                continue
            process.stdin.write(f"{number}\n".encode())
            process.stdin.flush()
            words = process.stdout.readline().split()
            if words[1] == b"blob":
                _put(folder / name, process.stdout.read(int(words[2])), mode)
                process.stdout.read(1)
        process.stdin.close()
    (folder / _DONE).write_text("")


def borrow(repository: Path, ending: str, folder: Path, name: str) -> list[str]:
    """A file of another repository where snapshots lack it but its folder is there; what to say about it."""
    wanted = [path / name for path in folder.rglob("DSP/Source/CommonTables") if not (path / name).exists()]
    if not wanted:
        return []
    rows = _git(repository, "ls-tree", "-r", "HEAD").decode().splitlines()
    number = next(row.split()[2] for row in rows if row.endswith(ending))
    for path in wanted:
        path.write_bytes(_git(repository, "cat-file", "blob", number))
    return [f"{name} of {repository.parent.name.replace('+', '/')}, which the snapshot lacks"]


def _git(repository: Path, *words: str) -> bytes:
    return subprocess.run(["git", f"--git-dir={repository}", *words], check=True, capture_output=True).stdout


def _put(path: Path, data: bytes, mode: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == _LINK:
        os.symlink(data.decode(), path)
        return
    path.write_bytes(data)
    path.chmod(0o755 if mode == _PROGRAM else 0o644)
