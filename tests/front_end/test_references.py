"""Presets against the packages that they name."""

from __future__ import annotations

import numpy as np
import pytest

from atonc.delivery.front_end.twin import front_end
from tests.front_end.references import REFERENCES
from tests.front_end.ways import sound

# of features: a few units in the last place of a sum that cancels; integers are equal
MOST = {"librosa": 1e-3, "torchaudio": 0.02, "kaldi": 2e-3, "nemo": 2e-3, "micro_wake_word": 0.0, "st_yamnet": 2e-3}


@pytest.mark.parametrize("name", list(REFERENCES))
def test_a_preset_gives_what_its_package_gives(name: str) -> None:
    made = sound(5, seed=3)
    quiet = np.concatenate([made, np.rint(30 * np.random.default_rng(4).standard_normal(16000)).astype(np.int16)])
    expected, found = REFERENCES[name][1](quiet), front_end(name).features(quiet)
    frames = len(found)
    assert 0 <= len(expected) - frames <= 2  # packages with a centre go on beyond the last sample
    assert np.abs(found - expected[:frames]).max() <= MOST[name]
    assert np.abs(found).max() > 1
