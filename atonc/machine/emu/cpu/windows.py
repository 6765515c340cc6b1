"""Sliding windows over an image, shared by convolution and pooling.

Positions outside the image have no value, whatever the padding at the far ends says: the output size decides how many
windows there are.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atonc.machine.base.frozen import dataclass
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import Array

MAX_WORK = 1 << 36  # multiplications or comparisons: more than any layer that a board could run


@dataclass(frozen=True)
class KernelWindow:
    kernel: tuple[int, int]  # height, width
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]  # top, left, bottom, right, as ONNX orders them

    def check(self, out_shape: tuple[int, ...], work_per_tap: int, where: str) -> None:
        (kh, kw), taps = self.kernel, self.kernel[0] * self.kernel[1]
        if min(kh, kw) < 1 or min(self.strides + self.dilations) < 1 or not all(0 <= p < 1 << 16 for p in self.pads):
            raise fail("impossible kernel, stride, dilation or padding", where)
        if taps > 1 << 16 or out_shape[0] * out_shape[1] * out_shape[2] * taps * work_per_tap > MAX_WORK:
            raise fail("the layer is larger than any board could run", where)


def read_window(info: StructView, kernel: tuple[int, int], dilated: bool) -> KernelWindow:
    strides = info.integers("strides", 2)
    dilations = info.integers("dilations", 2) if dilated and info.has("dilations") else (1, 1)
    pads = info.integers("pads", 4) if info.has("pads") else (0, 0, 0, 0)
    return KernelWindow(
        kernel, (strides[0], strides[1]), (dilations[0], dilations[1]), (pads[0], pads[1], pads[2], pads[3])
    )


def padded(image: Array, window: KernelWindow, out_shape: tuple[int, ...], fill: float) -> Array:
    """The image with every position that some window reaches."""
    _, height, width, _ = image.shape
    need = [
        (out_shape[1 + k] - 1) * window.strides[k] + (window.kernel[k] - 1) * window.dilations[k] + 1 for k in (0, 1)
    ]
    top, left = window.pads[:2]
    after = (max(0, need[0] - top - height), max(0, need[1] - left - width))
    if (top + height + after[0]) * (left + width + after[1]) * image.shape[0] * image.shape[3] > 1 << 26:
        raise fail("the padded image is larger than any memory of the board", "pads")
    return np.pad(image, ((0, 0), (top, after[0]), (left, after[1]), (0, 0)), constant_values=fill)


def taps(image: Array, window: KernelWindow, out_shape: tuple[int, ...]) -> Iterator[tuple[int, int, Array]]:
    """For each kernel position its row, column and the pixels under it, one per output pixel."""
    _, height, width, _ = out_shape
    (sh, sw), (dh, dw) = window.strides, window.dilations
    for row in range(window.kernel[0]):
        for column in range(window.kernel[1]):
            y, x = row * dh, column * dw
            yield row, column, image[:, y : y + (height - 1) * sh + 1 : sh, x : x + (width - 1) * sw + 1 : sw]
