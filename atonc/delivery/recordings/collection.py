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
from atonc.machine.base.words import count

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


def collected(folder: Path) -> list[tuple[str, Recording]]:
    """Every recording of a folder with the name of its file; none where there is no folder."""
    paths = sorted(folder.glob("*.npz"))
    if len(paths) > MAX_FILES:
        raise InputError(f"holds {len(paths):,} recordings, at most {MAX_FILES:,} are listed", where=str(folder))
    return [(path.name, files.read(path)) for path in paths]


def table(folder: Path) -> str:
    return _HEAD + "".join(f"| {' | '.join(_row(*one))} |\n" for one in collected(folder))


def _row(name: str, one: Recording) -> Sequence[str]:
    inference = f"{min(one.milliseconds):.3f} ms"
    samples, licence = str(one.samples), one.stated.licence
    return name, _board(one), one.model_sha256[:12], _clocks(one), samples, inference, _unlike(one), licence


def _board(one: Recording) -> str:
    return f"{one.stated.board} (emulated)" if one.virtual else one.stated.board


def _clocks(one: Recording) -> str:
    ran = one.ran_with
    return f"{ran.cpu_hz / 1e6:g} / {f'{ran.npu_hz / 1e6:g}' if ran.npu_hz else '?'} MHz"


def _unlike(one: Recording) -> str:
    return f"{one.different:,}" if one.expects else "not compared"


def latency_table(folder: Path) -> str:
    """Recorded beside predicted, for the page about latency."""
    found = collected(folder)
    if not found:
        return "No recording has been given yet."
    head = "| recording | ran on | model (SHA-256) | clocks CPU / NPU | recorded ms | predicted ms | ratio |"
    return "\n".join([head, "|---|---|---|---|---:|---:|---:|", *(_latency_row(*one) for one in found)])


def _latency_row(name: str, one: Recording) -> str:
    recorded, predicted = min(one.milliseconds), sum(block.predicted_ms for block in one.blocks)
    times = (f"{predicted:.3f}", f"{recorded / predicted:.2f}") if predicted else ("not told", "")
    cells = (f"`{name}`", _board(one), one.model_sha256[:12], _clocks(one), f"{recorded:.3f}", *times)
    return f"| {' | '.join(cells)} |"


def evidence_table(folder: Path) -> str:
    """What recordings show about the silicon: only boards show anything, and only where outputs were worked out."""
    found = collected(folder)
    shown = [(name, one) for name, one in found if not one.virtual]
    if not shown:
        emulated = f"; {count(len(found), 'recording')} of the virtual board shows nothing about it" if found else ""
        return f"No recording of a board has been given yet{emulated}."
    head = "| recording | ran on | program | clocks CPU / NPU | epochs | samples | bytes not emulated |"
    return "\n".join([head, "|---|---|---|---|---:|---:|---:|", *(_evidence_row(*one) for one in shown)])


def _evidence_row(name: str, one: Recording) -> str:
    epochs = sum(block.last - block.first + 1 for block in one.blocks)
    known = one.program[:12] or "not told"
    cells = (f"`{name}`", one.stated.board, known, _clocks(one), str(epochs), str(one.samples), _unlike(one))
    return f"| {' | '.join(cells)} |"


def ran_on_a_board(folder: Path) -> bool:
    return any(not one.virtual for _, one in collected(folder))
