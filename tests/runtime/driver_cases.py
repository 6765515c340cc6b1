"""Driver calls with all members set at random, as C text and as the values that `atonc.machine.hw.ll` takes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from atonc.machine.hw import regs

MEMORY_BASE = 0x1000
MEMORY = bytes(random.Random(7).randrange(256) for _ in range(8192))
CASES_PER_UNIT = 40


@dataclass(frozen=True)
class Name:
    name: str


@dataclass(frozen=True)
class Vector:
    """A place in MEMORY."""

    offset: int


@dataclass(frozen=True)
class Port:
    kind: str
    instance: int
    port: int
    is_source: bool


@dataclass(frozen=True)
class Call:
    name: str
    args: Sequence[object]
    where: str = "case"


@dataclass
class Dice:
    random: random.Random = field(default_factory=lambda: random.Random(20))

    def bits(self, n: int) -> int:
        return self.random.getrandbits(n)

    def signed(self, n: int) -> int:
        return self.random.getrandbits(n) - (1 << (n - 1))

    def one(self, *values: object) -> object:
        return self.random.choice(values)


def _flags(dice: Dice, names: str) -> dict[str, object]:
    return {name: dice.bits(1) for name in names.split()}


def convacc(dice: Dice) -> dict[str, object]:
    mode = dice.one("fstat", "deepmode", "dss2mode", "none")
    return {
        **_flags(dice, "rounding_f saturation_f rounding_o saturation_o round_mode_o relu_mode_o accumulate"),
        **_flags(dice, "accumulate_first accumulate_gen_first raw_o kt1_mode f_unsigned k_unsigned"),
        **({str(mode): 1} if mode != "none" else {}),
        "round_mode_f": dice.bits(2), "inbytes_f": dice.bits(2), "outbytes_o": dice.bits(2), "simd": dice.bits(2),
        "kseten": dice.bits(2), "shift_f": dice.signed(5), "shift_a": dice.bits(5), "shift_o": dice.bits(5),
        "fWidth": dice.bits(9), "fHeight": dice.bits(9), "kernelWidth": 1 + dice.bits(3),
        "kernelHeight": 1 + dice.bits(3), "nKernels": dice.bits(5), "batchDepth": dice.bits(6),
        "hstride": dice.bits(4), "vstride": dice.bits(4),
        **{f"{side}_padding": dice.bits(3) for side in ("left", "right", "top", "bot")},
        **{f"{side}_crop": dice.bits(4) for side in ("left", "right", "top", "bot")},
        "fstatcnt": dice.bits(8), "zfbias": dice.one(0, 0, -3, 700), "fsub": dice.one(0, -128, 5),
        "afilt_mode": Name(f"AFILT_MODE_{dice.one('NONE', 'PIXELDROP', 'FRAMEDROP', 'FRAMEZERO')}"),
        **{f"{name}_{part}": dice.bits(4) for name in ("afilt", "kfilt") for part in ("tot", "first", "last")},
    }  # fmt: skip


ARITH_OPERATIONS = (
    *("AFFINE", "MIN", "MAX", "MUL", "X_AND_Y", "X_OR_Y", "NOT_X", "X_XOR_Y", "X_EQ_Y", "X_LT_Y", "X_LE_Y", "X_GT_Y"),
    *("X_GE_Y", "ABS_X", "SIGN_X", "CLIP"),
)


def arith(dice: Dice) -> dict[str, object]:
    scalar = dice.bits(1)
    broadcast = dice.one("CHAN", "HEIGHT", "WIDTH", "HEIGHT_WIDTH", "SCALAR")
    return {
        **_flags(dice, "rounding_x saturation_x rounding_y saturation_y combinebc clipout rounding_o saturation_o"),
        **_flags(dice, "round_mode_o relu_mode_o dualinput"),
        **{f"{name}_{axis}": dice.bits(2) for name in ("round_mode", "inbytes", "outbytes") for axis in "xy"},
        "scalar": scalar, "shift_x": dice.signed(5), "shift_y": dice.signed(5), "outbytes_o": dice.bits(2),
        "shift_o": dice.bits(5), "operation": Name(f"ARITH_{dice.one(*ARITH_OPERATIONS)}"),
        "bcast": Name(f"ARITH_BCAST_{broadcast}"), "Ax_shift": dice.bits(5), "By_shift": dice.bits(5),
        "C_shift": dice.bits(5), "fWidth": 1 + dice.bits(4), "fHeight": 1 + dice.bits(5),
        "batchDepth": 1 + dice.bits(4), "fChannels": dice.one(3, 64, 384, 400, 512, 600),
        "clipmin": dice.signed(15), "clipmax": dice.signed(15),
        "A_scalar": dice.signed(15), "B_scalar": dice.signed(15), "C_scalar": dice.one(-1, 5, -700),
        "A_vector": dice.one(None, Vector(dice.bits(6))), "B_vector": dice.one(None, Vector(dice.bits(6))),
        "C_vector": dice.one(None, Vector(dice.bits(6))),
        "vec_precision": [dice.one(8, 16), dice.one(4, 8, 16), dice.one(16, 24, 32)],
    }  # fmt: skip


def activ(dice: Dice) -> dict[str, object]:
    return {
        **_flags(dice, "rounding_f saturation_f rounding_o saturation_o round_mode_o relu_mode_o signedop"),
        "round_mode_f": dice.bits(2), "inbytes_f": dice.bits(2), "outbytes_f": dice.bits(2),
        "outbytes_o": dice.bits(2), "shift_f": dice.signed(5), "shift_o": dice.bits(5), "parameter": dice.bits(16),
        "parameter_2": dice.bits(16), "shift_b": dice.bits(4), "shift_c": dice.bits(4), "shift_norm": dice.bits(4),
        "bwidth": dice.bits(3), "fsub": dice.one(0, -128, 9),
        "operation": Name(str(dice.one("ACTIV_RELU", "ACTIV_PRELU", "ACTIV_TRELU", "ACTIV_FUNC"))),
        "ROM0_vector": Vector(dice.bits(5)), "ROM1_vector": Vector(dice.bits(5)),
        "ROM0_nbytes": dice.one(0, 5, 32), "ROM1_nbytes": dice.one(0, 6, 60, 384),
    }  # fmt: skip


def pool(dice: Dice) -> dict[str, object]:
    return {
        **_flags(dice, "dualLine rounding_f saturation_f rounding_o saturation_o round_mode_o relu_mode_o"),
        "operation": Name(f"POOL_{dice.one('MAX', 'MIN', 'AVG', 'GMAX', 'GMIN', 'GAVG')}"),
        **{name: dice.bits(8) for name in ("inputX", "inputY", "outputX", "outputY")},
        **{name: dice.bits(2) for name in ("poolWinX", "poolWinY", "topPad", "bottomPad", "leftPad", "rightPad")},
        "strideX": dice.bits(4), "strideY": dice.bits(4), "batchSize": dice.bits(5),
        **{f"{side}Crop": dice.bits(5) for side in ("top", "bottom", "left", "right")},
        "shift_f": dice.signed(5), "shift_o": dice.bits(5), "round_mode_f": dice.bits(2), "inbytes_f": dice.bits(2),
        "outbytes_f": dice.bits(2), "outbytes_o": dice.bits(2), "mulval": dice.signed(15),
    }  # fmt: skip


def streng(dice: Dice) -> dict[str, object]:
    return {
        **_flags(dice, "dir raw raw_out continuous noblk noinc align_right mem_lsb sync_with_other nbits_unsigned"),
        **_flags(dice, "cacheable cache_allocate bus_pfetch cipher_en key_sel"),
        "bus_cid": dice.bits(3), "cache_linesize": dice.bits(2), "sync_dma": dice.bits(3),
        "addr_base": dice.one(0x342E0000, 0x70380000), "offset_start": dice.bits(12),
        "offset_end": 4096 + dice.bits(12), "offset_limit": dice.one(0, 8192),
        "frame_count": dice.one(0, 0, 77), "fwidth": dice.bits(9),
        "fheight": dice.bits(9), "batch_depth": dice.bits(6), "batch_offset": dice.one(dice.bits(8), 0x12345),
        "frame_offset": dice.bits(16), "line_offset": dice.one(0, 512, 0x23456), "loop_offset": dice.bits(16),
        "frame_loop_cnt": dice.bits(8), "frame_tot_cnt": dice.one(0, 1, 12), "nbits_in": 1 + dice.bits(4),
        "nbits_out": dice.one(1, 8, 11, 16, 24),
    }  # fmt: skip


def decun(dice: Dice) -> dict[str, object]:
    return {
        **_flags(dice, "noDualInput noOverWrite"),
        "nCVperCB": 1 + dice.bits(6), "nCWperCV": 1 + dice.bits(3), "nRCWlastCV": dice.bits(3),
        "nFormatBytes": dice.one(1, 2), "nBatches": dice.bits(8), "CBs_vector": Vector(dice.bits(5)),
        "CBs_size": dice.one(0, 7, 64, 1000),
    }  # fmt: skip


UNITS = {
    "LL_Convacc_Init": ("CONVACC", 4, convacc), "LL_Arithacc_Init": ("ARITH", 4, arith),
    "LL_Activacc_Init": ("ACTIV", 2, activ), "LL_Poolacc_Init": ("POOL", 2, pool),
    "LL_Streng_TensorInit": ("STRENG", 10, streng), "LL_Decun_Init": ("DECUN", 2, decun),
}  # fmt: skip
KINDS = [(kind, count) for kind, count, _ in UNITS.values()]


def make_links(dice: Dice) -> list[dict[str, object]]:
    def source() -> Port:
        kind, count = dice.random.choice(KINDS)
        return Port(kind, dice.random.randrange(count), 0, True)

    ports = dice.random.sample(sorted(regs.SWITCH_PORTS), 5)
    targets = [Port(unit.rstrip("0123456789"), int(unit[-1]), port, False) for unit, port in ports]
    return [
        {
            "dest": target, "source0": source(), "context0": 1, "frames0": dice.bits(8),
            "source1": source(), "context1": dice.bits(1), "frames1": dice.bits(8),
        }
        for target in targets
    ]  # fmt: skip


def make_cases() -> list[Call]:
    dice = Dice()
    cases = []
    for name, (kind, count, make) in UNITS.items():
        for _ in range(CASES_PER_UNIT):
            number = dice.random.randrange(count)
            unit = [[[Name(kind), number]]]
            cases.append(Call(name, [number, make(dice), *([1] if "Streng" in name else [])]))
            cases.append(Call("LL_ATON_EnableUnits_Init", [unit, 1]))
            if dice.bits(1):
                cases.append(Call("LL_ATON_DisableUnits_Init", [unit, 1]))
    for _ in range(10):
        links = make_links(dice)
        cases += [Call("LL_Switch_Init", [links, len(links)]), Call("LL_Switch_Deinit", [links, len(links)])]
    cases.append(Call("LL_Switch_Init", [None, 0]))
    return cases


# ---- as C ----

TYPES = {
    "LL_Convacc_Init": "LL_Convacc_InitTypeDef", "LL_Arithacc_Init": "LL_Arithacc_InitTypeDef",
    "LL_Activacc_Init": "LL_Activacc_InitTypeDef", "LL_Poolacc_Init": "LL_Poolacc_InitTypeDef",
    "LL_Streng_TensorInit": "LL_Streng_TensorInitTypeDef", "LL_Decun_Init": "LL_Decun_InitTypeDef",
    "LL_Switch_Init": "LL_Switch_InitTypeDef", "LL_Switch_Deinit": "LL_Switch_DeinitTypeDef",
    "LL_ATON_EnableUnits_Init": "LL_ATON_EnableUnits_InitTypeDef",
    "LL_ATON_DisableUnits_Init": "LL_ATON_DisableUnits_InitTypeDef",
}  # fmt: skip
POINTERS = {"addr_base", "A_vector", "B_vector", "C_vector", "ROM0_vector", "ROM1_vector", "CBs_vector"}


def c_value(name: str, value: object) -> str:
    if isinstance(value, Name):
        return value.name
    if isinstance(value, Port):
        macro = "ATONN_SRCPORT" if value.is_source else "ATONN_DSTPORT"
        return f"{macro}(STRSWITCH, 0, {value.kind}, {value.instance}, {value.port})"
    if isinstance(value, Vector):
        return f"{{(unsigned char *)memory + {value.offset}}}"
    if isinstance(value, list):
        return "{" + ", ".join(c_value(name, item) for item in value) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f".{key} = {c_value(key, item)}" for key, item in value.items()) + "}"
    if name in POINTERS:
        return "{0}" if value is None else f"{{(unsigned char *){value}UL}}"
    return str(value)


def c_case(number: int, call: Call) -> str:
    lines = [f"static int case_{number}(void) {{"]
    if call.args[0] is None:
        lines.append(f"    return {call.name}(NULL, 0);")
    elif isinstance(call.args[0], list):
        lines.append(f"    static const {TYPES[call.name]} list[] = {c_value('', call.args[0])};")
        lines.append(f"    return {call.name}(list, {call.args[1]});")
    else:
        lines.append(f"    static const {TYPES[call.name]} conf = {c_value('', call.args[1])};")
        rest = ", 1" if len(call.args) == 3 else ""
        lines.append(f"    return {call.name}({call.args[0]}, &conf{rest});")
    return "\n".join([*lines, "}"])


def c_file(cases: list[Call]) -> str:
    table = ", ".join(f"case_{i}" for i in range(len(cases)))
    return "\n".join(
        [
            '#include "ll_aton.h"',
            f"static const unsigned char memory[] = {{{', '.join(map(str, MEMORY))}}};",
            *[c_case(i, call) for i, call in enumerate(cases)],
            f"static int (*const all[])(void) = {{{table}}};",
            "int run_case(unsigned number);",
            "int run_case(unsigned number) { return all[number](); }\n",
        ]
    )


# ---- as Python ----


def plain(value: object) -> object:
    """As the C reader would give it to `hw.ll`."""
    if isinstance(value, Vector):
        return MEMORY_BASE + value.offset
    if isinstance(value, Port):
        return {"unit": Name(value.kind), "instance": value.instance, "port": value.port}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def read_memory(address: int, size_bytes: int) -> bytes:
    return MEMORY[address - MEMORY_BASE :][:size_bytes]
