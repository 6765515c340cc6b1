"""Runs the firmware on atonc's virtual board: run_on_virtual_board.py FIRMWARE"""

from __future__ import annotations

import sys
from pathlib import Path

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.board import VirtualBoard, read_firmware
from atonc.machine.emu.board.chip import ChipSetup

FRAME_S, LAST_S = 0.02, 0.03  # hop and length of a frame


def main() -> int:
    try:
        board = VirtualBoard(read_firmware(Path(sys.argv[1])), chip=ChipSetup())  # as after reset: nothing is on
        board.run()
    except AtoncError as error:
        print(error, file=sys.stderr)
        return error.exit_code

    def words(name: str, count: int = 1) -> list[int]:
        return [int(value) for value in board.memory.read(board.firmware.symbols[name], 4 * count).view("<u4")]

    (frames,), (heard,), (error_code,) = words("frames"), words("heard"), words("error")
    times = ", ".join(f"{frame * FRAME_S + LAST_S:.2f}" for frame in words("heard_at", 16)[:heard])
    print(f"{frames} frames, heard at {times} s, error {error_code}")
    return 0 if error_code == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
