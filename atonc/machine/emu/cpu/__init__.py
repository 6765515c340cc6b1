"""CPU epochs (`ll_sw_*`, our `atonc_*`) and hybrid epochs (`LL_ATON_LIB_*`) in NumPy.

`run_call` executes one call of an epoch function with evaluated arguments; `families.KERNELS` holds one function per
name, one file per family. `describe_call` says in a few words what a call does, `call_cost` what it costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np

from atonc.machine.base.errors import NotModelledError
from atonc.machine.base.user_c import CALL, CustomOperators
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.cycles import CallCost, call_cost, describe_call
from atonc.machine.emu.cpu.struct_view import Kernel
from atonc.machine.emu.files.types import CValue

__all__ = ["CallCost", "Kernel", "call_cost", "describe_call", "is_library_call", "run_call"]

NONE: CustomOperators = MappingProxyType({})
_PREFIXES = ("ll_sw_", "LL_ATON_LIB_", "atonc_")


def is_library_call(name: str) -> bool:
    """Whether `run_call` is responsible for a function: cache maintenance and driver calls are not."""
    return name.startswith(_PREFIXES) and name != "LL_ATON_LIB_UNUSED"


def run_call(
    name: str, args: Sequence[CValue], memory: AddressSpace, custom: CustomOperators = NONE, where: str = ""
) -> None:
    """Executes one call on the shared memories. `custom`: C operators of the user, by function."""
    from atonc.machine.emu.cpu.families import KERNELS  # not before something runs: who only asks for a cost needs none

    if name == CALL:
        from atonc.machine.emu.cpu.custom import run_custom

        run_custom(args, memory, custom, where)
        return
    kernel = KERNELS.get(name)
    if kernel is None:
        raise NotModelledError(
            f"{name} is not among the {len(KERNELS)} library functions that the emulator computes",
            where=name,
            rule="the emulator never guesses what a function computes",
        )
    with np.errstate(all="ignore"):  # infinities and NaNs are results like any other
        kernel(args, memory)
