"""`LL_Activacc_Init`: an activation unit from its struct, function tables included."""

from __future__ import annotations

from atonc.machine.base.errors import InputError, NotModelledError
from atonc.machine.hw.ec.instructions import Instruction, Write
from atonc.machine.hw.ll.generation import Generation
from atonc.machine.hw.ll.members import Members, ReadMemory, unit_id, write

KIND = "ACTIV"
_RELU, _PRELU, _TRELU, _FUNCTION, _LUT = range(5)
_OPERATIONS = {
    "ACTIV_RELU": _RELU, "ACTIV_PRELU": _PRELU, "ACTIV_TRELU": _TRELU, "ACTIV_FUNC": _FUNCTION, "ACTIV_LUT": _LUT,
}  # fmt: skip
_ROM0, _ROM0_ROWS, _ROM1, _ROM1_ROWS = 256, 32, 512, 64


def program(
    number: int, values: object, generation: Generation, read_memory: ReadMemory, where: str
) -> list[Instruction]:
    m, unit = Members(values, where), unit_id(KIND, number, where)
    operation = m.choice("operation", _OPERATIONS)
    if operation == _LUT:
        raise NotModelledError("ACTIV_LUT: this NPU has no such activation mode", where=where)
    result: list[Instruction] = [_control(unit, m, operation)]
    if m["fsub"]:
        result.append(write(KIND, unit, "FSUB", FSUB=m["fsub"]))
    if operation == _FUNCTION:
        return result + _function(unit, m, read_memory)
    return [
        *result,
        write(KIND, unit, "ACTIVPARAM", PARAM=m["parameter"]),
        write(KIND, unit, "ACTIVPARAM2", PARAM2=m["parameter_2"]),
        write(KIND, unit, "FUNC", SIGNEDOP=m.flag("signedop"), OUTSHIFT=m["shift_o"]),
    ]


def _control(unit: int, m: Members, operation: int) -> Write:
    return write(
        KIND,
        unit,
        "CTRL",
        TYPE=operation,
        FBYTES=m["inbytes_f"],
        FSHIFT=m["shift_f"] + 16,
        FROUND=m["rounding_f"],
        FSAT=m.flag("saturation_f"),
        FRNDMODE=m["round_mode_f"],
        FOBYTES=m["outbytes_f"],
        ROUND=m.flag("rounding_o"),
        SAT=m.flag("saturation_o"),
        OBYTES=m["outbytes_o"],
        ORNDMODE=m["relu_mode_o"] << 1 | m["round_mode_o"],
    )


def _function(unit: int, m: Members, read_memory: ReadMemory) -> list[Instruction]:
    result: list[Instruction] = [
        write(
            KIND,
            unit,
            "FUNC",
            SIGNEDOP=m.flag("signedop"),
            OUTSHIFT=m["shift_o"],
            BSHIFT=m["shift_b"],
            CSHIFT=m["shift_c"],
            BWIDTH=m["bwidth"],
        ),
        write(KIND, unit, "ACTIVPARAM", PARAM=m["parameter"], FUNC=m["shift_norm"]),
    ]
    segments = _table(m, "ROM0", 8, 1, _ROM0_ROWS, read_memory)
    result += [Write(unit, _ROM0 + i, value & 0xFF) for i, value in enumerate(segments)]
    rows = _table(m, "ROM1", 16, 3, _ROM1_ROWS, read_memory)
    for i in range(0, len(rows), 3):
        a, b, c = (value & 0xFFFF for value in rows[i : i + 3])
        register = _ROM1 + 2 * (i // 3)
        result += [Write(unit, register, a | b << 16), Write(unit, register + 1, c)]
    return result


def _table(m: Members, name: str, bits: int, per_row: int, limit: int, read_memory: ReadMemory) -> list[int]:
    rows = m[f"{name}_nbytes"] // (per_row * bits // 8)
    if not 0 <= rows <= limit:
        raise InputError(f"{name} has {rows} rows, but the unit holds {limit}", where=m.where)
    if rows == 0:
        return []
    values = m.vector(f"{name}_vector", bits, rows * per_row, read_memory)
    if values is None:
        raise InputError(f"{name} has {rows} rows but no address", where=m.where)
    return values
