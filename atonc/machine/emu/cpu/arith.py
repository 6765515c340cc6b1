"""Element-wise arithmetic of two or more tensors on the CPU, float and int8.

Published: operations and operands; sizes of 1 are broadcast. Inferred: int8 layers compute in real numbers and round
once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.quantization import quantization, read_real, write_codes
from atonc.machine.emu.cpu.registry import layer, not_modelled
from atonc.machine.emu.cpu.struct_view import StructView, fail
from atonc.machine.emu.cpu.tensors import F32, Array, tensor

Operation = Callable[[Array, Array], Array]

OPERATIONS: dict[str, Operation] = {
    "LL_SW_ARITHADD": np.add,
    "LL_SW_ARITHSUM": np.add,
    "LL_SW_ARITHSUB": np.subtract,
    "LL_SW_ARITHMUL": np.multiply,
    "LL_SW_ARITHDIV": np.divide,
    "LL_SW_POW": np.power,
    "LL_SW_MIN": np.minimum,
    "LL_SW_MAX": np.maximum,
    "LL_SW_MOD": np.fmod,  # the runtime calls it floor-mod, but its macro is C's fmodf
}
_INTEGER = ("LL_SW_ARITHSUM", "LL_SW_ARITHSUB", "LL_SW_ARITHMUL", "LL_SW_ARITHDIV")


@layer("arith")
def arith(info: StructView, memory: AddressSpace) -> None:
    kind = info.enum("general.type")
    if kind not in OPERATIONS:
        raise not_modelled(f"element-wise operation {kind or '(none)'}", info)
    target = tensor(info, "general.output")
    operands = [tensor(info, name).read(memory, F32) for name in _operand_names(info, kind)]
    target.write(memory, reduce(_broadcasting(OPERATIONS[kind], info), operands), F32)


def _operand_names(info: StructView, kind: str) -> list[str]:
    """Only a sum uses the third and fourth operand."""
    count = info.integer("num_of_inputs", 2) if kind == "LL_SW_ARITHSUM" else 2
    names = ["general.input", "operand", "operand1", "operand2"]
    return names[:count] if count in (3, 4) else names[:2]


def _broadcasting(operation: Operation, info: StructView) -> Operation:
    def apply(a: Array, b: Array) -> Array:
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError as cause:
            raise fail(f"shapes {a.shape} and {b.shape} do not fit each other", info.where) from cause
        return operation(a, b)

    return apply


@layer("eltwise_integer")
def eltwise_integer(info: StructView, memory: AddressSpace) -> None:
    kind = info.enum("general.type")
    if kind not in _INTEGER:
        raise not_modelled(f"int8 element-wise operation {kind or '(none)'}", info)
    left, right, target = (tensor(info, name) for name in ("general.input", "operand", "general.output"))
    a = read_real(left, quantization(info, "is", "izp", memory, left.shape[3], sign_from_scale=True), memory)
    by = quantization(info, "operand_s", "operand_zp", memory, right.shape[3], sign_from_scale=True)
    b = read_real(right, by, memory)
    after = quantization(info, "os", "ozp", memory, target.shape[3], sign_from_scale=True)
    write_codes(target, _broadcasting(OPERATIONS[kind], info)(a, b), after, memory)
