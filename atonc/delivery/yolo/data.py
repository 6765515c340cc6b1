"""The data set of Ultralytics (data.yaml, and a text file for each image) as a COCO file, as all of atonc reads it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from atonc.delivery.deploy.config import read_yaml
from atonc.delivery.yolo.heads import CLASSIFY, POSE, YoloModel
from atonc.insight.evaluating.datasets import MOST_SAMPLES, is_picture_file, picture_size
from atonc.insight.quantizing.types import LEAST_SAMPLES
from atonc.machine.base import progress
from atonc.machine.base.disk import missing, read_text
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

_MOST_BYTES = 1 << 24  # of a text file


@dataclass(frozen=True)
class YoloData:
    """Both parts, each a file that `quantize` and `evaluate` take; `images`: the folder that their names begin in."""

    calibration: Mapping[str, Any] | Path
    validation: Mapping[str, Any] | Path
    images: Path
    said: str  # which images calibrate


def read_data(path: Path, model: YoloModel) -> YoloData:
    """A .yaml with `path`, `train`, `val`, `names`; for classes a folder with `train` and `val`."""
    if not path.exists():
        raise missing(path, "file or folder")
    if model.task == CLASSIFY:
        return _of_classes(path, model)
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise InputError(
            "is no data.yaml", where=str(path), rule="Ultralytics has data sets as a .yaml: path, train, val, names",
            remedy="quantize and evaluate take folders, COCO files and arrays",
        )  # fmt: skip
    values = read_yaml(path, remedy="give the data.yaml of the training: path, train, val, names").values
    names = _names(values, path, model)
    if model.names and len(names) != len(model.names):
        raise InputError(
            f"{count(len(names), 'class', 'classes')}, the model has {len(model.names)}",
            where=str(path),
            rule="names are the classes that the model was trained on",
            remedy="give the data.yaml of the training",
        )
    _require_order(names, model, path)
    parts = {part: _images(values, part, path) for part in ("val", "train") if values.get(part)}
    if "val" not in parts:
        raise InputError(
            "has no val", where=str(path), rule="accuracy is measured on the images of val",
            remedy="add val: with a folder of images",
        )  # fmt: skip
    part = "train" if parts.get("train") else "val"
    _require_enough(parts[part], part, path)
    folder = Path(os.path.commonpath([one.parent for images in parts.values() for one in images]))
    document = _coco(parts["val"], folder, names, model)
    return YoloData(_listed(parts[part], folder, names), document, folder, part)


def _of_classes(path: Path, model: YoloModel) -> YoloData:
    """Folders of classes; `test` where there is no `val`, as Ultralytics has it."""
    parts = {part: path / part for part in ("train", "val", "test") if (path / part).is_dir()}
    judged = parts.get("val") or parts.get("test")
    if judged is None:
        raise InputError(
            "has no folder val", where=str(path), rule="classes have a folder with train and val, in each a folder "
            "of images for each class", remedy="name the folder above val",
        )  # fmt: skip
    found = sorted(one.name for one in islice(judged.iterdir(), MOST_SAMPLES) if one.is_dir())
    if model.names and len(found) != len(model.names):
        raise InputError(
            f"{count(len(found), 'folder')} of classes, the model has {count(len(model.names), 'class', 'classes')}",
            where=str(judged),
            rule="the folders in the order of their names are the classes",
            remedy="give the data set of the training; empty folders count",
        )
    if not set(found).isdisjoint(model.names):  # networks for ImageNet have other words than its folders
        _require_order(found, model, judged)
    part = "train" if "train" in parts else judged.name
    _require_enough(_inside(parts[part]), part, path)
    return YoloData(parts.get("train", judged), judged, path, part)


def _require_order(names: Sequence[str], model: YoloModel, path: Path) -> None:
    """Labels count classes: with names in another order all of them mean something else."""
    pairs = [(k, given[:100], own) for k, (given, own) in enumerate(zip(names, model.names, strict=False))]
    wrong = [f"{k} is {given!r}, in the model {own!r}" for k, given, own in pairs if given != own]
    if wrong:
        raise InputError(
            f"{count(len(wrong), 'class has', 'classes have')} another name in the model: {', '.join(wrong[:3])}",
            where=str(path),
            rule="labels are numbers of the classes that the model was trained on, in their order and spelling",
            remedy=f"give the data set of the training; names of the model: {', '.join(model.names)[:200]}",
        )


def _require_enough(images: Iterable[Path], part: str, path: Path) -> None:
    found = sum(1 for _ in islice(images, LEAST_SAMPLES))
    if found < LEAST_SAMPLES:
        raise InputError(
            f"{part}: {count(found, 'image')}, too few", where=str(path),
            rule=f"ranges of activations need at least {LEAST_SAMPLES}, 100 are usual", remedy=f"put more into {part}",
        )  # fmt: skip


def _names(values: Mapping[str, Any], path: Path, model: YoloModel) -> tuple[str, ...]:
    names, number = _written_names(values, path), values.get("nc")
    if names and number is not None and number != len(names):
        raise InputError(
            f"nc is {str(number)[:40]}, names are {len(names)}", where=str(path), rule="nc is the number of names",
            remedy="give the data.yaml of the training, or leave nc out",
        )  # fmt: skip
    if names:
        return names
    if type(number) is int and 0 < number < MOST_SAMPLES:
        return model.names if len(model.names) == number else tuple(f"class {k}" for k in range(number))
    raise InputError(
        "has no names of classes", where=str(path), rule="names are a list, or numbers from 0 with a name each",
        remedy="add names:",
    )  # fmt: skip


def _written_names(values: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    named = values.get("names")
    if isinstance(named, list):
        return tuple(map(str, named))
    numbered = {key.removeprefix("names."): str(name) for key, name in values.items() if key.startswith("names.")}
    if numbered and sorted(numbered, key=_number) == list(map(str, range(len(numbered)))):
        return tuple(numbered[str(k)] for k in range(len(numbered)))
    if numbered:
        raise InputError(
            "has no names of classes from 0 on, one for each number", where=str(path),
            rule="names are a list, or numbers from 0 with a name each", remedy="give the data.yaml of the training",
        )  # fmt: skip
    return ()


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 9 else MOST_SAMPLES


def _images(values: Mapping[str, Any], part: str, path: Path) -> list[Path]:
    """Folders of images, or text files that list them; one or several."""
    given = values[part] if isinstance(values[part], list) else [values[part]]
    root = Path(str(values.get("path") or "."))
    roots = [root] if root.is_absolute() else [path.parent / root, root]
    found: list[Path] = []
    for word in map(str, given):
        places = [one / word for one in roots]
        place = next((one for one in places if one.exists()), None)
        if place is None:
            raise InputError(
                f"{part}: there is no {places[0]}", where=str(path), rule="paths begin at path:, and that at the .yaml",
                remedy="download the data set first; or correct path:",
            )  # fmt: skip
        found += sorted(_inside(place) if place.is_dir() else _of_list(place))
    if not found:
        raise InputError(f"{part}: no images in {', '.join(map(str, given))}"[:200], where=str(path))
    return [Path(os.path.abspath(one)) for one in found]


def _inside(folder: Path) -> Iterator[Path]:
    inside = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    for number, one in enumerate(inside):
        if number > MOST_SAMPLES:
            raise InputError(f"more than {MOST_SAMPLES:,} files", where=str(folder))
        if is_picture_file(one):
            yield one


def _of_list(file: Path) -> Iterator[Path]:
    for line in islice(read_text(file, _MOST_BYTES).splitlines(), MOST_SAMPLES):
        if line.strip():
            one = file.parent / line.strip()
            if not one.is_file():
                raise missing(one)
            yield one


def _listed(images: Sequence[Path], folder: Path, names: Sequence[str]) -> dict[str, Any]:
    return {
        "categories": [{"id": number, "name": name} for number, name in enumerate(names)],
        "images": [{"id": k, "file_name": str(one.relative_to(folder))} for k, one in enumerate(images)],
        "annotations": [],
    }


def _coco(images: Sequence[Path], folder: Path, names: Sequence[str], model: YoloModel) -> dict[str, Any]:
    found, annotations = _listed(images, folder, names), list[dict[str, Any]]()
    for number, image in enumerate(images):
        progress.stage("reading the labels", number, len(images))
        size = picture_size(image)
        found["images"][number] |= {"width": size[0], "height": size[1]}
        for row in _labels(image, len(names), model):
            annotations.append({"id": len(annotations) + 1, "image_id": number, **_annotation(row, size, model)})
    if not annotations:
        raise InputError(
            f"no label for {count(len(images), 'image')}", where=str(folder), rule="labels of images/a.jpg stand in "
            "labels/a.txt: class x y width height in shares of the image", remedy="put the folder labels beside images",
        )  # fmt: skip
    return {**found, "annotations": annotations}


def _labels(image: Path, classes: int, model: YoloModel) -> Iterator[list[float]]:
    """Rows of numbers; an image without a file shows nothing."""
    parts = list(image.parts)
    places = [k for k, part in enumerate(parts) if part == "images"]
    if places:
        parts[places[-1]] = "labels"
    file = Path(*parts).with_suffix(".txt")
    if not file.is_file():
        return
    wanted = 5 + 3 * model.points
    for line, text in enumerate(read_text(file, _MOST_BYTES).splitlines(), 1):
        try:
            row = [float(word) for word in text.split()]
        except ValueError:
            row = [-1.0]
        polygon = model.task != POSE and len(row) > 6 and len(row) % 2 == 1
        if row and (
            not (len(row) == wanted or (model.task != POSE and len(row) == 5) or polygon)
            or not all(-1 < value < 3 for value in row[1:])
            or not (0 <= row[0] < classes and row[0] == int(row[0]))
        ):
            raise InputError(
                f"{text[:60]!r} is no label", where=f"{file}:{line}",
                rule=f"a class from 0 to {classes - 1}, then x y width height"
                + (f" and {model.points} points x y seen" if model.points else ", or the corners of an outline")
                + ", in shares of the image",
            )  # fmt: skip
        if row:
            yield row


def _annotation(row: Sequence[float], size: tuple[int, int], model: YoloModel) -> dict[str, Any]:
    width, height = size
    number, rest = int(row[0]), row[1:]
    if len(row) == 5 + 3 * model.points:
        x, y, w, h = rest[0] * width, rest[1] * height, rest[2] * width, rest[3] * height
        box = [x - w / 2, y - h / 2, w, h]
    else:
        xs, ys = [x * width for x in rest[::2]], [y * height for y in rest[1::2]]
        box = [min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)]
    found: dict[str, Any] = {"category_id": number, "bbox": box, "area": box[2] * box[3]}
    if model.points:
        points = zip(rest[4::3], rest[5::3], rest[6::3], strict=True)
        found["keypoints"] = [v for x, y, seen in points for v in (x * width, y * height, int(seen))]
    return found


def as_bytes(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1).encode()
