"""Pictures as inputs of a model, and the way back from its pixels to those of the picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.compare.inputs import float_range
from atonc.compiler.inputs.images import DAMAGE, FORMATS, MAX_BYTES, check_pixels, pixel_codes
from atonc.compiler.ir import Graph, Tensor
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.emu import tensors

Array = NDArray[Any]
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_GREY = 114  # around letterboxed pictures


@dataclass(frozen=True)
class Fit:
    """Pixel of the input = pixel of the picture * scale + offset."""

    scale: tuple[float, float] = (1.0, 1.0)  # along x and y
    offset: tuple[float, float] = (0.0, 0.0)
    size: tuple[int, int] = (1, 1)  # of the picture
    input_size: tuple[int, int] = (1, 1)

    def back(self, points: Array) -> Array:
        """Points [..., 2] of the input, in the picture."""
        return (points - np.array(self.offset)) / np.array(self.scale)


@dataclass(frozen=True)
class Preparation:
    resize: str = "stretch"
    normalisation: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    colours: str = "rgb"


def picture_input(path: Path, graph: Graph, tensor: Tensor, how: Preparation) -> tuple[Array, Fit]:
    """The value of an input in the model's own format."""
    last = tensor.shape[3] in _MODES
    height, width, channels = tensor.shape[1:] if last else (*tensor.shape[2:], tensor.shape[1])
    pixels, fit = read_picture(path, (width, height), channels, how.resize)
    if how.colours == "bgr":
        pixels = pixels[..., [2, 1, 0, *range(3, channels)]] if channels >= 3 else pixels
    value = _codes(pixels, graph, tensor, how)
    return np.ascontiguousarray(value[None] if last else value.transpose(2, 0, 1)[None]), fit


def _codes(pixels: Array, graph: Graph, tensor: Tensor, how: Preparation) -> Array:
    """Codes are those of `pixel_codes`, unless a normalisation says what real values are."""
    if how.normalisation is not None:
        mean, deviation = (np.array(values, np.float32) for values in how.normalisation)
        real = (pixels.astype(np.float32) - mean) / deviation
        if tensor.is_float:
            return real.astype(tensor.dtype)
        return tensors.as_elements(tensor.name, real, np.dtype(tensor.dtype), tensor.scale, tensor.zero_point)
    if tensor.is_float:
        low, high = float_range(graph, tensor.name)
        return (low + pixels / np.float32(255) * (high - low)).astype(tensor.dtype)
    return pixel_codes(pixels, tensor.dtype)


def read_picture(path: Path, size: tuple[int, int], channels: int, resize: str) -> tuple[Array, Fit]:
    """[height, width, channels]"""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(io.BytesIO(read_file(path, MAX_BYTES)), formats=FORMATS) as image:
            check_pixels(image, str(path))
            return _fitted(image.convert(_MODES[channels]), size, channels, resize)
    except DAMAGE as error:
        raise InputError(f"cannot be read as a picture: {str(error)[:200]}", where=str(path)) from None


def _fitted(image: Any, size: tuple[int, int], channels: int, resize: str) -> tuple[Array, Fit]:
    from PIL import Image

    bilinear = Image.Resampling.BILINEAR
    (width, height), (w, h) = size, image.size
    if resize == "stretch":
        pixels = np.asarray(image.resize(size, bilinear), np.uint8)
        return pixels.reshape(height, width, channels), Fit((width / w, height / h), (0.0, 0.0), (w, h), size)
    scale = (min if resize == "letterbox" else max)(width / w, height / h)
    inner = max(1, round(w * scale)), max(1, round(h * scale))
    small = np.asarray(image.resize(inner, bilinear), np.uint8).reshape(inner[1], inner[0], channels)
    scales = inner[0] / w, inner[1] / h
    if resize == "letterbox":
        left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
        pixels = np.full((height, width, channels), _GREY, np.uint8)
        pixels[top : top + inner[1], left : left + inner[0]] = small
        return pixels, Fit(scales, (float(left), float(top)), (w, h), size)
    left, top = (inner[0] - width) // 2, (inner[1] - height) // 2
    return small[top : top + height, left : left + width], Fit(scales, (-float(left), -float(top)), (w, h), size)
