"""Weights in RAM as the generated files have them, and the emulator that makes the copies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atonc.delivery.generate import generating
from atonc.machine.base.errors import InputError
from atonc.machine.emu.network import load
from tests.emit.generated import digits


def outputs(folder: Path) -> np.ndarray:
    network = load(folder)
    shape = network.inputs[0].shape
    network.write_input(0, np.arange(-128, -128 + np.prod(shape)).astype(np.int8).reshape(shape))
    assert list(network.run())
    return network.read_output(0)


@pytest.mark.parametrize("epoch_controller", [True, False])
def test_the_emulator_reads_the_list_of_copies(tmp_path: Path, epoch_controller: bool) -> None:
    view = digits(epoch_controller=epoch_controller, resident="all")
    generating.generate(digits(), tmp_path / "before")
    generating.generate(view, tmp_path / "after")
    copies = load(tmp_path / "after").network.residents
    assert sum(copy.size_bytes for copy in copies) > 7000
    assert np.array_equal(outputs(tmp_path / "before"), outputs(tmp_path / "after"))
    raw = [(tmp_path / which / "network_atonbuf.xSPI2.raw").read_bytes() for which in ("before", "after")]
    assert raw[0] == raw[1]  # the flash is the same
    header = (tmp_path / "after" / "network.h").read_text()
    assert "ATONC_Release_Resident_Default" in header and "RESIDENT_1_ADDRESS" in header


def test_a_list_that_is_none(tmp_path: Path) -> None:
    generating.generate(digits(resident="all"), tmp_path)
    file = tmp_path / "network.c"
    file.write_text(file.read_text().replace(".bytes = 2304U", ".bytes = 0xffffffffU"))
    with pytest.raises(InputError, match=r"changed|not a copy"):
        load(tmp_path)
