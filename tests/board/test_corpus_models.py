"""Models of the corpus on the virtual board: where these files are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.delivery.trials import boarding
from atonc.insight.validating import validating
from tests.board.programs import needs_compiler

ROOT = Path(__file__).parents[2]
MODELS = Path(os.environ.get("ATONC_CORPUS", ROOT.parent / "shared" / "corpus")) / "models"
pytestmark = needs_compiler


@pytest.mark.parametrize("epoch_controller", [True, False])
@pytest.mark.parametrize("name", ["spatial_cnn_int8.tflite", "mnist_int8_io_i8.tflite"])
def test_corpus_model(name: str, epoch_controller: bool) -> None:
    if not (MODELS / name).is_file():
        pytest.skip("no corpus: set ATONC_CORPUS")
    view = generating.analyze(MODELS / name, Options(verify=False, epoch_controller=epoch_controller))
    found = boarding.validate_on_board(view, validating.synthetic_samples(view.compiled.source, 2))
    assert found.equal, found.first_difference


def test_copies_by_the_dma_take_the_time_that_is_predicted() -> None:
    """The firmware sets no clocks here: the DMA counts in the cycles in which the NPU does."""
    model = MODELS / "mobilenet_v1_0.25_96_tfs_int8.tflite"
    if not model.is_file():
        pytest.skip("no corpus: set ATONC_CORPUS")
    view = generating.analyze(model, Options(verify=False, prefetch="dma"))
    found = boarding.validate_on_board(view, validating.synthetic_samples(view.compiled.source, 1))
    clocks = view.compiled.target.machine.clocks
    assert found.equal and found.cycles == pytest.approx(view.cost.cycles * clocks.cpu_mhz / clocks.npu_mhz, rel=0.06)
