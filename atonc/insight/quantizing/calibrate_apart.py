"""Calibration on a cluster: each unit runs some of the samples, and what its tensors held comes back."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from atonc.insight import workers
from atonc.insight.quantizing.look import Look, Looks, look
from atonc.insight.quantizing.samples import Feed
from atonc.machine.base import progress

FUNCTION = "atonc.insight.quantizing.calibrate_apart:compute"
SAMPLES_TOGETHER = 8
_TOPS = "tops"


def looks_from_cluster(model: Any, names: Sequence[str], feeds: Sequence[Feed], scheduler: str) -> list[Looks]:
    """The model and the samples lie in a folder below the current one meanwhile: all machines must see it."""
    with tempfile.TemporaryDirectory(prefix="atonc-calibration-", dir=Path.cwd()) as folder:
        units = _units(Path(folder), model, names, feeds)
        results = workers.run(
            units, FUNCTION, scheduler=scheduler,
            progress=lambda done, count: progress.stage("calibrating on the cluster", done, count),
        )  # fmt: skip
    return [_looks(result, names) for result in results]


def _units(folder: Path, model: Any, names: Sequence[str], feeds: Sequence[Feed]) -> list[workers.WorkUnit]:
    network = folder / "float.onnx"
    network.write_bytes(model.SerializeToString(deterministic=True))
    units = []
    for first in range(0, len(feeds), SAMPLES_TOGETHER):
        some, file = feeds[first : first + SAMPLES_TOGETHER], folder / f"samples_{first}.npz"
        np.savez(file, **_numbered([np.stack([feed[name] for feed in some]) for name in some[0]]))
        options = {"tensors": list(names), "inputs": list(some[0]), "first": first}
        units.append(workers.WorkUnit(f"samples {first} to {first + len(some) - 1}", (network, file), options))
    return units


def _numbered(arrays: Sequence[Any]) -> dict[str, Any]:
    """Names of tensors may be anything, those of arrays in a file may not."""
    return {str(index): value for index, value in enumerate(arrays)}


def compute(unit: workers.WorkUnit) -> bytes:
    from onnx import ModelProto

    names, inputs = unit.options["tensors"], unit.options["inputs"]
    with np.load(unit.files[1]) as stored:
        arrays = [stored[str(index)] for index in range(len(inputs))]
    feeds = [dict(zip(inputs, values, strict=True)) for values in zip(*arrays, strict=True)]
    found = look(ModelProto.FromString(unit.files[0].read_bytes()), names, feeds, unit.options["first"])
    made = io.BytesIO()
    ranges = np.array([(found[name].low, found[name].high) for name in names])
    tops = {f"{_TOPS}{index}": found[name].tops for index, name in enumerate(names) if found[name].tops is not None}
    np.savez(made, ranges=ranges, **_numbered([found[name].values for name in names]), **tops)  # type: ignore[arg-type]
    return made.getvalue()


def _looks(result: bytes, names: Sequence[str]) -> Looks:
    with np.load(io.BytesIO(result)) as stored:
        lows, highs = stored["ranges"].T
        return {
            name: Look(float(lows[index]), float(highs[index]), stored[str(index)], stored.get(f"{_TOPS}{index}"))
            for index, name in enumerate(names)
        }
