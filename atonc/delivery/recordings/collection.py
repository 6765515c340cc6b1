"""A folder of recordings that others may use: each file under its own name, and one table made from all of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from atonc.delivery.recordings import checks, files
from atonc.delivery.recordings.recording import Recording
from atonc.machine.base.disk import read_file, write_file, write_files
from atonc.machine.base.errors import InputError

TABLE = "INDEX.md"
MAX_FILES = 10_000
_HEAD = (
    "# Recordings\n\n"
    "Made by `atonc recordings add`. What ran on the virtual board is emulated; all else was recorded on hardware by\n"
    "its giver. `atonc recordings check FILE` looks at one, docs/recordings.md has the format.\n\n"
    "| file | ran on | model (SHA-256) | clocks CPU / NPU | samples | inference | bytes not emulated | licence |\n"
    "|---|---|---|---|---:|---:|---:|---|\n"
)


def add(path: Path, folder: Path) -> Path:
    """Copies it there under its own name and writes the table anew; what is not true or not given is refused."""
    recording = files.read(path)
    wrong = [*checks.faults(recording), *checks.gaps(recording)]
    if wrong:
        first = wrong[0]
        more = f" ({len(wrong) - 1} more: atonc recordings check)" if len(wrong) > 1 else ""
        raise InputError(f"{first.seen}{more}", where=str(path), rule=first.rule, remedy=first.remedy)
    content = read_file(path, files.MAX_BYTES)
    target = folder / file_name(recording, content)
    write_files(folder, {target.name: content})
    write_file(folder / TABLE, table(folder).encode())
    return target


def file_name(recording: Recording, content: bytes) -> str:
    board = re.sub(r"[^a-z0-9]+", "-", recording.stated.board.lower()).strip("-") or "board"
    return f"{board}-{hashlib.sha256(content).hexdigest()[:12]}.npz"


def table(folder: Path) -> str:
    paths = sorted(folder.glob("*.npz"))
    if len(paths) > MAX_FILES:
        raise InputError(f"holds {len(paths):,} recordings, at most {MAX_FILES:,} are listed", where=str(folder))
    return _HEAD + "".join(f"| {' | '.join(_row(path))} |\n" for path in paths)


def _row(path: Path) -> Sequence[str]:
    one = files.read(path)
    ran = one.ran_with
    clocks = f"{ran.cpu_hz / 1e6:g} / {f'{ran.npu_hz / 1e6:g}' if ran.npu_hz else '?'} MHz"
    board = f"{one.stated.board} (emulated)" if one.virtual else one.stated.board
    unlike = f"{one.different:,}" if one.expects else "not compared"
    inference = f"{min(one.milliseconds):.3f} ms"
    return path.name, board, one.model_sha256[:12], clocks, str(one.samples), inference, unlike, one.stated.licence
