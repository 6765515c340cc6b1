"""Files of several makers for one folder: a name is taken once. What is taken is read off the files themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from atonc.machine.base.errors import InputError


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
