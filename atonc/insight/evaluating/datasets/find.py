"""Which kind of data it is, and whether all of it can be used: said before the work begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from atonc.compiler.inputs.images import is_picture
from atonc.compiler.ir import Tensor
from atonc.insight.evaluating.datasets.arrays import array_data
from atonc.insight.evaluating.datasets.coco import coco_data
from atonc.insight.evaluating.datasets.generator import generated
from atonc.insight.evaluating.datasets.pictures import picture_folder, require_whole
from atonc.insight.evaluating.datasets.types import MOST_SAMPLES, Dataset
from atonc.insight.evaluating.options import EvaluateOptions
from atonc.machine.base.disk import missing
from atonc.machine.base.errors import InputError

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
        return picture_folder(path)
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
            f"pictures do not fit {len(inputs)} inputs, the first of shape {shape}",
            where=options.data,
            remedy="give the data as .npz",
        )
    sizes = require_whole([entry.file for entry in data.entries])
    entries = tuple(replace(e, size=size) for e, size in zip(data.entries, sizes, strict=True))
    notes = data.notes
    if len(set(sizes)) > 1:
        small, large = min(sizes), max(sizes)
        words = f"pictures of {len(set(sizes))} sizes, from {small[0]}x{small[1]} to {large[0]}x{large[1]}"
        notes = (*notes, f"{words}, all resized to the input ({options.resize})")
    return replace(data, entries=entries, notes=notes)
