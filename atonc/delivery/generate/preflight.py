"""What would stop the work at its end is looked at before it begins: folders, space, tools. Imports nothing heavy."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from atonc.machine.base.build_folder import Owner, require_free
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.words import is_are, listed

ROOM_BYTES = 8 << 20  # reports and C files of a usual network
TIMES_MODEL = 4  # images, blobs and the page are made of the model's own bytes


def check_folder(folder: Path, model: Path | None = None, owner: Owner | None = None) -> None:
    """A folder that can be written, or made, with room for what a network of this size gives; of nobody else."""
    if folder.exists() and not folder.is_dir():
        raise InputError("is not a folder", where=str(folder), remedy="name a folder with -o")
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise InputError(f"cannot be made: {there} is not a folder", where=str(folder))
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"cannot be written: no permission for {there}", where=str(folder), remedy="name another one")
    need = ROOM_BYTES + TIMES_MODEL * (model.stat().st_size if model is not None and model.is_file() else 0)
    free = shutil.disk_usage(there).free
    if free < need:
        raise InputError(
            f"{free >> 20:,} MiB are free, the files may take {need >> 20:,}",
            where=str(folder),
            remedy="make room, or name a folder on another disk",
        )
    require_free(folder, owner)


def check_file(file: Path | None) -> None:
    """A file that is to be written: its folder is there."""
    if file is None:
        return
    if file.is_dir():
        raise InputError("is a folder, not a file", where=str(file))
    parent = file.absolute().parent
    if not parent.is_dir():
        raise InputError(f"cannot be written: there is no folder {parent}", where=str(file), remedy="make it first")
    if not os.access(file if file.exists() else parent, os.W_OK):
        raise InputError("cannot be written: no permission", where=str(file), remedy="name another one")


def check_compiler() -> None:
    """The cross compiler, for everything that becomes Arm code."""
    from atonc.delivery.firmware.building import find_toolchain

    find_toolchain()


def check_packages(*names: str, extra: str) -> None:
    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise ToolError(
            f"{listed(missing)} {is_are(len(missing))} not installed", remedy=f"pip install 'atonc[{extra}]'"
        )


def check_reader(model: Path) -> None:
    """The package that reads this kind of model."""
    if model.suffix.lower() == ".onnx":
        check_packages("onnx", extra="models")
