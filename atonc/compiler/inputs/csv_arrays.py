"""Arrays in .csv files as ST's validation reads and writes them: one sample a line, its values in memory order."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.errors import InputError

MAX_BYTES = 1 << 28
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
