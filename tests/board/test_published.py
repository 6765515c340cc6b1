"""Models of the corpus, and networks that ST compiled, on the virtual board: where these files are at hand."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.firmware import image as firmware
from atonc.delivery.generate import generating
from atonc.delivery.trials import boarding
from atonc.delivery.trials.boarding import Rig
from atonc.insight.validating import validating
from atonc.machine.emu import network as emulator
from tests.board.programs import needs_compiler

ROOT = Path(__file__).parents[2]
MODELS = Path(os.environ.get("ATONC_CORPUS", ROOT.parent / "shared" / "corpus")) / "models"
FETCHED = Path(os.environ.get("ATONC_FETCHED", "/nonexistent"))
COMPILED_BY_ST = (
    "STMicroelectronics+STM32N6-GettingStarted-ImageClassification/Model/NUCLEO-N657X0-Q",  # mobilenet_v1_96
    "STMicroelectronics+STM32N6-GettingStarted-ObjectDetection/Model/STM32N6570-DK",  # st_yolo_x_nano
)
pytestmark = needs_compiler


@pytest.mark.parametrize("epoch_controller", [True, False])
@pytest.mark.parametrize("name", ["spatial_cnn_int8.tflite", "mnist_int8_io_i8.tflite"])
def test_corpus_model(name: str, epoch_controller: bool) -> None:
    if not (MODELS / name).is_file():
        pytest.skip("no corpus: set ATONC_CORPUS")
    view = generating.analyze(MODELS / name, Options(verify=False, epoch_controller=epoch_controller))
    found = boarding.validate_on_board(view, validating.synthetic_samples(view.compiled.source, 2))
    assert found.equal, found.first_difference


@pytest.mark.parametrize("folder", COMPILED_BY_ST)
def test_published_network_with_our_runtime(tmp_path: Path, folder: str) -> None:
    if not (FETCHED / folder).is_dir():
        pytest.skip("no published networks: set ATONC_FETCHED")
    network, image = emulator.load(FETCHED / folder), firmware.network_in(FETCHED / folder)
    rig = Rig(firmware.build_firmware([image], firmware.our_runtime(), tmp_path), [image], data_cache=False)
    given = [
        np.random.default_rng(k).integers(0, 256, b.size_bytes).astype(np.uint8) for k, b in enumerate(network.inputs)
    ]
    for buffer, value in zip(network.inputs, given, strict=True):
        network.memory.write(buffer.address, value)
    found = rig.run(given)
    list(network.run())
    for buffer, output in zip(network.outputs, found.outputs, strict=True):
        assert np.array_equal(output, network.memory.read(buffer.address, buffer.size_bytes))
