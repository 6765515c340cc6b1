"""Every network that ST's tool compiled in the whole history of bare git repositories, found and taken out.

Mirrors are bare repositories as `owner+name/repo`. Each distinct network gets a folder of its hash with its C file, its
blobs and one `found.json`: where it was seen, the versions of blob header, weights and models that lay beside it or
anywhere else in these repositories with the right size. Nothing is downloaded; blobs that are absent (partial clones,
pointers of Git LFS) are counted as such. `st_compilations` runs what is found.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.files.initialisers import needs, read_hex
from atonc.machine.emu.files.network_c import read_network
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import ONLY, Report, argument

GROUP = "st"
ARGUMENTS = (
    argument("--mirrors", type=Path, required=True, metavar="DIR"),
    argument("--out", type=Path, required=True, metavar="DIR"),
    ONLY,
)

DEFINES = re.compile(rb"LL_ATON_EpochBlockItems_\w+\s*\(\s*void\s*\)\s*\{")
DATES = re.compile(rb"(?m)^.*(?:@date|Date:|Creation|Created|\d\d:\d\d:\d\d).*$")
LIBRARY = re.compile(
    r"(^|/)(Drivers|Utilities|ll_aton|Libraries|TouchGFX|tests?)/|(^|/)(stm32n6xx_|ll_aton|stai_|app_|main\.c)"
)
WEIGHTS = re.compile(r"\.(hex|raw|bin)$|atonbuf\.\w+\.c$", re.IGNORECASE)
ARRAY = re.compile(rb"u?int(8|16|32|64)_t\s+_mem_pool_\w+\s*\[\s*(\d+)\s*\]\s*=")
MODELS = re.compile(r"\.(tflite|onnx)$", re.IGNORECASE)
POINTER = b"version https://git-lfs.github.com/spec/"
LARGEST = 64 << 20
SMALLEST_NETWORK = 3000


@dataclass(frozen=True)
class Seen:
    """A version of a file."""

    blob: str
    path: str
    repo: str
    commit: str

    @property
    def cell(self) -> str:
        return f"{self.repo.replace('+', '/', 1)}@{self.commit[:8]}:{self.path}"

    @property
    def folder(self) -> str:
        return str(PurePosixPath(self.path).parent)


class Repository:
    """One bare repository: all versions of its files, and their contents."""

    def __init__(self, folder: Path) -> None:
        self.name, self.git = folder.name, str(folder / "repo")
        self.environment = dict(os.environ, GIT_NO_LAZY_FETCH="1")
        self.reader: subprocess.Popen[bytes] | None = None

    def versions(self) -> Iterator[Seen]:
        command = ["git", "--git-dir", self.git, "-c", "core.quotepath=off", "log", "--all", "-m", "--root", "--raw"]
        command += ["--no-abbrev", "--no-renames", "--format=commit %H"]
        text = subprocess.run(command, capture_output=True, env=self.environment, check=False).stdout
        commit = ""
        for line in text.decode("utf-8", "replace").splitlines():
            if line.startswith("commit "):
                commit = line[7:]
            elif line.startswith(":") and "\t" in line:
                meta, path = line.split("\t", 1)
                blob = meta.split()[3]
                if blob.strip("0"):
                    yield Seen(blob, path.strip('"'), self.name, commit)

    def at(self, commit: str, path: str) -> str:
        """The version of a file in a commit's tree, empty if it has none."""
        command = ["git", "--git-dir", self.git, "rev-parse", "--verify", "--quiet", f"{commit}:{path}"]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, check=False).stdout.strip()

    def read(self, blob: str) -> bytes | None:
        """The content, or nothing when it is absent, too large or a pointer."""
        if self.reader is None:
            command = ["git", "--git-dir", self.git, "cat-file", "--batch-command"]
            pipe = subprocess.PIPE
            self.reader = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=self.environment
            )
        size = self._ask(f"info {blob}")
        if size is None or size > LARGEST:
            return None
        self._ask(f"contents {blob}")
        assert self.reader.stdout is not None
        data = self.reader.stdout.read(size)
        self.reader.stdout.read(1)
        return None if data.startswith(POINTER) else data

    def _ask(self, what: str) -> int | None:
        assert self.reader is not None and self.reader.stdin is not None and self.reader.stdout is not None
        self.reader.stdin.write(what.encode() + b"\n")
        self.reader.stdin.flush()
        head = self.reader.stdout.readline().split()
        return int(head[2]) if len(head) == 3 and head[1] == b"blob" else None

    def close(self) -> None:
        if self.reader is not None and self.reader.stdin is not None:
            self.reader.stdin.close()
            self.reader.wait()


@dataclass
class Library:
    """All that was found in all repositories, by content."""

    networks: dict[str, list[Seen]] = field(default_factory=dict)
    headers: dict[str, list[Seen]] = field(default_factory=dict)
    weights: dict[str, list[Seen]] = field(default_factory=dict)
    models: dict[str, list[Seen]] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    repositories: dict[str, Repository] = field(default_factory=dict)


def survey(folders: list[Path], out: Path) -> Library:
    """Notes all versions; contents go to OUT/blobs once."""
    library = Library()
    for folder in folders:
        repository = library.repositories[folder.name] = Repository(folder)
        versions = list(repository.versions())
        looked: dict[str, bool] = {}
        for seen in versions:
            kind = _kind(seen.path, library)
            if kind is None:
                continue
            if seen.blob not in looked:
                looked[seen.blob] = _keep(repository, seen, kind is library.networks, out)
            if looked[seen.blob]:
                kind.setdefault(seen.blob, []).append(seen)
            elif kind is not library.networks:
                library.absent.add(seen.cell)
        repository.close()
        print(f"{folder.name}: {len(versions)} versions, {len(library.networks)} networks so far", flush=True)
    return library


def _kind(path: str, library: Library) -> dict[str, list[Seen]] | None:
    if LIBRARY.search(path) and not path.endswith("_ecblobs.h"):
        return None
    if path.endswith("_ecblobs.h"):
        return library.headers
    if WEIGHTS.search(path):
        return library.weights
    if path.endswith(".c"):
        return library.networks
    return library.models if MODELS.search(path) else None


def _keep(repository: Repository, seen: Seen, network: bool, out: Path) -> bool:
    path = out / "blobs" / seen.blob
    data = path.read_bytes() if path.is_file() else repository.read(seen.blob)
    if data is None or (network and (len(data) < SMALLEST_NETWORK or not DEFINES.search(data))):
        return False
    path.write_bytes(data)
    return True


# -------------------------------------------------------------------------------------------------------------- pairing


def place(blob: str, sightings: list[Seen], library: Library, out: Path, extents: dict[str, list[list[int]]]) -> str:
    """A folder for one network; gives its key."""
    first = min(sightings, key=lambda seen: (not seen.repo.startswith("STMicro"), seen.repo, seen.path))
    text = (out / "blobs" / blob).read_bytes()
    stem = PurePosixPath(first.path).stem
    header = _header(sightings, library)
    program = (out / "blobs" / header.blob).read_bytes() if header else b""
    key = hashlib.sha256(DATES.sub(b"", text) + DATES.sub(b"", program)).hexdigest()[:12]
    folder = out / key
    folder.mkdir(exist_ok=True)
    (folder / f"{stem}.c").write_bytes(text)
    if header:
        (folder / f"{stem}_ecblobs.h").write_bytes(program)
    found: dict[str, object] = {
        "stem": stem,
        "origin": first.cell,
        "seen": len(sightings),
        "header": header.cell if header else "",
        "models": _beside(sightings, library.models),
        "absent": _absent(sightings, library),
    }
    try:
        wanted = _needs(folder / f"{stem}.c", key, out)
        found["needs"] = wanted
        found["weights"] = {p: _weights(a, b, sightings, library, extents) for p, (a, b) in wanted.items()}
    except AtoncError as error:
        found["unreadable"] = error.one_line
    (folder / "found.json").write_text(json.dumps(found, indent=1))
    return key


def _needs(source: Path, key: str, out: Path) -> dict[str, list[int]]:
    """By pool: first address and end of the constants. Reading C takes time, so it is kept."""
    memo = out / "needs.json"
    known: dict[str, dict[str, list[int]]] = json.loads(memo.read_text()) if memo.exists() else {}
    if key not in known:
        known[key] = {need.pool.postfix: [need.pool.base, need.end] for need in needs(read_network(source))}
        memo.write_text(json.dumps(known))
    return known[key]


def _header(sightings: list[Seen], library: Library) -> Seen | None:
    """The blobs in the same folder, as they were when the C file was committed."""
    versions = {(s.repo, s.path): s for found in library.headers.values() for s in found}
    for seen in sightings:
        path = str(PurePosixPath(seen.path).with_name(f"{PurePosixPath(seen.path).stem}_ecblobs.h"))
        if (seen.repo, path) not in versions:
            continue
        blob = library.repositories[seen.repo].at(seen.commit, path)
        if blob in library.headers:
            return Seen(blob, path, seen.repo, seen.commit)
    return None


def _beside(sightings: list[Seen], kind: dict[str, list[Seen]]) -> list[tuple[str, str]]:
    repos = {s.repo for s in sightings}
    return sorted({(blob, s.cell) for blob, found in kind.items() for s in found[:1] if s.repo in repos})


def _absent(sightings: list[Seen], library: Library) -> list[str]:
    repos = {s.repo.replace("+", "/", 1) for s in sightings}
    return sorted(cell for cell in library.absent if cell.split("@")[0] in repos and WEIGHTS.search(cell))[:20]


def _weights(
    base: int, end: int, sightings: list[Seen], library: Library, extents: dict[str, list[list[int]]]
) -> list[tuple[str, str]]:
    """Files that hold exactly what the pool needs; the nearest first."""
    near = []
    for blob, found in library.weights.items():
        if not any(_fits(piece, base, end) for piece in extents[blob]):
            continue
        padding = min(length - (end - base) for start, length in extents[blob] if _fits([start, length], base, end))
        distance, best = min(((padding, *_distance(s, sightings)), s.cell) for s in found)
        near.append((distance, blob, best))
    return [(blob, cell) for _, blob, cell in sorted(near)]


def _fits(piece: list[int], base: int, end: int) -> bool:
    """Bare files have no address; those of ST's tool end where the constants end, copies may be padded a little."""
    start, length = piece
    return start in (0, base) and 0 <= length - (end - base) < 64


def _distance(candidate: Seen, sightings: list[Seen]) -> tuple[bool, bool, bool, bool]:
    name = PurePosixPath(candidate.path).name
    return min(
        (
            candidate.repo != s.repo,
            candidate.commit != s.commit,
            not name.startswith(f"{PurePosixPath(s.path).stem}_"),
            candidate.folder != s.folder,
        )
        for s in sightings
    )


def extents_of(library: Library, out: Path) -> dict[str, list[list[int]]]:
    """Where the bytes of each file go: address and length; address 0 for a bare file."""
    memo = out / "extents.json"
    known: dict[str, list[list[int]]] = json.loads(memo.read_text()) if memo.exists() else {}
    for blob, found in library.weights.items():
        if blob not in known:
            known[blob] = _extent(out / "blobs" / blob, found[0].path)
    memo.write_text(json.dumps(known))
    return known


def _extent(path: Path, name: str) -> list[list[int]]:
    if name.endswith(".c"):
        array = ARRAY.search(path.read_bytes())
        return [[0, int(array[1]) // 8 * int(array[2])]] if array else []
    if not name.lower().endswith(".hex"):
        return [[0, path.stat().st_size]]
    try:
        return [[address, len(data)] for address, data in read_hex(path)]
    except AtoncError:
        return []


def run(arguments: argparse.Namespace) -> Report:
    (arguments.out / "blobs").mkdir(parents=True, exist_ok=True)
    mirrors = (f for f in arguments.mirrors.iterdir() if asked_for(arguments.only, f.name))
    folders = sorted(f for f in mirrors if (f / "repo").is_dir())
    library = survey(folders, arguments.out)
    extents = extents_of(library, arguments.out)
    keys = {place(blob, sightings, library, arguments.out, extents) for blob, sightings in library.networks.items()}
    (arguments.out / "keys.json").write_text(json.dumps(sorted(keys)))
    print(f"{len(library.networks)} versions of C files, {len(keys)} distinct networks")
    return Report()
