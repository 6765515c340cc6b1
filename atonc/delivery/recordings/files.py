"""A recording as one .npz: the arrays have the names that ST's tool gives them, so that its scripts read them too;
`atonc` is the manifest as JSON. Files come from strangers: nothing in them is believed."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.inputs.arrays import is_arrays, parse_arrays
from atonc.delivery.recordings.recording import (
    EXPECTED,
    FORMAT,
    INPUTS,
    OUTPUTS,
    VERSION,
    RanWith,
    RecordedBlock,
    RecordedTensor,
    Recording,
    Statement,
    digest,
    whole_hash,
)
from atonc.machine.base.disk import read_file, write_file
from atonc.machine.base.errors import InputError

MANIFEST = "atonc"
MAX_BYTES = 1 << 30
MAX_BLOCKS, MAX_TENSORS, MAX_WORDS, MAX_TEXT = 100_000, 1000, 1000, 200
_WRITTEN_BY = "recordings are written by atonc validate --mode target --record and atonc load-and-run --record"
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
    shape = tuple(_whole(size, 1) for size in _some(told["shape"], 32))
    return RecordedTensor(
        shape, np.dtype(_text(told["dtype"])).str, _real(told["scale"]), _whole(told["zero_point"], -_COUNT)
    )


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
