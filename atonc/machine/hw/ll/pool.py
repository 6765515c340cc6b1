"""`LL_Poolacc_Init`: a pooling unit from its struct."""

from __future__ import annotations

from atonc.machine.hw.ec.instructions import Instruction, Write
from atonc.machine.hw.ll.generation import Generation
from atonc.machine.hw.ll.members import Members, ReadMemory, unit_id, write

KIND = "POOL"
_OPERATIONS = {"POOL_MAX": 0, "POOL_MIN": 1, "POOL_AVG": 2, "POOL_GMAX": 8, "POOL_GMIN": 9, "POOL_GAVG": 10}


def program(
    number: int, values: object, generation: Generation, read_memory: ReadMemory, where: str
) -> list[Instruction]:
    m, unit = Members(values, where), unit_id(KIND, number, where)
    size = m["batchSize"]
    return [
        _control(unit, m),
        write(
            KIND,
            unit,
            "RNDCTRL",
            FOBYTES=m["outbytes_f"],
            FRNDMODE=m["round_mode_f"],
            OBYTES=m["outbytes_o"],
            ORNDMODE=m["relu_mode_o"] << 1 | m["round_mode_o"],
        ),
        _window(unit, m),
        write(KIND, unit, "FDIMS", FEATX=m["inputX"] * size, FEATY=m["inputY"]),
        write(KIND, unit, "OUTDIMS", FEATX=m["outputX"], FEATY=m["outputY"]),
        write(KIND, unit, "MULVAL", MULVAL=m["mulval"]),
        write(KIND, unit, "XCROP", LCROP=max(m["leftCrop"], 0) * size, RCROP=max(m["rightCrop"] * size + size - 1, 0)),
        write(KIND, unit, "YCROP", TCROP=max(m["topCrop"], 0), BCROP=max(m["bottomCrop"], 0)),
    ]


def _control(unit: int, m: Members) -> Write:
    return write(
        KIND,
        unit,
        "CTRL",
        TYPE=m.choice("operation", _OPERATIONS),
        ROUND=m.flag("rounding_o"),
        SAT=m.flag("saturation_o"),
        OUTSHIFT=m["shift_o"],
        FBYTES=m["inbytes_f"],
        FSHIFT=m["shift_f"] + 16,
        FROUND=m.flag("rounding_f"),
        FSAT=m.flag("saturation_f"),
        DUALLINE=m["dualLine"],
        CROPEN=1,
    )


def _window(unit: int, m: Members) -> Write:
    return write(
        KIND,
        unit,
        "PDIMS",
        WINX=m["poolWinX"],
        WINY=m["poolWinY"],
        STRDX=m["strideX"],
        STRDY=m["strideY"],
        TPAD=m["topPad"],
        BPAD=m["bottomPad"],
        LPAD=m["leftPad"],
        RPAD=m["rightPad"],
        BSIZE=m["batchSize"],
    )
