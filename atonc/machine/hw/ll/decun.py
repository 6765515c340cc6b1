"""`LL_Decun_Init`: a weight decompressor from its struct, code books included."""

from __future__ import annotations

from atonc.machine.base.errors import InputError
from atonc.machine.hw import regs
from atonc.machine.hw.ec.instructions import Instruction, Write
from atonc.machine.hw.ll.generation import Generation
from atonc.machine.hw.ll.members import Members, ReadMemory, unit_id, word, write

KIND = "DECUN"
_MEMORY, _PAGE_SLOTS, _PAGES = 512, 256, 4


def program(
    number: int, values: object, generation: Generation, read_memory: ReadMemory, where: str
) -> list[Instruction]:
    m, unit = Members(values, where), unit_id(KIND, number, where)
    if m["nFormatBytes"] not in (1, 2) or not 1 <= m["nCWperCV"] <= 8:
        raise InputError(f"code words of {m['nFormatBytes']} bytes, {m['nCWperCV']} per vector", where=where)
    result: list[Instruction] = [write(KIND, unit, "CTRL", **_control(m))]
    if m["CBs_size"]:
        result += _code_books(unit, m, read_memory)
    return [
        *result,
        write(KIND, unit, "BFORMAT", CVS=m["nCVperCB"] - 1, CWS=m["nCWperCV"] - 1, OSAM=m["nRCWlastCV"]),
        write(KIND, unit, "DFORMAT", CV8=m["nFormatBytes"] & 1),
        write(KIND, unit, "FFORMAT", BN=m["nBatches"]),
    ]


def _control(m: Members) -> dict[str, int]:
    return {"DUALIN": m.flag("noDualInput"), "OW": m.flag("noOverWrite")}


def _code_books(unit: int, m: Members, read_memory: ReadMemory) -> list[Instruction]:
    """Each vector starts a slot of its own: 32 bits for one-byte code words, 64 bits (low, high) for two-byte ones."""
    slot_bytes = 4 * m["nFormatBytes"]
    vector_bytes = m["nCWperCV"] * m["nFormatBytes"]
    slots_per_vector = -(-vector_bytes // slot_bytes)
    size = m["CBs_size"]
    if size * slots_per_vector > _PAGES * _PAGE_SLOTS * vector_bytes:
        raise InputError(f"code books of {size} bytes do not fit the decompressor", where=m.where)
    values = m.vector("CBs_vector", 8, size, read_memory)
    if values is None:
        raise InputError("code books without an address", where=m.where)
    data = bytes(value & 0xFF for value in values)
    ctrl = regs.registers(KIND)["CTRL"].index
    result: list[Instruction] = []
    slot = page = 0
    for start in range(0, size, vector_bytes):
        vector = data[start : start + vector_bytes]
        for offset in range(0, len(vector), slot_bytes):
            part = vector[offset : offset + slot_bytes]
            result.append(Write(unit, _MEMORY + 2 * slot, int.from_bytes(part[:4], "little")))
            if len(part) > 4:
                result.append(Write(unit, _MEMORY + 2 * slot + 1, int.from_bytes(part[4:], "little")))
            slot += 1
            if slot == _PAGE_SLOTS:
                slot, page = 0, page + 1
                result.append(Write(unit, ctrl, word(KIND, "CTRL", **_control(m), PAGEADDR=page)))
    return result
