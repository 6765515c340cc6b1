"""Several samples at once: inputs whose first axis counts them, or lists of pictures. A program takes one after the
other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atonc.compiler.inputs.inputs import is_picture
from atonc.compiler.ir import Array
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import count, listed
from atonc.machine.emu.tensors import squeezed

Shapes = Mapping[str, tuple[int, ...]]


def samples_of(shapes: Shapes, given: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The samples of a batch; None where the values are one sample, or do not fit: whoever takes them says so."""
    counts = {name: _samples(shapes[name], value) for name, value in given.items() if name in shapes}
    if not any(counts.values()):
        return None
    if len(set(counts.values())) > 1:
        found = [f"{name!r} {count(number, 'sample') if number else 'one alone'}" for name, number in counts.items()]
        raise InputError(f"inputs of unlike batches: {listed(found)}", rule="all inputs have as many samples")
    number = next(iter(counts.values()))
    return [{name: value[k] for name, value in given.items()} for k in range(number)]


def _samples(shape: tuple[int, ...], value: Any) -> int:
    """How many samples a value holds along a first axis of its own; 0: it is one."""
    if is_picture(value):
        return 0
    if isinstance(value, list | tuple) and value and all(map(is_picture, value)):
        return len(value)
    try:
        found = np.shape(value)
    except ValueError:
        raise InputError("the values are lists of unlike lengths", remedy="give an array") from None
    alone = squeezed(found) == squeezed(shape)
    return found[0] if found and not alone and squeezed(found[1:]) == squeezed(shape) else 0


def joined(runs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Outputs of all samples: along the model's own first axis where that counts one, else along a new one."""
    found = {}
    for name, first in runs[0].items():
        values = [run[name] for run in runs]
        found[name] = np.concatenate(values) if first.shape[:1] == (1,) else np.stack(values)
    return found
