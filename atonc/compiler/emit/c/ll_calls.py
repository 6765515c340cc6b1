"""Epochs as calls of the LL_ATON driver, for networks without epoch controller.

The same epoch as `hw.ec.ec_program` writes it, in the same order: configure processing units, readers, writers; wire
the switch; enable writers, units, readers. The runtime waits for the writers; then unwire and release every unit. The
members mean the same to all releases of the driver (1.1.0, 1.1.1, 1.1.3), so the C text has no conditions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from atonc.compiler.emit.c import ll_text
from atonc.compiler.emit.c.ll_members import streng_members, unit_members
from atonc.compiler.emit.c.ll_types import Base, DriverCall, DriverPort, EpochCall, ListCall, SwitchLink
from atonc.compiler.emit.program import ProgramStep
from atonc.machine.base.errors import ToolError
from atonc.machine.hw import ll, regs
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.instructions import Instruction
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.ll import GENERATIONS, Generation
from atonc.machine.hw.units.stream_engine import CIPHER, StrengConfig
from atonc.machine.hw.units.switch import Link

Bases = Mapping[str, Base]
"""Engine -> the buffer that it works on."""

_FUNCTIONS = {
    "STRENG": "LL_Streng_TensorInit",
    "CONVACC": "LL_Convacc_Init",
    "ARITH": "LL_Arithacc_Init",
    "ACTIV": "LL_Activacc_Init",
    "POOL": "LL_Poolacc_Init",
}


_SAYABLE = ((), (CIPHER,))  # settings of units that nobody has seen, but the driver has a member for them


def epoch_functions(step: ProgramStep, name: str, bases: Bases | None = None, first_lines: Sequence[str] = ()) -> str:
    """The C functions `LL_ATON_Start_EpochBlock_<n>_<name>` and `LL_ATON_End_...` of a step that runs on the NPU.

    `bases` says where the buffers of the engines begin (absent: every engine by its own address); one with a symbol
    follows what the application sets at run time. `first_lines` come first in the start function: cache maintenance.
    """
    epoch = _epoch(step)
    start, end = start_calls(epoch, bases or {}), end_calls(epoch)
    require_same(epoch, start, end)
    return ll_text.functions(epoch.number, name, start, end, first_lines)


def wait_mask(step: ProgramStep) -> int:
    """The engines whose end ends the epoch, as the runtime wants them: bit n is engine n."""
    return _mask(_epoch(step).writers())


def read_mask(step: ProgramStep) -> int:
    return _mask(_epoch(step).readers())


def start_calls(epoch: Epoch, bases: Bases) -> list[EpochCall]:
    units, readers, writers = _in_order(epoch)
    configure = [_configure(name, epoch.units[name], bases) for name in (*units, *readers, *writers)]
    enable = tuple(_port(name) for name in (*writers, *units, *readers))
    return [*configure, ListCall("LL_Switch_Init", _links(epoch)), ListCall("LL_ATON_EnableUnits_Init", enable)]


def end_calls(epoch: Epoch) -> list[EpochCall]:
    units, readers, writers = _in_order(epoch)
    release = tuple(_port(name) for name in (*writers, *units, *readers))
    return [ListCall("LL_Switch_Deinit", _links(epoch)), ListCall("LL_ATON_DisableUnits_Init", release)]


def driver_epoch(
    start: Sequence[EpochCall], end: Sequence[EpochCall], mask: int, number: int, generation: Generation
) -> Epoch:
    """What the driver makes of the calls: the epoch read off the registers that it writes."""
    program = ll.epoch_program(start, mask, end, _no_memory, generation, number)
    return next(epoch for epoch in decode_epochs(program) if not epoch.empty)


def driver_stores(config: UnitConfig) -> list[Instruction]:
    """What the driver does to configure a unit, whichever of its kind."""
    name = next(unit.name for unit in regs.UNITS if unit.kind == config.KIND)
    return ll.driver_program([_configure(name, config, {})], _no_memory)


def require_same(epoch: Epoch, start: Sequence[EpochCall], end: Sequence[EpochCall]) -> None:
    """The calls write the registers that the epoch-controller program writes, whichever release of the driver runs."""
    alone = replace(epoch, kept=frozenset())  # the driver loads every table
    wanted = next(e for e in decode_epochs(ec_program.program([alone])) if not e.empty)
    for generation in GENERATIONS:
        made = driver_epoch(start, end, _mask(epoch.writers()), epoch.number, generation.traced())
        different = differences(wanted, made)
        if different:
            raise ToolError(
                f"driver {generation.name} would set {'; '.join(different[:3])}",
                where=f"epoch {epoch.number}",
                rule="an epoch means the same with and without epoch controller",
                remedy="compile with the epoch controller, and report the model",
            )


def differences(wanted: Epoch, made: Epoch) -> list[str]:
    """What two epochs do not have in common, in words."""
    found = []
    if wanted.links != made.links or set(wanted.waits) != set(made.waits):
        found.append("other links or waits")
    if wanted.units.keys() != made.units.keys():
        return [*found, f"other units: {sorted(wanted.units.keys() ^ made.units.keys())}"]
    for name, config in wanted.units.items():
        other = made.units[name]
        for field in (known.name for known in fields(config)):
            if field not in _FREE.get(config.KIND, ()) and getattr(config, field) != getattr(other, field):
                found.append(f"{name} {field} {getattr(other, field)} instead of {getattr(config, field)}"[:200])
    return found


_FREE = {"ARITH": ("translate",)}  # which half of the coefficient memory the bus sees: the unit does not care


def _epoch(step: ProgramStep) -> Epoch:
    if step.epoch is None:
        raise ToolError(f"step {step.number} runs on the CPU: it has no driver calls")
    return step.epoch


def _in_order(epoch: Epoch) -> tuple[list[str], list[str], list[str]]:
    """Processing units, readers and writers."""
    units = sorted((name for name in epoch.units if not name.startswith("STRENG")), key=_id)
    return units, sorted(epoch.readers(), key=_id), sorted(epoch.writers(), key=_id)


def _configure(name: str, config: UnitConfig, bases: Bases) -> DriverCall:
    unit = regs.UNIT_BY_NAME[name]
    if config.unmodelled not in _SAYABLE or config.KIND not in _FUNCTIONS:
        raise ToolError(f"{name} has settings that the driver does not know", remedy="report the model")
    if isinstance(config, StrengConfig):
        members = streng_members(config, bases.get(name, Base(config.address)))
    else:
        members = unit_members(config)
    return DriverCall(_FUNCTIONS[config.KIND], unit.kind, unit.index, members)


def _links(epoch: Epoch) -> tuple[SwitchLink, ...]:
    ordered = sorted(epoch.links, key=lambda link: regs.SWITCH_PORTS[link.destination, link.port])
    return tuple(_link(link) for link in ordered)


def _link(link: Link) -> SwitchLink:
    if link.tick_type:
        raise ToolError(f"link {link} cannot be said in calls of the driver")
    other = _port(regs.SOURCE_NAMES[link.other_source]) if link.other_source else None
    source = _port(link.source)
    return SwitchLink(
        _port(link.destination, link.port),
        (source, other) if link.enabled0 else (other, source),
        (link.frames0, link.frames1),
        (int(link.enabled0), int(link.enabled1)),
    )


def _port(name: str, port: int = 0) -> DriverPort:
    unit = regs.UNIT_BY_NAME[name]
    return DriverPort(unit.kind, unit.index, port)


def _mask(engines: Mapping[str, StrengConfig]) -> int:
    return sum(1 << regs.UNIT_BY_NAME[name].index for name in engines)


def _id(name: str) -> int:
    return regs.UNIT_BY_NAME[name].id


def _no_memory(address: int, size_bytes: int) -> bytes:
    raise ToolError(f"the driver would read {size_bytes} bytes at {address:#x}: tables belong in the code")
