"""Files of the user: read with a limit, written whole."""

from __future__ import annotations

import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from atonc.machine.base.errors import InputError
from atonc.machine.base.words import listed

HIDDEN = ".atonc-"  # begins the names of folders in which files wait until all are there
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){100}""")  # takes too long
_MOST_NAMES = 1000  # of a folder that are looked at for one that was meant
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # opening a pipe must not wait


def read_file(path: Path, most_bytes: int) -> bytes:
    """The whole file, if it is one: devices and pipes have no end."""
    with _opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_bytes:
            raise InputError(f"{size:,} bytes, at most {most_bytes:,} are read", where=str(path))
        return file.read(size)


def read_start(path: Path, count: int = 16) -> bytes:
    """The first bytes, which tell what kind of file it is."""
    with _opened(path) as file:
        return file.read(count)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        handle = os.open(path, _FLAGS)
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            os.close(handle)
            raise InputError(f"is {_kind(mode)}, not a file", where=str(path))
        with open(handle, "rb") as file:
            yield file
    except FileNotFoundError:
        raise missing(path) from None
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise InputError(f"cannot be read: {_reason(error)}", where=str(path)) from None


def missing(path: Path, what: str = "file") -> InputError:
    """What is said of a name that is not there: the nearest ones that are."""
    if what == "file" and os.path.exists(path):
        return InputError(f"is {_kind(path.stat().st_mode)}, not a file", where=str(path), remedy="name the file")
    try:
        there = sorted(entry.name for entry in islice(os.scandir(path.absolute().parent), _MOST_NAMES))
    except (OSError, ValueError):
        return InputError(f"there is no such {what}, nor its folder", where=str(path), remedy="look at the path")
    near = [str(path.with_name(name)) for name in get_close_matches(path.name, there, n=3, cutoff=0.7)]
    remedy = f"did you mean {listed(near, 'or')}?" if near else "look at the name, and at the folder that you are in"
    return InputError(f"there is no such {what}", where=str(path), remedy=remedy)


def read_text(path: Path, most_bytes: int) -> str:
    """UTF-8 with or without its mark; what is no text shows as question marks where it matters, or fails there."""
    return read_file(path, most_bytes).decode("utf-8-sig", "replace").replace("\r\n", "\n")


def read_toml(text: str) -> dict[str, Any]:
    """The whole text as a table; a mistake is a `tomllib.TOMLDecodeError`, or a RecursionError."""
    if it := _LONG_KEY.search(text):
        raise tomllib.TOMLDecodeError(f"Key of 100 parts (at line {text[: it.end()].count(chr(10)) + 1}, column 1)")
    return tomllib.loads(text)


def write_file(path: Path, content: bytes) -> None:
    """Complete or as it was before; devices and pipes are written to directly."""
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)
        else:
            _replace(path, content)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be written: {_reason(error)}", where=str(path)) from None


def write_files(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """All of them at the end, when nothing can go wrong any more; what else is in the folder stays."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=HIDDEN, dir=folder) as hidden:
            for file, content in files.items():
                Path(hidden, file).write_bytes(content)
            for file in files:
                move(Path(hidden, file), folder / file)
    except OSError as error:
        raise InputError(f"cannot be written: {_reason(error)}", where=str(folder)) from None
    return [folder / file for file in files]


def _replace(path: Path, content: bytes) -> None:
    target = Path(os.path.realpath(path))  # a link stays one
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
    except PermissionError:  # of the folder; the file itself may allow it
        target.write_bytes(content)
        return
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o666 & ~umask())
        move(Path(name), target)
    finally:
        Path(name).unlink(missing_ok=True)


def move(source: Path, target: Path) -> None:
    """Into its place at once; a file that is mounted by itself cannot be exchanged, so its contents are."""
    try:
        os.replace(source, target)
    except OSError:
        if not target.is_file():
            raise
        target.write_bytes(source.read_bytes())


def umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _kind(mode: int) -> str:
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}
    return next((name for test, name in kinds.items() if test(mode)), "a device")


def together(parts: Iterable[tuple[str, Mapping[str, bytes]]]) -> dict[str, bytes]:
    """(maker, its files), in order. Two makers may have the same file, not two files of one name; capitals make no
    difference, as on many disks."""
    found: dict[str, bytes] = {}
    makers: dict[str, tuple[str, str]] = {}
    for maker, files in parts:
        for file, data in files.items():
            other, name = makers.setdefault(file.casefold(), (maker, file))
            if found.setdefault(name, data) != data:
                raise InputError(
                    f"{other} and {maker} both have a file {file}",
                    rule="every file of a folder is written once",
                    remedy="give the network another name (-n, or `name` in the application file)",
                )
    return found
