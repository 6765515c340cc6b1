"""Calls of C operators of the user: the function runs on this computer, behind guards, on copies of its buffers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from atonc.machine.base.errors import NotModelledError
from atonc.machine.base.user_c import CALL, LISTS, CustomCall, CustomOperator, CustomOperators, CustomTensor, Value
from atonc.machine.emu.bus import AddressSpace
from atonc.machine.emu.cpu.atonc_kernels import KernelCall
from atonc.machine.emu.cpu.struct_view import as_int, as_number
from atonc.machine.emu.files.types import CValue, Symbol

FIRST = 2  # behind the function and its cycles


def run_custom(args: Sequence[CValue], memory: AddressSpace, known: CustomOperators, where: str = "") -> None:
    call = KernelCall(CALL, args, memory)
    named = call.value(0)
    operator = known.get(named.name) if isinstance(named, Symbol) else None
    if operator is None:
        raise NotModelledError(
            f"{named.name if isinstance(named, Symbol) else 'a layer'}() is C of the user",
            where=where,
            rule="the emulator runs the user's C only where the user hands it in",
            remedy="name its declaration, if you trust the C that lies beside it: --custom FILE",
        )
    inputs = [_operand(call, FIRST + k, f"input {k + 1}", kind) for k, kind in enumerate(operator.inputs)]
    first = FIRST + len(inputs)
    outputs = [_operand(call, first + k, f"output {k + 1}", one.type) for k, one in enumerate(operator.outputs)]
    made = CustomCall(operator, (*inputs, *outputs), tuple(_values(call, first + len(outputs), operator)))
    if operator.scratch_bytes:  # the function gets guarded memory instead; its own has to be there all the same
        memory.view(call.address(len(args) - 1), operator.scratch_bytes)
    stored = [_data(call, FIRST + k, one) for k, one in enumerate(inputs)]
    for k, data in enumerate(made.run(stored, where or operator.function)):
        memory.write(call.struct(first + k).address("data"), np.frombuffer(data, np.uint8))


def _operand(call: KernelCall, index: int, name: str, kind: str) -> CustomTensor:
    view = call.struct(index)
    shape = view.integers("shape", view.integer("rank")) if view.integer("rank") else ()
    call.bounded(*shape)
    return CustomTensor(name, kind, shape, view.number("scale"), view.integer("zero_point"))


def _data(call: KernelCall, index: int, one: CustomTensor) -> bytes:
    """What lies behind a pointer: memory, or a table in the code."""
    value = call.struct(index).value("data")
    if isinstance(value, list):
        data = np.array(value, one.type).tobytes()
        call.require(len(data) == one.size_bytes, "a table of another size than its tensor")
        return data
    return call.memory.read(call.struct(index).address("data"), one.size_bytes).tobytes()


def _values(call: KernelCall, first: int, operator: CustomOperator) -> list[Value]:
    found: list[Value] = []
    for declared in operator.attributes:
        if declared.type in LISTS:
            size = call.size(first + 1)
            table = call.value(first)
            call.require(isinstance(table, list) and len(table) >= size, "a list that is none")
            assert isinstance(table, list)
            read = as_number if declared.type == "floats" else as_int
            found.append(tuple(read(one, CALL) for one in table[:size]))
            first += 2
        else:
            found.append(call.integer(first) if declared.type == "int" else call.number(first))
            first += 1
    return found
