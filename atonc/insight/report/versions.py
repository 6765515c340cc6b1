"""What takes part in a compilation, with its version: for reports of mistakes, and as ST's `--tools-version`."""

from __future__ import annotations

import os
import platform
import shutil
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from atonc.machine.base.about import __version__

PACKAGES = (
    *("numpy", "tree-sitter", "tree-sitter-c", "rich", "onnx", "flatbuffers", "tflite", "onnxruntime"),
    *("ai-edge-litert", "ortools", "pillow", "unicorn"),
)
COMPILER = "arm-none-eabi-gcc"


def lines() -> list[str]:
    found = [f"atonc {__version__}", f"Python {platform.python_version()} on {platform.platform(terse=True)}"]
    found += [f"{name} {_version(name)}" for name in PACKAGES]
    return [*found, f"{COMPILER} {shutil.which(COMPILER) or 'is not installed'}"]


def used(*packages: str) -> dict[str, str]:
    """For a page that says how it was made: the date, and the versions of what computed its figures."""
    stamp = os.environ.get("SOURCE_DATE_EPOCH", "")  # reproducible-builds.org: whoever wants the same bytes sets it
    moment = datetime.fromtimestamp(int(stamp), UTC) if stamp.isdecimal() else datetime.now(UTC)
    found = {name: _version(name) for name in packages}
    return {"date": f"{moment:%Y-%m-%d}", "atonc": __version__, "Python": platform.python_version(), **found}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "is not installed"
