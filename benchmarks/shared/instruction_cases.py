"""Random instructions beyond a Cortex-M33, with random vectors, registers, flags, predicates and memory."""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, replace

import numpy as np

from atonc.machine.emu.board import v81m
from atonc.machine.emu.board.mve.unit import ENTRIES, VectorUnit
from atonc.machine.emu.board.system import CpuMemory
from atonc.machine.emu.board.v81m import Pattern
from tests.board.instructions import MEMORY_BYTES, REGISTERS, VPR

AIM = 0x4000_0000  # stands for the record's memory until its place is known


@dataclass(frozen=True)
class Case:
    name: str
    code: str  # as assembler text
    record: bytes

    @property
    def touches_memory(self) -> bool:
        return self.name.startswith(("VLD", "VST"))


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def word(self, pattern: Pattern) -> int:
        """Random fields; general registers that may stand in four bits are r0 to r12 and lr."""
        word = pattern.value
        for letter, places in pattern.fields:
            value = self.random.getrandbits(len(places))
            if len(places) == 4 and letter in "ntmdr":
                value = self.random.choice((*range(13), 14))
            if letter == "h":
                value = self.random.randrange(6)  # 6 and 7 would be r13 and r15
            for place, position in enumerate(reversed(places)):
                word |= (value >> place & 1) << position
        free = ~pattern.mask & 0xFFFF_FFFF
        for _, places in pattern.fields:
            for position in places:
                free &= ~(1 << position)
        return word | (self.random.getrandbits(32) & free if "VMLA" in pattern.name else 0)

    def number(self) -> int:
        r = self.random
        return r.choice((
            r.getrandbits(32), r.getrandbits(32), r.randint(0, 40), -r.randint(0, 40), 0x8000_0000, 0x7FFF_FFFF,
            0x80 * 0x0101_0101, 0x7F * 0x0101_0101, 0x8000_8000, 0, 0xFFFF_FFFF, self.float(),
        )) & 0xFFFF_FFFF  # fmt: skip

    def float(self) -> int:
        r = self.random
        value = r.choice((
            r.uniform(-4, 4), r.uniform(-3e9, 3e9), r.uniform(-300, 300), r.randint(-20, 20) + 0.5, 0.0, -0.0,
            float("inf"), float("-inf"), 1e-38 * r.uniform(-3, 3), r.uniform(-1, 1) * 2.0 ** r.randint(-126, 127),
        ))  # fmt: skip
        bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
        return r.choice((bits,) * 12 + (0x7FC0_0000, 0x7F80_0001, 0xFFC1_2345, 0x0000_1234, 0x8040_0000))

    def record(self, floats: bool) -> bytes:
        pick = self.float if floats and self.random.random() < 0.8 else self.number
        vectors = [pick() for _ in range(32)]
        registers = [pick() for _ in range(14)]
        vpr = self.random.choice((0, 0, self.random.getrandbits(16), self.random.getrandbits(16) | 0x88_0000))
        if self.random.random() < 0.2:
            mask = self.random.randint(1, 15)
            vpr = self.random.getrandbits(16) | (mask << 16 | mask << 20)
        flags = self.random.getrandbits(4) << 28
        memory = self.random.randbytes(MEMORY_BYTES)
        return struct.pack("<32I14I4I8x", *vectors, *registers, vpr, flags, 0, 0) + memory

    # ------------------------------------------------------------------------------------------------------- vectors

    def vector_cases(self, count: int) -> list[Case]:
        finder = VectorUnit(CpuMemory(), lambda address, size: None)
        cases = []
        for entry in ENTRIES:
            made = 0
            for _ in range(40 * count):
                word = self.word(entry.pattern)
                found = finder.find(word)
                if found is None or found[0] is not entry:
                    continue
                record = self.record(".F32" in entry.pattern.name or "F32" in entry.pattern.name)
                case = Case(entry.pattern.name, _inst(word), record)
                aimed = self.aimed(record, found[1].fields, case.name) if case.touches_memory else record
                cases.append(replace(case, record=aimed))
                made += 1
                if made == count:
                    break
        return cases

    def aimed(self, record: bytes, fields: dict[str, int], name: str) -> bytes:
        """Addresses and offsets of loads and stores stay in the record's memory, whose address stands for AIM later."""
        words = list(struct.unpack_from("<50I", record))
        middle = 96 + self.random.randrange(0, 32)
        if "by a vector" in name:
            base = 4 * fields["m"]
            offset = (fields["i"] << 2) * (1 if fields["a"] else -1)
            for k in range(4):
                words[base + k] = AIM + middle + 4 * self.random.randrange(8) - offset
        else:
            register = fields["n"]
            where = 32 + (register if register < 13 else 13)
            if "gathered" in name or "scattered" in name:
                words[where] = AIM + self.random.randrange(64)
                kind = (np.uint8, np.uint16, np.uint32)[fields["s"]]
                offsets = np.array([self.random.randrange(32) for _ in range(16 >> fields["s"])], kind)
                words[4 * fields["m"] : 4 * fields["m"] + 4] = offsets.view(np.uint32).tolist()
            elif "i" in fields:
                scale = fields["k"] if "k" in fields else fields["s"]
                offset = (fields["i"] << scale) * (1 if fields["a"] else -1)
                words[where] = AIM + middle - (offset if fields["p"] else 0)
            else:
                words[where] = AIM + middle
        return struct.pack("<50I", *(word & 0xFFFF_FFFF for word in words)) + record[200:]

    # -------------------------------------------------------------------------------------------------------- scalars

    def scalar_cases(self, count: int) -> list[Case]:
        cases = []
        for pattern in (*v81m.SHIFTS, *v81m.SELECTS, *v81m.DOUBLES):
            for _ in range(count if "double" not in pattern.name else 12 * count):
                word = self.word(pattern)
                found = v81m.TABLE.find(word)
                if found is None or found.name != pattern.name:
                    continue
                name = "CSEL and its kin" if pattern.name == "CSEL" else pattern.name
                record = self.doubles() if pattern in v81m.DOUBLES else self.record(False)
                cases.append(Case(name, _inst(word), record))
                if pattern in v81m.SHIFTS and self.random.random() < 0.3:
                    condition = self.random.choice(("eq", "ne", "cs", "mi", "ge", "lt"))
                    cases.append(Case(f"{name} in an IT block", f"it {condition}\n {_inst(word)}", record))
                if pattern in v81m.DOUBLES and self.random.random() < 0.1 and word >> 28 == 0xE:
                    cases.append(Case(f"{name} in an IT block", f"itt ne\n {_inst(word)}\n addne r0,r0,#1", record))
        return cases

    def doubles(self) -> bytes:
        r = self.random
        values = [r.choice((
            r.uniform(-4, 4), r.uniform(-1e10, 1e10), 0.0, -0.0, float("inf"), 1e-310, r.randint(-9, 9) + 0.5, 1e300,
        )) for _ in range(16)]  # fmt: skip
        packed = b"".join(struct.pack("<d", value) for value in values)
        if r.random() < 0.4:
            packed = struct.pack("<32I", *(self.float() for _ in range(32)))
        record = self.record(False)
        return packed + record[128:184] + struct.pack("<I", 0) + record[188:]

    def loop_cases(self, count: int) -> list[Case]:
        cases = []
        for _ in range(count):
            rounds, register = self.random.choice((0, 1, 2, 3, 7, 100)), self.random.choice((1, 5, 12))
            record = bytearray(self.record(False))
            struct.pack_into("<I", record, REGISTERS + 4 * register, rounds)
            struct.pack_into("<I", record, VPR, 0)
            body = "add r0,r0,#3\n eor r2,r2,r0,ror #7"
            start = self.random.choice((
                f"wls lr,r{register},9f\n8: {body}\n le lr,8b\n9:",
                f"dls lr,r{register}\n8: {body}\n le lr,8b",
                f"wls lr,r{register},9f\n8: {body}\n vadd.i32 q1,q1,q2\n vqadd.s16 q3,q1,q0\n le lr,8b\n9:",
                f"mov r3,#4\n8: {body}\n sub r3,r3,#1\n cbz r3,9f\n le 8b\n9:",
                f"dls lr,r{register}\n8: {body}\n lsll r4,r7,#3\n csinc r6,r0,r2,cs\n le lr,8b",
            ))  # fmt: skip
            cases.append(Case("DLS, WLS, LE", start, bytes(record)))
        return cases


def _inst(word: int) -> str:
    return f".inst.w {word:#010x}"
