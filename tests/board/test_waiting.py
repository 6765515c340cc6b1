"""A firmware that waits for its host executes next to nothing; it is left all the same when time is up."""

from __future__ import annotations

from pathlib import Path

from atonc.delivery.trials import board_running
from tests.board.programs import build, needs_compiler
from tests.patience import no_hang

pytestmark = needs_compiler


def test_a_board_that_waits_can_be_stopped(tmp_path: Path) -> None:
    elf = build(
        tmp_path,
        "int main(void) { WORD(0x5200100Cu) = 0x22C; WORD(0x52001000u) = 0xD; "
        'board_print("waiting\\n"); while (!(WORD(0x5200101Cu) & 0x20u)) { } return 0; }',
    )
    said: list[str] = []
    with no_hang():  # without a look at the clock it takes hours
        served = board_running.run_firmware(board_running.BoardRun(elf, serial="socket:0", seconds=0.5), said.append)
    assert served.reason == "time"
    assert "| waiting" in said
