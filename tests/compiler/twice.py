"""One model compiled in two processes that differ in everything that must not matter."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
SURROUNDINGS: tuple[Mapping[str, str], ...] = (
    {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC", "OMP_NUM_THREADS": "1"},
    {"PYTHONHASHSEED": "4711", "LC_ALL": "de_DE.UTF-8", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Tokyo", "COLUMNS": "40"},
)
REPORT = "_report.txt"  # for people: may name times


def compile_twice(model: Path, work: Path, more: Sequence[str] = ("--no-verify",)) -> list[dict[str, str]]:
    """File name -> sha256 of what `atonc generate` writes, for each of the surroundings."""
    return [_compiled(model, work / f"run {number}", env, more) for number, env in enumerate(SURROUNDINGS)]


def _compiled(model: Path, folder: Path, environment: Mapping[str, str], more: Sequence[str]) -> dict[str, str]:
    """In a folder of its own, with a copy of the model there."""
    folder.mkdir(parents=True)
    shutil.copy(model, folder / model.name)
    command = [sys.executable, "-m", "atonc", "generate", "-m", model.name, "-o", "out", "--quiet", *more]
    env = {**os.environ, **environment, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, timeout=300)
    files = sorted(path for path in (folder / "out").iterdir() if not path.name.endswith(REPORT))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
