"""Samples that users bring in files: inputs, the outputs that they expect, the right classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from atonc.compiler.inputs.arrays import is_arrays, is_csv, read_arrays
from atonc.compiler.inputs.inputs import as_input, pixels, real
from atonc.compiler.ir import Array, Graph, Tensor
from atonc.machine.base.disk import read_start
from atonc.machine.base.errors import InputError

Sample = Mapping[str, Array]


def read_samples(source: Graph, files: Sequence[Path], limit: int | None) -> list[Sample]:
    """Arrays named like the inputs or as ST's validation names them (or as many as there are inputs, in order); a first
    axis beyond the model's own counts samples. Files with one array each are one input each, if the model has several.
    """
    samples: list[Sample] = []
    for arrays, where in _files(files, source):
        named = _named(arrays, source.inputs, "in", where)
        samples += _split(source, named, where)
    return samples[:limit] if limit else samples


def read_real_samples(source: Graph, files: Sequence[Path], limit: int | None) -> list[Sample]:
    """The same as real values, also beyond what the inputs' formats can hold; integers are codes."""
    samples: list[Sample] = []
    for arrays, where in _files(files, source):
        rows = {}
        for name, value in _named(arrays, source.inputs, "in", where).items():
            tensor = source.tensors[name]
            if value.dtype.kind != "f":
                rows[name] = [real(tensor, codes) for codes in _rows(tensor, value, where)]
                continue
            if value.size == 0 or value.size % tensor.elements or not np.isfinite(value).all():
                what = f"shape {value.shape} does not hold finite inputs of shape {tensor.shape}"
                raise InputError(what, where=where)
            rows[name] = list(value.astype(np.float64).reshape(-1, *tensor.shape))
        count = min(len(value) for value in rows.values())
        samples += [{name: value[k] for name, value in rows.items()} for k in range(count)]
    return samples[:limit] if limit else samples


def read_outputs(graph: Graph, files: Sequence[Path]) -> list[Mapping[str, Array]]:
    """`-vo`: outputs that the user expects, as real values; codes where the files hold integers."""
    found: list[Mapping[str, Array]] = []
    for arrays, where in _together([(read_arrays(file), str(file)) for file in files], len(graph.outputs)):
        rows = {}
        for name, value in _named(arrays, graph.outputs, "out", where).items():
            tensor = graph.tensors[name]
            if tensor.elements == 0 or value.size == 0 or value.size % tensor.elements:
                raise InputError(f"shape {value.shape} does not hold outputs of shape {tensor.shape}", where=where)
            values = value.reshape(-1, *tensor.shape)
            rows[name] = real(tensor, values) if value.dtype.kind in "iu" else values.astype(np.float64)
        count = min(len(value) for value in rows.values())
        found += [{name: value[k] for name, value in rows.items()} for k in range(count)]
    return found


def _files(files: Sequence[Path], source: Graph) -> Iterator[tuple[dict[str, Array], str]]:
    """Inputs in files: arrays, or a picture each."""
    read = []
    for number, file in enumerate(files):
        if is_csv(file) or is_arrays(read_start(file)):
            read.append((read_arrays(file), str(file)))
        else:
            read.append(({"": pixels(source, source.inputs[number % len(source.inputs)], file)}, str(file)))
    return _together(read, len(source.inputs))


def _together(read: Sequence[tuple[dict[str, Array], str]], count: int) -> Iterator[tuple[dict[str, Array], str]]:
    """Each file with its arrays; one array a file belongs together when there is one for every edge."""
    if 1 < count == len(read) and all(len(arrays) == 1 for arrays, _ in read):
        yield {f"{k}": next(iter(arrays.values())) for k, (arrays, _) in enumerate(read)}, ", ".join(w for _, w in read)
    else:
        yield from read


def _named(arrays: Mapping[str, Array], names: Sequence[str], side: str, where: str) -> dict[str, Array]:
    """Matches arrays to edges: by their names, by ST's, or in order."""
    found = {}
    for k, name in enumerate(names):
        known = (name, f"m_{side}puts_{k + 1}", f"c_{side}puts_{k + 1}", f"{side}_{k}", *_only(side, names))
        if (key := next((key for key in known if key in arrays), None)) is not None:
            found[name] = arrays[key]
    if len(found) == len(names):
        return found
    if len(arrays) != len(names):
        raise InputError(
            f"holds {len(arrays)} arrays, the model has {side}puts {', '.join(names)}",
            where=where,
            remedy=f"name the arrays after the {side}puts",
        )
    return dict(zip(names, arrays.values(), strict=True))


def _only(side: str, names: Sequence[str]) -> tuple[str, ...]:
    return (f"{side}puts", f"m_{side}puts") if len(names) == 1 else ()


def read_labels(files: Sequence[Path]) -> list[int]:
    """Arrays called "labels" beside the inputs: the right class of each sample."""
    found: list[int] = []
    for file in files:
        if not is_arrays(read_start(file)):
            continue  # a picture, or .csv, has no second array
        labels = read_arrays(file).get("labels")
        if labels is not None and labels.dtype.kind in "iu" and labels.ndim == 1:
            found += labels.tolist()
    return found


def _split(source: Graph, named: Mapping[str, Array], where: str) -> Iterator[Sample]:
    rows = {name: _rows(source.tensors[name], value, where) for name, value in named.items()}
    count = min(len(value) for value in rows.values())
    for k in range(count):
        yield {name: value[k] for name, value in rows.items()}


def _rows(tensor: Tensor, value: Array, where: str) -> list[Array]:
    if tensor.elements == 0 or value.size == 0 or value.size % tensor.elements:
        raise InputError(f"shape {value.shape} does not hold inputs of shape {tensor.shape}", where=where)
    return [as_input(tensor, row, where) for row in value.reshape(-1, *tensor.shape)]
