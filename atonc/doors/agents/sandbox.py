"""The folder that an agent works in: every path of a call is a name in it, and leads nowhere else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import size_text

FILE, INPUT, OUTPUT_FILE, OUTPUT_FOLDER = "file", "file or folder", "file to write", "folder to write"
LONGEST_PATH = 1000  # characters
MOST_ENTRIES = 100_000  # of a folder that is read: more images than any calibration uses
_INSIDE = "paths are relative to the folder that atonc mcp was started with, and stay in it"


@dataclass(frozen=True)
class Sandbox:
    root: Path  # without links
    most_bytes: int  # of a file, or of all files of a folder

    def path(self, given: object, kind: str, name: str) -> str:
        """A path of a call as a word for a command line that runs in the folder; refused if it is none."""
        text = _relative(given, name)
        place = Path(os.path.realpath(self.root / text))
        if not place.is_relative_to(self.root):
            raise InputError("leads out of the folder", where=f"{name} {text!r}", rule=_INSIDE, remedy="copy it there")
        if kind in (OUTPUT_FILE, OUTPUT_FOLDER):
            self._check_output(place, kind, f"{name} {text!r}")
        else:
            self._check_input(place, kind, f"{name} {text!r}")
        return text

    def _check_input(self, place: Path, kind: str, where: str) -> None:
        try:
            found = place.stat()
        except OSError:
            there = sorted(entry.name for entry in os.scandir(self.root) if entry.is_file())[:20]
            remedy = f"the folder has {', '.join(there)}" if there else "the folder has no files"
            raise InputError("there is no such file", where=where, remedy=remedy) from None
        if stat.S_ISDIR(found.st_mode) and kind == INPUT:
            self._check_folder(place, where)
        elif not stat.S_ISREG(found.st_mode):
            raise InputError(
                f"is no {kind}", where=where, rule="folders, devices and pipes are not read here", remedy="name a file"
            )
        elif found.st_size > self.most_bytes:
            raise self._too_large(found.st_size, where)

    def _check_folder(self, place: Path, where: str) -> None:
        """Nothing in it leads elsewhere, and it can be read in a sensible time."""
        entries = total = 0
        for folder, _, files in os.walk(place):
            for name in (*files, "."):
                entries += 1
                found = Path(folder, name)
                status = found.lstat()
                if entries > MOST_ENTRIES:
                    raise InputError(
                        f"has more than {MOST_ENTRIES:,} entries", where=where, remedy="name a smaller one"
                    )
                if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
                    raise InputError(
                        f"{name!r} in it is a link, a device or a pipe", where=where, rule=_INSIDE, remedy="remove it"
                    )
                total += status.st_size if stat.S_ISREG(status.st_mode) else 0
        if total > self.most_bytes:
            raise self._too_large(total, where)

    def _check_output(self, place: Path, kind: str, where: str) -> None:
        if place == self.root:
            raise InputError("is the folder itself", where=where, remedy="name a folder or file in it")
        if kind == OUTPUT_FOLDER and place.is_dir():
            self._check_folder(place, where)
        elif place.exists() and (kind == OUTPUT_FOLDER or not place.is_file()):
            raise InputError(f"is no {kind}", where=where, remedy="give it another name")

    def _too_large(self, size: int, where: str) -> InputError:
        rule = f"at most {size_text(self.most_bytes)} are read"
        return InputError(f"has {size_text(size)}", where=where, rule=rule, remedy="start atonc mcp with --max-upload")


def _relative(given: object, name: str) -> str:
    if not isinstance(given, str) or not given:
        raise InputError(f"{str(given)[:60]!r} is no path", where=name, rule=_INSIDE, remedy="name a file or folder")
    where = f"{name} {given[:60]!r}"
    if len(given) > LONGEST_PATH or not given.isprintable():
        raise InputError(
            "is no path that is taken",
            where=where,
            rule=f"up to {LONGEST_PATH} printable characters",
            remedy="rename it",
        )
    if given.startswith("-"):
        raise InputError("begins like an option", where=where, remedy="write ./ before it")
    if Path(given).is_absolute() or ".." in Path(given).parts:
        raise InputError("leads out of the folder", where=where, rule=_INSIDE, remedy="give a relative path without ..")
    return given
