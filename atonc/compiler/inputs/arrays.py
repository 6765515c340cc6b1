"""Arrays in .npy and .npz files. Sizes are looked at before memory is taken: few bytes may claim to hold very many."""

from __future__ import annotations

import io
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

from atonc.compiler.inputs import csv_arrays
from atonc.compiler.inputs.csv_arrays import parse_csv
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError

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
        return {"": parse_csv(read_file(path, csv_arrays.MAX_BYTES), str(path))}
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
        raise InputError(f"cannot be read as NumPy data: {str(error)[:200]}", where=where) from None
    raise InputError("is neither .npy, .npz nor .csv", where=where, remedy="write it with numpy.save or numpy.savez")


def _array(data: bytes, where: str) -> Array:
    stream = io.BytesIO(data)
    version = npy.read_magic(stream)
    if version not in _HEADERS:
        raise InputError(f"version {version} of the format is not read", where=where)
    shape, fortran, dtype = _HEADERS[version](stream)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise InputError(f"holds {str(dtype)[:60]}", where=where, rule="arrays hold booleans, integers or floats")
    if any(type(size) is not int or size < 0 for size in shape) or len(shape) > 32:
        raise InputError(f"shape {str(shape)[:60]} is impossible", where=where)
    count, start = prod(shape), stream.tell()
    needed, there = count * dtype.itemsize, len(data) - start
    if needed > there:
        raise InputError(f"is cut off: {dtype} of shape {shape} takes {needed:,} bytes, not {there:,}", where=where)
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
