"""From the calls of an epoch function to the register program that the driver would execute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from atonc.machine.base.errors import InputError, UnsupportedError
from atonc.machine.hw import regs
from atonc.machine.hw.ec.instructions import Barrier, Instruction, Label, Write, merge_writes
from atonc.machine.hw.ll import activ, arith, convacc, decun, pool, streng, switch, units
from atonc.machine.hw.ll.generation import THIRD, Generation
from atonc.machine.hw.ll.members import Members, ReadMemory, unit_id


class EvaluatedCall(Protocol):
    """A call with evaluated arguments."""

    @property
    def name(self) -> str: ...
    @property
    def args(self) -> Sequence[object]: ...
    @property
    def where(self) -> str: ...


_UnitProgram = Callable[[int, object, Generation, ReadMemory, str], list[Instruction]]
_UNIT_CALLS: dict[str, tuple[str, _UnitProgram]] = {
    "LL_Convacc_Init": (convacc.KIND, convacc.program),
    "LL_Arithacc_Init": (arith.KIND, arith.program),
    "LL_Activacc_Init": (activ.KIND, activ.program),
    "LL_Poolacc_Init": (pool.KIND, pool.program),
    "LL_Streng_TensorInit": (streng.KIND, streng.program),
    "LL_Decun_Init": (decun.KIND, decun.program),
}
_LIST_CALLS = {
    "LL_Switch_Init",
    "LL_Switch_Deinit",
    "LL_ATON_EnableUnits_Init",
    "LL_ATON_DisableUnits_Init",
}
_TRANSLATE = regs.registers(arith.KIND)["TRANSLATEADDR"].index
_NO_HARDWARE = ("LL_ATON_Cache_", "LL_ATON_LOCK_", "LL_ATON_UNLOCK_", "mcu_cache_", "npu_cache_")


def is_driver_call(name: str) -> bool:
    """Whether a call programs the NPU."""
    return name in _UNIT_CALLS or name in _LIST_CALLS


def driver_program(
    calls: Iterable[EvaluatedCall], read_memory: ReadMemory, generation: Generation = THIRD
) -> list[Instruction]:
    """The register stores of driver calls, in order. Cache maintenance does nothing here; other calls are refused."""
    result: list[Instruction] = []
    controls: dict[int, int] = {}  # the driver remembers CONVACC.CTRL in software
    for call in calls:
        if call.name in _UNIT_CALLS:
            kind, build = _UNIT_CALLS[call.name]
            number, conf = _arguments(call)
            if not isinstance(number, int):
                raise InputError(f"{call.name} for an unknown unit", where=call.where)
            if call.name == "LL_Convacc_Init":
                controls[unit_id(kind, number, call.where)] = convacc.control(Members(conf, call.where))
            result.append(units.clock(kind, number, True, call.where))
            result += build(number, conf, generation, read_memory, call.where)
        elif call.name in _LIST_CALLS:
            result += _list_program(call, controls, generation)
        elif not call.name.startswith(_NO_HARDWARE):
            raise UnsupportedError(f"{call.name} is not a call of the NPU driver", where=call.where)
    return result


def _arguments(call: EvaluatedCall) -> tuple[object, object]:
    if len(call.args) < 2:
        raise InputError(f"{call.name} needs two arguments", where=call.where)
    number, conf = call.args[0], call.args[1]
    if call.name == "LL_Streng_TensorInit" and isinstance(conf, list) and len(conf) == 1:
        conf = conf[0]
    return number, conf


def _list_program(call: EvaluatedCall, controls: dict[int, int], generation: Generation) -> list[Instruction]:
    entries, count = _arguments(call)
    if call.name == "LL_ATON_EnableUnits_Init":
        return units.enable_program(entries, count, controls, call.where)
    if call.name == "LL_ATON_DisableUnits_Init":
        return units.disable_program(entries, count, call.where)
    if call.name == "LL_Switch_Deinit":
        return switch.unlink_program(entries, count, generation, call.where)
    return switch.link_program(entries, count, generation, call.where)


def epoch_program(
    start_calls: Iterable[EvaluatedCall],
    wait_mask: int,
    end_calls: Iterable[EvaluatedCall],
    read_memory: ReadMemory,
    generation: Generation = THIRD,
    number: int | None = None,
) -> list[Instruction]:
    """A whole epoch as one program: configure, link, enable, wait, unlink, disable; as a blob would hold it."""
    label: list[Instruction] = [] if number is None else [Label(number)]
    start = driver_program(start_calls, read_memory, generation)
    end = driver_program(end_calls, read_memory, generation)
    return [*label, *start, *units.wait_program(wait_mask), *end]


def merged(program: Iterable[Instruction]) -> list[Instruction]:
    """The same as a blob of ST's holds it. Coefficients go through a window, and no store moves across the one that
    shifts it."""
    plain: list[Instruction | Barrier] = []
    for item in program:
        if isinstance(item, Write) and item.reg == _TRANSLATE and regs.UNIT_BY_ID[item.unit].kind == arith.KIND:
            plain.append(Barrier())
        plain.append(item)
    return merge_writes(plain)
