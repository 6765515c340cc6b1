"""A virtual STM32N6: an Arm core that executes the real firmware, and the NPU emulator behind its registers."""

from atonc.emu.board.board import Board, Stop
from atonc.emu.board.elf import Firmware, read_firmware

__all__ = ["Board", "Firmware", "Stop", "read_firmware"]
