"""A generator of the user, `module:function`: what it gives is kept in files, so that any process can work on it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from atonc.compiler.ir import Tensor
from atonc.insight.evaluating.datasets.types import MOST_SAMPLES, Dataset, DatasetEntry
from atonc.insight.runs.runs import npz
from atonc.machine.base.disk import write_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.progress import stage

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
    entries: list[DatasetEntry] = []
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
        write_file(path, npz(arrays))
        plain = "labels" in arrays and arrays["labels"].ndim == 1
        truths = [int(label) if plain else None if label is None else {"row": k} for k, label in enumerate(labels)]
        entries += [DatasetEntry(f"sample {len(entries) + k}", path, k, truths[k]) for k in range(len(some))]
    if not entries:
        raise InputError("gives no samples", where=name, remedy=_FOR_EXAMPLE)
    return Dataset("arrays", tuple(entries))


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
