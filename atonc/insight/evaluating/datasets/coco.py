"""COCO annotation files: pictures, categories, boxes, key points."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atonc.insight.evaluating.datasets.types import MOST_SAMPLES, Dataset, DatasetEntry
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError

_MOST_BYTES = 1 << 30
_FOLDERS = ("images", "val2017", "train2017")


def coco_data(path: Path, images: Path | None) -> Dataset:
    document = _document(path)
    classes = {c["id"]: str(c.get("name", c["id"])) for c in document["categories"]}
    pictures = {image["id"]: image for image in document["images"]}
    if not pictures:
        raise InputError("names no pictures", where=str(path))
    if len(pictures) != len(document["images"]):
        raise InputError("two pictures have one id", where=str(path))
    for annotation in document["annotations"]:
        _check(annotation, classes, pictures, path)
    folder = images or next((path.parent / n for n in _FOLDERS if (path.parent / n).is_dir()), path.parent)
    entries = []
    for key in sorted(pictures):
        file = folder / str(pictures[key]["file_name"])
        if not file.resolve().is_relative_to(folder.resolve()):
            raise InputError(f"the picture {str(file)[:120]} is outside of its folder", where=str(path))
        if not file.is_file():
            raise InputError(f"there is no picture {file}", where=str(path), remedy="name the folder with --images")
        entries.append(DatasetEntry(file.name, file, truth={"image": key}))
    return Dataset("coco", tuple(entries), tuple(classes[key] for key in sorted(classes)), coco=document)


def _document(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_file(path, _MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no JSON: {str(error)[:120]}", where=str(path)) from None
    parts = ("images", "annotations", "categories")
    if not isinstance(found, dict) or not all(isinstance(found.get(name), list) for name in parts):
        raise InputError("is no COCO file", where=str(path), rule=f"it has the lists {', '.join(parts)}")
    if any(not isinstance(item, dict) or not isinstance(item.get("id"), int) for n in parts for item in found[n]):
        raise InputError("has entries without an id", where=str(path))
    if any(not isinstance(image.get("file_name"), str) for image in found["images"]):
        raise InputError("has pictures without a file_name", where=str(path))
    if not found["categories"]:
        raise InputError("has no categories", where=str(path), rule="labels need classes")
    if len(found["annotations"]) > 10 * MOST_SAMPLES:
        raise InputError(f"{len(found['annotations']):,} annotations", where=str(path))
    return found


def _check(one: Mapping[str, Any], classes: Mapping[int, str], pictures: Mapping[int, Any], path: Path) -> None:
    where = f"{path}, annotation {one['id']}"
    if one.get("category_id") not in classes:
        raise InputError(
            f"its category {str(one.get('category_id'))[:20]} is not listed", where=where, rule="labels need classes"
        )
    if one.get("image_id") not in pictures:
        raise InputError(f"its picture {str(one.get('image_id'))[:20]} is not listed", where=where)
    box = one.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(isinstance(v, int | float) and v == v for v in box):
        raise InputError("its bbox is not x, y, width, height", where=where)
    points = one.get("keypoints", [])
    if not isinstance(points, list) or len(points) % 3 or not all(isinstance(v, int | float) for v in points):
        raise InputError("its keypoints are not x, y, visibility of each point", where=where)
