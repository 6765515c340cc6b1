"""Networks with states in an application: they keep them while others run in RAM that is poisoned."""

from __future__ import annotations

from pathlib import Path

import pytest

import atonc
from tests.board.programs import needs_compiler

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@needs_compiler
@pytest.mark.parametrize("name", ["streaming/stream.tflite", "wake_word/wake_word.tflite"])
def test_states_stay_while_others_run(name: str) -> None:
    """Those of the second lie in windows, whose memory also holds new rows and the frame."""
    models = [EXAMPLES / name, EXAMPLES / "digits" / "digits.tflite"]
    built = atonc.application(models, trial=4)
    assert built.trial is not None and built.trial["equal"] and built.trial["inferences"] == 8, built.trial
