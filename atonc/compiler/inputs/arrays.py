"""Arrays in .npy, .npz and .csv files. Sizes are looked at before memory is taken: few bytes may claim to hold very
many."""

from __future__ import annotations

import io
import re
import struct
import tokenize
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError

MAX_CSV_BYTES = 1 << 28
_TYPE = re.compile(r"\b(bool|u?int(?:8|16|32|64)|float(?:16|32|64))\b")
_SPLIT = re.compile(r"[,;\s]+")


def parse_csv(data: bytes, where: str) -> NDArray[Any]:
    """[samples, values]; a comment may name the element type, else whole numbers are codes and all others real."""
    text = data.decode("utf-8-sig", "replace")
    comments = [line for line in text.splitlines() if line.lstrip().startswith("#")]
    rows = [line.strip().strip(",;") for line in text.splitlines() if not line.lstrip().startswith("#")]
    rows = [row for row in rows if row]
    if not rows:
        raise InputError("holds no values", where=where)
    words = [_SPLIT.split(row) for row in rows]
    if len({len(row) for row in words}) != 1:
        number = next(k for k, row in enumerate(words) if len(row) != len(words[0]))
        raise InputError(
            f"line {number + 1} of the data has {len(words[number])} values, the first has {len(words[0])}", where=where
        )
    try:
        values = np.array(words, dtype=np.float64)
    except ValueError as error:
        raise InputError(f"cannot be read as numbers: {str(error)[:80]}", where=where) from None
    if not np.isfinite(values).all():
        raise InputError("holds values that are not numbers", where=where)
    named = _TYPE.search(" ".join(comments))
    whole = bool(np.array_equal(values, np.rint(values))) and not any("." in row or "e" in row for row in rows)
    return _as_type(values, named[1] if named else "int64" if whole else "float32", where)


def _as_type(values: NDArray[np.float64], dtype: str, where: str) -> NDArray[Any]:
    wanted = np.dtype(dtype)
    if wanted.kind in "iu":
        limits = np.iinfo(wanted)
        if values.min() < limits.min or values.max() > limits.max:
            raise InputError(f"values {values.min():g} to {values.max():g} are not all {dtype}", where=where)
    return values.astype(wanted)


def csv_text(value: NDArray[Any]) -> bytes:
    """The same form again: one sample a line."""
    flat = value.reshape(len(value), -1)
    kind = "%d" if flat.dtype.kind in "iub" else "%.9g"
    lines = [",".join(kind % v for v in row) for row in flat.tolist()]
    return ("\n".join([f"# shape {list(value.shape)} {value.dtype}", *lines]) + "\n").encode()


Array = NDArray[Any]

MAX_BYTES = 1 << 31
MAX_ARRAYS = 1000
HARMLESS_BYTES, MOST_TIMES = 64 << 20, 100  # what an archive may become in any case, and how often its own size else
NPY_MARK, ZIP_MARKS = b"\x93NUMPY", (b"PK\x03\x04", b"PK\x05\x06")
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, SyntaxError, OverflowError, RecursionError, EOFError),
    *(OSError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)


def is_arrays(data: bytes) -> bool:
    return data.startswith((NPY_MARK, *ZIP_MARKS))


def read_arrays(path: Path) -> dict[str, Array]:
    """By name; the array of an .npy or .csv has the name "". The contents tell which of the first two it is."""
    if is_csv(path):
        return {"": parse_csv(read_file(path, MAX_CSV_BYTES), str(path))}
    return parse_arrays(read_file(path, MAX_BYTES), str(path))


def is_csv(path: Path) -> bool:
    return path.suffix.lower() == ".csv"


def parse_arrays(data: bytes, where: str) -> dict[str, Array]:
    try:
        if data.startswith(NPY_MARK):
            return {"": _array(data, where)}
        if data.startswith(ZIP_MARKS):
            return _archive(data, where)
    except _DAMAGE as error:
        what = f"cannot be read as NumPy data: {str(error)[:200]}"
        remedy = "the file is damaged or cut off: write it again with numpy.save or numpy.savez"
        raise InputError(what, where=where, remedy=remedy) from None
    raise InputError("is neither .npy, .npz nor .csv", where=where, remedy="write it with numpy.save or numpy.savez")


def _array(data: bytes, where: str) -> Array:
    stream = io.BytesIO(data)
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise InputError(f"version {version} of the format is not read", where=where)
    shape, fortran, dtype = _HEADERS[version](stream)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        kinds = {"O": "Python objects (samples of different shapes?)", "U": "text", "S": "text", "c": "complex numbers"}
        raise InputError(
            f"holds {kinds.get(dtype.kind, 'values')} ({str(dtype)[:60]})", where=where,
            rule="arrays hold booleans, integers or floats of at most 8 bytes",
            remedy="stack the samples into one array of numbers: numpy.stack(samples).astype(numpy.float32)",
        )  # fmt: skip
    if any(type(size) is not int or size < 0 for size in shape) or len(shape) > 32:
        raise InputError(f"shape {str(shape)[:60]} is impossible", where=where)
    count, start = prod(shape), stream.tell()
    needed, there = count * dtype.itemsize, len(data) - start
    if needed > there:
        raise InputError(f"is cut off: {dtype} of shape {shape} takes {needed:,} bytes, not {there:,}", where=where,
                         remedy="copy the file again, or write it again with numpy.save")  # fmt: skip
    flat = np.frombuffer(data, dtype, count, start)
    found = flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)
    return found.astype(dtype.newbyteorder("="), copy=False)


def _archive(data: bytes, where: str) -> dict[str, Array]:
    found: dict[str, Array] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        _check_members(members, len(data), where)
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in found:
                raise InputError(f"holds two arrays called {name[:60]}", where=where)
            found[name] = _array(archive.read(member), f"{where}, {name[:60]}")
    return found


def _check_members(members: list[zipfile.ZipInfo], size_bytes: int, where: str) -> None:
    if len(members) > MAX_ARRAYS:
        raise InputError(f"holds {len(members)} arrays, at most {MAX_ARRAYS} are read", where=where)
    for member in members:
        if member.flag_bits & 1:
            raise InputError("is encrypted", where=where, remedy="write it with numpy.savez")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError("is packed as NumPy never packs", where=where, remedy="write it with numpy.savez")
    total = sum(member.file_size for member in members)
    if total > min(MAX_BYTES, max(HARMLESS_BYTES, MOST_TIMES * size_bytes)):
        raise InputError(f"its {size_bytes:,} bytes would become {total:,}", where=where, remedy="give fewer samples")
