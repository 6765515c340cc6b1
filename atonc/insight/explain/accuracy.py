"""Two builds on the same inputs: what their outputs have in common.

Builds may differ in the types and the layout of their edges (float, uint8, channels first): real values are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compare.metrics import cosine
from atonc.insight.runs import runs
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu import tensors
from atonc.machine.emu.files.types import BufferInfo
from atonc.machine.emu.network import EmulatedNetwork

Array = NDArray[Any]


@dataclass(frozen=True)
class OutputAgreement:
    """One output of A beside the output of B with as many elements."""

    a: str
    b: str
    elements: int
    cosine: float
    exact_percent: float  # equal within a hundredth of a step
    within1_percent: float  # within one step of the coarser of both
    largest: float  # difference, in the model's units


def agreement(
    a: EmulatedNetwork, b: EmulatedNetwork, inputs: Sequence[Path] = (), seed: int = 0
) -> tuple[OutputAgreement, ...]:
    """Runs both on the emulator; inputs are made for A and converted for B."""
    if len(a.inputs) != len(b.inputs):
        raise InputError(f"A has {len(a.inputs)} inputs, B {len(b.inputs)}", remedy="compare builds of the same model")
    options = runs.RunOptions(Path(), inputs=tuple(inputs), seed=seed)
    given = runs.choose_inputs(a, options)
    shared = {
        theirs.name: converted(given[ours.name], ours, theirs) for ours, theirs in zip(a.inputs, b.inputs, strict=True)
    }
    left, right = runs.execute(a, given, options), runs.execute(b, shared, options)
    return _pairs(_real(a.outputs, left.outputs), _real(b.outputs, right.outputs))


def converted(value: Array, ours: BufferInfo, theirs: BufferInfo) -> Array:
    """The same picture as the other network wants it: codes where they mean the same, else real values."""
    same = (ours.type, ours.scales, ours.offsets) == (theirs.type, theirs.scales, theirs.offsets)
    arranged = _arranged(value, tensors.io_shape(theirs), theirs.name)
    return arranged if same or value.dtype.kind == "f" else real_values(arranged, ours).astype(np.float32)


def real_values(value: Array, info: BufferInfo) -> Array:
    if value.dtype.kind == "f" or not info.scales:
        return value.astype(np.float64)
    offset = info.offsets[0] if info.offsets else 0
    result: Array = (value.astype(np.float64) - offset) * info.scales[0]
    return result


def _arranged(value: Array, shape: tuple[int, ...], name: str) -> Array:
    """The same elements in another shape: equal up to axes of size one, or channels last against first."""
    if _plain(value.shape) == _plain(shape):
        return value.reshape(shape)
    if value.ndim == len(shape) == 4:
        for axes in ((0, 3, 1, 2), (0, 2, 3, 1)):
            if tuple(value.shape[axis] for axis in axes) == shape:
                return np.ascontiguousarray(value.transpose(axes))
    raise InputError(f"input {name} of B has shape {shape}, the one of A {value.shape}", remedy="compare equal models")


def _plain(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


@dataclass(frozen=True)
class _OutputLoss:
    info: BufferInfo
    values: Array  # real, channels last

    @property
    def step(self) -> float:
        return self.info.scales[0] if self.info.scales else 0.0


def _real(infos: Sequence[BufferInfo], outputs: Mapping[str, Array]) -> list[_OutputLoss]:
    return [_OutputLoss(i, real_values(tensors.channel_last(i, outputs[i.name]), i)) for i in infos]


def _pairs(left: Sequence[_OutputLoss], right: Sequence[_OutputLoss]) -> tuple[OutputAgreement, ...]:
    """By name, else by size; among equals the nearest, as compilers order outputs differently."""
    found, free = [], list(right)
    for one in left:
        same = [other for other in free if other.info.name == one.info.name and other.values.size == one.values.size]
        candidates = same or [other for other in free if other.values.size == one.values.size]
        if not candidates:
            raise InputError(
                f"no output of B has the {prod(one.values.shape):,} elements of {one.info.name}",
                remedy="compare builds of the same model with the same outputs",
            )
        best = max((_agreement(one, other) for other in candidates), key=lambda agreed: agreed.cosine)
        free = [other for other in free if other.info.name != best.b]
        found.append(best)
    return tuple(found)


def _agreement(one: _OutputLoss, other: _OutputLoss) -> OutputAgreement:
    x, y = one.values.reshape(-1), other.values.reshape(-1)
    difference, step = np.abs(x - y), max(one.step, other.step) or float(np.ptp(x)) / 255 or 1.0
    return OutputAgreement(
        one.info.name,
        other.info.name,
        x.size,
        cosine(x, y),
        100 * float(np.mean(difference <= 0.01 * step)),
        100 * float(np.mean(difference <= 1.01 * step)),
        float(difference.max(initial=0.0)),
    )
