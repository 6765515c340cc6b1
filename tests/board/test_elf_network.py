"""The host that takes over a linked image at `main`: the image's own functions give the outputs of the emulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.delivery.firmware import image as firmware
from atonc.delivery.generate import generating
from atonc.machine.base.errors import InputError
from atonc.machine.emu.files.initialisers import read_hex
from atonc.machine.emu.files.network_c import read_network
from tests.board.elf_network import ElfNetwork
from tests.emit.generated import digits, needs_compiler
from tests.emit.test_network_c import outputs_of

pytest.importorskip("unicorn")


@needs_compiler
def test_the_network_of_an_image_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    generating.generate(digits(inputs_allocation=False), out, with_hex=True)
    image = firmware.build_firmware([firmware.network_in(out)], firmware.our_runtime(), tmp_path)
    flash = [part for path in out.glob("*.hex") for part in read_hex(path)]
    network, given = read_network(out), np.arange(64, dtype=np.int8).reshape(1, 8, 8, 1)
    host = ElfNetwork(image, flash)
    assert host.run(network, [given.tobytes()]) == [data.tobytes() for data in outputs_of(out, [given])]
    with pytest.raises(InputError, match="0 symbols are called"):
        host._symbol("NN_Instance_of_nobody")


def test_parts_that_touch_are_one() -> None:
    parts = [(20, b"e"), (2, b"cd"), (0, b"ab"), (9, b""), (4, b"."), (21, b"f")]
    assert firmware.runs(parts) == [(0, b"abcd."), (20, b"ef")]
