"""Folders of pictures: one folder a class; or pictures with masks of the same name."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

from atonc.compiler.inputs.images import DAMAGE, FORMATS, MAX_BYTES, check_pixels
from atonc.insight.evaluating.datasets.types import MOST_SAMPLES, Dataset, DatasetEntry
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.progress import stage

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm")
IMAGES, MASKS = "images", "masks"


def picture_folder(folder: Path) -> Dataset:
    inside = sorted(_listed(folder), key=lambda path: path.name)
    folders = [path for path in inside if path.is_dir() and not path.name.startswith(".")]
    if {path.name for path in folders} == {IMAGES, MASKS}:
        return _masked(folder)
    if not folders:
        flat = [path for path in inside if is_picture(path)]
        if not flat:
            raise _empty(folder)
        return Dataset("pictures", tuple(DatasetEntry(path.name, path) for path in flat))
    entries, empty = [], []
    for number, each in enumerate(folders):
        found = sorted(path for path in _listed(each) if is_picture(path))
        entries += [DatasetEntry(f"{each.name}/{path.name}", path, truth=number) for path in found]
        empty += [] if found else [each.name]
    if not entries:
        raise _empty(folder)
    notes = (f"no pictures in {', '.join(empty[:5])}",) if empty else ()
    return Dataset("classes", tuple(entries), tuple(each.name for each in folders), notes)


def _masked(folder: Path) -> Dataset:
    """The mask of a picture has its name and holds a class in every pixel."""
    masks = {path.stem: path for path in _listed(folder / MASKS) if is_picture(path)}
    pictures = sorted(path for path in _listed(folder / IMAGES) if is_picture(path))
    if not pictures:
        raise _empty(folder / IMAGES)
    missing = [path.name for path in pictures if path.stem not in masks]
    if missing:
        raise InputError(
            f"{len(missing)} pictures have no mask, first {missing[0]}",
            where=str(folder / MASKS),
            remedy="a mask has the name of its picture",
        )
    found = (DatasetEntry(path.name, path, truth={"mask": str(masks[path.stem])}) for path in pictures)
    return Dataset("masks", tuple(found))


def _listed(folder: Path) -> list[Path]:
    with os.scandir(folder) as found:
        names = []
        for number, item in enumerate(found):
            if number > MOST_SAMPLES:
                raise InputError(f"more than {MOST_SAMPLES:,} files", where=str(folder))
            names.append(Path(item.path))
    return names


def _empty(folder: Path) -> InputError:
    return InputError(
        "holds no pictures",
        where=str(folder),
        rule=f"pictures end in {', '.join(SUFFIXES)}",
        remedy="give a folder with a folder of pictures for each class",
    )


def is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def require_whole(paths: Sequence[Path]) -> list[tuple[int, int]]:
    """Every picture can be read to its end: better known now than after hours. Width and height of each."""
    sizes = []
    for number, path in enumerate(paths):
        stage("looking at the pictures", number, len(paths))
        sizes.append(_size(path))
    return sizes


def _size(path: Path) -> tuple[int, int]:
    try:
        from PIL import Image
    except ImportError:
        raise ToolError("reading pictures needs Pillow", remedy="pip install 'atonc[evaluate]'") from None
    data = read_file(path, MAX_BYTES)
    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            check_pixels(image, str(path))
            image.load()
            width, height = image.size
            return width, height
    except DAMAGE as error:
        said = "unknown or damaged" if "BytesIO" in str(error) else str(error)[:200]
        raise InputError(
            f"cannot be read as a picture: {said}",
            where=str(path),
            rule=f"pictures are {', '.join(FORMATS)}, whole",
            remedy="mend it or take it away",
        ) from None
