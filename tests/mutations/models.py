"""Models: read, passes, recipes and placement; the program is checked and weighed, but does not run."""

from __future__ import annotations

import os
import random
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx

from atonc.generating import analyze, files_of
from atonc.options import Options
from atonc.pipeline import compile_file
from tests.compiler import hostile_models as hostile
from tests.frontends.tflite_models import build, chain_model
from tests.mutations.damage import damaged_bytes

ROOT = Path(__file__).resolve().parent.parent.parent
TRIALS = Path(os.environ.get("ATONC_TRIALS", ROOT.parent / "shared" / "trials"))
FILES_EVERY = 40  # so many models are also written as files


@lru_cache
def bases(suffix: str) -> tuple[bytes, ...]:
    """Good models, the smaller the better: ours, and the small ones of the trials where they are."""
    ours = [ROOT / "examples" / "digits" / f"digits.{suffix}"]
    built = [build(*hostile.tflite_parts(), ["x"], ["y"]), chain_model()]
    if suffix == "onnx":
        built = [bytes(hostile.onnx_model().SerializeToString())]
    trials = sorted((TRIALS / suffix).glob(f"*.{suffix}"))
    return (*built, *(path.read_bytes() for path in (*ours, *trials)))


def try_tflite(rng: random.Random, number: int, work: Path) -> None:
    numbers = np.random.default_rng(rng.randrange(1 << 62))
    if number % 3 == 0:
        _compile(hostile.hostile_tflite(numbers), work / "model.tflite", number)
    else:
        _compile(damaged_bytes(rng.choice(bases("tflite")), rng), work / "model.tflite", number)


def try_onnx(rng: random.Random, number: int, work: Path) -> None:
    numbers = np.random.default_rng(rng.randrange(1 << 62))
    base = rng.choice(bases("onnx"))
    if number % 3 == 0:
        data = damaged_bytes(base, rng)
    else:
        data = hostile.hostile_onnx(numbers, onnx.ModelProto.FromString(base))
    _compile(data, work / "model.onnx", number)


def _compile(data: bytes, path: Path, number: int) -> None:
    path.write_bytes(data)
    options = Options(verify=False, allow_float=number % 2 == 0)
    if number % FILES_EVERY == 0:
        files_of(analyze(path, options))
    else:
        compile_file(path, options)


