"""`LL_Convacc_Init`: a convolution unit from its struct."""

from __future__ import annotations

from atonc.machine.base.errors import InputError
from atonc.machine.hw import regs
from atonc.machine.hw.ec.instructions import Instruction, Write
from atonc.machine.hw.ll.generation import Generation
from atonc.machine.hw.ll.members import Members, ReadMemory, unit_id, word, write

KIND = "CONVACC"
_AFILT_MODES = {
    "AFILT_MODE_NONE": 0, "AFILT_MODE_PIXELDROP": 1, "AFILT_MODE_FRAMEDROP": 2, "AFILT_MODE_FRAMEZERO": 3,
}  # fmt: skip
_MAX_WINDOW_PADDING = 2


def control(m: Members) -> int:
    """The CTRL word without EN; the driver keeps it to enable the unit later."""
    modes = [name for name in ("fstat", "deepmode", "dss2mode") if m[name]]
    if len(modes) > 1:
        raise InputError(f"{' and '.join(modes)} exclude each other", where=m.where)
    return word(
        KIND,
        "CTRL",
        NOSUM=1 - m.flag("accumulate"),
        NO1SUM=1 - m.flag("accumulate_first"),
        GEN1SUM=m.flag("accumulate_gen_first"),
        AFILTMODE=m.choice("afilt_mode", _AFILT_MODES, 0),
        SIMD=m["simd"],
        KT1=m.flag("kt1_mode"),
        KSETEN=m["kseten"],
        FUNSIGNED=m["f_unsigned"],
        KUNSIGNED=m["k_unsigned"],
        FSTAT=m.flag("fstat"),
        DEEPMODE=m.flag("deepmode"),
        DSS2MODE=m.flag("dss2mode"),
    )


def program(
    number: int, values: object, generation: Generation, read_memory: ReadMemory, where: str
) -> list[Instruction]:
    m, unit = Members(values, where), unit_id(KIND, number, where)
    result: list[Instruction] = [Write(unit, regs.registers(KIND)["CTRL"].index, control(m))]
    if m.choice("afilt_mode", _AFILT_MODES, 0):
        result.append(_filter("AFILT", unit, m))
    if m["kfilt_tot"] > 0:
        result.append(_filter("KFILT", unit, m))
    elif generation.writes_kfilt_always:
        result.append(write(KIND, unit, "KFILT"))
    result += [_data_format(unit, m), _feature_format(unit, m), _kernel_format(unit, m)]
    result += _padding(unit, m)
    result += _crop(unit, m)
    if m["fsub"]:
        result.append(write(KIND, unit, "FSUB", FSUB=m["fsub"]))
    result.append(write(KIND, unit, "ZFBIAS", ZFBIAS=m["zfbias"]))
    return result


def _filter(register: str, unit: int, m: Members) -> Write:
    name = register.lower()
    return write(KIND, unit, register, TOT=m[f"{name}_tot"], FIRST=m[f"{name}_first"], LAST=m[f"{name}_last"])


def _data_format(unit: int, m: Members) -> Write:
    return write(
        KIND,
        unit,
        "DFORMAT",
        FROUND=m["rounding_f"],
        FSAT=m["saturation_f"],
        FRNDMODE=m["round_mode_f"],
        FBYTES=m["inbytes_f"],
        FSHIFT=m["shift_f"] + 16,
        ROUND=m["rounding_o"],
        SAT=m["saturation_o"],
        ORNDMODE=m["relu_mode_o"] << 1 | m["round_mode_o"],
        OBYTES=m["outbytes_o"],
        OUTSHIFT=m["shift_o"],
        RAW=m["raw_o"],
        INSHIFT=m["shift_a"],
    )


def _feature_format(unit: int, m: Members) -> Write:
    return write(KIND, unit, "FFORMAT", WIDTH=m["fWidth"] * m["batchDepth"], HEIGHT=m["fHeight"])


def _kernel_format(unit: int, m: Members) -> Write:
    return write(
        KIND,
        unit,
        "KFORMAT",
        WIDTH=m["kernelWidth"],
        HEIGHT=m["kernelHeight"],
        BTCDEPTH=m["batchDepth"],
        NR=m["nKernels"],
    )


def _padding(unit: int, m: Members) -> list[Instruction]:
    """Up to two rows or columns are padded by the window, the rest by a frame of zeros around the feature."""
    total = {side: m[f"{side}_padding"] for side in ("left", "right", "top", "bot")}
    no_window = m["deepmode"] or m["dss2mode"] or m["zfbias"]
    window = {}
    for side, padding in total.items():
        kernel = m["kernelWidth"] if side in ("left", "right") else m["kernelHeight"]
        window[side] = 0 if no_window else min(padding, kernel - 1, _MAX_WINDOW_PADDING)
    frame = {side: total[side] - window[side] for side in total}
    depth = m["batchDepth"]
    counter = {"FSTATCNT": m["fstatcnt"]} if m["fstat"] else {}
    return [
        write(
            KIND,
            unit,
            "ZFRAME",
            TOP=frame["top"],
            BOTTOM=frame["bot"],
            LEFT=frame["left"] * depth,
            RIGHT=frame["right"] * depth,
        ),
        write(
            KIND,
            unit,
            "SAMPLE",
            TPAD=window["top"],
            BPAD=window["bot"],
            LPAD=window["left"],
            RPAD=window["right"],
            HSTRD=m["hstride"],
            VSTRD=m["vstride"],
            **counter,
        ),
    ]


def _crop(unit: int, m: Members) -> list[Instruction]:
    depth = m["batchDepth"]
    across, down = {}, {}
    if m["left_crop"] > 0:
        across["LEFT"] = m["left_crop"] * depth
    if m["right_crop"] > 0:
        across["RIGHT"] = m["right_crop"] * depth + depth - 1
    if m["top_crop"] > 0:
        down["TOP"] = m["top_crop"]
    if m["bot_crop"] > 0:
        down["BOTTOM"] = m["bot_crop"]
    return [write(KIND, unit, "FHCROP", **across), write(KIND, unit, "FVCROP", **down)]
