""".npz and .csv files: one sample a row; the right answers in an array `labels`, or in the last column."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.inputs.arrays import is_csv, read_arrays
from atonc.compiler.ir import Array, Tensor
from atonc.insight.evaluating.datasets.types import Dataset, DatasetEntry
from atonc.machine.base.errors import InputError

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
    return Dataset("arrays", tuple(DatasetEntry(f"row {k}", path, k, truths[k]) for k in range(count)))


@lru_cache(maxsize=2)
def rows_of(path: Path, changed: int) -> dict[str, Array]:
    return read_arrays(path)


def split(
    arrays: dict[str, Array], inputs: Sequence[Tensor], path: Path
) -> tuple[dict[str, Array], Array | None]:
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
    if value.ndim < 1 or not len(value) or prod(value.shape[1:]) != prod(wanted):
        raise InputError(
            f"samples of shape {'x'.join(map(str, value.shape[1:])) or 'nothing'} for {tensor.name!r}",
            where=str(path),
            rule=f"the input takes {'x'.join(map(str, wanted))}, all samples of one size in one array",
        )
    return value


def row(path: Path, number: int, inputs: Sequence[Tensor]) -> tuple[dict[str, Array], Any]:
    """One sample: values by input, and its label."""
    values, labels = split(rows_of(path, path.stat().st_mtime_ns), inputs, path)
    one = {tensor.name: values[tensor.name][number].reshape(tensor.shape) for tensor in inputs}
    return one, None if labels is None else labels[number]
