"""Inputs as .npy and .npz files: read, and converted to what a model takes."""

from __future__ import annotations

import io
import random
import zipfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from atonc.compiler.frontends.tflite import read_tflite
from atonc.compiler.inputs.inputs import read_labels, read_samples
from atonc.compiler.ir import Graph
from tests.frontends.tflite_models import O, T, build
from tests.mutations.damage import damaged_bytes

_TYPES = ("int8", "uint8", "float32", "float64", "int64", "bool", ">f4", "float16", "complex64", "U3", "S3", "M8[s]")
_SHAPES = ((1, 4, 4, 2), (3, 4, 4, 2), (4, 4, 2), (32,), (0, 4, 4, 2), (), (1, 4, 4, 3), (1, 2, 4, 4))
_HEADERS = (
    (b"'shape': (", b"'shape': (99999999,"),
    (b"'shape': (", b"'shape': (-1,"),
    (b"'shape': (", b"'shape': (True,"),
    (b"'shape': (", b"'shape': (2**70,"),
    (b"False", b"True "),
    (b"'descr': '", b"'descr': '>"),
    (b"'descr': '", b"'descr': 'O"),
    (b"'descr': '<", b"'descr': '|"),
    (b"{", b"[" * 300),
    (b"}", b")"),
    (b"descr", b"color"),
)


@lru_cache
def model() -> Graph:
    tensors = [T("x", (1, 4, 4, 2), scale=0.1), T("y", (1, 4, 4, 2), scale=0.2)]
    return read_tflite(build(tensors, [O("RELU", ["x"], ["y"])], ["x"], ["y"]), "small")


def try_arrays(rng: random.Random, number: int, work: Path) -> None:
    array = np.zeros(rng.choice(_SHAPES), rng.choice(_TYPES))
    file = io.BytesIO()
    if rng.random() < 0.5:
        np.save(file, array)
        data = file.getvalue()
        if rng.random() < 0.5:
            data = data.replace(*rng.choice(_HEADERS), 1)
    else:
        data = _archive(array, rng)
    path = work / rng.choice(["input.npy", "input.npz"])
    path.write_bytes(damaged_bytes(data, rng) if rng.random() < 0.8 else data)
    read_samples(model(), [path], 2)
    read_labels([path])


def _archive(array: np.ndarray, rng: random.Random) -> bytes:  # type: ignore[type-arg]
    file, inner = io.BytesIO(), io.BytesIO()
    np.save(inner, array)
    how = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
    with zipfile.ZipFile(file, "w", how) as archive:
        for name in rng.choice([["x"], ["x", "labels"], ["x", "x"], ["../x"], ["\x1b[2J"], [], ["a", "b", "c"]]):
            archive.writestr(f"{name}.npy", inner.getvalue())
    return file.getvalue()
