"""Images as network inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.errors import InputError, ToolError

_MAX_PIXELS = 1 << 26
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # channels


def read_image(path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    """Pixels 0..255 in the given N,H,W,C or N,C,H,W shape (grey, RGB or RGBA), resized bilinearly."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ToolError("reading images needs Pillow", remedy="pip install 'atonc[images]'") from None
    if not is_picture(shape):
        raise InputError(
            f"an image does not fit an input of shape {'x'.join(map(str, shape))}",
            where=str(path),
            remedy="give the data as .npy or .npz",
        )
    channel_last = shape[3] in _MODES
    height, width, channels = shape[1:] if channel_last else (*shape[2:], shape[1])
    Image.MAX_IMAGE_PIXELS = _MAX_PIXELS
    try:
        with Image.open(path) as image:
            small = image.convert(_MODES[channels]).resize((width, height), Image.Resampling.BILINEAR)
    except FileNotFoundError:
        raise InputError("there is no such file", where=str(path)) from None
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"cannot be read as an image: {error}", where=str(path)) from None
    pixels = np.asarray(small, np.uint8).reshape(1, height, width, channels)
    return pixels if channel_last else np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


def is_picture(shape: tuple[int, ...]) -> bool:
    return len(shape) == 4 and shape[0] == 1 and (shape[3] in _MODES or shape[1] in _MODES)
