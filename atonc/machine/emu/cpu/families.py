"""All functions that the emulator computes: importing a family registers its own."""

from __future__ import annotations

from atonc.machine.emu.cpu import atonc_kernels, library, st_math, st_pointwise, st_windows  # noqa: F401
from atonc.machine.emu.cpu.struct_view import KERNELS

__all__ = ["KERNELS"]
