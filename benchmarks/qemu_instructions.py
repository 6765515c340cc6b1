# ruff: noqa: E501
"""The instructions that the virtual board adds to unicorn's Cortex-M33, against QEMU's Cortex-M55.

qemu_instructions.py [--cases N] [--seed N] [--work DIR] [--keep FILE.npz]: one program with random instructions,
operands, predicates and memory runs on both; every register and every byte of memory must come out the same. Needs
Debian's qemu-system-arm and gcc-arm-none-eabi. With --keep, a few cases of every instruction and QEMU's answers are
written for the tests.
"""

from __future__ import annotations

import argparse
import random
import struct
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from atonc.emu.board.blocks import AREA_BYTES, area_of
from atonc.emu.board.clock import Clock
from atonc.emu.board.core import Core
from atonc.emu.board.interrupts import Nvic, SystemControl
from atonc.emu.board.mve.unit import ENTRIES, VectorUnit
from atonc.emu.board.v81m import scalar
from atonc.emu.board.v81m.patterns import Pattern

RESULTS = Path(__file__).parent / "results" / "instructions.md"
CODE, STACK, RECORDS = 0x0000_0000, 0x2000_8000, 0x2100_0000
# one record: 8 vectors, r0-r12 and lr, VPR, flags, address of the code, did it fault, memory
VECTORS, REGISTERS, VPR, FLAGS, START, FAULT, MEMORY, RECORD = 0, 128, 184, 188, 192, 196, 208, 464
MEMORY_BYTES = RECORD - MEMORY
MACHINE = ["qemu-system-arm", "-M", "mps3-an547", "-nographic", "-monitor", "none", "-serial", "none", "-semihosting"]
LIMIT = 3000  # records in one program

FRAME = """
.syntax unified
.arch armv8.1-m.main
.arch_extension mve.fp
.arch_extension fp.dp
.thumb
.section .vectors,"a"
.word {stack}, begin+1, trouble+1, trouble+1, trouble+1, trouble+1, trouble+1
.rept 9
.word trouble+1
.endr
.text
.thumb_func
begin:
 ldr r0,=0xE000ED88
 ldr r1,=0x00F00000
 str r1,[r0]
 dsb
 isb
 ldr r1,={records}
 ldr r0,=current
 str r1,[r0]
next:
 ldr r0,=current
 ldr r12,[r0]
 ldr r1,={end}
 cmp r12,r1
 beq finish
 ldr sp,={stack}
 mov r0,r12
 vldmia r0!,{{d0-d15}}
 ldr r1,[r12,#{start}]
 ldr r2,[r12,#{registers}+48]
 push {{r1}}
 push {{r2}}
 ldr r1,[r12,#{flags}]
 vmsr fpscr_nzcvqc,r1
 msr apsr_nzcvq,r1
 ldr r1,[r12,#{vpr}]
 ldr lr,[r12,#{registers}+52]
 vmsr vpr,r1
 add r12,r12,#{registers}
 ldmia r12,{{r0-r11}}
 pop {{r12,pc}}
save:
 push {{r12}}
 push {{r0}}
 vmrs r0,vpr
 push {{r0}}
 mov r0,#0
 vmsr vpr,r0
 ldr r12,=current
 ldr r12,[r12]
 pop {{r0}}
 str r0,[r12,#{vpr}]
 pop {{r0}}
 add r12,r12,#{registers}
 stmia r12,{{r0-r11}}
 str lr,[r12,#52]
 pop {{r0}}
 str r0,[r12,#48]
 vmrs r0,fpscr_nzcvqc
 mrs r1,apsr
 and r1,r1,#0x08000000
 orr r0,r0,r1,lsr #1
 str r0,[r12,#{flags}-{registers}]
 sub r12,r12,#{registers}
 vstmia r12,{{d0-d15}}
 add r12,r12,#{record}
 ldr r0,=current
 str r12,[r0]
 b next
finish:
 mov r0,#1
 ldr r1,=open_block
 bkpt 0xab
 ldr r1,=write_block
 str r0,[r1]
 mov r0,#5
 bkpt 0xab
 mov r0,#0x18
 ldr r1,=0x20026
 bkpt 0xab
 b .
.thumb_func
trouble:
 ldr r0,=current
 ldr r1,[r0]
 mov r2,#1
 str r2,[r1,#{fault}]
 add r1,r1,#{record}
 str r1,[r0]
 ldr r1,=next
 str r1,[sp,#24]
 ldr r0,=0x01000000
 str r0,[sp,#28]
 bx lr
.ltorg
.align 2
open_block: .word name, 5, {name_length}
name: .asciz "{name}"
.align 2
.section .cases,"ax"
{cases}
.data
current: .word 0
write_block: .word 0, {records}, {bytes}
.section .records,"aw"
.incbin "{incbin}"
"""
SCRIPT = """SECTIONS {{ . = 0; .vectors : {{ *(.vectors) }} .text : {{ *(.text) }} .cases : {{ *(.cases) }}
 . = 0x20000000; .data : {{ *(.data) }} . = {records:#x}; .records : {{ *(.records) }} }}"""


@dataclass(frozen=True)
class Case:
    name: str
    code: str  # as assembler text
    record: bytes


# -------------------------------------------------------------------------------------------------------------- making


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
        unit = VectorUnit.__new__(VectorUnit)
        finder = _finder()
        del unit
        cases = []
        for entry in ENTRIES:
            made = 0
            for _ in range(40 * count):
                word = self.word(entry.pattern)
                found = finder.find(word)
                if found is None or found[0] is not entry:
                    continue
                record = self.record(".F32" in entry.pattern.name or "F32" in entry.pattern.name)
                if entry.pattern.name.startswith(("VLD", "VST")):
                    record = self.aimed(record, found[1].fields, entry.pattern.name)
                cases.append(Case(entry.pattern.name, _inst(word), record))
                made += 1
                if made == count:
                    break
        return cases

    def aimed(self, record: bytes, fields: dict[str, int], name: str) -> bytes:
        """Addresses and offsets of loads and stores stay in the record's memory. `RECORD` is added when it is placed."""
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
        for pattern in (*scalar.SHIFTS, *scalar.SELECTS, *scalar.DOUBLES):
            for _ in range(count if "double" not in pattern.name else 12 * count):
                word = self.word(pattern)
                if scalar.TABLE.find(word) is None or scalar.TABLE.find(word).name != pattern.name:  # type: ignore[union-attr]
                    continue
                name = "CSEL and its kin" if pattern.name == "CSEL" else pattern.name
                record = self.doubles() if pattern in scalar.DOUBLES else self.record(False)
                cases.append(Case(name, _inst(word), record))
                if pattern in scalar.SHIFTS and self.random.random() < 0.3:
                    condition = self.random.choice(("eq", "ne", "cs", "mi", "ge", "lt"))
                    cases.append(Case(f"{name} in an IT block", f"it {condition}\n {_inst(word)}", record))
                if pattern in scalar.DOUBLES and self.random.random() < 0.1 and word >> 28 == 0xE:
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


AIM = 0x4000_0000  # stands for the record's memory until its place is known


def _finder() -> VectorUnit:
    from atonc.emu.board.cpu_memory import CpuMemory

    return VectorUnit(CpuMemory(), lambda address, size: None)


def _inst(word: int) -> str:
    return f".inst.w {word:#010x}"


# ------------------------------------------------------------------------------------------------------------- running


def build(cases: list[Case], folder: Path) -> tuple[Path, bytes]:
    text, records = [], bytearray()
    for number, case in enumerate(cases):
        text.append(f".align 2\ncase{number}: {case.code}\n b.w save")
        record = bytearray(case.record)
        home = RECORDS + number * RECORD + MEMORY
        for position in range(0, REGISTERS + 56, 4):
            word = struct.unpack_from("<I", record, position)[0]
            if AIM - 0x400 <= word < AIM + 0x400 and case.name.startswith(("VLD", "VST")):
                struct.pack_into("<I", record, position, word - AIM + home)
        records += record
    (folder / "in.bin").write_bytes(bytes(records))
    output = folder / "out.bin"
    output.unlink(missing_ok=True)
    source = FRAME.format(
        stack=hex(STACK), records=hex(RECORDS), end=hex(RECORDS + len(records)), start=START, registers=REGISTERS,
        flags=FLAGS, vpr=VPR, fault=FAULT, record=RECORD, name=output, name_length=len(str(output)),
        bytes=len(records), incbin=folder / "in.bin", cases="\n".join(text),
    )  # fmt: skip
    (folder / "test.s").write_text(source)
    (folder / "test.ld").write_text(SCRIPT.format(records=RECORDS))
    flags = ["-march=armv8.1-m.main+mve.fp+fp.dp", "-mfloat-abi=hard"]
    elf = folder / "test.elf"
    subprocess.run(["arm-none-eabi-gcc", *flags, "-c", folder / "test.s", "-o", folder / "test.o"], check=True)
    subprocess.run(["arm-none-eabi-ld", "-T", folder / "test.ld", folder / "test.o", "-o", elf], check=True)
    symbols = subprocess.run(["arm-none-eabi-nm", elf], check=True, capture_output=True, text=True).stdout
    places = {line.split()[2]: int(line.split()[0], 16) for line in symbols.splitlines() if len(line.split()) == 3}
    for number in range(len(cases)):
        struct.pack_into("<I", records, number * RECORD + START, places[f"case{number}"] | 1)
    (folder / "in.bin").write_bytes(bytes(records))
    subprocess.run(["arm-none-eabi-gcc", *flags, "-c", folder / "test.s", "-o", folder / "test.o"], check=True)
    subprocess.run(["arm-none-eabi-ld", "-T", folder / "test.ld", folder / "test.o", "-o", elf], check=True)
    return elf, bytes(records)


def on_qemu(elf: Path, folder: Path) -> bytes:
    subprocess.run([*MACHINE, "-kernel", elf], check=True, timeout=300, capture_output=True)
    return (folder / "out.bin").read_bytes()


def on_board(elf: Path, records: bytes) -> bytes:
    """The processor of the virtual board with QEMU's memories around it."""
    from atonc.emu.board.elf import read_firmware

    clock, nvic = Clock(), Nvic()
    system = SystemControl(nvic, clock)
    core = Core(clock, nvic, system)
    memories = {base: np.zeros(size, np.uint8) for base, size in
                ((CODE, 0x8_0000), (0x2000_0000, 0x1_0000), (RECORDS, 0x40_0000))}  # fmt: skip
    for base in list(memories):
        memories[area_of(base)] = np.zeros(AREA_BYTES, np.uint8)
        core.blocks.own_areas.add(area_of(base))
    for base, data in memories.items():
        core.uc.mem_map_ptr(base, data.size, 7, data.ctypes.data)
        core.memory.add(base, data)
    core.uc.mmio_map(
        0xE000_0000, 0x10_0000,
        lambda _, o, s, __: system.read(o, s), None,
        lambda _, o, s, v, __: system.write(o, s, v), None,
    )  # fmt: skip
    for segment in read_firmware(elf).segments:
        core.memory.view(segment.address, len(segment.data))[:] = np.frombuffer(segment.data, np.uint8)
    core.memory.view(RECORDS, len(records))[:] = np.frombuffer(records, np.uint8)
    stack, reset = core.memory.view(0, 8).view("<u4").tolist()
    core.start(reset, stack)
    halt = core.run(1 << 40, 1 << 60)
    if halt.reason != "bkpt":
        raise SystemExit(f"stopped: {halt}")
    return core.memory.view(RECORDS, len(records)).tobytes()


def without(records: bytes, refused: list[int], safe: int) -> bytes:
    """Cases that QEMU refuses run another case's code, and nobody looks."""
    changed = bytearray(records)
    for number in refused:
        struct.pack_into("<I", changed, number * RECORD + START, safe)
        struct.pack_into("<I", changed, number * RECORD + VPR, 0)
    return bytes(changed)


def compare(cases: list[Case], folder: Path) -> tuple[Counter[str], Counter[str], list[str], list[bytes]]:
    nothing = Case("nothing", "nop", Maker(0).record(False))
    cases = [nothing, *cases]
    elf, records = build(cases, folder)
    expected = on_qemu(elf, folder)
    refused = [k for k in range(len(cases)) if expected[k * RECORD + FAULT]]
    safe = struct.unpack_from("<I", records, START)[0]
    found = on_board(elf, without(records, refused, safe))
    tried, wrong, lines = Counter[str](), Counter[str](), []
    for number, case in enumerate(cases):
        if number in refused:
            tried[f"{case.name} (refused)"] += 1
            continue
        tried[case.name] += 1
        ours, theirs = (comparable(side[number * RECORD : (number + 1) * RECORD]) for side in (found, expected))
        if ours != theirs:
            wrong[case.name] += 1
            lines.append(difference(case, records[number * RECORD : (number + 1) * RECORD], ours, theirs))
    return tried, wrong, lines, [expected[k * RECORD : (k + 1) * RECORD] for k in range(len(cases))]


def comparable(record: bytes) -> bytes:
    """Without the bits of VPR that mean nothing."""
    changed = bytearray(record)
    changed[VPR + 3] = 0
    return bytes(changed)


def difference(case: Case, before: bytes, ours: bytes, theirs: bytes) -> str:
    parts = []
    for k in range(8):
        a, b = ours[16 * k : 16 * k + 16], theirs[16 * k : 16 * k + 16]
        if a != b:
            parts.append(f"q{k} {a[::-1].hex()} not {b[::-1].hex()}")
    for k in range(14):
        a, b = (struct.unpack_from("<I", side, REGISTERS + 4 * k)[0] for side in (ours, theirs))
        if a != b:
            parts.append(f"r{k if k < 13 else 14} {a:08x} not {b:08x}")
    for name, offset in (("vpr", VPR), ("flags", FLAGS)):
        a, b = (struct.unpack_from("<I", side, offset)[0] for side in (ours, theirs))
        if a != b:
            parts.append(f"{name} {a:08x} not {b:08x}")
    if ours[MEMORY:] != theirs[MEMORY:]:
        parts.append("memory differs")
    q = " ".join(before[16 * k : 16 * k + 16][::-1].hex() for k in range(8))
    return f"{case.name}: {case.code}: vpr {struct.unpack_from('<I', before, VPR)[0]:06x}: {'; '.join(parts)} | {q}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=24, help="of every instruction (default 24)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, default=Path("/tmp/qemu_instructions"))
    parser.add_argument("--only", default="", help="instructions whose name has this in it")
    parser.add_argument("--keep", type=Path, metavar="FILE.npz")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    maker, began = Maker(options.seed), time.time()
    cases = [*maker.vector_cases(options.cases), *maker.scalar_cases(options.cases), *maker.loop_cases(8 * options.cases)]
    cases = [case for case in cases if options.only in case.name]
    tried, wrong, kept = Counter[str](), Counter[str](), []
    for start in range(0, len(cases), LIMIT):
        part = cases[start : start + LIMIT]
        some_tried, some_wrong, lines, answers = compare(part, options.work)
        tried += some_tried
        wrong += some_wrong
        kept += list(zip(part, answers[1:], strict=True))
        print("\n".join(lines[:60]))
    del tried["nothing"]
    print(f"{sum(tried.values())} cases of {len(tried)} instructions in {time.time() - began:.0f} s, {sum(wrong.values())} differ: {dict(wrong)}")
    if not options.only:
        write_table(tried, wrong, options)
    sys.exit(1 if wrong else 0)


def write_table(tried: Counter[str], wrong: Counter[str], options: argparse.Namespace) -> None:
    lines = [f"{name} | {tried[name]} | {tried[f'{name} (refused)']} | {wrong[name]}"
             for name in sorted(tried) if not name.endswith("(refused)")]  # fmt: skip
    version = subprocess.run([MACHINE[0], "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    RESULTS.write_text(
        "# Instructions beyond a Cortex-M33, against QEMU's Cortex-M55\n\n"
        f"2026-11-15, {version}, `benchmarks/qemu_instructions.py --cases {options.cases} --seed {options.seed}`. The same program on both: "
        "random words of every encoding that the board executes, random vectors, registers, flags, predicates (blocks included) and memory.\n"
        "Compared: vectors, registers, VPR, flags with both saturation flags, 256 bytes of memory. Refused: words that QEMU takes as undefined "
        "(the architecture calls them unpredictable).\n\n"
        f"{sum(tried.values())} cases, {sum(wrong.values())} differ.\n\n"
        "| instruction | cases | refused | differ |\n|---|---|---|---|\n" + "".join(f"| {line} |\n" for line in lines)
    )


if __name__ == "__main__":
    main()
