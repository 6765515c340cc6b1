"""All functions that the emulator computes: importing a family registers its own."""

from __future__ import annotations

from atonc.machine.emu.cpu import (  # noqa: F401
    activ,
    arith,
    atonc_elementwise,
    atonc_memory,
    atonc_recurrent,
    atonc_rows,
    atonc_windows,
    conv,
    dense,
    gather,
    lib_cast,
    lib_concat,
    lib_pad,
    lib_slice,
    lib_softmax,
    lib_space,
    lib_transpose,
    pool,
    quantize,
    reduce,
    resize,
    softmax,
)
from atonc.machine.emu.cpu.registry import KERNELS

__all__ = ["KERNELS"]
