"""A virtual STM32N6: an Arm core that executes the real firmware, and the NPU emulator behind its registers."""

from atonc.machine.emu.board.board import Firmware, Stop, VirtualBoard, read_firmware

__all__ = ["Firmware", "Stop", "VirtualBoard", "read_firmware"]
