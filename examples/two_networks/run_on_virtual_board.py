"""Runs the example on atonc's virtual board: run_on_virtual_board.py BUILD_FOLDER"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from atonc.machine.base.errors import AtoncError
from atonc.machine.emu.board import VirtualBoard, read_firmware
from atonc.machine.emu.board.chip import mapped

NETWORKS = 2


def main() -> int:
    build = Path(sys.argv[1])
    try:
        loaded = mapped("XSPI2")  # a chip whose first-stage loader has mapped the flash
        board = VirtualBoard(read_firmware(build / "firmware.elf"), chip=loaded)
        start = json.loads((build / "networks" / "app.json").read_text())["flash_start"]
        image = np.fromfile(build / "networks" / "app_flash.bin", np.uint8)
        board.poke(start, image)
        board.run()
    except AtoncError as error:
        print(error, file=sys.stderr)
        return error.exit_code

    def words(name: str, count: int) -> list[int]:
        return [int(value) for value in board.memory.read(board.firmware.symbols[name], 4 * count).view("<i4")]

    error, lost = words("error", 1)[0], words("lost", 1)[0]
    print(f"answers {words('answers', NETWORKS)}, runs {words('runs', NETWORKS)}, lost {lost}, error {error}")
    return 1 if error or lost else 0


if __name__ == "__main__":
    raise SystemExit(main())
