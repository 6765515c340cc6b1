"""Sequences as Arm code on the virtual board: states in its RAM, NAME_reset() where a sequence begins."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.delivery.trials import boarding
from atonc.delivery.trials.boarding import Rig
from atonc.doors.cli import cli
from atonc.insight.validating import validating
from tests.board.programs import needs_compiler
from tests.board.test_firmware import make

pytestmark = needs_compiler
STREAM = Path(__file__).parents[2] / "examples" / "streaming" / "stream.tflite"


def test_frames_with_their_states(tmp_path: Path) -> None:
    """By calls of the drivers; the programs of the controller are run below."""
    view = generating.analyze(STREAM, Options(verify=False, epoch_controller=False), name="stream")
    rig = Rig(*make(tmp_path, view))
    samples = validating.synthetic_samples(view.compiled.source, 8)
    found = boarding.compare(view, samples, rig, starts=(0, 5))
    assert found.equal and found.sequences == 2 and found.bytes_compared == 8 * (2 + 16), found.first_difference


def test_a_missing_reset_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = generating.analyze(STREAM, Options(verify=False))
    rig = Rig(*make(tmp_path, view))
    monkeypatch.setattr(Rig, "reset", lambda self, network=0: None)
    samples = validating.synthetic_samples(view.compiled.source, 6)
    found = boarding.compare(view, samples, rig, starts=(0, 3))
    assert not found.equal and found.first_difference.startswith("sample 3, ")
    assert "a sequence begins there: its states were not reset (NAME_reset)" in found.first_difference
    place = rig.board.firmware.symbols["atonc_states_ready"]
    assert rig.board.memory.read(place, 1).tobytes() == b"\1"


def test_validate_on_the_virtual_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = tmp_path / "frames.npy"
    np.save(frames, np.load(STREAM.parent / "frames.npy")[:8])
    words = ["validate", str(STREAM), "--mode", "board", "-vi", str(frames), "--frames", "4"]
    assert cli.main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["samples"], found["sequences"], found["bytes_compared"]) == (8, 2, 8 * 18)
    assert cli.main(words) == 0
    assert "8 frames of 2 sequences, each after a reset of the states" in " ".join(capsys.readouterr().out.split())
