"""Files of repositories that were fetched as bare git directories, DIR/OWNER+NAME/repo; large ones may be missing."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path


def commit_of(fetched: Path, name: str, commit: str = "HEAD") -> str:
    return _git(fetched, name, "rev-parse", commit).decode().strip()


def unpack(fetched: Path, name: str, into: Path, prefixes: Sequence[str] = (), commit: str = "HEAD") -> Path:
    """Every file below one of the prefixes that is there; its folder."""
    listed = _git(fetched, name, "ls-tree", "-r", "-z", commit).decode(errors="surrogateescape").split("\0")
    rows = [row.split("\t", 1) for row in filter(None, listed)]
    wanted = [(meta.split(), path) for meta, path in rows if not prefixes or path.startswith(tuple(prefixes))]
    blobs = [(mode, key, path) for (mode, kind, key), path in wanted if kind == "blob"]
    batch = _git(fetched, name, "cat-file", "--batch", given="".join(f"{key}\n" for _, key, _ in blobs).encode())
    at = 0
    for mode, _, path in blobs:
        end = batch.index(b"\n", at)
        head, at = batch[at:end].split(), end + 1
        if head[-1] == b"missing":
            continue
        size = int(head[2])
        file = into / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(batch[at : at + size])
        file.chmod(0o755 if mode == "100755" else 0o644)
        at += size + 1
    return into


def _git(fetched: Path, name: str, *words: str, given: bytes = b"") -> bytes:
    command = ["git", f"--git-dir={fetched / name / 'repo'}", *words]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout
