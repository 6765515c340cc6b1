"""Images of networks with states: first values when they are installed, kept between inferences, reset by a call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.delivery.trials import boarding
from atonc.delivery.trials.boarding import FirmwareError
from atonc.delivery.trials.loading import COPY, XIP, Spot
from atonc.insight.validating import validating
from tests.board.programs import needs_compiler
from tests.reloc import images
from tests.reloc.images import FOR_BOARD

pytestmark = needs_compiler
STREAM = Path(__file__).parents[2] / "examples" / "streaming" / "stream.tflite"


@pytest.mark.parametrize("memories", ["flash", "ram"])
def test_states_of_an_image(memories: str, tmp_path: Path) -> None:
    mpool = str(images.pool_file(images.MEMORIES[memories], memories))
    view = generating.analyze(STREAM, Options(mpool=mpool, relocatable=True, verify=False, allow_unproven=True))
    generating.generate(view, tmp_path / "generated")
    built = images.image(tmp_path / "generated", replace(FOR_BOARD, split=False))
    rig = images.rig()
    samples = validating.synthetic_samples(view.compiled.source, 6)
    for mode in (XIP,) if memories == "flash" else (COPY,):
        rig.install(built.image, spot=Spot(mode=mode))
        once = boarding.compare(view, samples, rig, starts=())  # no reset but that of the installation
        assert once.equal and once.bytes_compared == 6 * (2 + 16), once.first_difference
        again = boarding.compare(view, samples, rig, starts=(0, 3))
        assert again.equal and again.sequences == 2, again.first_difference
        (state,) = view.compiled.program.states
        left = rig.board.memory.read(state.address, state.size_bytes).tobytes()
        assert left != state.first
        rig.reset()
        assert rig.board.memory.read(state.address, state.size_bytes).tobytes() == state.first


def test_an_image_without_states_says_so() -> None:
    rig = images.rig()
    rig.install(images.image(images.folder()).image, spot=Spot())
    with pytest.raises(FirmwareError, match="nothing is kept there"):
        rig.reset()
    assert np.all(
        [boarding.compare(images.view(), validating.synthetic_samples(images.view().compiled.source, 1), rig).equal]
    )
