"""Models: read, passes, recipes and placement; the program is checked and weighed, and some of them run."""

from __future__ import annotations

import os
import random
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from atonc.compiler.compile.pipeline import compile_file
from atonc.compiler.request.options import Options
from atonc.delivery.generate.generating import analyze, files_of
from tests.compiler import hostile_models as hostile
from tests.frontends.tflite_models import build, chain_model
from tests.mutations.damage import REALS, damaged_bytes

ROOT = Path(__file__).resolve().parent.parent.parent
TRIALS = Path(os.environ.get("ATONC_TRIALS", ROOT.parent / "shared" / "trials"))
SMALL = (0, 1, 2, 3, 4, 5, 7, 8, 16, 100, 1000, -1, -2, -3)
FILES_EVERY, VERIFIED_EVERY = 40, 10  # so many are also written as files, and run


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
    if number % 4 == 0:
        data = damaged_bytes(base, rng)
    elif number % 4 == 1:
        data = hostile.hostile_onnx(numbers, onnx.ModelProto.FromString(base))
    else:
        data = _slightly_changed(onnx.ModelProto.FromString(base), rng)
    _compile(data, work / "model.onnx", number)


def _slightly_changed(model: onnx.ModelProto, rng: random.Random) -> bytes:
    """Numbers that fit their places and perhaps not each other."""
    for _ in range(rng.choice([1, 1, 2])):
        style, graph = rng.randrange(4), model.graph
        integers = [a for node in graph.node for a in node.attribute if a.ints or a.type == onnx.AttributeProto.INT]
        if style == 0 and integers:
            attribute = rng.choice(integers)
            if attribute.ints:
                attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(SMALL)
            else:
                attribute.i = rng.choice(SMALL)
        elif style == 1 and graph.initializer:
            _change_constant(rng.choice(graph.initializer), rng)
        elif style == 2 and graph.input:
            sizes = rng.choice(graph.input).type.tensor_type.shape.dim
            if sizes:
                rng.choice(sizes).dim_value = rng.choice(SMALL)
        else:
            rng.choice(graph.node).op_type = rng.choice(graph.node).op_type
    return bytes(model.SerializeToString())


def _change_constant(tensor: onnx.TensorProto, rng: random.Random) -> None:
    try:
        values = np.array(numpy_helper.to_array(tensor))
    except (ValueError, TypeError):
        return
    if values.size and values.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            numbers = (*SMALL, *REALS) if values.dtype.kind == "f" else SMALL
            values.reshape(-1)[rng.randrange(values.size)] = np.array(rng.choice(numbers)).astype(values.dtype)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _compile(data: bytes, path: Path, number: int) -> None:
    path.write_bytes(data)
    options = Options(verify=number % VERIFIED_EVERY == 0, allow_float=number % 2 == 0)
    if number % FILES_EVERY == 0:
        files_of(analyze(path, options))
    else:
        compile_file(path, options)
