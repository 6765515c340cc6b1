"""Driver calls as C text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.calls import ConstantTable
from atonc.compiler.emit.c.ll_types import (
    Base,
    Constant,
    DriverCall,
    DriverPort,
    EpochCall,
    ListCall,
    Member,
    SwitchLink,
)

_STRUCTS = {
    "STRENG": "LL_Streng_TensorInitTypeDef",
    "CONVACC": "LL_Convacc_InitTypeDef",
    "ARITH": "LL_Arithacc_InitTypeDef",
    "ACTIV": "LL_Activacc_InitTypeDef",
    "POOL": "LL_Poolacc_InitTypeDef",
}
_PER_LINE = 12


def functions(
    number: int, name: str, start: Sequence[EpochCall], end: Sequence[EpochCall], first_lines: Sequence[str]
) -> str:
    """Both functions of an epoch, behind the lists that they share."""
    lists = {
        _list_name(call, number, name): _list(call, number, name)
        for call in (*start, *end)
        if isinstance(call, ListCall)
    }
    parts = (_function("Start", number, name, start, first_lines), _function("End", number, name, end, ()))
    return "\n".join((*lists.values(), *parts))


def function_name(which: str, number: int, name: str) -> str:
    """`which` is Start or End."""
    return f"LL_ATON_{which}_EpochBlock_{number}_{name}"


def _function(which: str, number: int, name: str, calls: Sequence[EpochCall], first_lines: Sequence[str]) -> str:
    parts = [_call(call, number, name) for call in calls]
    opening = [f"static void {function_name(which, number, name)}(ATONC_EPOCH_ARGUMENTS)", "{"]
    opening += [f"  {line}" for line in first_lines]
    return "\n".join([*opening, "", "\n\n".join(parts), "}"]) + "\n"


def _call(call: EpochCall, number: int, name: str) -> str:
    if isinstance(call, ListCall):
        return f"  {call.function}({_list_name(call, number, name)}, {len(call.entries)});"
    return "\n".join(_unit_call(call))


def _unit_call(call: DriverCall) -> Iterator[str]:
    """Its tables, its struct, the call. What holds a pointer of the application cannot be a constant of the image."""
    name = f"{call.kind.lower()}{call.unit}"
    for member, value in call.members.items():
        if isinstance(value, ConstantTable):
            yield _table(f"{name}_{member}", value)
    fixed = not any(isinstance(value, Base) and value.symbol for value in call.members.values())
    yield f"  {'static ' if fixed else ''}const {_STRUCTS[call.kind]} {name} = {{"
    for member, value in call.members.items():
        if value != 0:
            yield f"    .{member} = {_value(value, f'{name}_{member}')},"
    yield "  };"
    count = ", 1" if call.kind == "STRENG" else ""
    yield f"  {call.function}({call.unit}, &{name}{count});"


def _table(name: str, table: ConstantTable) -> str:
    """The driver reads its tables word by word."""
    numbers = names.lines_of((names.int_literal(int(v)) for v in table.values), _PER_LINE, "    ")
    return f"  __attribute__((aligned(4))) static const {table.ctype} {name}[{len(table.values)}] = {{\n{numbers}  }};"


def _value(value: Member, table: str) -> str:
    if isinstance(value, Constant):
        return value.name
    if isinstance(value, ConstantTable):
        return f"{{(unsigned char *){table}}}"
    if isinstance(value, Base):
        return f"{{(unsigned char *)({value.symbol or names.address(value.address)})}}"
    return f"{{{', '.join(map(str, value))}}}" if isinstance(value, tuple) else names.int_literal(value)


def _list_name(call: ListCall, number: int, name: str) -> str:
    return f"{'links' if _holds_links(call) else 'units'}_{number}_{name}"


def _holds_links(call: ListCall) -> bool:
    return any(isinstance(entry, SwitchLink) for entry in call.entries)


def _list(call: ListCall, number: int, name: str) -> str:
    ctype = "LL_Switch_InitTypeDef" if _holds_links(call) else "LL_ATON_EnableUnits_InitTypeDef"
    entries = "".join(f"  {_entry(entry)},\n" for entry in call.entries)
    return f"static const {ctype} {_list_name(call, number, name)}[{len(call.entries)}] = {{\n{entries}}};\n"


def _entry(entry: SwitchLink | DriverPort) -> str:
    return _link(entry) if isinstance(entry, SwitchLink) else f"{{ {{{entry.kind}, {entry.unit}}} }}"


def _link(link: SwitchLink) -> str:
    parts = [f"LL_Switch_Init_Dest() = {_port('DST', link.destination)}"]
    for k, source in enumerate(link.sources):
        if source is not None:
            parts.append(f"LL_Switch_Init_Source({k}) = {_port('SRC', source)}")
        if link.contexts[k] or link.frames[k]:
            parts.append(f"LL_Switch_Init_Context({k}) = {link.contexts[k]}")
            parts.append(f"LL_Switch_Init_Frames({k}) = {link.frames[k]}")
    return f"{{ {', '.join(parts)} }}"


def _port(side: str, port: DriverPort) -> str:
    return f"ATONN_{side}PORT(STRSWITCH, 0, {port.kind}, {port.unit}, {port.port})"
