"""Takes compiled networks out of bare git directories, through their whole history: input of tools/gen_evidence.py.

    python tools/extract_programs.py MIRROR_DIR OUT_DIR

MIRROR_DIR holds `owner+name/repo`. Written are every distinct `*_ecblobs.h` with the C file beside it, and every C file
of a network that the CPU drives, as OUT_DIR/owner+name[@commit]/path. Forks carry the history of what they were forked
from: what ST itself committed goes under ST's name. Nothing is fetched; what a partial mirror lacks is listed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

VENDOR, VENDOR_MAIL = "STMicroelectronics", b"@st.com"
BLOBS, MARKER = "_ecblobs.h", b"LL_ATON_EpochBlockItems_"
ENVIRONMENT = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}


def git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "--git-dir", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, env=ENVIRONMENT, check=True).stdout


class Objects:
    """`git cat-file --batch`: one process for many files."""

    def __init__(self, folder: Path) -> None:
        command = ["git", "--git-dir", str(folder), "cat-file", "--batch"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT)

    def get(self, name: str) -> bytes | None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(name.encode() + b"\n")
        self.process.stdin.flush()
        head = self.process.stdout.readline().split()
        if len(head) != 3 or head[1] != b"blob":
            return None
        data = self.process.stdout.read(int(head[2]))
        self.process.stdout.read(1)
        return data

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def versions(folder: Path) -> Iterator[tuple[str, bool, str, str]]:
    """Commit (empty: the newest state), whether ST made it, path and object of every version of a C file or header."""
    for entry in git(folder, "ls-tree", "-r", "-z", "HEAD").split(b"\0"):
        if entry:
            about, path = entry.split(b"\t", 1)
            yield "", False, path.decode(errors="replace"), about.split()[2].decode()
    form = ["--all", "--format=commit %H %ae", "--raw", "--no-abbrev", "--no-renames", "-z", "--", "*.c", f"*{BLOBS}"]
    commit, vendor = "", False
    parts = iter(git(folder, "log", *form).replace(b"\n", b"\0").split(b"\0"))
    for part in parts:
        if part.startswith(b"commit "):
            _, name, mail = part.split(b" ", 2)
            commit, vendor = name.decode(), mail.endswith(VENDOR_MAIL)
        elif part.startswith(b":"):
            path = next(parts).decode(errors="replace")
            if part.split()[4] != b"D":
                yield commit, vendor, path, part.split()[3].decode()


def extract(mirror: Path, out: Path) -> tuple[int, list[str]]:
    """Vendor's own versions first, so that a copy elsewhere does not take their place."""
    found = []
    for folder in sorted(mirror.glob("*/repo")):
        owner, name = folder.parent.name.split("+", 1)
        for commit, vendor, path, sha in versions(folder):
            vendor |= owner == VENDOR
            home = f"{VENDOR if vendor else owner}+{name}{f'@{commit[:8]}' if commit else ''}"
            found.append((not vendor, len(found), folder, commit or "HEAD", home, path, sha))
    seen: set[str] = set()
    absent: list[str] = []
    objects: dict[Path, Objects] = {}
    for _, _, folder, commit, home, path, sha in sorted(found):
        if sha in seen or not path.endswith((BLOBS, ".c")):
            continue
        source = objects.setdefault(folder, Objects(folder)) if folder not in objects else objects[folder]
        data = source.get(sha)
        if data is None:
            absent.append(f"{home}:{path}")
        elif path.endswith(BLOBS):
            _save(out / home / path, data)
            beside = path.removesuffix(BLOBS) + ".c"
            text = source.get(f"{commit}:{beside}")
            if text is not None:
                _save(out / home / beside, text)
        elif MARKER in data and BLOBS.encode() not in data:
            _save(out / home / path, data)
        seen.add(sha)
    for source in objects.values():
        source.close()
    return sum(1 for _ in out.rglob("*_ecblobs.h")), absent


def _save(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


if __name__ == "__main__":
    count, missing = extract(Path(sys.argv[1]), Path(sys.argv[2]))
    print(f"{count} headers with blobs, {len(missing)} files absent from the mirrors")
    print("\n".join(missing))
