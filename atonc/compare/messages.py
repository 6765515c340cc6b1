"""Arrays and a few words between two processes: a length, a header in JSON, the bytes of the arrays."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from atonc.ir import Array

_LENGTH = struct.Struct("<I")
_MAX_HEADER = 1 << 26


def send(stream: IO[bytes], words: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    listed = {name: np.ascontiguousarray(value).reshape(value.shape) for name, value in arrays.items()}
    about = [[name, value.dtype.str, value.shape] for name, value in listed.items()]
    header = json.dumps({"words": dict(words), "arrays": about}).encode()
    stream.write(_LENGTH.pack(len(header)) + header)
    for value in listed.values():
        stream.write(value.tobytes())
    stream.flush()


def receive(stream: IO[bytes]) -> tuple[dict[str, Any], dict[str, Array]]:
    """EOFError: the other side has gone, also in the middle of a message."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    if length > _MAX_HEADER:
        raise EOFError("no message")
    header = json.loads(_exactly(stream, length))
    arrays = {}
    for name, code, shape in header["arrays"]:
        dtype = np.dtype(code)
        data = _exactly(stream, int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
        arrays[name] = np.frombuffer(data, dtype).reshape(shape)
    return header["words"], arrays


def _exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise EOFError("the stream ended early")
    return data
