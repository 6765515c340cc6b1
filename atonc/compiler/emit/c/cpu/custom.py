"""Calls of C operators of the user (`generate --custom`)."""

from __future__ import annotations

from math import prod

from atonc.compiler.emit.c.calls import Argument, ConstantTable, CpuCall, Pointer, Struct, Word
from atonc.compiler.emit.c.cpu.site import Site, kernel_for, table
from atonc.compiler.ops.custom import call_of, scratch_name
from atonc.machine.base.user_c import CALL, LISTS, CustomCall, CustomTensor


@kernel_for("custom")
def _custom(site: Site) -> tuple[CpuCall, ...]:
    inputs = [site.input(index) for index in range(len(site.op.inputs))]
    outputs = [site.output(index) for index in range(len(site.op.outputs))]
    call = call_of(site.op, [*inputs, *outputs])
    data = [*map(site.source, inputs), *map(site.target, outputs)]
    tensors = [_tensor(at, one) for at, one in zip(data, call.operands, strict=True)]
    arguments: list[Argument] = [Word(call.operator.function), _cycles(call), *tensors]
    for declared, value in zip(call.operator.attributes, call.values, strict=True):
        if isinstance(value, tuple):
            arguments += [table(LISTS[declared.type], value), len(value)]
        else:
            arguments.append(value)
    if call.operator.scratch_bytes:
        arguments.append(Pointer(scratch_name(site.op), "void"))
    return site.call(CALL, *arguments)


def _cycles(call: CustomCall) -> int:
    """What the user declares; else a rough estimate, below 0 to tell it apart."""
    from atonc.machine.emu.cpu.cycles import GUESS_ELEMENT  # compilations without such operators need no emulator here

    declared, elements = call.operator.cycles, sum(prod(one.shape) for one in call.outputs)
    return -round(GUESS_ELEMENT * elements) if declared is None else declared


def _tensor(data: Pointer | ConstantTable, one: CustomTensor) -> Struct:
    pointer = Pointer(data.buffer, "void", offset_bytes=data.offset_bytes) if isinstance(data, Pointer) else data
    elements = ("elements", prod(one.shape))
    shape = ("rank", len(one.shape)), ("shape", table("int32_t", one.shape or (1,)))
    return Struct(
        "atonc_tensor", (("data", pointer), elements, *shape, ("scale", one.scale), ("zero_point", one.zero_point))
    )
