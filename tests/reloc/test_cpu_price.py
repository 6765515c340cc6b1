"""A layer on the CPU costs in an image what `analyze` says: the image carries the kernel whose price that is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from atonc.compiler.request.options import Options
from atonc.delivery.generate import generating
from atonc.delivery.reloc.build import RelocOptions
from atonc.machine.cost.band import GUESSES, limits
from tests.board.programs import needs_compiler
from tests.compiler.test_named_cases import _conv, _net
from tests.emit.generated import view_of
from tests.reloc import images

pytestmark = needs_compiler


def test_dequantising_takes_what_was_predicted(tmp_path: Path) -> None:
    """Within the band of unmeasured CPU kernels; without vectors it would be four to five times as much."""
    net = _net((1, 24, 24, 8))
    _conv(net, net.inputs[0], 16, (1, 1))
    view = view_of(net.graph("net"), options=Options(verify=False, relocatable=True, output_type="float32"))
    (predicted,) = (step.cpu_ms for step in view.cost.steps if step.cpu_ms)
    generating.generate(view, tmp_path / "net")
    rig = images.rig()
    rig.install(images.image(tmp_path / "net", RelocOptions(cpu="cortex-m55")).image)
    _, blocks = rig.profile([np.zeros(24 * 24 * 8, np.uint8)])
    (run,) = (block.pre + block.npu + block.post for block in blocks if block.kind == "SW")
    limit = limits()[GUESSES]
    assert 1 + limit.low <= run / (800e3 * predicted) <= 1 + limit.high
