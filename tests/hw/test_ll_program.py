"""Driver structs become register programs: each unit against its registers, and whole epochs through the decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atonc.machine.base.errors import AtoncError, InputError, UnsupportedError
from atonc.machine.hw import ll, regs
from atonc.machine.hw.decode import decode_epochs
from atonc.machine.hw.ec.instructions import Instruction, Label, Poll, Write, WriteField
from atonc.machine.hw.ll import FIRST, SECOND, THIRD, unpack


@dataclass(frozen=True)
class Name:
    """An enum constant, as the C reader gives it."""

    name: str


@dataclass(frozen=True)
class Call:
    name: str
    args: Sequence[object]
    where: str = "n.c:1"


MEMORY = bytes(range(256)) * 16


def read_memory(address: int, size_bytes: int) -> bytes:
    return MEMORY[address : address + size_bytes]


def run(name: str, number: int, generation: ll.Generation = THIRD, **members: object) -> list[Instruction]:
    return ll.driver_program([Call(name, (number, members))], read_memory, generation)


def stored(program: list[Instruction], kind: str, number: int = 0) -> dict[str, int]:
    """Register name -> last value."""
    unit = regs.UNIT_BY_NAME[f"{kind}{number}"].id
    names = {r.index: r.name for r in regs.registers(kind).values()}
    return {names.get(i.reg, str(i.reg)): i.value for i in program if isinstance(i, Write) and i.unit == unit}


def field(kind: str, register: str, name: str, words: dict[str, int]) -> int:
    described = regs.registers(kind)[register].field(name)
    return words[register] >> described.lsb & described.mask


CONV: dict[str, Any] = {
    "simd": 1, "inbytes_f": 1, "outbytes_o": 2, "fWidth": 10, "fHeight": 8, "kernelWidth": 3, "kernelHeight": 3,
    "nKernels": 16, "batchDepth": 4, "hstride": 1, "vstride": 1, "right_crop": 9, "bot_crop": 7,
}  # fmt: skip


def test_every_unit_gets_its_clock_first() -> None:
    program = run("LL_Convacc_Init", 2, **CONV)
    assert program[0] == WriteField(0, 4, 12, 1, 1)


def test_convacc_dimensions_count_the_batch() -> None:
    words = stored(run("LL_Convacc_Init", 1, **CONV), "CONVACC", 1)
    assert words["FFORMAT"] == 8 << 16 | 40
    assert words["KFORMAT"] == 16 << 24 | 4 << 16 | 3 << 8 | 3
    assert field("CONVACC", "FHCROP", "RIGHT", words) == 9 * 4 + 3
    assert field("CONVACC", "DFORMAT", "FSHIFT", words) == 16
    assert words["CTRL"] == regs.registers("CONVACC")["CTRL"].reset | 1 << 2 | 1 << 4 | 1 << 5


@given(st.integers(0, 6), st.integers(1, 12), st.sampled_from(["", "deepmode", "dss2mode", "zfbias"]))
def test_convacc_padding_is_split_between_window_and_frame(padding: int, kernel: int, mode: str) -> None:
    members = CONV | {"left_padding": padding, "kernelWidth": kernel} | ({mode: 1} if mode else {})
    words = stored(run("LL_Convacc_Init", 0, **members), "CONVACC")
    window, frame = field("CONVACC", "SAMPLE", "LPAD", words), field("CONVACC", "ZFRAME", "LEFT", words)
    assert window * 4 + frame == padding * 4
    assert window <= min(2, kernel - 1)
    assert not (mode and window)


def test_convacc_optional_registers() -> None:
    assert "FSUB" not in stored(run("LL_Convacc_Init", 0, **CONV), "CONVACC")
    assert stored(run("LL_Convacc_Init", 0, **CONV, fsub=-3), "CONVACC")["FSUB"] == 0xFFFFFD
    assert "KFILT" not in stored(run("LL_Convacc_Init", 0, FIRST, **CONV), "CONVACC")
    assert stored(run("LL_Convacc_Init", 0, SECOND, **CONV), "CONVACC")["KFILT"] == 1
    words = stored(
        run("LL_Convacc_Init", 0, FIRST, **CONV, kfilt_tot=4, kfilt_first=1, kfilt_last=2,
            afilt_mode=Name("AFILT_MODE_FRAMEZERO"), afilt_tot=7), "CONVACC",
    )  # fmt: skip
    assert (words["KFILT"], words["AFILT"]) == (4 | 1 << 8 | 2 << 16, 7)
    assert field("CONVACC", "CTRL", "AFILTMODE", words) == 3


def arith(**members: object) -> dict[str, Any]:
    shape = {"fWidth": 5, "fHeight": 3, "fChannels": 4, "batchDepth": 2, "operation": Name("ARITH_AFFINE")}
    return shape | {"bcast": Name("ARITH_BCAST_CHAN"), "vec_precision": [16, 16, 16]} | members


def test_arith_scalar() -> None:
    words = stored(run("LL_Arithacc_Init", 3, **arith(scalar=1, A_scalar=-2, B_scalar=5, C_scalar=7)), "ARITH", 3)
    assert (words["COEFFAC"], words["COEFFB"]) == (7 << 16 | 0xFFFE, 5)
    assert "256" not in words and "CLIPRANGE" not in words
    clipped = run("LL_Arithacc_Init", 3, **arith(scalar=1, clipout=1, clipmin=-128, clipmax=127))
    assert stored(clipped, "ARITH", 3)["CLIPRANGE"] == 0xFF80_007F


def test_arith_rows_come_from_memory() -> None:
    words = stored(run("LL_Arithacc_Init", 0, **arith(A_vector=64, B_scalar=9, C_scalar=-1)), "ARITH")
    assert [words[str(256 + 2 * i)] for i in range(4)] == [9 << 16 | (0x4140 + 0x202 * i) for i in range(4)]
    assert [words[str(257 + 2 * i)] for i in range(4)] == [0xFFFF] * 4
    assert (words["RSTCNT1"], words["RSTCNT2"], words["RSTCNT3"]) == (1, 5 * 3 * 2 - 1, 5 * 3 * 4 - 1)
    assert words["ADDROFFSET"] == (0x1FF | 1 << 9 | (-3 & 0x1FF) << 18)
    assert field("ARITH", "CTRL", "COEFFA", words) == field("ARITH", "CTRL", "CNT3", words) == 1


@pytest.mark.parametrize(
    ("bcast", "step", "once", "rows"),
    [("HEIGHT", 10, 30, 3), ("WIDTH", 2, 10, 5), ("HEIGHT_WIDTH", 2, 30, 15)],
)
def test_arith_other_broadcasts(bcast: str, step: int, once: int, rows: int) -> None:
    words = stored(run("LL_Arithacc_Init", 0, **arith(bcast=Name(f"ARITH_BCAST_{bcast}"), A_vector=2)), "ARITH")
    assert (words["INCCNT"], words["RSTCNT1"], words["ADDROFFSET"]) == (step - 1, once - 1, -(rows - 1) & 0x1FF)
    assert len([k for k in words if k.isdigit()]) == 2 * rows


def test_arith_combined_addend() -> None:
    members = arith(C_vector=0x100, vec_precision=[16, 16, 32], combinebc=1)
    words = stored(run("LL_Arithacc_Init", 0, **members), "ARITH")
    assert (words["256"] >> 16, words["257"]) == (0x0302, 0x0100)
    negated = stored(run("LL_Arithacc_Init", 0, **members, C_scalar=-1), "ARITH")
    total = -0x03020100 & 0xFFFF_FFFF
    assert (negated["256"] >> 16, negated["257"]) == (total >> 16, total & 0xFFFF)
    scalar = arith(A_vector=2, B_scalar=5, C_scalar=-2, combinebc=1)
    assert stored(run("LL_Arithacc_Init", 0, FIRST, **scalar), "ARITH")["256"] >> 16 == 0xFFFF
    assert stored(run("LL_Arithacc_Init", 0, SECOND, **scalar), "ARITH")["256"] >> 16 == 5


def test_arith_pages_beyond_the_window() -> None:
    program = run("LL_Arithacc_Init", 0, **arith(fChannels=512, A_vector=2))
    translate = regs.registers("ARITH")["TRANSLATEADDR"].index
    rows = [i for i in program if isinstance(i, Write) and (i.reg >= 256 or i.reg == translate)]
    assert [(i.reg, i.value) for i in rows if i.reg == translate] == [(translate, 1), (translate, 0)]
    assert len(rows) == 2 + 2 * 512
    after = rows[rows.index(Write(23, translate, 0)) + 1 :]
    assert (after[0].reg, after[-1].reg) == (256 + 2 * 256, 257 + 2 * 383)


def test_arith_array_as_vector() -> None:
    words = stored(run("LL_Arithacc_Init", 0, **arith(A_vector=[1, -1, 3, 4, 5])), "ARITH")
    assert [words[str(256 + 2 * i)] & 0xFFFF for i in range(4)] == [1, 0xFFFF, 3, 4]


@given(st.integers(1, 32), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20))
def test_unpack(bits: int, values: list[int]) -> None:
    kept = [((v & (1 << bits) - 1) ^ 1 << bits - 1) - (1 << bits - 1) for v in values]
    packed = sum((v & (1 << bits) - 1) << bits * i for i, v in enumerate(values))
    assert unpack(packed.to_bytes(-(-bits * len(values) // 8), "little"), bits, len(values)) == kept


def test_activ_kinds() -> None:
    relu = stored(run("LL_Activacc_Init", 1, operation=Name("ACTIV_PRELU"), parameter=-5, parameter_2=7), "ACTIV", 1)
    assert (relu["ACTIVPARAM"], relu["ACTIVPARAM2"]) == (0xFFFB, 7)
    function = run("LL_Activacc_Init", 0, operation=Name("ACTIV_FUNC"), ROM0_vector=3, ROM0_nbytes=4,
                   ROM1_vector=16, ROM1_nbytes=12, shift_norm=2, bwidth=1)  # fmt: skip
    words = stored(function, "ACTIV")
    assert [words[str(256 + i)] for i in range(4)] == [3, 4, 5, 6]
    assert (words["512"], words["513"], words["514"]) == (0x1312_1110, 0x1514, 0x1918_1716)
    assert field("ACTIV", "ACTIVPARAM", "FUNC", words) == 2


def test_pool() -> None:
    words = stored(
        run("LL_Poolacc_Init", 1, operation=Name("POOL_AVG"), inputX=10, inputY=6, outputX=5, outputY=3, poolWinX=2,
            poolWinY=2, strideX=2, strideY=2, batchSize=3, rightCrop=9, bottomCrop=5, mulval=0x4000), "POOL", 1,
    )  # fmt: skip
    assert (words["FDIMS"], words["OUTDIMS"], words["MULVAL"]) == (6 << 16 | 30, 3 << 16 | 5, 0x4000)
    assert field("POOL", "XCROP", "RCROP", words) == 29
    assert field("POOL", "CTRL", "CROPEN", words) == 1


STRENG: dict[str, Any] = {
    "addr_base": 0x342E0000, "offset_start": 256, "offset_end": 512, "offset_limit": 576, "frame_tot_cnt": 1,
    "nbits_in": 8, "nbits_out": 8,
}  # fmt: skip


def test_stream_engine_raw_and_raster() -> None:
    raw = stored(run("LL_Streng_TensorInit", 4, raw=1, **STRENG), "STRENG", 4)
    assert (raw["ADDR"], raw["FSIZE"], raw["LIMITADDR"]) == (0x342E0100, 256, 0x342E023F)
    assert "DEPTH" not in raw
    raster = stored(
        run("LL_Streng_TensorInit", 4, dir=1, fwidth=20, fheight=30, batch_depth=2, batch_offset=70_000, **STRENG),
        "STRENG", 4,
    )  # fmt: skip
    assert raster["FSIZE"] == 30 << 16 | 20
    assert (raster["DEPTH"], raster["LIMITEN"] >> 16) == ((70_000 & 0xFFFF) << 16 | 2, 70_000 >> 16)
    line = 20 * 70_000
    assert (raster["STRD"] & 0xFFFF, raster["CID_CACHE"] >> 16) == (line & 0xFFFF, line >> 16)


@pytest.mark.parametrize(
    ("members", "lanes", "gap"),
    [
        ({"nbits_in": 8, "nbits_out": 8}, (8, 0, 0), ("BGAP", 0)),
        ({"nbits_in": 16, "nbits_out": 16}, (8, 8, 0), ("BGAP", 0)),
        ({"nbits_in": 8, "nbits_out": 16}, (0, 8, 0), ("BGAP", 0)),
        ({"nbits_in": 8, "nbits_out": 16, "align_right": 1}, (8, 0, 0), ("BGAP", 0)),
        ({"nbits_in": 24, "nbits_out": 24}, (8, 8, 8), ("BGAP", 0)),
        ({"nbits_in": 12, "nbits_out": 24}, (0, 4, 8), ("BGAP", 0)),
        ({"nbits_in": 16, "nbits_out": 8}, (8, 0, 0), ("BGAP", 8)),
        ({"nbits_in": 16, "nbits_out": 8, "mem_lsb": 1}, (8, 0, 0), ("FGAP", 8)),
        ({"nbits_in": 16, "nbits_out": 8, "dir": 1}, (0, 8, 0), ("BGAP", 0)),
        ({"nbits_in": 8, "nbits_out": 16, "dir": 1}, (8, 0, 0), ("BGAP", 8)),
    ],
)
def test_stream_engine_lanes(members: dict[str, int], lanes: tuple[int, ...], gap: tuple[str, int]) -> None:
    words = stored(run("LL_Streng_TensorInit", 0, raw=1, **STRENG | members), "STRENG")
    assert tuple(field("STRENG", "CTRL", f"SIZE{i}", words) for i in range(3)) == lanes
    assert field("STRENG", "STRD", gap[0], words) == gap[1]


def test_stream_engine_events() -> None:
    writer = stored(run("LL_Streng_TensorInit", 0, raw=1, dir=1, **STRENG), "STRENG")
    traced = stored(run("LL_Streng_TensorInit", 0, THIRD.traced(), raw=1, dir=1, **STRENG), "STRENG")
    assert (writer["EVENT"], traced["EVENT"]) == (3 << 19, 1 << 20)
    synced = stored(run("LL_Streng_TensorInit", 0, raw=1, sync_with_other=1, sync_dma=6, **STRENG), "STRENG")
    assert synced["EVENT"] == 1 << 20 | 1 << 23 | 6 << 24
    unlimited = stored(run("LL_Streng_TensorInit", 0, raw=1, **STRENG | {"offset_limit": 0}), "STRENG")
    assert "LIMITADDR" not in unlimited and unlimited["LIMITEN"] & 1 == 0


def port(unit: str, instance: int, number: int = 0) -> dict[str, object]:
    return {"unit": Name(unit), "instance": instance, "port": number}


LINKS = [
    {"dest": port("ARITH", 0), "source0": port("STRENG", 3), "context0": 1, "frames0": 0},
    {"dest": port("STRENG", 6), "source0": port("ARITH", 0), "context0": 1, "frames0": 2,
     "source1": port("ARITH", 0), "context1": 0, "frames1": 5},
]  # fmt: skip


def test_links() -> None:
    program = ll.driver_program([Call("LL_Switch_Init", (LINKS, 2))], read_memory, THIRD)
    assert program == [Write(4, 30, 3 << 1 | 1), Write(4, 8, 1 | 18 << 1 | 2 << 8 | 18 << 17 | 5 << 24), Write(4, 0, 1)]
    first = ll.driver_program([Call("LL_Switch_Init", (LINKS, 2))], read_memory, FIRST)
    assert first[:5] == [
        Write(4, 0, 2),
        Poll(4, 0, 1, 1, 100, 0),
        Write(4, 0, 1 << 30),
        Poll(4, 0, 30, 30, 100, 0),
        Write(4, 0, 1),
    ]
    assert first[5:] == program[:2]
    off = ll.driver_program([Call("LL_Switch_Deinit", (LINKS, 2))], read_memory, THIRD)
    assert off[-2:] == [Write(4, 30, 0), Write(4, 8, 0)]
    assert len(off) == 6
    assert ll.driver_program([Call("LL_Switch_Init", (None, 0))], read_memory, THIRD) == [Write(4, 0, 1)]


def test_units_on_and_off() -> None:
    on = [
        Call("LL_Convacc_Init", (1, CONV)),
        Call("LL_ATON_EnableUnits_Init", ([[[Name("STRENG"), 6]], [[Name("CONVACC"), 1]]], 2)),
    ]
    program = ll.driver_program(on, read_memory)
    control = stored(program[:-1], "CONVACC", 1)["CTRL"]
    assert program[-2:] == [WriteField(11, 0, 0, 1, 1), Write(16, 0, control | 1)]
    off = ll.driver_program([Call("LL_ATON_DisableUnits_Init", ([[[Name("ARITH"), 2]]], 1))], read_memory)
    reset = regs.registers("ARITH")["CTRL"].reset
    assert [i for i in off if not isinstance(i, Poll)] == [
        Write(25, 0, reset | 2), Write(25, 0, reset | 1 << 30), WriteField(0, 4, 20, 1, 0),
    ]  # fmt: skip


@pytest.mark.parametrize(("bytes_each", "per_vector"), [(1, n) for n in range(1, 9)] + [(2, n) for n in range(1, 9)])
def test_decompressor_code_books(bytes_each: int, per_vector: int) -> None:
    size = bytes_each * per_vector * 3
    members = {"nCVperCB": 3, "nCWperCV": per_vector, "nFormatBytes": bytes_each, "nBatches": 9}
    words = stored(run("LL_Decun_Init", 0, **members, CBs_vector=1, CBs_size=size), "DECUN")
    slot, slots = 4 * bytes_each, -(-per_vector * bytes_each // (4 * bytes_each))
    restored = b""
    for vector in range(3):
        data = b""
        for part in range(slots):
            index = 512 + 2 * (vector * slots + part)
            data += (
                words[str(index)].to_bytes(4, "little") + words.get(str(index + 1), 0).to_bytes(4, "little")[: slot - 4]
            )
        restored += data[: per_vector * bytes_each]
    assert restored == MEMORY[1 : 1 + size]
    assert words["BFORMAT"] & 0xFF == 2 and words["FFORMAT"] == 9 and words["DFORMAT"] == bytes_each & 1


def test_decompressor_turns_pages() -> None:
    program = run("LL_Decun_Init", 0, nCVperCB=1, nCWperCV=4, nFormatBytes=1, CBs_vector=1, CBs_size=4 * 300)
    pages = [i for i in program if isinstance(i, Write) and i.reg == 0]
    assert [i.value >> 4 & 3 for i in pages] == [0, 1]


def epoch_calls() -> tuple[list[Call], list[Call]]:
    members = arith(A_vector=64, outbytes_o=1, shift_o=3, inbytes_x=2, outbytes_x=2, inbytes_y=2, outbytes_y=2)
    units = [[[Name("STRENG"), 6]], [[Name("ARITH"), 0]], [[Name("STRENG"), 3]]]
    start = [
        Call("LL_Arithacc_Init", (0, members)),
        Call("LL_Streng_TensorInit", (3, {"raw": 1} | STRENG | {"nbits_in": 16, "nbits_out": 16}, 1)),
        Call("LL_Streng_TensorInit", (6, [{"raw": 1, "dir": 1} | STRENG], 1)),
        Call("LL_Switch_Init", ([LINKS[0], LINKS[1] | {"frames0": 0, "frames1": 0}], 2)),
        Call("LL_ATON_EnableUnits_Init", (units, 3)),
        Call("LL_ATON_Cache_MCU_Clean_Range", (0, 4)),
    ]
    return start, [Call("LL_Switch_Deinit", (LINKS, 2)), Call("LL_ATON_DisableUnits_Init", (units, 3))]


@pytest.mark.parametrize("generation", ll.GENERATIONS)
def test_an_epoch_decodes_like_a_blob(generation: ll.Generation) -> None:
    start, end = epoch_calls()
    program = ll.epoch_program(start, 0x40, end, read_memory, generation, number=7)
    assert program[0] == Label(7)
    assert Poll(11, 0, 31, 31, 100, 0) in program
    (epoch,) = decode_epochs(program)
    assert (epoch.number, sorted(epoch.units), epoch.waits) == (7, ["ARITH0", "STRENG3", "STRENG6"], ("STRENG6",))
    assert {str(link) for link in epoch.links} == {"STRENG3 -> ARITH0:0", "ARITH0 -> STRENG6:0"}
    for name, config in epoch.units.items():
        config.require_modelled(name)


@pytest.mark.parametrize(
    ("version", "generation"),
    [
        ("STAI-2.0-RC1-1-1-g0307e413", FIRST),
        ("atonn-v1.1.0-31-g27f5d5bc", FIRST),
        ("atonn-v1.1.1-14-ge619e860", FIRST),
        ("atonn-v1.1.3-8-g80369096", SECOND),
        ("STAI-3.0.0-254-g7cc65410", THIRD),
        ("atonn-v1.1.3-275-g6770925d", THIRD),
        ("", THIRD),
    ],
)
def test_generations(version: str, generation: ll.Generation) -> None:
    assert ll.generation_of(version) is generation


@pytest.mark.parametrize(
    "call",
    [
        Call("LL_Convacc_Init", (4, CONV)),
        Call("LL_Convacc_Init", (0, CONV | {"deepmode": 1, "dss2mode": 1})),
        Call("LL_Convacc_Init", (0, CONV | {"fWidth": Name("X")})),
        Call("LL_Convacc_Init", (0, CONV | {"afilt_mode": Name("AFILT_MODE_OTHER")})),
        Call("LL_Convacc_Init", (0,)),
        Call("LL_Convacc_Init", (0, None)),
        Call("LL_Convacc_Init", (Name("id"), CONV)),
        Call("LL_Arithacc_Init", (0, arith(operation=Name("ARITH_OTHER")))),
        Call("LL_Arithacc_Init", (0, arith(operation=3))),
        Call("LL_Arithacc_Init", (0, arith(bcast=Name("ARITH_BCAST_NONE"), A_vector=4))),
        Call("LL_Arithacc_Init", (0, arith(A_vector=[1, 2]))),
        Call("LL_Arithacc_Init", (0, arith(A_vector=4, vec_precision=[99, 1, 1]))),
        Call("LL_Arithacc_Init", (0, arith(A_vector=4, vec_precision=[16]))),
        Call("LL_Arithacc_Init", (0, arith(A_vector=4, fChannels=0))),
        Call("LL_Activacc_Init", (0, {"operation": Name("ACTIV_LUT")})),
        Call("LL_Activacc_Init", (0, {"operation": Name("ACTIV_FUNC"), "ROM0_nbytes": 99})),
        Call("LL_Activacc_Init", (0, {"operation": Name("ACTIV_FUNC"), "ROM0_nbytes": 9})),
        Call("LL_Poolacc_Init", (0, {})),
        Call("LL_Streng_TensorInit", (0, STRENG | {"nbits_in": 32}, 1)),
        Call("LL_Streng_TensorInit", (0, STRENG | {"nbits_in": 0}, 1)),
        Call("LL_Streng_TensorInit", (10, STRENG, 1)),
        Call("LL_Decun_Init", (0, {"nFormatBytes": 3, "nCWperCV": 1})),
        Call("LL_Decun_Init", (0, {"nFormatBytes": 1, "nCWperCV": 9})),
        Call("LL_Decun_Init", (0, {"nFormatBytes": 1, "nCWperCV": 1, "CBs_size": 9})),
        Call("LL_Decun_Init", (0, {"nFormatBytes": 1, "nCWperCV": 1, "CBs_size": 1 << 30, "CBs_vector": 4})),
        Call("LL_Switch_Init", (LINKS, 3)),
        Call("LL_Switch_Init", ([{"dest": port("STRENG", 11), "source0": port("ARITH", 0)}], 1)),
        Call("LL_Switch_Init", ([{"dest": port("STRENG", 1), "source0": port("ARITH", 9)}], 1)),
        Call("LL_Switch_Init", ([{"dest": None}], 1)),
        Call("LL_ATON_EnableUnits_Init", ([[[Name("STRENG"), 6]]], 2)),
        Call("LL_ATON_EnableUnits_Init", ([[[Name("TOASTER"), 0]]], 1)),
        Call("LL_ATON_EnableUnits_Init", ([[[Name("STRENG"), 99]]], 1)),
        Call("LL_ATON_EnableUnits_Init", (5, 1)),
        Call("printf", ("hello",)),
    ],
)
def test_what_the_driver_cannot_mean(call: Call) -> None:
    with pytest.raises(AtoncError) as caught:
        ll.driver_program([call], read_memory)
    assert isinstance(caught.value, (InputError, UnsupportedError))
    assert "n.c:1" in str(caught.value)
