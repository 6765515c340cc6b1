"""What a network computed on a board and how long it took, as one .npz, and a folder of such files that others may use.
It names neither people, files nor folders: models and programs are known by their hashes.

The arrays have the names that ST's tool gives them, so that its scripts read them too; `atonc` is the manifest as JSON.
Files come from strangers: nothing in them is believed, and what cannot be true is told.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.inputs.arrays import is_arrays, parse_arrays
from atonc.delivery.wire.messages import STM32N6
from atonc.machine.base.disk import read_file, write_file, write_files
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

FORMAT, VERSION = "atonc recording", 1
VIRTUAL = "virtual board"
# whoever gives something on needs to be allowed to: licences for data and code that let everybody use it
LICENCES = ("CC0-1.0", "CC-BY-4.0", "ODC-By-1.0", "Apache-2.0", "MIT", "BSD-3-Clause")
INPUTS, OUTPUTS, EXPECTED = "c_inputs", "c_outputs", "m_outputs"  # as ST's tool calls them: c_ the target, m_ the model
Array = NDArray[Any]


@dataclass(frozen=True)
class RecordedTensor:
    """An input or output, as one sample has it."""

    shape: tuple[int, ...]
    dtype: str
    scale: float
    zero_point: int


@dataclass(frozen=True)
class RecordedBlock:
    """Epochs that ran as one: cycles of the processor before, while and after the NPU worked; what was predicted."""

    first: int
    last: int
    before: int
    core: int
    after: int
    predicted_ms: float = 0.0

    @property
    def cycles(self) -> int:
        return self.before + self.core + self.after


@dataclass(frozen=True)
class Statement:
    """What only the giver knows."""

    board: str = ""  # VIRTUAL, or which one
    licence: str = ""  # its SPDX name


@dataclass(frozen=True)
class RanWith:
    """Versions and clocks, as the board told them, and what was asked of the compiler."""

    atonc: str
    firmware: str
    device: int
    cpu_hz: int
    npu_hz: int
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recording:
    stated: Statement
    ran_with: RanWith
    model_sha256: str  # of the model, or of the relocatable image; empty where nobody knew it
    program: str  # the firmware's hash of the network
    inputs: tuple[RecordedTensor, ...]
    outputs: tuple[RecordedTensor, ...]
    milliseconds: tuple[float, ...]  # of every sample
    blocks: tuple[RecordedBlock, ...]  # of the first sample
    arrays: Mapping[str, Array] = field(repr=False)  # INPUTS_1, ..., samples first

    @property
    def samples(self) -> int:
        return len(self.milliseconds)

    @property
    def virtual(self) -> bool:
        return self.stated.board == VIRTUAL

    @property
    def expects(self) -> bool:
        """Whether the outputs of the emulator are in it."""
        return f"{EXPECTED}_1" in self.arrays

    @property
    def different(self) -> int:
        """Bytes of the outputs that are not the emulator's."""
        pairs = ((self.array(OUTPUTS, k), self.array(EXPECTED, k)) for k in range(len(self.outputs)))
        return sum(different_bytes(mine, theirs) for mine, theirs in pairs) if self.expects else 0

    @property
    def blocks_ms(self) -> float:
        return 1e3 * sum(block.cycles for block in self.blocks) / self.ran_with.cpu_hz

    def array(self, side: str, index: int) -> Array:
        return self.arrays[f"{side}_{index + 1}"]

    def manifest(self) -> dict[str, Any]:
        """Everything but the arrays, with the hash of each, and one over all of it."""
        told: dict[str, Any] = {"format": FORMAT, "version": VERSION}
        told |= {key: value for key, value in asdict(self).items() if key != "arrays"}
        told["sha256"] = {name: digest(value) for name, value in sorted(self.arrays.items())}
        return {**told, "whole_sha256": whole_hash(told)}


def whole_hash(told: Mapping[str, Any]) -> str:
    words = {key: value for key, value in told.items() if key != "whole_sha256"}
    return hashlib.sha256(json.dumps(words, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def digest(value: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()


def different_bytes(one: Array, other: Array) -> int:
    flat = (np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8) for value in (one, other))
    return int((next(flat) != next(flat)).sum())


MANIFEST = "atonc"
MAX_BYTES = 1 << 30
MAX_BLOCKS, MAX_TENSORS, MAX_WORDS, MAX_TEXT = 100_000, 1000, 1000, 200
_WRITTEN_BY = "recordings are written by atonc board try, validate --mode target --record and load-and-run --record"
_HASH = re.compile(r"[0-9a-f]{32,64}")
_COUNT = 1 << 62


def write(path: Path, recording: Recording) -> None:
    arrays = dict(recording.arrays)
    arrays[MANIFEST] = np.frombuffer(json.dumps(recording.manifest(), indent=1).encode(), np.uint8)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    write_file(path, stream.getvalue())


def read(path: Path) -> Recording:
    stored = read_file(path, MAX_BYTES)
    if not is_arrays(stored):
        raise InputError("is no recording: no .npz of NumPy", where=str(path), remedy=_WRITTEN_BY)
    arrays = parse_arrays(stored, str(path))
    told = _manifest(arrays.pop(MANIFEST, None), str(path))
    try:
        found = _recording(told, arrays)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(path, f"{type(error).__name__}: {str(error)[:120]}") from None
    _check_hashes(path, told, found)
    return found


def _manifest(stored: Any, where: str) -> dict[str, Any]:
    if stored is None or stored.dtype != np.uint8 or stored.ndim != 1:
        raise InputError("is no recording: it has no manifest", where=where, remedy=_WRITTEN_BY)
    try:
        told = json.loads(stored.tobytes())
    except (ValueError, RecursionError):
        raise InputError("its manifest is not JSON", where=where) from None
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise InputError("is no recording of this format", where=where, rule=f"the manifest says {FORMAT!r}")
    if told.get("version") != VERSION:
        seen = str(told.get("version"))[:20]
        raise InputError(f"is version {seen} of the format, this atonc reads {VERSION}", where=where)
    return told


def _recording(told: Mapping[str, Any], arrays: Mapping[str, Any]) -> Recording:
    stated, ran = told["stated"], told["ran_with"]
    return Recording(
        stated=Statement(_text(stated["board"]), _text(stated["licence"])),
        ran_with=RanWith(
            _text(ran["atonc"]),
            _text(ran["firmware"]),
            _whole(ran["device"]),
            _whole(ran["cpu_hz"], 1),
            _whole(ran["npu_hz"]),
            tuple(_text(word) for word in _some(ran["options"], MAX_WORDS)),
        ),
        model_sha256=_hash(told["model_sha256"]),
        program=_hash(told["program"]),
        inputs=tuple(_tensor(one) for one in _some(told["inputs"], MAX_TENSORS)),
        outputs=tuple(_tensor(one) for one in _some(told["outputs"], MAX_TENSORS)),
        milliseconds=tuple(_real(value) for value in _some(told["milliseconds"], _COUNT)),
        blocks=tuple(_block(one) for one in _some(told["blocks"], MAX_BLOCKS)),
        arrays=arrays,
    )


def _tensor(told: Mapping[str, Any]) -> RecordedTensor:
    shape, dtype = (_whole(size, 1) for size in _some(told["shape"], 32)), np.dtype(_text(told["dtype"])).str
    return RecordedTensor(tuple(shape), dtype, _real(told["scale"]), _whole(told["zero_point"], -_COUNT))


def _block(told: Mapping[str, Any]) -> RecordedBlock:
    numbers = {name: _whole(told[name]) for name in ("first", "last", "before", "core", "after")}
    return RecordedBlock(**numbers, predicted_ms=_real(told["predicted_ms"]))


def _some(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"a list of at most {most} is wanted")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT or not value.isprintable():
        raise ValueError(f"a text of at most {MAX_TEXT} printable characters is wanted")
    return value


def _hash(value: Any) -> str:
    text = _text(value)
    if text and not _HASH.fullmatch(text):
        raise ValueError(f"{text[:20]!r} is no hash")
    return text


def _whole(value: Any, least: int = 0) -> int:
    if type(value) is not int or not least <= value < _COUNT:
        raise ValueError(f"a whole number from {least} on is wanted, not {str(value)[:30]}")
    return value


def _real(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value):
        raise ValueError(f"a number is wanted, not {str(value)[:30]}")
    return float(value)


def _check_hashes(path: Path, told: Mapping[str, Any], found: Recording) -> None:
    """Names, types, shapes and contents are those that the manifest tells."""
    sides = {INPUTS: found.inputs, OUTPUTS: found.outputs} | ({EXPECTED: found.outputs} if found.expects else {})
    wanted = {f"{side}_{k + 1}": one for side, tensors in sides.items() for k, one in enumerate(tensors)}
    if set(wanted) != set(found.arrays):
        odd = sorted(set(wanted) ^ set(found.arrays))
        raise _damaged(path, f"{', '.join(odd)[:100]} is missing or too many")
    hashes = told.get("sha256")
    if not isinstance(hashes, dict):
        raise _damaged(path, "it has no hashes")
    for name, tensor in wanted.items():
        value = found.arrays[name]
        if (value.dtype.str, value.shape) != (tensor.dtype, (found.samples, *tensor.shape)):
            raise _damaged(path, f"{name} is {value.dtype.str} of shape {value.shape}")
        if hashes.get(name) != digest(value):
            raise _damaged(path, f"the bytes of {name} are not those that were recorded")
    if told.get("whole_sha256") != whole_hash(told):
        raise _damaged(path, "the manifest is not the one that was written")


def _damaged(path: Path, seen: str) -> InputError:
    rule = "every array and the manifest have the hash with which they were recorded"
    return InputError(f"is damaged or was edited: {seen}", where=str(path), rule=rule, remedy="record again")


# layer by layer an inference takes a little longer than at once; a board that disagrees more measured something else
LEAST_SHARE, MOST_SHARE = 0.5, 2.0
MOST_MS = 600_000.0
CLOCKS_HZ = (4_000_000, 1_200_000_000)  # the slowest oscillator of the chip, and more than its fastest clock


@dataclass(frozen=True)
class Fault:
    rule: str
    seen: str
    remedy: str


def faults(recording: Recording) -> tuple[Fault, ...]:
    """What cannot be true."""
    return (*_time_faults(recording), *_other_faults(recording))


def gaps(recording: Recording) -> tuple[Fault, ...]:
    """What is missing before it can be given to others."""
    found = []
    stated = recording.stated
    if not stated.board:
        found.append(Fault("it says what it ran on", "no board", "record with --record-board NAME"))
    if stated.licence not in LICENCES:
        allowed = ", ".join(LICENCES)
        seen = f"licence {stated.licence!r}" if stated.licence else "no licence"
        found.append(Fault(f"everybody may use it: {allowed}", seen, "record with --record-licence CC0-1.0"))
    if not recording.model_sha256:
        found.append(Fault("the model is known by its hash", "no hash of the model", "record from the model's file"))
    return tuple(found)


def _time_faults(recording: Recording) -> Iterator[Fault]:
    if not recording.milliseconds:
        yield Fault("there is at least one sample", "none", "record again")
    for k, value in enumerate(recording.milliseconds, 1):
        if not 0 < value <= MOST_MS:
            yield Fault(f"an inference takes up to {MOST_MS:,.0f} ms", f"sample {k}: {value:g} ms", "record again")
    if recording.blocks and recording.milliseconds and recording.milliseconds[0] > 0:
        share = recording.blocks_ms / recording.milliseconds[0]
        if not LEAST_SHARE <= share <= MOST_SHARE:
            seen = f"blocks {recording.blocks_ms:.3f} ms, inference {recording.milliseconds[0]:.3f} ms"
            yield Fault("epoch times add up to the inference", seen, "record again: one of the two is wrong")
    for block in recording.blocks:
        if block.first > block.last:
            seen = f"a block from epoch {block.first} to {block.last}"
            yield Fault("a block ends behind its start", seen, "record again")
    for before, block in pairwise(recording.blocks):
        if block.first <= before.last:
            seen = f"epoch {block.first} behind {before.last}"
            yield Fault("every epoch runs once, in order", seen, "record again")


def _other_faults(recording: Recording) -> Iterator[Fault]:
    ran, stated = recording.ran_with, recording.stated
    if ran.device != STM32N6:
        yield Fault(f"the chip is an STM32N6 ({STM32N6:#x})", f"device {ran.device:#x}", "record on this chip")
    for what, clock in (("CPU", ran.cpu_hz), *((("NPU", ran.npu_hz),) if ran.npu_hz else ())):
        if not CLOCKS_HZ[0] <= clock <= CLOCKS_HZ[1]:
            yield Fault("clocks are possible on this chip", f"{what} at {clock:,} Hz", "record again")
    for text in (ran.firmware, ran.atonc, stated.board, stated.licence, *ran.options):
        if "/" in text or "\\" in text:
            yield Fault("it names no folders", f"{text[:60]!r}", "record again with files of the current folder")
    for what, tensors in (("input", recording.inputs), ("output", recording.outputs)):
        if not tensors:
            yield Fault(f"a network has an {what}", "none", "record again")


# -------------------------------------------------------------------------------------------------- a folder of them

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
    recording = read(path)
    wrong = [*faults(recording), *gaps(recording)]
    if wrong:
        first = wrong[0]
        more = f" ({len(wrong) - 1} more: atonc recordings check)" if len(wrong) > 1 else ""
        raise InputError(f"{first.seen}{more}", where=str(path), rule=first.rule, remedy=first.remedy)
    content = read_file(path, MAX_BYTES)
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
    return [(path.name, read(path)) for path in paths]


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def table(folder: Path) -> str:
    rows = []
    for name, one in collected(folder):
        known = (name, _board(one), one.model_sha256[:12], _clocks(one))
        inference = f"{min(one.milliseconds):.3f} ms"
        rows.append(_cells(*known, str(one.samples), inference, _unlike(one), one.stated.licence))
    return _HEAD + "".join(f"{row}\n" for row in rows)


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
    rows = [head, "|---|---|---|---|---:|---:|---:|"]
    for name, one in found:
        recorded, predicted = min(one.milliseconds), sum(block.predicted_ms for block in one.blocks)
        times = (f"{predicted:.3f}", f"{recorded / predicted:.2f}") if predicted else ("not told", "")
        known = (f"`{name}`", _board(one), one.model_sha256[:12], _clocks(one))
        rows.append(_cells(*known, f"{recorded:.3f}", *times))
    return "\n".join(rows)


def evidence_table(folder: Path) -> str:
    """What recordings show about the silicon: only boards show anything, and only where outputs were worked out."""
    found = collected(folder)
    shown = [(name, one) for name, one in found if not one.virtual]
    if not shown:
        emulated = f"; {count(len(found), 'recording')} of the virtual board does not count" if found else ""
        return f"No recording of a board yet{emulated}."
    head = "| recording | ran on | program | clocks CPU / NPU | epochs | samples | bytes not emulated |"
    rows = [head, "|---|---|---|---|---:|---:|---:|"]
    for name, one in shown:
        epochs = sum(block.last - block.first + 1 for block in one.blocks)
        known = (f"`{name}`", one.stated.board, one.program[:12] or "not told", _clocks(one))
        rows.append(_cells(*known, str(epochs), str(one.samples), _unlike(one)))
    return "\n".join(rows)


def ran_on_a_board(folder: Path) -> bool:
    return any(not one.virtual for _, one in collected(folder))
