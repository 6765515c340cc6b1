"""Images as network inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atonc.errors import InputError, ToolError

_MAX_PIXELS = 1 << 26


def read_image(path: Path, shape: tuple[int, ...]) -> NDArray[Any]:
    """Pixels 0..255 in the given N,H,W,C shape (grey, RGB or RGBA), resized bilinearly."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ToolError("reading images needs Pillow", remedy="pip install 'atonc[images]'") from None
    if len(shape) != 4 or shape[0] != 1 or shape[3] not in (1, 3, 4):
        raise InputError(
            f"an image does not fit an input of shape {'x'.join(map(str, shape))}",
            where=str(path),
            remedy="give the data as .npy or .npz",
        )
    _, height, width, channels = shape
    Image.MAX_IMAGE_PIXELS = _MAX_PIXELS
    try:
        with Image.open(path) as image:
            mode = {1: "L", 3: "RGB", 4: "RGBA"}[channels]
            small = image.convert(mode).resize((width, height), Image.Resampling.BILINEAR)
    except FileNotFoundError:
        raise InputError("there is no such file", where=str(path)) from None
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"cannot be read as an image: {error}", where=str(path)) from None
    return np.asarray(small, np.uint8).reshape(shape)
