"""The chip's own answers: `--numerics 2.x` gives the outputs that a real board gave, every value of every sample."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile import pipeline
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation

CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).resolve().parents[2] / "shared" / "corpus"))
RECORDINGS = sorted((CORPUS / "hardware").glob("*.npz"))


@pytest.mark.skipif(not RECORDINGS, reason="no corpus: set ATONC_CORPUS to the folder with the recordings")
@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_outputs_equal_the_recorded_ones(recording: Path) -> None:
    model = CORPUS / "models" / f"{recording.stem}.tflite"
    compiled = pipeline.compile_file(model, Options(numerics="2.x", verify=False))
    assert not compiled.mapped.reasons, "all of it runs on the NPU"
    emulation, data = Emulation(compiled.program, compiled.graph), np.load(recording)
    for sample, expected in zip(data["c_inputs_1"], data["c_outputs_1"], strict=True):
        outputs = emulation.run({compiled.graph.inputs[0]: sample[None]})
        got = outputs[compiled.graph.outputs[0]]
        assert (got.reshape(-1) == expected.reshape(-1)).all()
