"""The virtual board has the memories and clocks of the board file."""

from __future__ import annotations

from pathlib import Path

import pytest

from atonc.delivery.firmware import image as firmware
from atonc.delivery.firmware.image import ImageNetwork
from atonc.delivery.trials import boarding
from atonc.delivery.trials.boarding import Rig
from atonc.insight.validating.validating import synthetic_samples
from atonc.machine.base.errors import InputError
from atonc.machine.emu.board.board import external
from atonc.machine.hw.board import Board, find_board, parse_board
from tests.emit.generated import digits, needs_compiler

MIB = 1 << 20


def own(text: str) -> Board:
    return parse_board(f'name = "own"\nbased_on = "dk"\n{text}', "own.toml")


def test_external_memories_are_those_of_the_file() -> None:
    kit = {place.name: place for place in external(find_board("dk").machine())}
    assert (kit["octoFlash"].base, kit["octoFlash"].size_bytes) == (0x7000_0000, 128 * MIB)
    assert (kit["hyperRAM"].base, kit["hyperRAM"].size_bytes, kit["hyperRAM"].cached) == (0x9000_0000, 32 * MIB, True)
    (flash,) = external(find_board("nucleo").machine())
    assert flash.size_bytes == 64 * MIB and not flash.cached
    odd = own('[[memories]]\nname = "hyperRAM"\nsize = 0x1000001\n[[areas]]\nname = "weights"\n')
    assert external(odd.machine())[1].size_bytes == 16 * MIB + 0x1000  # whole pages


def test_firmware_goes_where_the_board_has_room() -> None:
    one = ImageNetwork("a", Path("a.c"), ((0x3400_8000, 0x3400_9000),))
    assert firmware.place([]).code == 0x7700_0000 and firmware.place([]).data_range == (0x3400_0400, 0x3410_0000)
    nucleo = firmware.place([], find_board("nucleo"))
    assert nucleo.code == 0x7300_0000 and nucleo.data_range == (0x3400_0400, 0x3408_0000)  # buffers lie behind
    assert firmware.place([one], find_board("nucleo")).data == 0x3410_0000
    small = own('[[memories]]\nname = "octoFlash"\nsize = "8M"\n')
    with pytest.raises(InputError, match="no flash of 16 MiB"):
        firmware.place([], small)


@needs_compiler
def test_supplied_buffers_lie_in_their_area(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a board without external RAM, with a slower CPU: same bytes as the emulator."""
    file = tmp_path / "slow.toml"
    file.write_text('name = "slow"\nbased_on = "nucleo-n657x0-q"\n[clocks]\ncpu_mhz = 600\n')
    view = digits(board=str(file), inputs_allocation=False)
    rigs: list[Rig] = []
    start = Rig.start
    monkeypatch.setattr(Rig, "start", lambda rig: (rigs.append(rig), start(rig))[1])
    found = boarding.validate_on_board(view, synthetic_samples(view.compiled.source, 1))
    assert found.equal and found.bytes_compared
    (buffer,) = rigs[0].inputs[0]
    assert buffer.user and 0x3408_0000 <= buffer.address < 0x3410_0000
    assert rigs[0].board.npu.machine.clocks.cpu_mhz == 600
    with pytest.raises(InputError, match=r"user buffers(?s:.*)524,288"):
        rigs[0]._room(513 << 10)
