"""`LL_Streng_TensorInit`: a stream engine from its struct."""

from __future__ import annotations

from atonc.machine.base.errors import InputError
from atonc.machine.hw import regs
from atonc.machine.hw.ec.instructions import Instruction, Write
from atonc.machine.hw.ll.generation import Generation
from atonc.machine.hw.ll.members import Members, ReadMemory, unit_id, write

KIND = "STRENG"
MAX_BITS = 24


def program(
    number: int, values: object, generation: Generation, read_memory: ReadMemory, where: str
) -> list[Instruction]:
    m, unit = Members(values, where), unit_id(KIND, number, where)
    if not (0 < m["nbits_in"] <= MAX_BITS and 0 < m["nbits_out"] <= MAX_BITS):
        raise InputError(f"elements of {m['nbits_in']} to {m['nbits_out']} bits", where=where)
    lanes, gap = lane_bits(m)
    raster = not m["raw"]
    line_offset = (m["line_offset"] or m["fwidth"] * m["batch_offset"]) if raster else 0
    result: list[Instruction] = [_control(unit, m, lanes), _address(unit, "ADDR", m["addr_base"] + m["offset_start"])]
    result += _frame(unit, m)
    result += [
        write(KIND, unit, "FOFFSET", REG=m["frame_offset"]),
        write(KIND, unit, "FRPTOFF", REG=m["loop_offset"]),
        write(KIND, unit, "FRAME_RPT", REG=m["frame_loop_cnt"]),
    ]
    result += _limits(unit, m)
    result += [
        write(KIND, unit, "POS", GAPCYCLES=0),
        write(KIND, unit, "STRD", LOFF=line_offset, **{"FGAP" if m["mem_lsb"] else "BGAP": gap}),
        _cache(unit, m, line_offset),
        _events(unit, m, generation),
        write(KIND, unit, "ENCR_MSB", EN=m["cipher_en"], KEY_SEL=m["key_sel"]),
    ]
    return result


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
    if stream > 8:
        return (middle, low, 0), gap
    return (low, 0, 0), gap


def _control(unit: int, m: Members, lanes: tuple[int, int, int]) -> Write:
    align_right = m["align_right"] == 1
    return write(
        KIND,
        unit,
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


def _address(unit: int, register: str, address: int) -> Write:
    return Write(unit, regs.registers(KIND)[register].index, address & 0xFFFF_FFFF)


def _frame(unit: int, m: Members) -> list[Instruction]:
    if m["raw"]:
        bits = m["nbits_out"] if m["dir"] else m["nbits_in"]
        elements = m["frame_count"] or (m["offset_end"] - m["offset_start"] & 0xFFFF_FFFF) * 8 // bits
        return [_address(unit, "FSIZE", elements)]
    return [
        write(KIND, unit, "FSIZE", WIDTH=m["fwidth"], HEIGHT=m["fheight"]),
        write(KIND, unit, "DEPTH", SIZE=m["batch_depth"], OFFSET=m["batch_offset"]),
    ]


def _limits(unit: int, m: Members) -> list[Instruction]:
    high = m["batch_offset"] >> 16
    result: list[Instruction] = [write(KIND, unit, "LIMITEN", FRAMELIMIT=1, DOFF_MSB=high)]
    if m["offset_limit"]:
        result.append(write(KIND, unit, "LIMITEN", FRAMELIMIT=1, DOFF_MSB=high, ADDRLIMIT=1, STOPPREFTC=1))
        result.append(_address(unit, "LIMITADDR", m["addr_base"] + m["offset_limit"] - 1))
    result.append(write(KIND, unit, "LIMIT", CNT=m["frame_tot_cnt"]))
    return result


def _cache(unit: int, m: Members, line_offset: int) -> Write:
    return write(
        KIND,
        unit,
        "CID_CACHE",
        LOFF_MSB=line_offset >> 16,
        CID=m["bus_cid"],
        CACHEABLE=m["cacheable"],
        ALLOC=m["cache_allocate"],
        PFETCH=m["bus_pfetch"],
        LINESIZE=m["cache_linesize"],
    )


def _events(unit: int, m: Members, generation: Generation) -> Write:
    fields = {"EN_ILLCFG": 1}
    if m["dir"] == 1 and generation.overflow_event:
        fields["EN_OFLOW_FRM"] = 1
    if m["dir"] == 0 and m["sync_with_other"]:
        fields |= {"FRMTRG_EN": 1, "FRMTRG_SRC": m["sync_dma"]}
    return write(KIND, unit, "EVENT", **fields)
