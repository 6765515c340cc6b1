"""Recordings of boards in fetched public repositories: `--numerics 2.x` gives every recorded value.

The folder that ATONC_FETCHED names holds repositories as `owner+name/...`. A recording is a `network_val_io.npz` as
ST's tool writes it, beside the `<model>_OE_*.onnx` of the same run; the model lies anywhere in the same repository.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile import pipeline
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation

FETCHED = Path(os.environ.get("ATONC_FETCHED", "nowhere"))


def recordings() -> list[tuple[Path, Path]]:
    """Recording and model."""
    found = []
    for repository in sorted(p for p in FETCHED.glob("*") if p.is_dir()):
        for recording in sorted(repository.rglob("network_val_io.npz")):
            names = [p.name.split("_OE_")[0] for p in recording.parent.glob("*_OE_*.onnx")]
            models = [model for name in names for model in repository.rglob(f"{name}.tflite")]
            found += [(recording, model) for model in models[:1]]
    return found


PAIRS = recordings()


@pytest.mark.skipif(not PAIRS, reason="no recordings: set ATONC_FETCHED to a folder with fetched repositories")
@pytest.mark.parametrize(("recording", "model"), PAIRS, ids=[model.stem for _, model in PAIRS])
def test_outputs_equal_the_recorded_ones(recording: Path, model: Path) -> None:
    compiled = pipeline.compile_file(model, Options(numerics="2.x", verify=False))
    assert not compiled.mapped.reasons, "all of it runs on the NPU"
    emulation, data = Emulation(compiled.program, compiled.graph), np.load(recording)
    for sample, expected in zip(data["c_inputs_1"], data["c_outputs_1"], strict=True):
        outputs = emulation.run({compiled.graph.inputs[0]: sample[None]})
        assert np.array_equal(outputs[compiled.graph.outputs[0]].reshape(-1), expected.reshape(-1))
