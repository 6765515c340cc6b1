"""Pictures in every format that is read, and in some that are not."""

from __future__ import annotations

import io
import random
from functools import lru_cache
from pathlib import Path

import numpy as np

from atonc.compiler.inputs.images import FORMATS, read_image
from tests.mutations.damage import damaged_bytes

_MODES = ("L", "RGB", "RGBA", "P", "1", "I;16", "CMYK", "LA")
_SHAPES = ((1, 6, 5, 3), (1, 1, 6, 5), (1, 6, 5, 4), (1, 6, 5, 1))


@lru_cache
def bases() -> tuple[bytes, ...]:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (9, 11, 3)).astype(np.uint8)
    found = []
    for kind in (*FORMATS, "TIFF", "WEBP", "ICO", "TGA"):
        for mode in _MODES:
            file = io.BytesIO()
            try:
                Image.fromarray(pixels).convert(mode).save(file, kind)
            except (OSError, ValueError, KeyError):  # not every format knows every mode
                continue
            found.append(file.getvalue())
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", progressive=True)
    return (*found, file.getvalue(), b"P3 2 2 255 1 2 3 4 5 6 7 8 9 10 11 12", b"%!PS-Adobe-3.0 EPSF-3.0\n")


def try_picture(rng: random.Random, number: int, work: Path) -> None:
    path = work / rng.choice(["picture.png", "picture.jpg", "picture", "picture.eps"])
    path.write_bytes(damaged_bytes(rng.choice(bases()), rng))
    read_image(path, rng.choice(_SHAPES))
