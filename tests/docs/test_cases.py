"""The figures of docs/cases are those of today's programs: `python -m benchmarks cases --write` makes them anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import cases
from benchmarks.shared.corpus import corpus_dir

ROOT = Path(__file__).parent.parent.parent
KEPT = ROOT / "benchmarks" / "results" / "cases.json"


def test_the_denoiser_is_as_written(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime quantises the denoiser (extra reference)")
    from benchmarks.shared.denoiser import write_denoiser

    kept = json.loads(KEPT.read_text())["denoiser"]["257"]
    assert write_denoiser(tmp_path / "denoiser.onnx") == kept["parameters"]
    found = cases.figures(tmp_path / "denoiser.onnx", cases.CODES, ("conv", "dense"))
    assert found == kept["flash"], "run python -m benchmarks cases --write"


@pytest.mark.skipif(not (corpus_dir() / "models" / cases.MOVENET).is_file(), reason="no corpus: set ATONC_CORPUS")
def test_movenet_is_as_written() -> None:
    kept = json.loads(KEPT.read_text())["movenet"]["builds"][cases.CODES_OUT]
    found = cases.figures(corpus_dir() / "models" / cases.MOVENET, cases.BUILDS[cases.CODES_OUT], ("resize_linear",))
    assert found == kept, "run python -m benchmarks cases --write"


def test_every_image_answers_as_its_folder() -> None:
    for one in json.loads(KEPT.read_text())["update"]:
        assert one["checks"][0] == one["checks"][1] and all(ran["same"] for ran in one["modes"].values())
