"""Data sets: folders of pictures (one a class, or with masks of the same names), COCO files, arrays, generators of the
user. Looked at as a whole before the work begins, read sample by sample while it runs."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.compare.inputs import float_range
from atonc.compiler.inputs.arrays import is_csv, read_arrays
from atonc.compiler.inputs.images import DAMAGE, FORMATS, MAX_BYTES, check_pixels, is_picture, pixel_codes
from atonc.compiler.ir import Array, Graph, Tensor
from atonc.insight.evaluating.options import EvaluateOptions
from atonc.insight.runs.runs import npz
from atonc.machine.base.disk import missing, read_file, write_file
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.progress import stage
from atonc.machine.emu import tensors

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_GREY = 114  # around letterboxed pictures


@dataclass(frozen=True)
class Fit:
    """Pixel of the input = pixel of the picture * scale + offset."""

    scale: tuple[float, float] = (1.0, 1.0)  # along x and y
    offset: tuple[float, float] = (0.0, 0.0)
    size: tuple[int, int] = (1, 1)  # of the picture
    input_size: tuple[int, int] = (1, 1)

    def back(self, points: Array) -> Array:
        """Points [..., 2] of the input, in the picture."""
        return (points - np.array(self.offset)) / np.array(self.scale)


@dataclass(frozen=True)
class Preparation:
    resize: str = "stretch"
    normalisation: Sequence[Sequence[float]] | None = None  # means and deviations
    colours: str = "rgb"


def picture_input(path: Path, graph: Graph, tensor: Tensor, how: Preparation) -> tuple[Array, Fit]:
    """The value of an input in the model's own format."""
    last = tensor.shape[3] in _MODES
    height, width, channels = tensor.shape[1:] if last else (*tensor.shape[2:], tensor.shape[1])
    pixels, fit = read_picture(path, (width, height), channels, how.resize)
    if how.colours == "bgr":
        pixels = pixels[..., [2, 1, 0, *range(3, channels)]] if channels >= 3 else pixels
    value = _codes(pixels, graph, tensor, how)
    return np.ascontiguousarray(value[None] if last else value.transpose(2, 0, 1)[None]), fit


def _codes(pixels: Array, graph: Graph, tensor: Tensor, how: Preparation) -> Array:
    """Codes are those of `pixel_codes`, unless a normalisation says what real values are."""
    if how.normalisation is not None:
        mean, deviation = (np.array(values, np.float32) for values in how.normalisation)
        real = (pixels.astype(np.float32) - mean) / deviation
        if tensor.is_float:
            return real.astype(tensor.dtype)
        return tensors.as_elements(tensor.name, real, np.dtype(tensor.dtype), tensor.scale, tensor.zero_point)
    if tensor.is_float:
        low, high = float_range(graph, tensor.name)
        return (low + pixels / np.float32(255) * (high - low)).astype(tensor.dtype)
    return pixel_codes(pixels, tensor.dtype)


def read_picture(path: Path, size: tuple[int, int], channels: int, resize: str) -> tuple[Array, Fit]:
    """[height, width, channels]"""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(io.BytesIO(read_file(path, MAX_BYTES)), formats=FORMATS) as image:
            check_pixels(image, str(path))
            return _fitted(image.convert(_MODES[channels]), size, channels, resize)
    except DAMAGE as error:
        raise InputError(f"cannot be read as an image: {str(error)[:200]}", where=str(path)) from None


def _fitted(image: Any, size: tuple[int, int], channels: int, resize: str) -> tuple[Array, Fit]:
    from PIL import Image

    bilinear = Image.Resampling.BILINEAR
    (width, height), (w, h) = size, image.size
    if resize == "stretch":
        pixels = np.asarray(image.resize(size, bilinear), np.uint8)
        return pixels.reshape(height, width, channels), Fit((width / w, height / h), (0.0, 0.0), (w, h), size)
    scale = (min if resize == "letterbox" else max)(width / w, height / h)
    inner = max(1, round(w * scale)), max(1, round(h * scale))
    small = np.asarray(image.resize(inner, bilinear), np.uint8).reshape(inner[1], inner[0], channels)
    scales = inner[0] / w, inner[1] / h
    if resize == "letterbox":
        left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
        pixels = np.full((height, width, channels), _GREY, np.uint8)
        pixels[top : top + inner[1], left : left + inner[0]] = small
        return pixels, Fit(scales, (float(left), float(top)), (w, h), size)
    left, top = (inner[0] - width) // 2, (inner[1] - height) // 2
    return small[top : top + height, left : left + width], Fit(scales, (-float(left), -float(top)), (w, h), size)


def mask_of(path: Path) -> Array:
    """The class of every pixel."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return np.asarray(image if image.mode in ("L", "P") else image.convert("L"), np.uint8)
    except DAMAGE as error:
        raise InputError(f"cannot be read as a mask: {str(error)[:200]}", where=str(path)) from None


MOST_SAMPLES = 1_000_000


@dataclass(frozen=True, eq=False)
class SequenceTensor(Tensor):
    """The frames of an input, the first axis counts them."""


SEQUENCES = "sequences"  # arrays whose labels are rows of classes


@dataclass(frozen=True)
class DatasetEntry:
    """One sample: a picture, or a row of an array file. `truth` is plain JSON: what the metric compares with."""

    name: str
    file: Path
    row: int | None = None  # of the arrays; None: a picture
    truth: Any = None
    size: tuple[int, int] | None = None  # width, height of the picture


@dataclass(frozen=True)
class Dataset:
    kind: str  # classes, coco, arrays, sequences
    entries: tuple[DatasetEntry, ...]
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    coco: Mapping[str, Any] = field(default_factory=dict)  # the annotations, where there are some

    @property
    def labelled(self) -> bool:
        return any(entry.truth is not None for entry in self.entries)


ARRAYS = (".npz", ".npy")
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm")
IMAGES, MASKS = "images", "masks"


def picture_folder(folder: Path) -> Dataset:
    inside = sorted(_listed(folder), key=lambda path: path.name)
    folders = [path for path in inside if path.is_dir() and not path.name.startswith(".")]
    if {path.name for path in folders} == {IMAGES, MASKS}:
        return _masked(folder)
    if not folders:
        flat = [path for path in inside if is_picture_file(path)]
        _require_some(folder, flat)
        return Dataset("images", tuple(DatasetEntry(path.name, path) for path in flat))
    entries, empty = [], []
    for number, each in enumerate(folders):
        found = sorted(path for path in _listed(each) if is_picture_file(path))
        entries += [DatasetEntry(f"{each.name}/{path.name}", path, truth=number) for path in found]
        empty += [] if found else [each.name]
    _require_some(folder, entries)
    notes = (f"no images in {', '.join(empty[:5])}",) if empty else ()
    return Dataset("classes", tuple(entries), tuple(each.name for each in folders), notes)


def _masked(folder: Path) -> Dataset:
    """The mask of a picture has its name and holds a class in every pixel."""
    masks = {path.stem: path for path in _listed(folder / MASKS) if is_picture_file(path)}
    pictures = sorted(path for path in _listed(folder / IMAGES) if is_picture_file(path))
    _require_some(folder / IMAGES, pictures)
    missing = [path.name for path in pictures if path.stem not in masks]
    if missing:
        raise InputError(
            f"{len(missing)} images have no mask, first {missing[0]}",
            where=str(folder / MASKS),
            remedy="a mask has the name of its image",
        )
    found = (DatasetEntry(path.name, path, truth={"mask": str(masks[path.stem])}) for path in pictures)
    return Dataset("masks", tuple(found))


def _listed(folder: Path) -> list[Path]:
    with os.scandir(folder) as found:
        names = [Path(item.path) for item in islice(found, MOST_SAMPLES + 2)]
    if len(names) > MOST_SAMPLES + 1:
        raise InputError(f"more than {MOST_SAMPLES:,} files", where=str(folder))
    return names


def _require_some(folder: Path, found: Sequence[Any]) -> None:
    if not found:
        raise InputError(
            "holds no images",
            where=str(folder),
            rule=f"images end in {', '.join(SUFFIXES)}",
            remedy="give a folder with a folder of images for each class",
        )


def is_picture_file(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def picture_size(path: Path) -> tuple[int, int]:
    """Width and height of a picture, which can be read to its end: better known now than after hours."""
    try:
        from PIL import Image
    except ImportError:
        raise ToolError("reading images needs Pillow", remedy="pip install 'atonc[evaluate]'") from None
    data = read_file(path, MAX_BYTES)
    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            check_pixels(image, str(path))
            image.load()
            return image.width, image.height
    except DAMAGE as error:
        said = "unknown or damaged" if "BytesIO" in str(error) else str(error)[:200]
        raise InputError(
            f"cannot be read as an image: {said}",
            where=str(path),
            rule=f"images are {', '.join(FORMATS)}, whole",
            remedy="correct it or remove it",
        ) from None


LABELS = ("labels", "label", "y", "targets")


def array_data(path: Path, inputs: Sequence[Tensor]) -> Dataset:
    arrays = rows_of(path, path.stat().st_mtime_ns)
    values, labels = split(arrays, inputs, path)
    counts = {len(value) for value in (*values.values(), *([] if labels is None else [labels]))}
    if len(counts) != 1:
        sizes = ", ".join(f"{name or 'values'}: {len(value)}" for name, value in arrays.items())
        raise InputError(f"not as many rows everywhere ({sizes})", where=str(path), rule="one row for each sample")
    count = counts.pop()
    plain = labels is not None and labels.ndim == 1
    truths: list[Any] = [None] * count
    if labels is not None:
        truths = [int(v) for v in labels] if plain else [{"row": k} for k in range(count)]
    return Dataset(kind_of(labels), tuple(DatasetEntry(f"row {k}", path, k, truths[k]) for k in range(count)))


def array_files(folder: Path) -> list[Path]:
    """All below a folder, where no pictures are."""
    found = [path for path in islice(folder.rglob("*"), MOST_SAMPLES) if not path.name.startswith(".")]
    pictures = any(path.suffix.lower() in SUFFIXES for path in found)
    return [] if pictures else sorted(path for path in found if path.suffix.lower() in ARRAYS)


def joined(parts: Sequence[Dataset], where: str) -> Dataset:
    """Files of arrays one behind the other: labels count where all have labels of one kind."""
    kinds, without = {part.kind for part in parts}, sum(not part.labelled for part in parts)
    if 0 < without < len(parts) or len(kinds) > 1:
        seen = f"{without} of {len(parts)} files have no labels" if without else "labels of some files are sequences"
        raise InputError(seen, where=where, remedy="give labels of one kind in every file, or in none")
    entries = (replace(one, name=f"{one.file.name}, {one.name}") for part in parts for one in part.entries)
    return Dataset(kinds.pop(), tuple(entries))


def kind_of(labels: Array | None) -> str:
    return SEQUENCES if labels is not None and labels.ndim == 2 and labels.dtype.kind in "iu" else "arrays"


@lru_cache(maxsize=2)
def rows_of(path: Path, changed: int) -> dict[str, Array]:
    return read_arrays(path)


def split(arrays: dict[str, Array], inputs: Sequence[Tensor], path: Path) -> tuple[dict[str, Array], Array | None]:
    """Values of the inputs by name, and the labels."""
    labels = next((arrays[name] for name in LABELS if name in arrays), None)
    rest = {name: value for name, value in arrays.items() if name not in LABELS}
    if is_csv(path):
        (table,) = rest.values()
        wide = prod(inputs[0].shape)
        if table.shape[1] == wide + 1:
            return {inputs[0].name: table[:, :-1]}, table[:, -1].astype(np.int64)
        return {inputs[0].name: _checked(table, inputs[0], path)}, None
    if all(tensor.name in rest for tensor in inputs):
        found = {tensor.name: rest[tensor.name] for tensor in inputs}
    elif all(f"input_{number}" in rest for number in range(len(inputs))):
        found = {tensor.name: rest[f"input_{number}"] for number, tensor in enumerate(inputs)}
    elif len(inputs) == 1 and len(rest) == 1:
        found = {inputs[0].name: next(iter(rest.values()))}
    else:
        names = ", ".join(repr(tensor.name) for tensor in inputs)
        raise InputError(
            f"holds {', '.join(map(repr, arrays))[:200] or 'nothing'}",
            where=str(path),
            rule=f"arrays have the names of the inputs ({names}), and labels",
        )
    if labels is not None and (labels.ndim == 0 or (labels.ndim == 1 and labels.dtype.kind == "f")):
        raise InputError("labels are no whole numbers", where=str(path), remedy="give the number of the right class")
    return {tensor.name: _checked(found[tensor.name], tensor, path) for tensor in inputs}, labels


def _checked(value: Array, tensor: Tensor, path: Path) -> Array:
    wanted = tensor.shape[1:] if tensor.shape[:1] == (1,) else tensor.shape
    if value.ndim < 1 or not len(value) or prod(value.shape[1:]) != prod(wanted) or _other_frames(value, tensor):
        raise InputError(
            f"samples of shape {'x'.join(map(str, value.shape[1:])) or 'nothing'} for {tensor.name!r}",
            where=str(path),
            rule=f"the input takes {'x'.join(map(str, wanted))}, all samples of one size in one array",
        )
    return value


def _other_frames(value: Array, tensor: Tensor) -> bool:
    """Sequences have their frames along the second axis, and never by their number of values alone."""
    return isinstance(tensor, SequenceTensor) and tensors.squeezed(value.shape[1:]) != tensors.squeezed(tensor.shape)


def row(path: Path, number: int, inputs: Sequence[Tensor]) -> tuple[dict[str, Array], Any]:
    """One sample: values by input, and its label."""
    values, labels = split(rows_of(path, path.stat().st_mtime_ns), inputs, path)
    one = {tensor.name: values[tensor.name][number].reshape(tensor.shape) for tensor in inputs}
    return one, None if labels is None else labels[number]


_MOST_BYTES = 1 << 30
_FOLDERS = ("images", "val2017", "train2017")


def coco_data(path: Path, images: Path | None) -> Dataset:
    document = _document(path)
    classes = {c["id"]: str(c.get("name", c["id"])) for c in document["categories"]}
    pictures = {image["id"]: image for image in document["images"]}
    if not pictures:
        raise InputError("names no images", where=str(path))
    if len(pictures) != len(document["images"]):
        raise InputError("two images have one id", where=str(path))
    for annotation in document["annotations"]:
        _check(annotation, classes, pictures, path)
    folder = images or next((path.parent / n for n in _FOLDERS if (path.parent / n).is_dir()), path.parent)
    entries = []
    for key in sorted(pictures):
        file = folder / str(pictures[key]["file_name"])
        if not file.resolve().is_relative_to(folder.resolve()):
            raise InputError(f"the image {str(file)[:120]} is outside of its folder", where=str(path))
        if not file.is_file():
            raise InputError(f"there is no image {file}", where=str(path), remedy="name the folder with --images")
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
        raise InputError("has images without a file_name", where=str(path))
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
        raise InputError(f"its image {str(one.get('image_id'))[:20]} is not listed", where=where)
    box = one.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(isinstance(v, int | float) and v == v for v in box):
        raise InputError("its bbox is not x, y, width, height", where=where)
    points = one.get("keypoints", [])
    if not isinstance(points, list) or len(points) % 3 or not all(isinstance(v, int | float) for v in points):
        raise InputError("its keypoints are not x, y, visibility of each point", where=where)


_FOR_EXAMPLE = "yield inputs, label: inputs an array or a dictionary by name, label a whole number, an array or None"


def user_function(name: str) -> Callable[..., Any]:
    """Modules are also looked for in the folder in which the user is."""
    module, _, attribute = name.partition(":")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{name[:80]!r} cannot be found: {error}", remedy="write module:function") from None
    if not callable(found):
        raise InputError(f"{name[:80]!r} is no function")
    return found


def generated(name: str, inputs: Sequence[Tensor], folder: Path, together: int) -> Dataset:
    """Runs it once; `together` samples in each file."""
    found: Iterable[Any] = iter(user_function(name)())
    entries, kind = list[DatasetEntry](), "arrays"
    while some := list(islice(found, together)):
        stage("taking samples from the generator", len(entries))
        if len(entries) + len(some) > MOST_SAMPLES:
            raise InputError(f"gives more than {MOST_SAMPLES:,} samples", where=name)
        pairs = [_pair(one, inputs, f"{name}, sample {len(entries) + k}") for k, one in enumerate(some)]
        path = folder / f"samples_{len(entries):07d}.npz"
        arrays = {f"input_{n}": np.stack([v[t.name] for v, _ in pairs]) for n, t in enumerate(inputs)}
        labels = [label for _, label in pairs]
        if any(label is not None for label in labels):
            arrays["labels"] = _stacked(labels, name)
            kind = kind_of(arrays["labels"])
        write_file(path, npz(arrays))
        plain = "labels" in arrays and arrays["labels"].ndim == 1
        truths = [int(label) if plain else None if label is None else {"row": k} for k, label in enumerate(labels)]
        entries += [DatasetEntry(f"sample {len(entries) + k}", path, k, truths[k]) for k in range(len(some))]
    if not entries:
        raise InputError("gives no samples", where=name, remedy=_FOR_EXAMPLE)
    return Dataset(kind, tuple(entries))


def _pair(one: Any, inputs: Sequence[Tensor], where: str) -> tuple[dict[str, Any], Any]:
    if not isinstance(one, tuple) or len(one) != 2:
        raise InputError("is no pair of inputs and label", where=where, remedy=_FOR_EXAMPLE)
    given, label = one
    values = given if isinstance(given, dict) else {inputs[0].name: given}
    missing = [tensor.name for tensor in inputs if tensor.name not in values]
    if missing:
        raise InputError(f"has no value for {missing[0]!r}", where=where, remedy=_FOR_EXAMPLE)
    found = {}
    for tensor in inputs:
        value = np.asarray(values[tensor.name])
        if value.dtype.kind not in "biuf" or value.size != tensor.elements:
            raise InputError(
                f"{tensor.name!r} has the shape {value.shape}", where=where, rule=f"the input takes {tensor.shape}"
            )
        found[tensor.name] = value.reshape(tensor.shape)
    return found, label


def _stacked(labels: list[Any], name: str) -> Any:
    if any(label is None for label in labels):
        raise InputError("gives a label for some samples only", where=name, remedy=_FOR_EXAMPLE)
    try:
        found = np.stack([np.asarray(label) for label in labels])
    except ValueError as error:
        raise InputError(f"gives labels of different shapes: {error}", where=name) from None
    if found.dtype.kind not in "biu":
        raise InputError("gives labels that are no whole numbers", where=name, remedy=_FOR_EXAMPLE)
    return found


LEAST = 2


def open_data(options: EvaluateOptions, inputs: Sequence[Tensor], kept: Path) -> Dataset:
    """`kept`: a folder for what a generator gives."""
    data = _opened(options, inputs, kept)
    if options.limit and options.limit < len(data.entries):
        step = len(data.entries) / options.limit
        data = replace(data, entries=tuple(data.entries[int(k * step)] for k in range(options.limit)))
    _require_enough(data, options.data)
    if data.entries[0].row is None:
        data = _with_sizes(data, inputs, options)
    return data


def _opened(options: EvaluateOptions, inputs: Sequence[Tensor], kept: Path) -> Dataset:
    if not options.data:
        raise InputError("no data given", remedy="name a folder, a COCO .json, an .npz, a .csv or module:function")
    path = Path(options.data)
    if path.is_dir():
        files = array_files(path)
        return joined([array_data(file, inputs) for file in files], options.data) if files else picture_folder(path)
    if not path.exists() and ":" in options.data and not options.data.startswith(("/", ".")):
        return generated(options.data, inputs, kept, options.samples_together)
    if not path.exists():
        raise missing(Path(options.data), "file or folder")
    suffix = path.suffix.lower()
    if suffix == ".json":
        return coco_data(path, Path(options.images) if options.images else None)
    if suffix in (".npz", ".npy", ".csv"):
        if suffix == ".csv" and len(inputs) != 1:
            raise InputError(f"the model has {len(inputs)} inputs", where=options.data, remedy="give them as .npz")
        return array_data(path, inputs)
    raise InputError(
        "is no data set", where=options.data, rule="data is a folder, a COCO .json, an .npz, a .csv or module:function"
    )


def _require_enough(data: Dataset, where: str) -> None:
    count = len(data.entries)
    if count > MOST_SAMPLES:
        raise InputError(f"{count:,} samples, at most {MOST_SAMPLES:,}", where=where, remedy="--limit takes some")
    if count < LEAST:
        raise InputError(
            f"{count} sample: an accuracy needs many",
            where=where,
            rule="a share of one sample says nothing about the next",
            remedy="give more samples; for one, `atonc validate` compares value by value",
        )


def _with_sizes(data: Dataset, inputs: Sequence[Tensor], options: EvaluateOptions) -> Dataset:
    if len(inputs) != 1 or not is_picture(inputs[0].shape):
        shape = "x".join(map(str, inputs[0].shape))
        raise InputError(
            f"images do not fit {len(inputs)} inputs, the first of shape {shape}",
            where=options.data,
            remedy="give the data as .npz",
        )
    sizes = []
    for number, entry in enumerate(data.entries):
        stage("looking at the images", number, len(data.entries))
        sizes.append(picture_size(entry.file))
    entries = tuple(replace(e, size=size) for e, size in zip(data.entries, sizes, strict=True))
    notes = data.notes
    if len(set(sizes)) > 1:
        small, large = min(sizes), max(sizes)
        words = f"images of {len(set(sizes))} sizes, from {small[0]}x{small[1]} to {large[0]}x{large[1]}"
        notes = (*notes, f"{words}, all resized to the input ({options.resize})")
    return replace(data, entries=entries, notes=notes)
