"""The functions that generated code may call, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atonc.machine.base.errors import NotModelledError
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.struct_view import StructView, argument
from atonc.machine.emu.files.types import CValue

Kernel = Callable[[Sequence[CValue], AddressSpace], None]
Layer = Callable[[StructView, AddressSpace], None]

KERNELS: dict[str, Kernel] = {}


def library(name: str) -> Callable[[Kernel], Kernel]:
    """Registers a `LL_ATON_LIB_*` function; later releases pass a network instance last, which changes nothing here."""

    def register(kernel: Kernel) -> Kernel:
        KERNELS[name] = kernel
        return kernel

    return register


def layer(kind: str) -> Callable[[Layer], Layer]:
    """Registers a `ll_sw_forward_*` function, whose only meaningful argument is a structure."""
    name = f"ll_sw_forward_{kind}"

    def register(function: Layer) -> Layer:
        def kernel(args: Sequence[CValue], memory: AddressSpace) -> None:
            function(StructView.of(argument(args, 0, name), kind), memory)

        KERNELS[name] = kernel
        return function

    return register


def not_modelled(what: str, info: StructView, why: str = "its arithmetic is not published") -> NotModelledError:
    return NotModelledError(what, where=info.where, rule=f"the emulator never guesses: {why}")
