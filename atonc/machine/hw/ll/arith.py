"""`LL_Arithacc_Init`: an arithmetic unit from its struct, coefficient memory included."""

from __future__ import annotations

from atonc.machine.base.errors import InputError
from atonc.machine.hw import regs
from atonc.machine.hw.ec.instructions import Instruction, Write
from atonc.machine.hw.ll.generation import Generation
from atonc.machine.hw.ll.members import Members, ReadMemory, unit_id, write
from atonc.machine.hw.units.arith import MEMORY, ROWS, WINDOW_ROWS

KIND = "ARITH"
_OPERATIONS = {
    "ARITH_AFFINE": 0, "ARITH_MIN": 1, "ARITH_MAX": 2, "ARITH_MUL": 7, "ARITH_X_AND_Y": 11, "ARITH_X_OR_Y": 15,
    "ARITH_NOT_X": 19, "ARITH_X_XOR_Y": 23, "ARITH_X_EQ_Y": 27, "ARITH_X_LT_Y": 31, "ARITH_X_LE_Y": 35,
    "ARITH_X_GT_Y": 39, "ARITH_X_GE_Y": 43, "ARITH_ABS_X": 47, "ARITH_SIGN_X": 51, "ARITH_CLIP": 55,
}  # fmt: skip
_NONE, _CHAN, _HEIGHT, _WIDTH, _HEIGHT_WIDTH, _SCALAR = range(6)
_BROADCASTS = {
    "ARITH_BCAST_NONE": _NONE, "ARITH_BCAST_CHAN": _CHAN, "ARITH_BCAST_HEIGHT": _HEIGHT,
    "ARITH_BCAST_WIDTH": _WIDTH, "ARITH_BCAST_HEIGHT_WIDTH": _HEIGHT_WIDTH, "ARITH_BCAST_SCALAR": _SCALAR,
}  # fmt: skip


def program(
    number: int, values: object, generation: Generation, read_memory: ReadMemory, where: str
) -> list[Instruction]:
    m, unit = Members(values, where), unit_id(KIND, number, where)
    broadcast = m.choice("bcast", _BROADCASTS, _NONE)
    result: list[Instruction] = [write(KIND, unit, "CTRL"), _control(unit, m, broadcast), _input_shifter(unit, m)]
    result.append(write(KIND, unit, "SHIFT", AX=m["Ax_shift"], BY=m["By_shift"], C=m["C_shift"], RES=m["shift_o"]))
    result.append(write(KIND, unit, "COEFFAC", A=m["A_scalar"], C=m["C_scalar"]))
    result.append(write(KIND, unit, "COEFFB", B=m["B_scalar"]))
    if m["clipout"]:
        result.append(write(KIND, unit, "CLIPRANGE", CLIPMAX=m["clipmax"], CLIPMIN=m["clipmin"]))
    result.append(write(KIND, unit, "COEFFADDR", ADDR=0))
    if m["scalar"] == 0:
        counters, rows = _counters(unit, m, broadcast)
        result += counters
        result += _coefficients(unit, m, min(rows, ROWS), generation, read_memory)
    return result


def _control(unit: int, m: Members, broadcast: int) -> Write:
    vector = 1 - m.flag("scalar")
    channels = int(vector and broadcast == _CHAN)
    operation = m.choice("operation", _OPERATIONS)
    return write(
        KIND,
        unit,
        "CTRL",
        CNT1=vector,
        CNT2=channels,
        CNT3=channels,
        ROUND=m.flag("rounding_o"),
        ORNDMODE=m["relu_mode_o"] << 1 | m["round_mode_o"],
        OBYTES=m["outbytes_o"],
        SAT=m.flag("saturation_o"),
        COEFFA=vector,
        COEFFB=vector,
        COEFFC=vector,
        DUALIN=m.flag("dualinput"),
        COMBINEBC=m.flag("combinebc"),
        CLIPOUT=m.flag("clipout"),
        OP=operation,
        LOGICALOP=int(operation == _OPERATIONS["ARITH_NOT_X"]),
    )


def _input_shifter(unit: int, m: Members) -> Write:
    fields: dict[str, int] = {}
    for axis in ("x", "y"):
        fields |= {
            f"FBYTES{axis.upper()}": m[f"inbytes_{axis}"],
            f"FSHIFT{axis.upper()}": m[f"shift_{axis}"] + 16,
            f"FROUND{axis.upper()}": m.flag(f"rounding_{axis}"),
            f"FSAT{axis.upper()}": m.flag(f"saturation_{axis}"),
            f"FRNDMODE{axis.upper()}": m[f"round_mode_{axis}"],
            f"FOBYTES{axis.upper()}": m[f"outbytes_{axis}"],
        }
    return write(KIND, unit, "INSHIFTER", **fields)


def _counters(unit: int, m: Members, broadcast: int) -> tuple[list[Instruction], int]:
    """How the coefficient row follows the stream, and how many rows there are."""
    width, height, depth, channels = m["fWidth"], m["fHeight"], m["batchDepth"], m["fChannels"]
    if broadcast == _SCALAR:
        return [write(KIND, unit, "INCCNT", INCVAL=0), write(KIND, unit, "INCOFFSET", VAL=0)], 1
    if broadcast == _CHAN:
        return [
            write(KIND, unit, "INCCNT", INCVAL=0),
            write(KIND, unit, "RSTCNT1", RSTCNT=depth - 1),
            write(KIND, unit, "RSTCNT2", RSTCNT=width * height * depth - 1),
            write(KIND, unit, "RSTCNT3", RSTCNT=width * height * channels - 1),
            write(KIND, unit, "INCOFFSET", VAL=1),
            write(KIND, unit, "ADDROFFSET", OFFSET1=-(depth - 1), OFFSET2=1, OFFSET3=-(channels - 1)),
        ], channels
    shapes = {  # elements per step, elements per pass, rows
        _HEIGHT: (width * depth, width * height * depth, height),
        _WIDTH: (depth, width * depth, width),
        _HEIGHT_WIDTH: (depth, height * width * depth, height * width),
    }
    if broadcast not in shapes:
        raise InputError("a vector needs a direction to be broadcast in", where=m.where)
    step, once, rows = shapes[broadcast]
    return [
        write(KIND, unit, "INCCNT", INCVAL=step - 1),
        write(KIND, unit, "RSTCNT1", RSTCNT=once - 1),
        write(KIND, unit, "INCOFFSET", VAL=1),
        write(KIND, unit, "ADDROFFSET", OFFSET1=-(rows - 1)),
    ], rows


def _coefficients(
    unit: int, m: Members, rows: int, generation: Generation, read_memory: ReadMemory
) -> list[Instruction]:
    """The rows (A, B | C). The window shows 384 rows; the last 128 rows are written through it after a shift."""
    if rows < 1:
        raise InputError("the coefficient vectors have no element", where=m.where)
    vectors = [
        m.vector(f"{name}_vector", precision, rows, read_memory)
        for name, precision in zip("ABC", _precisions(m), strict=True)
    ]
    a, b, c = (
        vector if vector is not None else [m[f"{name}_scalar"]] * rows
        for name, vector in zip("ABC", vectors, strict=True)
    )
    if vectors[2] is not None and m["C_scalar"] == -1:
        c = [-value for value in c]
    if m["combinebc"] and (vectors[2] is not None or generation.combines_scalar):
        b, c = [value >> 16 for value in c], [value & 0xFFFF for value in c]
    translate = regs.registers(KIND)["TRANSLATEADDR"].index
    result: list[Instruction] = [Write(unit, translate, 1)]
    for row in range(rows):
        if row == WINDOW_ROWS:
            result.append(Write(unit, translate, 0))
        slot = row if row < WINDOW_ROWS else row - (ROWS - WINDOW_ROWS)
        register = MEMORY + 2 * slot
        result.append(Write(unit, register, a[row] & 0xFFFF | (b[row] & 0xFFFF) << 16))
        result.append(Write(unit, register + 1, c[row] & 0xFFFF))
    return result


def _precisions(m: Members) -> tuple[int, int, int]:
    value = m.values.get("vec_precision", [0, 0, 0])
    numbers = [v for v in value if isinstance(v, int)] if isinstance(value, list) else []
    if len(numbers) != 3:
        raise InputError("vec_precision does not hold three widths", where=m.where)
    return numbers[0], numbers[1], numbers[2]
