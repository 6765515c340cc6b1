"""The chip's own answers: `--numerics 2.x` gives the outputs that a real board gave, every value of every sample.

Recordings lie in the corpus (`hardware/NAME.npz` beside `models/NAME.tflite`) and in fetched public repositories: the
folder that ATONC_FETCHED names holds them as `owner+name/...`, a recording is a `network_val_io.npz` as ST's tool
writes it, beside the `<model>_OE_*.onnx` of the same run; the model lies anywhere in the same repository. Each is
the case of one kernel shape. What nobody recorded is kept by `tests/lower/test_golden_2x.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.compile import pipeline
from atonc.compiler.request.options import Options
from atonc.compiler.verify.emulation import Emulation

CORPUS = Path(os.environ.get("ATONC_CORPUS", Path(__file__).resolve().parents[2] / "shared" / "corpus"))
FETCHED = Path(os.environ.get("ATONC_FETCHED", "nowhere"))


def _of_corpus() -> Iterator[tuple[Path, Path]]:
    for recording in sorted((CORPUS / "hardware").glob("*.npz")):
        yield recording, CORPUS / "models" / f"{recording.stem}.tflite"


def _fetched() -> Iterator[tuple[Path, Path]]:
    for repository in sorted(p for p in FETCHED.glob("*") if p.is_dir()):
        for recording in sorted(repository.rglob("network_val_io.npz")):
            names = [p.name.split("_OE_")[0] for p in recording.parent.glob("*_OE_*.onnx")]
            models = [model for name in names for model in repository.rglob(f"{name}.tflite")]
            if models:
                yield recording, models[0]


PAIRS = {model.stem: (recording, model) for recording, model in (*_fetched(), *_of_corpus())}


@pytest.mark.skipif(not PAIRS, reason="no recordings: set ATONC_CORPUS to the folder with hardware/ and models/")
@pytest.mark.parametrize("name", PAIRS)
def test_outputs_equal_the_recorded_ones(name: str) -> None:
    recording, model = PAIRS[name]
    compiled = pipeline.compile_file(model, Options(numerics="2.x", verify=False))
    assert not compiled.choices.reasons, "all of it runs on the NPU"
    emulation, data = Emulation(compiled.program, compiled.graph), np.load(recording)
    for sample, expected in zip(data["c_inputs_1"], data["c_outputs_1"], strict=True):
        outputs = emulation.run({compiled.graph.inputs[0]: sample[None]})
        assert np.array_equal(outputs[compiled.graph.outputs[0]].reshape(-1), expected.reshape(-1))
