"""What an emulator run left in its buffers, and how well a buffer fits a tensor of the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from atonc.ir import Array, Tensor

Real = NDArray[np.float64]

SCALE_TOLERANCE = 1e-6
SAMPLES = 4096


@dataclass(frozen=True, eq=False)
class ObservedBuffer:
    """A buffer right after the epoch that wrote it, values in logical channel-last order.

    `scale` None: no quantisation known; the values are plain numbers if they are floats, else unusable.
    """

    name: str
    epoch: int
    scale: float | None
    zero_point: int
    shape_nhwc: tuple[int, ...]
    data: Array

    @cached_property
    def centred(self) -> Array:
        """code - zero point, or the plain values of a float buffer."""
        if self.scale is None:
            return self.data
        return self.data.astype(np.int32) - np.int32(self.zero_point)

    def arrangements(self, tensor: Tensor) -> Iterator[Array]:
        """The values in the tensor's shape: every order of axes that fits, the plain one first.

        Compilers add and move axes of length 1 and call some other axis the channels, so only lengths count.
        """
        values = self.centred.reshape(self.shape_nhwc).squeeze()
        wanted = tuple(dim for dim in tensor.shape if dim != 1)
        if values.size != tensor.elements:
            return
        for order in permutations(range(values.ndim)):
            if tuple(values.shape[axis] for axis in order) == wanted:
                yield values.transpose(order).reshape(tensor.shape)
        if values.ndim != len(wanted):
            yield values.reshape(tensor.shape)


def may_hold(buffer: ObservedBuffer, tensor: Tensor) -> bool:
    """Same quantisation (zero points may be 0 or 128 apart: signed against unsigned codes) and as many values."""
    if buffer.data.size != tensor.elements or tensor.is_constant:
        return False
    if tensor.is_float:
        return buffer.scale is None and buffer.data.dtype.kind == "f"
    if tensor.quant is None or buffer.scale is None or not tensor.quant.is_per_tensor:
        return False
    if abs(buffer.scale - tensor.scale) > SCALE_TOLERANCE * tensor.scale:
        return False
    return (buffer.zero_point - tensor.zero_point) % 128 == 0


def centre(codes: Array, tensor: Tensor) -> Array:
    """A tensor's codes in the units in which buffers are compared."""
    return codes if tensor.quant is None else codes.astype(np.int32) - np.int32(tensor.zero_point)


def to_tensor(values: Array, tensor: Tensor) -> Array:
    """Centred values of a buffer as codes of the tensor."""
    if tensor.is_float:
        return values.astype(np.float64)
    low, high = tensor.code_range
    return np.clip(values + tensor.zero_point, low, high).astype(tensor.dtype)


def distance(values: Array, expected: Array, unit: float, sampled: bool) -> float:
    """Mean absolute difference in codes, of all values or of a fixed sample."""
    if sampled and expected.size > SAMPLES:
        index = np.unravel_index(np.linspace(0, expected.size - 1, SAMPLES).astype(np.int64), expected.shape)
        values, expected = values[index], expected[index]
    if not expected.size:
        return 0.0
    difference = np.abs(values.astype(np.float64) - expected) / unit
    return float(np.nan_to_num(difference, nan=1e9).mean())
