"""How much of a stranger's file we are willing to read."""

from __future__ import annotations

from pathlib import Path

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import ModelError

MAX_FILE_BYTES = 512 << 20
MAX_TENSORS = 100_000
MAX_OPS = 50_000
MAX_OPERANDS = 4_096
MAX_RANK = 8
MAX_DIM = 1 << 24
MAX_ELEMENTS = 1 << 31
MAX_TOTAL_CONSTANT_BYTES = 1 << 30
MAX_NAME = 4_096


def read_bytes(path: Path) -> bytes:
    """The whole file, if it is a file of reasonable size."""
    return read_file(path, MAX_FILE_BYTES)


def count(number: int, limit: int, what: str) -> int:
    if number > limit:
        raise ModelError(f"{number} {what}, at most {limit} are supported")
    return number


def shape(dims: tuple[int, ...], where: str) -> tuple[int, ...]:
    """A shape whose product is safe to allocate."""
    if len(dims) > MAX_RANK:
        raise ModelError(f"{len(dims)} dimensions, at most {MAX_RANK} are supported", where=where)
    elements = 1
    for dim in dims:
        if not 0 <= dim <= MAX_DIM:
            raise ModelError(f"shape {dims} has an impossible dimension", where=where)
        elements *= dim
    if elements > MAX_ELEMENTS:
        raise ModelError(f"{elements} elements, at most {MAX_ELEMENTS} are supported", where=where)
    return dims
