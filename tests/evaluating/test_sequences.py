"""Data sets of sequences: states are reset between samples; what is no sequence is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atonc
from atonc.machine.base.errors import AtoncError
from tests.errors_said import unwrapped

STREAM = Path(__file__).resolve().parents[2] / "examples" / "streaming" / "stream.tflite"
SAMPLES, FRAMES = 12, 5


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Labels are what the network itself says behind the last frame of each sequence."""
    session = atonc.compile(STREAM, verify=False).stream()
    frames = np.random.default_rng(3).integers(-90, 90, (SAMPLES, FRAMES, 1, 1, 1, 8)).astype(np.int8)
    labels = []
    for sequence in frames:
        session.reset()
        labels.append(int(session.run(sequence)["score"][-1].argmax()))
    assert len(set(labels)) == 2
    return {"features": frames, "labels": np.array(labels)}


def test_every_sample_begins_with_first_states(data: dict[str, Any], tmp_path: Path) -> None:
    found = atonc.evaluate(STREAM, data, frames=FRAMES, output=tmp_path / "all", processes=1)
    assert found.sides["NPU"][0].value == 1.0 and found.sides["int8"][0].value == 1.0
    turned = {name: value[::-1] for name, value in data.items()}  # no sample knows which one was before
    other = atonc.evaluate(STREAM, turned, frames=FRAMES, output=tmp_path / "turned", processes=1, int8=False)
    assert other.sides["NPU"][0].value == 1.0
    backwards = {**data, "features": data["features"][:, ::-1]}  # but frames have an order
    other = atonc.evaluate(STREAM, backwards, frames=FRAMES, output=tmp_path / "back", processes=1, int8=False)
    assert other.sides["NPU"][0].value < 1.0


@pytest.mark.parametrize(
    ("frames", "values", "said"),
    [
        (0, lambda x: x, "say how many frames a sample has: --frames N"),
        (4, lambda x: x, "samples of shape 5x1x1x1x8 for 'features'"),
        (5, lambda x: x.reshape(SAMPLES, FRAMES, 8).transpose(0, 2, 1), "the input takes 5x1x1x1x8"),
    ],
)
def test_what_is_no_sequence_is_refused(
    frames: int, values: Any, said: str, data: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(AtoncError) as error:
        atonc.evaluate(STREAM, {**data, "features": values(data["features"])}, frames=frames, output=tmp_path / "e")
    assert said in unwrapped(str(error.value))


def test_frames_of_a_network_without_states_are_refused(tmp_path: Path) -> None:
    digits = STREAM.parents[1] / "digits"
    with pytest.raises(AtoncError, match="--frames for a network without states"):
        atonc.evaluate(digits / "digits.tflite", digits / "test.npz", frames=3, output=tmp_path / "e")
