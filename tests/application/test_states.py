"""Networks with states in an application: they keep them while others run in RAM that is poisoned."""

from __future__ import annotations

from pathlib import Path

import atonc
from tests.board.programs import needs_compiler

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@needs_compiler
def test_states_stay_while_others_run() -> None:
    models = [EXAMPLES / "streaming" / "stream.tflite", EXAMPLES / "digits" / "digits.tflite"]
    built = atonc.application(models, trial=4)
    assert built.trial is not None and built.trial["equal"] and built.trial["inferences"] == 8, built.trial
