"""Runs firmware.elf, built with -DATONC_CPU=cortex-m33, on atonc's virtual board: run_on_virtual_board.py FIRMWARE"""

from __future__ import annotations

import sys
from pathlib import Path

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.board import VirtualBoard, read_firmware
from atonc.machine.emu.board.chip import ChipSetup


def main() -> int:
    try:
        board = VirtualBoard(read_firmware(Path(sys.argv[1])), chip=ChipSetup())  # as after reset: nothing is on
        board.run()
    except AtoncError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    answer, error_code = (
        int(board.memory.read(board.firmware.symbols[name], 4).view("<i4")[0]) for name in ("answer", "error")
    )
    print(f"answer {answer}, error {error_code}")
    print(f"{board.core.instructions:,} instructions, {board.npu.epochs} epochs")
    return 0 if error_code == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
