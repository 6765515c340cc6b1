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


_LFS_POINTER = b"version https://git-lfs.github.com/spec/"


def read_bytes(path: Path) -> bytes:
    """The whole file, if it is a file of reasonable size and not what git-lfs leaves in its place."""
    data = read_file(path, MAX_FILE_BYTES)
    if data.startswith(_LFS_POINTER):
        raise ModelError(
            "is a pointer of git-lfs, not the model itself",
            where=str(path),
            remedy=f"git lfs pull --include '{path.name}' in its repository fetches the file",
        )
    return data


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
