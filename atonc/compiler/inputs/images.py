"""Pictures as network inputs."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError, ToolError

FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM")  # Pillow knows many more, for some of which it runs programs
MAX_BYTES, _MAX_PIXELS = 64 << 20, 1 << 25
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # channels
_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")  # others would lose their low bits
DAMAGE = (
    *(OSError, ValueError, SyntaxError, TypeError, LookupError, AttributeError, OverflowError, EOFError),
    *(RuntimeError, zlib.error, struct.error),
)


def read_image(path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    """Pixels 0..255 in the given N,H,W,C or N,C,H,W shape (grey, RGB or RGBA), resized bilinearly."""
    return parse_image(read_file(path, MAX_BYTES), shape, str(path))


def parse_image(data: bytes, shape: tuple[int, ...], where: str) -> NDArray[Any]:
    try:
        from PIL import Image
    except ImportError:
        raise ToolError("reading images needs Pillow", remedy="pip install 'atonc[images]'") from None
    _require_picture(shape, where)
    Image.MAX_IMAGE_PIXELS = None  # ours is checked below, with an error instead of a warning
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            return fitted(image, shape, where)
    except DAMAGE as error:
        said = "unknown or damaged" if "BytesIO" in str(error) else str(error)[:200]
        raise InputError(
            f"cannot be read as an image: {said}", where=where, rule=f"images are {', '.join(FORMATS)}"
        ) from None


def fitted(image: Any, shape: tuple[int, ...], where: str) -> NDArray[Any]:
    """A Pillow image as pixels of that shape."""
    from PIL import Image

    _require_picture(shape, where)
    check_pixels(image, where)
    channel_last = shape[3] in _MODES
    height, width, channels = shape[1:] if channel_last else (*shape[2:], shape[1])
    small = image.convert(_MODES[channels]).resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(small, np.uint8).reshape(1, height, width, channels)
    return pixels if channel_last else np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


def pixel_codes(pixels: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Codes of an input: uint8 ones are pixels, int8 ones pixels - 128, int16 ones reach both ends of their range."""
    if dtype == "uint8":
        return pixels
    centred = pixels.astype(np.int32) - 128
    return (centred * 257 + 128 if dtype == "int16" else centred).astype(dtype)


def _require_picture(shape: tuple[int, ...], where: str) -> None:
    if not is_picture(shape):
        raise InputError(
            f"an image does not fit an input of shape {'x'.join(map(str, shape))}",
            where=where,
            remedy="give the data as .npy or .npz",
        )


def check_pixels(image: Any, where: str) -> None:
    width, height = image.size
    if width * height > _MAX_PIXELS:
        raise InputError(f"{width} x {height} pixels, at most {_MAX_PIXELS:,} are read", where=where)
    if image.mode not in _EIGHT_BITS:
        raise InputError(f"pixels of kind {image.mode}", where=where, rule="images have 8 bits per channel")


def is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and shape[0] == 1 and (shape[3] in _MODES or shape[1] in _MODES)
