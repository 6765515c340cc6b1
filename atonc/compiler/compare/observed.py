"""What an emulator run left in its buffers, and how well a buffer fits a tensor of the model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.ir import Array, Tensor
from atonc.machine.base.frozen import dataclass

Real = NDArray[np.float64]

SCALE_TOLERANCE = 1e-6
SAMPLES = 2048
MAX_GROUPS = 64
MIN_RAW = 8  # fewer codes without a scale prove nothing


@dataclass(frozen=True, eq=False)
class ObservedBuffer:
    """A buffer right after the epoch that wrote it, values in logical channel-last order.

    `scale` None: no quantisation is known. Floats are plain numbers then, 8-bit integers are codes of whatever
    tensor they turn out to be. A one-dimensional `shape_nhwc` is a stream between two units: channels come in groups.
    """

    name: str
    epoch: int
    scale: float | None
    zero_point: int
    shape_nhwc: tuple[int, ...]
    data: Array

    @property
    def is_raw(self) -> bool:
        """8-bit codes without a quantisation of their own."""
        return self.scale is None and self.data.dtype.kind in "iu" and self.data.dtype.itemsize == 1

    @property
    def is_stream(self) -> bool:
        return len(self.shape_nhwc) == 1

    def offset_for(self, tensor: Tensor) -> int:
        """The code of real zero in this buffer."""
        if not self.is_raw:
            return self.zero_point
        signed = tensor.zero_point - (128 if tensor.dtype == "uint8" else 0)
        return signed if self.data.dtype.kind == "i" else signed + 128

    def arrangements(self, tensor: Tensor) -> Iterator[Arrangement]:
        """The stored values in the tensor's shape: every order that fits, the plain one first.

        Compilers add and move axes of length 1 and call some other axis the channels, so only lengths count.
        """
        if self.data.size != tensor.elements:
            return
        if self.is_stream:
            yield from _grouped(self.data, tensor)
            return
        values = self.data.reshape(self.shape_nhwc).squeeze()
        wanted = tuple(dim for dim in tensor.shape if dim != 1)
        for order in permutations(range(values.ndim)):
            if tuple(values.shape[axis] for axis in order) == wanted:
                yield Arrangement(values.transpose(order), tensor.shape)
        if values.ndim != len(wanted):
            yield Arrangement(values.reshape(tensor.shape), tensor.shape)


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Stored values as a view in some order of axes; copied to the tensor's shape only when needed."""

    view: Array
    shape: tuple[int, ...]
    group: int = 0  # above 0: the view is [groups, height, width, group]
    channel_axis: int = 3  # of the tensor, for groups

    def sample(self, index: tuple[Array, ...]) -> Array:
        """The values at these indices of the tensor (the index has one array per axis)."""
        if self.group:
            channel = index[self.channel_axis]
            y, x = (i for axis, i in enumerate(index) if axis not in (0, self.channel_axis))
            grouped: Array = self.view[channel // self.group, y, x, channel % self.group]
            return grouped
        kept = tuple(i for i, dim in zip(index, self.shape, strict=True) if dim != 1)
        values: Array = self.view.reshape(self.shape)[index] if len(kept) != self.view.ndim else self.view[kept]
        return values

    def full(self) -> Array:
        order = (1, 2, 0, 3) if self.channel_axis == 3 else (0, 3, 1, 2)
        return (self.view.transpose(order) if self.group else self.view).reshape(self.shape)


def _grouped(stream: Array, tensor: Tensor) -> Iterator[Arrangement]:
    """A stream carries [groups, height, width, channels of a group]; how many groups is not known."""
    if len(tensor.shape) != 4 or tensor.shape[0] != 1:
        yield Arrangement(stream.reshape(tensor.shape), tensor.shape)
        return
    for channel_axis in (3, 1):  # channels last as in TFLite, or first as in ONNX
        channels = tensor.shape[channel_axis]
        height, width = (dim for axis, dim in enumerate(tensor.shape) if axis not in (0, channel_axis))
        for groups in range(1, min(channels, MAX_GROUPS) + 1):
            if channels % groups == 0:
                view = stream.reshape(groups, height, width, channels // groups)
                yield Arrangement(view, tensor.shape, channels // groups, channel_axis)


def may_hold(buffer: ObservedBuffer, tensor: Tensor) -> bool:
    """Same quantisation (zero points may be 0 or 128 apart: signed against unsigned codes) and as many values."""
    if buffer.data.size != tensor.elements or tensor.is_constant:
        return False
    if tensor.is_float:
        return buffer.scale is None and buffer.data.dtype.kind == "f"
    if tensor.quant is None or not tensor.quant.is_per_tensor:
        return False
    if buffer.scale is None:
        return buffer.is_raw and tensor.dtype in ("int8", "uint8") and tensor.elements >= MIN_RAW
    if abs(buffer.scale - tensor.scale) > SCALE_TOLERANCE * tensor.scale:
        return False
    return (buffer.zero_point - tensor.zero_point) % 128 == 0


def centre(codes: Array, offset: int, tensor: Tensor) -> Array:
    """Codes without their zero point: the units in which values are compared."""
    return codes.astype(np.float64) if tensor.is_float else codes.astype(np.int32) - np.int32(offset)


def to_tensor(values: Array, tensor: Tensor) -> Array:
    """Centred values of a buffer as codes of the tensor."""
    if tensor.is_float:
        return values.astype(np.float64)
    low, high = tensor.code_range
    return np.clip(values + tensor.zero_point, low, high).astype(tensor.dtype)


def sample_index(shape: tuple[int, ...]) -> tuple[Array, ...]:
    """Fixed positions spread over a tensor, all of them if it is small."""
    elements = int(np.prod(shape, dtype=np.int64))
    flat = np.arange(elements) if elements <= SAMPLES else np.linspace(0, elements - 1, SAMPLES).astype(np.int64)
    return np.unravel_index(flat, shape) if shape else ()


def mean_distance(values: Array, expected: Array, unit: float) -> float:
    """Mean absolute difference in codes."""
    if not expected.size:
        return 0.0
    with np.errstate(all="ignore"):
        mean = float(np.abs(values - expected).mean()) / unit
    return mean if np.isfinite(mean) else 1e9
