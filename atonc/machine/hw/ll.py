"""ST's driver calls as register programs: networks compiled without epoch controller run like blobs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from atonc.machine.base.errors import InputError, NotModelledError, UnsupportedError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import regs
from atonc.machine.hw.ec.instructions import Barrier, Instruction, Label, Poll, Write, WriteField, merge_writes
from atonc.machine.hw.units.arith import MEMORY, ROWS, WINDOW_ROWS

ReadMemory = Callable[[int, int], bytes]
"""`read_memory(address, size_bytes)`."""


class EvaluatedCall(Protocol):
    """A call with evaluated arguments."""

    @property
    def name(self) -> str: ...
    @property
    def args(self) -> Sequence[object]: ...
    @property
    def where(self) -> str: ...


# ----------------------------------------------------------------------------------------------------------- releases


@dataclass(frozen=True)
class Generation:
    """How one release of the driver programs the machine: what changed between those of published networks."""

    name: str
    resets_switch_first: bool  # clears the stream switch before linking, not when unlinking
    writes_kfilt_always: bool
    combines_scalar: bool  # with `combinebc`, B comes from C also when C is no vector
    overflow_event: bool = True  # the CPU listens to the frame overflow of writers; no such event in traced programs

    def traced(self) -> Generation:
        """The same, as compiled into epoch-controller programs."""
        return replace(self, overflow_event=False)


FIRST = Generation("1.1.0", resets_switch_first=True, writes_kfilt_always=False, combines_scalar=True)
SECOND = Generation("1.1.3-8", resets_switch_first=True, writes_kfilt_always=True, combines_scalar=False)
THIRD = Generation("1.1.3-262", resets_switch_first=False, writes_kfilt_always=True, combines_scalar=False)
GENERATIONS = (FIRST, SECOND, THIRD)
_LINE = re.compile(r"(atonn-v|STAI-)(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:-(\d{1,6}))?")
_SECOND_COMMITS = 100  # 1.1.3 with fewer commits on top is Core 3.0, with more it is Core 4.0


def generation_of(atonn_version: str) -> Generation:
    """From a compiler description such as `atonn-v1.1.0-31-g27f5d5bc` or `STAI-3.0.0-254-g7cc65410`."""
    match = _LINE.search(atonn_version)
    if match is None:
        return THIRD
    major, minor, micro, commits = (int(part or 0) for part in match.groups()[1:])
    if (major, minor, micro) < ((1, 1, 3) if match[1] == "atonn-v" else (3, 0, 0)):
        return FIRST
    return SECOND if commits < _SECOND_COMMITS else THIRD


# ---------------------------------------------------------------------------------------------- structs and registers


class Members:
    """A struct that the generated code passes to the driver, by member names. As in C, a member that the initialiser
    leaves out is 0."""

    def __init__(self, values: object, where: str) -> None:
        if not isinstance(values, Mapping):
            raise InputError("the driver is called without a configuration struct", where=where)
        self.values, self.where = values, where

    def __getitem__(self, name: str) -> int:
        value = self.values.get(name, 0)
        if value is None:
            return 0
        if isinstance(value, int):
            return value
        raise InputError(f"member {name} has no known integer value", where=self.where)

    def flag(self, name: str) -> int:
        """1 if the member is not 0."""
        return int(self[name] != 0)

    def choice(self, name: str, numbers: Mapping[str, int], default: int | None = None) -> int:
        """The register value of an enum constant, which is given by name; absent or 0 is `default`."""
        value = self.values.get(name, 0)
        if value == 0 and default is not None:
            return default
        label = getattr(value, "name", value)
        if not isinstance(label, str) or label not in numbers:
            raise InputError(f"member {name} has the unknown value {label}", where=self.where)
        return numbers[label]


class DriverUnit(Members):
    """A unit with the struct that it is configured from."""

    def __init__(
        self, kind: str, number: object, values: object, generation: Generation, read_memory: ReadMemory, where: str
    ) -> None:
        super().__init__(values, where)
        self.kind, self.id = kind, unit_id(kind, number, where)
        self.generation, self.read_memory = generation, read_memory

    def vector(self, name: str, bits: int, count: int) -> list[int] | None:
        """`count` signed values of `bits` bits, packed in memory or in a C array; None for a null pointer."""
        value = self.values.get(name)
        if isinstance(value, list) and len(value) == 1 and value[0] in (0, None):
            value = None  # `{0}` of the pointer union
        if value is None or value == 0:
            return None
        if not 1 <= bits <= 32:
            raise InputError(f"{name} has elements of {bits} bits", where=self.where)
        if isinstance(value, int):
            return unpack(bytes(self.read_memory(value, -(-count * bits // 8))), bits, count)
        numbers = [v for v in value if isinstance(v, int)] if isinstance(value, Sequence) else []
        if len(numbers) < count or len(numbers) != len(value):
            raise InputError(f"{name} does not hold {count} integers", where=self.where)
        return numbers[:count]

    def write(self, register: str, **fields: int) -> Write:
        """A store of `word` to the unit."""
        return self.store(register, word(self.kind, register, **fields))

    def store(self, register: str, value: int) -> Write:
        return Write(self.id, regs.registers(self.kind)[register].index, value & 0xFFFF_FFFF)


def unpack(data: bytes, bits: int, count: int) -> list[int]:
    """Consecutive bit fields, least significant first, sign extended."""
    packed = int.from_bytes(data, "little")
    mask, sign = (1 << bits) - 1, 1 << (bits - 1)
    return [((packed >> (bits * i) & mask) ^ sign) - sign for i in range(count)]


def word(kind: str, register: str, **fields: int) -> int:
    """A register's value: reset, with these fields replaced. Values are cut to the field, as the driver does."""
    described = regs.registers(kind)[register]
    value = described.reset
    for name, number in fields.items():
        field = described.field(name)
        value = value & ~(field.mask << field.lsb) | (number & field.mask) << field.lsb
    return value


def unit_id(kind: str, number: object, where: str) -> int:
    """The unit id of the n-th unit of a kind."""
    unit = regs.UNIT_BY_NAME.get(f"{kind}{number}") if isinstance(number, int) else None
    if unit is None:
        raise InputError(f"there is no unit {kind} {number}", where=where)
    return unit.id


# -------------------------------------------------------------------------------------------------------- activations

_RELU, _PRELU, _TRELU, _FUNCTION, _LUT = range(5)
_ACTIVATIONS = {
    "ACTIV_RELU": _RELU, "ACTIV_PRELU": _PRELU, "ACTIV_TRELU": _TRELU, "ACTIV_FUNC": _FUNCTION, "ACTIV_LUT": _LUT,
}  # fmt: skip
_ROM0, _ROM0_ROWS, _ROM1, _ROM1_ROWS = 256, 32, 512, 64


def _activ(m: DriverUnit) -> list[Instruction]:
    operation = m.choice("operation", _ACTIVATIONS)
    if operation == _LUT:
        raise NotModelledError("ACTIV_LUT: this NPU has no such activation mode", where=m.where)
    control = m.write(
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
    result: list[Instruction] = [control]
    if m["fsub"]:
        result.append(m.write("FSUB", FSUB=m["fsub"]))
    if operation == _FUNCTION:
        return result + _function(m)
    return [
        *result,
        m.write("ACTIVPARAM", PARAM=m["parameter"]),
        m.write("ACTIVPARAM2", PARAM2=m["parameter_2"]),
        m.write("FUNC", SIGNEDOP=m.flag("signedop"), OUTSHIFT=m["shift_o"]),
    ]


def _function(m: DriverUnit) -> list[Instruction]:
    shifts = {"OUTSHIFT": m["shift_o"], "BSHIFT": m["shift_b"], "CSHIFT": m["shift_c"]}
    result: list[Instruction] = [
        m.write("FUNC", SIGNEDOP=m.flag("signedop"), BWIDTH=m["bwidth"], **shifts),
        m.write("ACTIVPARAM", PARAM=m["parameter"], FUNC=m["shift_norm"]),
    ]
    segments = _function_table(m, "ROM0", 8, 1, _ROM0_ROWS)
    result += [Write(m.id, _ROM0 + i, value & 0xFF) for i, value in enumerate(segments)]
    rows = _function_table(m, "ROM1", 16, 3, _ROM1_ROWS)
    for i in range(0, len(rows), 3):
        a, b, c = (value & 0xFFFF for value in rows[i : i + 3])
        register = _ROM1 + 2 * (i // 3)
        result += [Write(m.id, register, a | b << 16), Write(m.id, register + 1, c)]
    return result


def _function_table(m: DriverUnit, name: str, bits: int, per_row: int, limit: int) -> list[int]:
    rows = m[f"{name}_nbytes"] // (per_row * bits // 8)
    if not 0 <= rows <= limit:
        raise InputError(f"{name} has {rows} rows, but the unit holds {limit}", where=m.where)
    if rows == 0:
        return []
    values = m.vector(f"{name}_vector", bits, rows * per_row)
    if values is None:
        raise InputError(f"{name} has {rows} rows but no address", where=m.where)
    return values


# --------------------------------------------------------------------------------------------------------- arithmetic

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
_TRANSLATE = regs.registers("ARITH")["TRANSLATEADDR"].index


def _arith(m: DriverUnit) -> list[Instruction]:
    broadcast = m.choice("bcast", _BROADCASTS, _NONE)
    result: list[Instruction] = [
        m.write("CTRL"),
        _arith_control(m, broadcast),
        m.write("INSHIFTER", **_input_shift(m, "x"), **_input_shift(m, "y")),
        m.write("SHIFT", AX=m["Ax_shift"], BY=m["By_shift"], C=m["C_shift"], RES=m["shift_o"]),
        m.write("COEFFAC", A=m["A_scalar"], C=m["C_scalar"]),
        m.write("COEFFB", B=m["B_scalar"]),
    ]
    if m["clipout"]:
        result.append(m.write("CLIPRANGE", CLIPMAX=m["clipmax"], CLIPMIN=m["clipmin"]))
    result.append(m.write("COEFFADDR", ADDR=0))
    if m["scalar"] == 0:
        counters, rows = _counters(m, broadcast)
        result += counters
        result += _coefficients(m, min(rows, ROWS))
    return result


def _arith_control(m: DriverUnit, broadcast: int) -> Write:
    vector = 1 - m.flag("scalar")
    channels = int(vector and broadcast == _CHAN)
    operation = m.choice("operation", _OPERATIONS)
    return m.write(
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


def _input_shift(m: DriverUnit, axis: str) -> dict[str, int]:
    fields = {
        "FBYTES": m[f"inbytes_{axis}"],
        "FSHIFT": m[f"shift_{axis}"] + 16,
        "FROUND": m.flag(f"rounding_{axis}"),
        "FSAT": m.flag(f"saturation_{axis}"),
        "FRNDMODE": m[f"round_mode_{axis}"],
        "FOBYTES": m[f"outbytes_{axis}"],
    }
    return {f"{name}{axis.upper()}": value for name, value in fields.items()}


def _counters(m: DriverUnit, broadcast: int) -> tuple[list[Instruction], int]:
    """How the coefficient row follows the stream, and how many rows there are."""
    width, height, depth, channels = m["fWidth"], m["fHeight"], m["batchDepth"], m["fChannels"]
    if broadcast == _SCALAR:
        return [m.write("INCCNT", INCVAL=0), m.write("INCOFFSET", VAL=0)], 1
    if broadcast == _CHAN:
        return [
            m.write("INCCNT", INCVAL=0),
            m.write("RSTCNT1", RSTCNT=depth - 1),
            m.write("RSTCNT2", RSTCNT=width * height * depth - 1),
            m.write("RSTCNT3", RSTCNT=width * height * channels - 1),
            m.write("INCOFFSET", VAL=1),
            m.write("ADDROFFSET", OFFSET1=-(depth - 1), OFFSET2=1, OFFSET3=-(channels - 1)),
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
        m.write("INCCNT", INCVAL=step - 1),
        m.write("RSTCNT1", RSTCNT=once - 1),
        m.write("INCOFFSET", VAL=1),
        m.write("ADDROFFSET", OFFSET1=-(rows - 1)),
    ], rows


def _coefficients(m: DriverUnit, rows: int) -> list[Instruction]:
    """The rows (A, B | C). The window shows 384 rows; the last 128 rows are written through it after a shift."""
    if rows < 1:
        raise InputError("the coefficient vectors have no element", where=m.where)
    widths = m.values.get("vec_precision", [0, 0, 0])
    precisions = [v for v in widths if isinstance(v, int)] if isinstance(widths, list) else []
    if len(precisions) != 3:
        raise InputError("vec_precision does not hold three widths", where=m.where)
    vectors = [m.vector(f"{name}_vector", bits, rows) for name, bits in zip("ABC", precisions, strict=True)]
    a, b, c = (
        vector if vector is not None else [m[f"{name}_scalar"]] * rows
        for name, vector in zip("ABC", vectors, strict=True)
    )
    if vectors[2] is not None and m["C_scalar"] == -1:
        c = [-value for value in c]
    if m["combinebc"] and (vectors[2] is not None or m.generation.combines_scalar):
        b, c = [value >> 16 for value in c], [value & 0xFFFF for value in c]
    result: list[Instruction] = [Write(m.id, _TRANSLATE, 1)]
    for row in range(rows):
        if row == WINDOW_ROWS:
            result.append(Write(m.id, _TRANSLATE, 0))
        slot = row if row < WINDOW_ROWS else row - (ROWS - WINDOW_ROWS)
        register = MEMORY + 2 * slot
        result.append(Write(m.id, register, a[row] & 0xFFFF | (b[row] & 0xFFFF) << 16))
        result.append(Write(m.id, register + 1, c[row] & 0xFFFF))
    return result


# ------------------------------------------------------------------------------------------------------- convolutions

_AFILT_MODES = {
    "AFILT_MODE_NONE": 0, "AFILT_MODE_PIXELDROP": 1, "AFILT_MODE_FRAMEDROP": 2, "AFILT_MODE_FRAMEZERO": 3,
}  # fmt: skip
_MAX_WINDOW_PADDING = 2


def _convacc_control(m: Members) -> int:
    """The CTRL word without EN; the driver keeps it to enable the unit later."""
    modes = [name for name in ("fstat", "deepmode", "dss2mode") if m[name]]
    if len(modes) > 1:
        raise InputError(f"{' and '.join(modes)} exclude each other", where=m.where)
    return word(
        "CONVACC",
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


def _convacc(m: DriverUnit) -> list[Instruction]:
    depth = m["batchDepth"]
    result: list[Instruction] = [m.store("CTRL", _convacc_control(m))]
    if m.choice("afilt_mode", _AFILT_MODES, 0):
        result.append(m.write("AFILT", TOT=m["afilt_tot"], FIRST=m["afilt_first"], LAST=m["afilt_last"]))
    if m["kfilt_tot"] > 0:
        result.append(m.write("KFILT", TOT=m["kfilt_tot"], FIRST=m["kfilt_first"], LAST=m["kfilt_last"]))
    elif m.generation.writes_kfilt_always:
        result.append(m.write("KFILT"))
    kernel = {"WIDTH": m["kernelWidth"], "HEIGHT": m["kernelHeight"], "BTCDEPTH": depth, "NR": m["nKernels"]}
    result += [
        _data_format(m),
        m.write("FFORMAT", WIDTH=m["fWidth"] * depth, HEIGHT=m["fHeight"]),
        m.write("KFORMAT", **kernel),
        *_padding(m),
        *_crop(m),
    ]
    if m["fsub"]:
        result.append(m.write("FSUB", FSUB=m["fsub"]))
    result.append(m.write("ZFBIAS", ZFBIAS=m["zfbias"]))
    return result


def _data_format(m: DriverUnit) -> Write:
    return m.write(
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


def _padding(m: DriverUnit) -> list[Instruction]:
    """Up to two rows or columns are padded by the window, the rest by a frame of zeros around the feature."""
    total = {side: m[f"{side}_padding"] for side in ("left", "right", "top", "bot")}
    no_window = m["deepmode"] or m["dss2mode"] or m["zfbias"]
    window = {}
    for side, padding in total.items():
        kernel = m["kernelWidth"] if side in ("left", "right") else m["kernelHeight"]
        window[side] = 0 if no_window else min(padding, kernel - 1, _MAX_WINDOW_PADDING)
    frame = {side: total[side] - window[side] for side in total}
    across = {"LEFT": frame["left"] * m["batchDepth"], "RIGHT": frame["right"] * m["batchDepth"]}
    pads = {"TPAD": window["top"], "BPAD": window["bot"], "LPAD": window["left"], "RPAD": window["right"]}
    counter = {"FSTATCNT": m["fstatcnt"]} if m["fstat"] else {}
    return [
        m.write("ZFRAME", TOP=frame["top"], BOTTOM=frame["bot"], **across),
        m.write("SAMPLE", **pads, HSTRD=m["hstride"], VSTRD=m["vstride"], **counter),
    ]


def _crop(m: DriverUnit) -> list[Instruction]:
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
    return [m.write("FHCROP", **across), m.write("FVCROP", **down)]


# ------------------------------------------------------------------------------------------------ weight decompressor

_BOOKS, _PAGE_SLOTS, _PAGES = 512, 256, 4


def _decun(m: DriverUnit) -> list[Instruction]:
    if m["nFormatBytes"] not in (1, 2) or not 1 <= m["nCWperCV"] <= 8:
        raise InputError(f"code words of {m['nFormatBytes']} bytes, {m['nCWperCV']} per vector", where=m.where)
    control = {"DUALIN": m.flag("noDualInput"), "OW": m.flag("noOverWrite")}
    return [
        m.write("CTRL", **control),
        *(_code_books(m, control) if m["CBs_size"] else ()),
        m.write("BFORMAT", CVS=m["nCVperCB"] - 1, CWS=m["nCWperCV"] - 1, OSAM=m["nRCWlastCV"]),
        m.write("DFORMAT", CV8=m["nFormatBytes"] & 1),
        m.write("FFORMAT", BN=m["nBatches"]),
    ]


def _code_books(m: DriverUnit, control: Mapping[str, int]) -> list[Instruction]:
    """Each vector starts a slot of its own: 32 bits for one-byte code words, 64 bits (low, high) for two-byte ones."""
    slot_bytes = 4 * m["nFormatBytes"]
    vector_bytes = m["nCWperCV"] * m["nFormatBytes"]
    slots_per_vector = -(-vector_bytes // slot_bytes)
    size = m["CBs_size"]
    if size * slots_per_vector > _PAGES * _PAGE_SLOTS * vector_bytes:
        raise InputError(f"code books of {size} bytes do not fit the decompressor", where=m.where)
    values = m.vector("CBs_vector", 8, size)
    if values is None:
        raise InputError("code books without an address", where=m.where)
    data = bytes(value & 0xFF for value in values)
    result: list[Instruction] = []
    slot = page = 0
    for start in range(0, size, vector_bytes):
        vector = data[start : start + vector_bytes]
        for offset in range(0, len(vector), slot_bytes):
            part = vector[offset : offset + slot_bytes]
            result.append(Write(m.id, _BOOKS + 2 * slot, int.from_bytes(part[:4], "little")))
            if len(part) > 4:
                result.append(Write(m.id, _BOOKS + 2 * slot + 1, int.from_bytes(part[4:], "little")))
            slot += 1
            if slot == _PAGE_SLOTS:
                slot, page = 0, page + 1
                result.append(m.write("CTRL", **control, PAGEADDR=page))
    return result


# ------------------------------------------------------------------------------------------------------------ pooling

_POOLS = {"POOL_MAX": 0, "POOL_MIN": 1, "POOL_AVG": 2, "POOL_GMAX": 8, "POOL_GMIN": 9, "POOL_GAVG": 10}


def _pool(m: DriverUnit) -> list[Instruction]:
    size = m["batchSize"]
    control = m.write(
        "CTRL",
        TYPE=m.choice("operation", _POOLS),
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
    rounding = {"FRNDMODE": m["round_mode_f"], "ORNDMODE": m["relu_mode_o"] << 1 | m["round_mode_o"]}
    window = {"WINX": m["poolWinX"], "WINY": m["poolWinY"], "STRDX": m["strideX"], "STRDY": m["strideY"]}
    pads = {"TPAD": m["topPad"], "BPAD": m["bottomPad"], "LPAD": m["leftPad"], "RPAD": m["rightPad"]}
    return [
        control,
        m.write("RNDCTRL", FOBYTES=m["outbytes_f"], OBYTES=m["outbytes_o"], **rounding),
        m.write("PDIMS", **window, **pads, BSIZE=size),
        m.write("FDIMS", FEATX=m["inputX"] * size, FEATY=m["inputY"]),
        m.write("OUTDIMS", FEATX=m["outputX"], FEATY=m["outputY"]),
        m.write("MULVAL", MULVAL=m["mulval"]),
        m.write("XCROP", LCROP=max(m["leftCrop"], 0) * size, RCROP=max(m["rightCrop"] * size + size - 1, 0)),
        m.write("YCROP", TCROP=max(m["topCrop"], 0), BCROP=max(m["bottomCrop"], 0)),
    ]


# ----------------------------------------------------------------------------------------------------- stream engines

MAX_BITS = 24


def _streng(m: DriverUnit) -> list[Instruction]:
    if not (0 < m["nbits_in"] <= MAX_BITS and 0 < m["nbits_out"] <= MAX_BITS):
        raise InputError(f"elements of {m['nbits_in']} to {m['nbits_out']} bits", where=m.where)
    lanes, gap = lane_bits(m)
    line_offset = 0 if m["raw"] else m["line_offset"] or m["fwidth"] * m["batch_offset"]
    return [
        _streng_control(m, lanes),
        m.store("ADDR", m["addr_base"] + m["offset_start"]),
        *_frame(m),
        m.write("FOFFSET", REG=m["frame_offset"]),
        m.write("FRPTOFF", REG=m["loop_offset"]),
        m.write("FRAME_RPT", REG=m["frame_loop_cnt"]),
        *_limits(m),
        m.write("POS", GAPCYCLES=0),
        m.write("STRD", LOFF=line_offset, **{"FGAP" if m["mem_lsb"] else "BGAP": gap}),
        m.write(
            "CID_CACHE",
            LOFF_MSB=line_offset >> 16,
            CID=m["bus_cid"],
            CACHEABLE=m["cacheable"],
            ALLOC=m["cache_allocate"],
            PFETCH=m["bus_pfetch"],
            LINESIZE=m["cache_linesize"],
        ),
        _events(m),
        m.write("ENCR_MSB", EN=m["cipher_en"], KEY_SEL=m["key_sel"]),
    ]


def lane_bits(m: Members) -> tuple[tuple[int, int, int], int]:
    """Bits of the three byte lanes, and the bits in memory that the stream does not carry."""
    memory, stream = (m["nbits_out"], m["nbits_in"]) if m["dir"] else (m["nbits_in"], m["nbits_out"])
    gap = max(memory - stream, 0)
    bits = min(memory, stream)
    low, middle, high = min(8, bits), min(8, max(bits - 8, 0)), min(8, max(bits - 16, 0))
    if m["align_right"]:
        return (low, middle, high), gap
    if stream > 16:
        return (high, middle, low), gap
    return ((middle, low, 0) if stream > 8 else (low, 0, 0)), gap


def _streng_control(m: DriverUnit, lanes: tuple[int, int, int]) -> Write:
    align_right = m["align_right"] == 1
    return m.write(
        "CTRL",
        DIR=m.flag("dir"),
        RAW=m.flag("raw"),
        RAW_OUT=m["raw_out"],
        NOBLK=m.flag("noblk"),
        NOINC=int(m["noinc"] == 1),
        SINGLE=int(m["frame_tot_cnt"] == 1),
        CONT=int(m["continuous"] == 1),
        LSBMODE=int(align_right),
        SIGNEXT=int(align_right and m["nbits_unsigned"] == 0),
        SIZE0=lanes[0],
        SIZE1=lanes[1],
        SIZE2=lanes[2],
    )


def _frame(m: DriverUnit) -> list[Instruction]:
    if m["raw"]:
        bits = m["nbits_out"] if m["dir"] else m["nbits_in"]
        elements = m["frame_count"] or (m["offset_end"] - m["offset_start"] & 0xFFFF_FFFF) * 8 // bits
        return [m.store("FSIZE", elements)]
    size = m.write("FSIZE", WIDTH=m["fwidth"], HEIGHT=m["fheight"])
    return [size, m.write("DEPTH", SIZE=m["batch_depth"], OFFSET=m["batch_offset"])]


def _limits(m: DriverUnit) -> list[Instruction]:
    high = m["batch_offset"] >> 16
    result: list[Instruction] = [m.write("LIMITEN", FRAMELIMIT=1, DOFF_MSB=high)]
    if m["offset_limit"]:
        result.append(m.write("LIMITEN", FRAMELIMIT=1, DOFF_MSB=high, ADDRLIMIT=1, STOPPREFTC=1))
        result.append(m.store("LIMITADDR", m["addr_base"] + m["offset_limit"] - 1))
    result.append(m.write("LIMIT", CNT=m["frame_tot_cnt"]))
    return result


def _events(m: DriverUnit) -> Write:
    fields = {"EN_ILLCFG": 1}
    if m["dir"] == 1 and m.generation.overflow_event:
        fields["EN_OFLOW_FRM"] = 1
    if m["dir"] == 0 and m["sync_with_other"]:
        fields |= {"FRMTRG_EN": 1, "FRMTRG_SRC": m["sync_dma"]}
    return m.write("EVENT", **fields)


# ---------------------------------------------------------------------------- clocks, enabling and disabling of units

_CLOCKS = regs.UNIT_BY_NAME["CLKCTRL0"].id
_BGATES = regs.registers("CLKCTRL")["BGATES"]
_CTRL = 0
_TIMEOUT = 100
_EN, _CLR, _CONFCLR, _RUNNING = 0, 1, 30, 31
_ENABLE_KINDS = ("STRENG", "CONVACC", "DECUN", "ACTIV", "ARITH", "POOL", "RECBUF")


def _clock(kind: str, number: object, on: bool, where: str) -> WriteField:
    """The clock gate of a unit."""
    unit_id(kind, number, where)
    return WriteField(_CLOCKS, _BGATES.index, _BGATES.field(f"{kind}{number}").lsb, 1, int(on))


def _enable(units: object, count: object, controls: Mapping[int, int], where: str) -> list[Instruction]:
    """CONVACC is enabled with its whole CTRL word (`controls` by unit id), the others by one bit."""
    result: list[Instruction] = []
    for kind, number in _unit_list(units, count, where):
        unit = unit_id(kind, number, where)
        if kind == "CONVACC":
            result.append(Write(unit, _CTRL, controls.get(unit, word(kind, "CTRL")) | 1))
        else:
            result.append(WriteField(unit, _CTRL, _EN, 1, 1))
    return result


def _disable(units: object, count: object, where: str) -> list[Instruction]:
    result: list[Instruction] = []
    for kind, number in _unit_list(units, count, where):
        result += _clear(kind, number, where)
        result.append(_clock(kind, number, False, where))
    return result


def _clear(kind: str, number: int, where: str) -> list[Instruction]:
    """Flush the pipeline, then back to reset, waiting for each."""
    unit, reset = unit_id(kind, number, where), word(kind, "CTRL")
    return [
        Write(unit, _CTRL, reset | 1 << _CLR),
        Poll(unit, _CTRL, _CLR, _CLR, _TIMEOUT, 0),
        Write(unit, _CTRL, reset | 1 << _CONFCLR),
        Poll(unit, _CTRL, _CONFCLR, _CONFCLR, _TIMEOUT, 0),
    ]


def _wait(mask: int) -> list[Instruction]:
    """Waits for the stream engines of a mask, lowest first."""
    engines = [u for u in regs.UNITS if u.kind == "STRENG" and mask >> u.index & 1]
    return [Poll(unit.id, _CTRL, _RUNNING, _RUNNING, _TIMEOUT, 0) for unit in engines]


def _unit_list(units: object, count: object, where: str) -> list[tuple[str, int]]:
    """`{ {STRENG, 6} }, ...` as (kind, number)."""
    if not isinstance(units, list) or not isinstance(count, int) or not 0 <= count <= len(units):
        raise InputError("the list of units is shorter than its count", where=where)
    return [_unit(entry, where) for entry in units[:count]]


def _unit(entry: object, where: str) -> tuple[str, int]:
    while isinstance(entry, list) and len(entry) == 1:
        entry = entry[0]
    if isinstance(entry, list) and len(entry) == 2:
        kind, number = getattr(entry[0], "name", entry[0]), entry[1]
        if kind in _ENABLE_KINDS and isinstance(number, int):
            return str(kind), number
    raise InputError("an entry of the unit list names no unit", where=where)


# ----------------------------------------------------------------------------------------- links of the stream switch

_SWITCH = regs.UNIT_BY_NAME["STRSWITCH0"].id
_LINK_REGISTER = "DSTSTRENG0"  # all link registers have the same fields


def _link(links: object, count: object, generation: Generation, where: str) -> list[Instruction]:
    words: list[Instruction] = [Write(_SWITCH, *_link_word(entry, where)) for entry in _entries(links, count, where)]
    enable = Write(_SWITCH, _CTRL, word("STRSWITCH", "CTRL", EN=1))
    if generation.resets_switch_first:
        return [*_clear("STRSWITCH", 0, where), enable, *words]
    return [*words, enable]


def _unlink(links: object, count: object, generation: Generation, where: str) -> list[Instruction]:
    off: list[Instruction] = [
        Write(_SWITCH, _port(Members(entry, where).values.get("dest"), where), 0)
        for entry in _entries(links, count, where)
    ]
    return off if generation.resets_switch_first else [*_clear("STRSWITCH", 0, where), *off]


def _entries(links: object, count: object, where: str) -> list[object]:
    if links is None or links == 0:
        links = []
    if not isinstance(links, list) or not isinstance(count, int) or not 0 <= count <= len(links):
        raise InputError("the list of links is shorter than its count", where=where)
    return links[:count]


def _link_word(entry: object, where: str) -> tuple[int, int]:
    """Register index and word of one link."""
    m = Members(entry, where)
    fields: dict[str, int] = {}
    for context in (0, 1):
        source = m.values.get(f"source{context}")
        fields |= {
            f"EN{context}": m.flag(f"context{context}"),
            f"LINK{context}": 0 if source is None or source == 0 else _source(source, where),
            f"FNR{context}": m[f"frames{context}"],
        }
    return _port(m.values.get("dest"), where), word("STRSWITCH", _LINK_REGISTER, **fields)


def _place(port: object, where: str) -> tuple[str, int]:
    m = Members(port, where)
    unit = m.values.get("unit")
    return f"{getattr(unit, 'name', unit)}{m['instance']}", m["port"]


def _port(port: object, where: str) -> int:
    place = _place(port, where)
    if place not in regs.SWITCH_PORTS:
        raise InputError(f"the stream switch has no input port {place[0]}:{place[1]}", where=where)
    return regs.SWITCH_PORTS[place]


def _source(port: object, where: str) -> int:
    name, _ = _place(port, where)
    if name not in regs.SOURCES:
        raise InputError(f"the stream switch has no source {name}", where=where)
    return regs.SOURCES[name]


# ----------------------------------------------------------------------------------------------------------- programs

_UNIT_CALLS: dict[str, tuple[str, Callable[[DriverUnit], list[Instruction]]]] = {
    "LL_Convacc_Init": ("CONVACC", _convacc),
    "LL_Arithacc_Init": ("ARITH", _arith),
    "LL_Activacc_Init": ("ACTIV", _activ),
    "LL_Poolacc_Init": ("POOL", _pool),
    "LL_Streng_TensorInit": ("STRENG", _streng),
    "LL_Decun_Init": ("DECUN", _decun),
}
_LIST_CALLS = {"LL_Switch_Init", "LL_Switch_Deinit", "LL_ATON_EnableUnits_Init", "LL_ATON_DisableUnits_Init"}
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
            kind, program = _UNIT_CALLS[call.name]
            number, conf = _arguments(call)
            if not isinstance(number, int):
                raise InputError(f"{call.name} for an unknown unit", where=call.where)
            if call.name == "LL_Convacc_Init":
                controls[unit_id(kind, number, call.where)] = _convacc_control(Members(conf, call.where))
            result.append(_clock(kind, number, True, call.where))
            result += program(DriverUnit(kind, number, conf, generation, read_memory, call.where))
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
        return _enable(entries, count, controls, call.where)
    if call.name == "LL_ATON_DisableUnits_Init":
        return _disable(entries, count, call.where)
    if call.name == "LL_Switch_Deinit":
        return _unlink(entries, count, generation, call.where)
    return _link(entries, count, generation, call.where)


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
    return [*label, *start, *_wait(wait_mask), *end]


def merged(program: Iterable[Instruction]) -> list[Instruction]:
    """The same as a blob of ST's holds it. Coefficients go through a window, and no store moves across the one that
    shifts it."""
    plain: list[Instruction | Barrier] = []
    for item in program:
        if isinstance(item, Write) and item.reg == _TRANSLATE and regs.UNIT_BY_ID[item.unit].kind == "ARITH":
            plain.append(Barrier())
        plain.append(item)
    return merge_writes(plain)
