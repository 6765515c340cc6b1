"""Calibration data: pictures of a folder, or arrays of an .npz file, each checked before the long work begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.inputs.arrays import read_arrays
from atonc.compiler.inputs.images import is_picture, read_image
from atonc.compiler.ir import Array
from atonc.insight.evaluating import datasets
from atonc.insight.evaluating.datasets import ARRAYS, LABELS, SUFFIXES, Dataset, DatasetEntry
from atonc.insight.quantizing.types import LEAST_SAMPLES, QuantizeOptions
from atonc.machine.base import progress
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.words import count

ODD = 1000.0  # times the usual size of a sample: nothing of the usual ones is left in 8 bits
HUGE = 1e6  # values beyond, or all below its inverse, are no unit that somebody trains with
Feed = dict[str, Array]


@dataclass(frozen=True)
class Carried:
    """States between the feeds of a run: input -> output, and the feeds that begin anew with what they hold."""

    states: Mapping[str, str]
    starts: frozenset[int] = frozenset()

    def fed(self, index: int, feed: Feed, before: Mapping[str, Array]) -> Feed:
        """What the model gets; `before`: its states behind the feed before, by input."""
        return feed if index in self.starts else {**feed, **before}


STATELESS = Carried({})


@dataclass(frozen=True)
class Samples:
    feeds: tuple[Feed, ...]
    notes: tuple[str, ...] = ()
    learners: int = 0  # of frames with states: so many teach, those behind them judge in this order
    carried: Carried = STATELESS
    data: Dataset | None = None  # the same with labels, where there are some

    def split(self) -> tuple[tuple[Feed, ...], tuple[Feed, ...]]:
        """Samples to learn from, and as many to judge by: with fewer, chance would choose."""
        if self.learners:
            return self.feeds[: self.learners], self.feeds[self.learners :]
        return self.feeds[::2], self.feeds[1::2]


def typed(feed: Feed, types: Mapping[str, np.dtype[Any]], where: str) -> Feed:
    """Numbers of rows, such as tokens, as the integers that the model takes."""
    for name, value in feed.items():
        if types[name].kind != "f" and not np.array_equal(value, np.rint(value)):
            raise InputError(f"samples of {name!r} are not all whole numbers", where=where,
                             rule=f"this input is of type {types[name]}", remedy="give numbers of tokens")  # fmt: skip
    return {name: value.astype(types[name]) for name, value in feed.items()}


def read_samples(path: Path, shapes: Mapping[str, tuple[int, ...]], settings: QuantizeOptions) -> Samples:
    progress.stage("reading the samples")
    if not path.exists():
        raise InputError("there is no such file or folder", where=str(path), remedy="name a folder or an .npz file")
    pictures = path.is_dir() or path.suffix.lower() == ".json"
    feeds, data, notes = _of_folder(path, shapes, settings) if pictures else _of_labelled(path, shapes)
    total = len(feeds)
    has_pictures = pictures and (path.is_file() or any(file.suffix.lower() in SUFFIXES for file in path.rglob("*")))
    if (settings.mean or settings.std) and not has_pictures:
        notes = [*notes, "--mean and --std are for images: arrays are taken as they are"]
    if total > settings.samples:
        places = np.linspace(0, total - 1, settings.samples).astype(int)
        feeds = [feeds[place] for place in places]
        data = data and replace(data, entries=tuple(data.entries[place] for place in places))
        notes = [*notes, f"{settings.samples} of {total} samples are used (--samples)"]
    return Samples(tuple(feeds), (*notes, *check_samples(feeds, str(path))), data=data)


def _of_folder(
    path: Path, shapes: Mapping[str, tuple[int, ...]], settings: QuantizeOptions
) -> tuple[list[Feed], Dataset | None, list[str]]:
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    data = _pictures(path, files, settings)
    if not data.entries:
        arrays = [file for file in files if file.suffix.lower() in ARRAYS]
        if arrays:
            return _of_files(arrays, shapes)
        raise InputError(
            "the folder is empty" if not files else f"no image among its {count(len(files), 'file')}",
            where=str(path),
            rule=f"images end in {', '.join(SUFFIXES)}; arrays in .npz or .npy",
            remedy="name the folder that holds the samples",
        )
    if len(shapes) != 1 or not is_picture(next(iter(shapes.values()))):
        listed = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items())
        raise InputError(
            f"images do not fit the inputs of the model: {listed}", where=str(path),
            remedy="give an .npz file with one array per input, samples first",
        )  # fmt: skip
    ((name, shape),) = shapes.items()
    total = len(data.entries)
    used = data.entries[:: max(1, total // settings.samples)][: settings.samples]
    left = [f"{len(used)} of {total} images are used (--samples)"] if len(used) < total else []
    feeds = [{name: scaled(read_image(one.file, shape), shape, settings)} for one in used]
    if not settings.mean and not settings.std:
        left.append("pixels are given to the model as 0..255; if it was trained on others, say --mean and --std")
    return feeds, replace(data, entries=tuple(map(_told, used))), left


def _pictures(path: Path, files: Sequence[Path], settings: QuantizeOptions) -> Dataset:
    """Folders in the folder are classes, or images and masks, where no picture lies elsewhere."""
    if path.is_file():
        return datasets.coco_data(path, Path(settings.images) if settings.images else None)
    pictures = [file for file in files if file.suffix.lower() in SUFFIXES]
    if len({file.parent for file in pictures}) > 1 and all(file.parent.parent == path for file in pictures):
        return datasets.picture_folder(path)
    return Dataset("images", tuple(DatasetEntry(file.name, file) for file in pictures))


def _told(entry: DatasetEntry) -> DatasetEntry:
    """With what the metric compares with: a mask itself, the size of a picture with boxes."""
    if isinstance(entry.truth, dict) and "mask" in entry.truth:
        return replace(entry, truth=datasets.mask_of(Path(entry.truth["mask"])))
    return replace(entry, size=datasets.picture_size(entry.file)) if isinstance(entry.truth, dict) else entry


def scaled(pixels: Array, shape: Sequence[int], settings: QuantizeOptions) -> Array:
    """(pixels - mean) / std, by channel."""
    values = pixels.astype(np.float32)
    axis = 3 if shape[3] in (1, 3, 4) else 1
    for words, start, apply in ((settings.mean, 0.0, np.subtract), (settings.std, 1.0, np.divide)):
        found = np.array([float(word) for word in words] or [start], np.float32)
        if len(found) not in (1, shape[axis]):
            raise InputError(
                f"{count(len(found), 'number')} for {count(shape[axis], 'channel')}", where="--mean, --std",
                remedy="give one number, or one per channel",
            )  # fmt: skip
        values = apply(values, found.reshape([-1 if k == axis else 1 for k in range(4)]))
    return values


def read_sequences(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> list[list[Feed]]:
    """Frames in order: every file is a sequence, or several if its arrays have one more axis in front."""
    progress.stage("reading the samples")
    files = [path] if not path.is_dir() else [f for f in sorted(path.rglob("*")) if f.suffix.lower() in ARRAYS]
    if not files or not path.exists():
        raise InputError("no .npz or .npy file with frames", where=str(path), rule="--state follows frames in order",
                         remedy="save the frames of each recording as one file, in their order")  # fmt: skip
    found = []
    for file in files:
        arrays = read_arrays(file)
        flat = any(_stacked(value, shape) is not None for value in arrays.values() for shape in shapes.values())
        many = min((len(value) for value in arrays.values() if value.ndim), default=0)
        runs = [arrays] if flat or not many else [{n: v[k] for n, v in arrays.items()} for k in range(many)]
        found += [_of_arrays(arrays, shapes, file) for arrays in runs]
    return [frames for frames in found if frames]


def _of_files(
    files: Sequence[Path], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[list[Feed], Dataset | None, list[str]]:
    parts = [_of_labelled(file, shapes)[:2] for file in files]
    feeds = [feed for own, _ in parts for feed in own]
    try:
        return feeds, datasets.joined([data for _, data in parts], str(files[0].parent)), []
    except InputError as error:
        return feeds, None, [f"labels are not used: {error.one_line}"]


def _of_labelled(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> tuple[list[Feed], Dataset, list[str]]:
    """Labels are whole numbers, one or one array for each sample."""
    arrays = read_arrays(path)
    rest = {name: value for name, value in arrays.items() if name not in LABELS or name in shapes}
    rest = rest if len(rest) >= len(shapes) else arrays
    feeds, labels = _of_arrays(rest, shapes, path), [arrays[name] for name in LABELS if name in {*arrays} - {*rest}]
    found = next((one for one in labels if one.dtype.kind in "iu" and one.ndim and len(one) == len(feeds)), None)
    truths = [None] * len(feeds) if found is None else found.tolist() if found.ndim == 1 else list(found)
    entries = (DatasetEntry(f"row {k}", path, k, truth) for k, truth in enumerate(truths))
    return feeds, Dataset(datasets.kind_of(found), tuple(entries)), []


def _of_arrays(arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]], path: Path) -> list[Feed]:
    matched = _by_input(arrays, shapes, path)
    counts = {name: len(values) for name, values in matched.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name}: {number}" for name, number in counts.items())
        raise InputError(f"the inputs have different numbers of samples ({listed})", where=str(path))
    return [{name: values[index] for name, values in matched.items()} for index in range(min(counts.values()))]


def _by_input(arrays: Mapping[str, Array], shapes: Mapping[str, tuple[int, ...]], path: Path) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name, shape in shapes.items():
        fitting = [key for key, value in arrays.items() if _stacked(value, shape) is not None]
        key = name if name in arrays else fitting[0] if len(fitting) == 1 else ""
        if len(arrays) == 1 and len(shapes) == 1:
            (key,) = arrays
        if not key and name not in arrays and "" not in arrays:
            raise InputError(
                f"no array for the input {name[:80]!r}", where=str(path),
                rule=f"it holds {', '.join(map(repr, list(arrays)[:8])) or 'no arrays'}",
                remedy=f"save it with numpy.savez(file, **{{{name[:40]!r}: samples}})",
            )  # fmt: skip
        stacked = _stacked(arrays[key], shape)
        if stacked is None:
            seen = arrays[key].shape[1:] or arrays[key].shape
            spare = shape[1:] if shape[:1] == (1,) else shape  # a batch of 1 may be left out
            raise InputError(
                f"{'samples of shape ' + 'x'.join(map(str, seen)) if seen else 'single numbers'} do not fit the "
                f"input {name[:80]!r}: {'x'.join(map(str, shape))}",
                where=str(path),
                rule="samples come first: N samples of the input's own shape",
                remedy="this is one sample: add an axis of 1 in front (array[None]), and give more than one"
                if arrays[key].shape in (shape, spare)
                else "the sizes are the same in another order: transpose the samples (channels first or last)"
                if sorted(arrays[key].shape[1:]) in (sorted(shape), sorted(spare))
                else "make the samples as the model takes them",
            )
        found[name] = stacked
    return found


def _stacked(values: Array, shape: tuple[int, ...]) -> Array | None:
    """N samples of that shape; a batch of 1 in the shape may be left out."""
    if values.shape[1:] == shape:
        return values.astype(np.float32)
    if shape[:1] == (1,) and values.shape[1:] == shape[1:]:
        return values.astype(np.float32)[:, None]
    return None


def check_samples(feeds: Sequence[Feed], where: str) -> list[str]:
    """Data that would calibrate nothing is refused; what looks odd is told."""
    if len(feeds) < LEAST_SAMPLES:
        raise InputError(
            f"{count(len(feeds), 'sample')} are too few",
            where=where,
            rule=f"ranges of activations need at least {LEAST_SAMPLES} samples, 100 are usual",
            remedy="give more, as different as what the network will see",
        )
    notes, still = list[str](), list[str]()
    for name in feeds[0]:
        values = np.stack([feed[name].reshape(-1) for feed in feeds])
        if not np.isfinite(values).all():
            raise InputError(
                f"samples of {name!r} hold values that are not finite", where=where,
                rule="not a number, infinite, or beyond what float32 holds", remedy="leave those samples out",
            )  # fmt: skip
        if np.ptp(values) == 0 or np.ptp(values, axis=0).max() == 0:
            still.append(f"the samples of {name!r} are {'constant' if np.ptp(values) == 0 else 'all the same'}")
            continue
        flat = int((np.ptp(values, axis=1) == 0).sum()) if values.shape[1] > 1 else 0
        if flat:
            notes.append(f"{flat} of {len(feeds)} samples of {name!r} are constant")
        notes += odd_sizes(name, np.abs(values).max(axis=1))
    if len(still) == len(feeds[0]):
        raise InputError(still[0], where=where, rule="ranges are calibrated on values that change",
                         remedy="give real, different samples")  # fmt: skip
    return notes + [f"{text}: what it holds is all that it has codes for" for text in still]


def odd_sizes(name: str, tops: Array) -> list[str]:
    """`tops`: the largest value of each sample. Ranges follow the largest of all, so one mistake spoils every code."""
    top, usual = float(tops.max()), float(np.median(tops))
    if top > ODD * usual:
        index = int(tops.argmax())
        return [
            f"sample {index} of {name!r} (from 0) reaches {top:.3g}, half of all stay below {usual:.3g}: ranges "
            "follow the largest; leave it out if it is a mistake"
        ]
    if not 1 / HUGE <= top <= HUGE:
        return [f"the samples of {name!r} reach {top:.3g}: are they scaled as in training?"]
    return []
