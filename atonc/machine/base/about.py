"""The name of the house and where it stands: what `atonc/__init__.py` shows, for rooms, which never import that."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

__version__ = "0.1.0"
SENTENCE = "atonc: open compiler, emulator and deployment toolchain for the STM32N6 Neural-ART NPU."


def package_folder() -> Path:
    """The folder `atonc`; the one above it is where other processes find the same code."""
    return Path(str(files("atonc"))).resolve()
