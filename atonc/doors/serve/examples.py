"""Models that come with atonc, for visitors who have none at hand."""

from __future__ import annotations

import functools
import hashlib
import shutil
from pathlib import Path
from typing import Any

from atonc.doors.serve.uploads import Upload
from atonc.machine.base.about import package_folder
from atonc.machine.base.frozen import dataclass


@dataclass(frozen=True)
class Example:
    """Files of one folder; `about` is what the visitor reads of it."""

    model: str
    samples: tuple[str, ...]
    about: str


_DIGITS = "handwritten digits, 8x8 pixels, with 100 labelled samples"
EXAMPLES = (Example("digits.tflite", ("test.npz",), _DIGITS), Example("digits.onnx", ("test.npz",), _DIGITS))


def offered() -> dict[str, Example]:
    """What of it is there, by name: a package without its examples offers none."""
    return {one.model: one for one in EXAMPLES if (_folder() / one.model).is_file()}


def put(found: Example, folder: Path, verb: str, options: dict[str, Any]) -> Upload:
    """Copies an example into the folder of a job, as if it had been sent."""
    model = f"model{Path(found.model).suffix}"
    samples = tuple(f"samples_{index}{Path(file).suffix}" for index, file in enumerate(found.samples))
    for source, target in zip((found.model, *found.samples), (model, *samples), strict=True):
        shutil.copyfile(_folder() / source, folder / target)
    content = (folder / model).read_bytes()
    return Upload(found.model, model, hashlib.sha256(content).hexdigest(), len(content), samples, options, verb)


@functools.cache
def _folder() -> Path:
    """In a package they lie inside of it, in a clone beside it."""
    inside = package_folder() / "examples" / "digits"
    return inside if inside.is_dir() else package_folder().parent / "examples" / "digits"
