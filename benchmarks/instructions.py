"""Do the instructions that the virtual board adds to unicorn's Cortex-M33 give what QEMU's Cortex-M55 gives?

One program with random instructions, operands, predicates and memory runs on both; every register and every byte of
memory must come out the same. Needs Debian's qemu-system-arm and gcc-arm-none-eabi. With --for-tests, a program
with a few cases of every instruction is written for the tests, with QEMU's answers (tests/board/instructions.npz).
"""

from __future__ import annotations

import argparse
import struct
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from atonc.machine.emu.board.board import read_firmware
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import ONLY, SEED, WORK, WRITE, Report, argument
from benchmarks.shared.instruction_cases import AIM, Case, Maker
from tests.board import instructions
from tests.board.instructions import (
    FAULT,
    FLAGS,
    MEMORY,
    MEMORY_BYTES,
    RECORD,
    RECORDS,
    REGISTERS,
    STACK,
    START,
    VPR,
    Program,
)  # fmt: skip

GROUP = "board"
ARGUMENTS = (
    argument("--cases", type=int, default=24, help="of every instruction (default 24)"),
    SEED,
    WORK,
    ONLY,
    argument("--for-tests", type=Path, metavar="FILE.npz", help="write cases for the tests"),
    WRITE,
)

MACHINE = ["qemu-system-arm", "-M", "mps3-an547", "-nographic", "-monitor", "none", "-serial", "none", "-semihosting"]
FLAGS_OF_GCC = ["-march=armv8.1-m.main+mve.fp+fp.dp", "-mfloat-abi=hard"]
LIMIT = 3000  # records in one program
KEPT = 4  # cases of an instruction for the tests

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
class Compared:
    tried: Counter[str]
    refused: Counter[str]  # by QEMU, which takes them as undefined
    wrong: Counter[str]
    lines: list[str]


def build(cases: list[Case], folder: Path) -> tuple[Path, Program]:
    records = bytearray(b"".join(_placed(case, number) for number, case in enumerate(cases)))
    code = "\n".join(f".align 2\ncase{number}: {case.code}\n b.w save" for number, case in enumerate(cases))
    output = folder / "out.bin"
    output.unlink(missing_ok=True)
    source = FRAME.format(
        stack=hex(STACK), records=hex(RECORDS), end=hex(RECORDS + len(records)), start=START, registers=REGISTERS,
        flags=FLAGS, vpr=VPR, fault=FAULT, record=RECORD, name=output, name_length=len(str(output)),
        bytes=len(records), incbin=folder / "in.bin", cases=code,
    )  # fmt: skip
    (folder / "test.s").write_text(source)
    (folder / "test.ld").write_text(SCRIPT.format(records=RECORDS))
    elf = _link(folder, records)
    symbols = subprocess.run(["arm-none-eabi-nm", elf], check=True, capture_output=True, text=True).stdout
    places = {line.split()[2]: int(line.split()[0], 16) for line in symbols.splitlines() if len(line.split()) == 3}
    for number in range(len(cases)):
        struct.pack_into("<I", records, number * RECORD + START, places[f"case{number}"] | 1)
    segments = tuple((s.address, s.data) for s in read_firmware(_link(folder, records)).segments)
    return elf, Program(tuple(segment for segment in segments if segment[0] != RECORDS), bytes(records))


def _placed(case: Case, number: int) -> bytes:
    """The record with addresses in its own memory."""
    record, home = bytearray(case.record), RECORDS + number * RECORD + MEMORY
    for position in range(0, REGISTERS + 56, 4):
        word = struct.unpack_from("<I", record, position)[0]
        if AIM - 0x400 <= word < AIM + 0x400 and case.touches_memory:
            struct.pack_into("<I", record, position, word - AIM + home)
    return bytes(record)


def _link(folder: Path, records: bytearray) -> Path:
    (folder / "in.bin").write_bytes(records)
    elf, source, compiled = folder / "test.elf", folder / "test.s", folder / "test.o"
    subprocess.run(["arm-none-eabi-gcc", *FLAGS_OF_GCC, "-c", source, "-o", compiled], check=True)
    subprocess.run(["arm-none-eabi-ld", "-T", folder / "test.ld", compiled, "-o", elf], check=True)
    return elf


def on_qemu(elf: Path, folder: Path) -> bytes:
    subprocess.run([*MACHINE, "-kernel", elf], check=True, timeout=300, capture_output=True)
    return (folder / "out.bin").read_bytes()


def without(records: bytes, refused: list[int], safe: int) -> bytes:
    """Cases that QEMU refuses run another case's code, and nobody looks."""
    changed = bytearray(records)
    for number in refused:
        struct.pack_into("<I", changed, number * RECORD + START, safe)
        struct.pack_into("<I", changed, number * RECORD + VPR, 0)
    return bytes(changed)


def compare(cases: list[Case], folder: Path, keep: Path | None) -> Compared:
    cases = [Case("nothing", "nop", Maker(0).record(False)), *cases]
    elf, program = build(cases, folder)
    expected = on_qemu(elf, folder)
    refused = [k for k in range(len(cases)) if expected[k * RECORD + FAULT]]
    safe = struct.unpack_from("<I", program.records, START)[0]
    program = replace(program, records=without(program.records, refused, safe))
    found = instructions.on_board(program)
    result = Compared(Counter(), Counter(), Counter(), [])
    for number, case in enumerate(cases):
        if number in refused:
            result.refused[case.name] += 1
            continue
        result.tried[case.name] += 1
        part = slice(number * RECORD, (number + 1) * RECORD)
        differs = instructions.difference(found[part], expected[part])
        if differs:
            result.wrong[case.name] += 1
            vpr = struct.unpack_from("<I", program.records, number * RECORD + VPR)[0]
            result.lines.append(f"{case.name}: {case.code}: vpr {vpr:06x}: {differs}")
    if keep is not None:
        names = ["" if number in refused else case.name for number, case in enumerate(cases)]
        instructions.save(keep, program, _refused_unchanged(program, expected, refused), names)
    return result


def _refused_unchanged(program: Program, answers: bytes, refused: list[int]) -> bytes:
    changed = bytearray(answers)
    for number in refused:
        part = slice(number * RECORD, (number + 1) * RECORD)
        changed[part] = program.records[part]
    return bytes(changed)


def make_cases(arguments: argparse.Namespace) -> list[Case]:
    maker, count = Maker(arguments.seed), arguments.cases
    cases = [*maker.vector_cases(count), *maker.scalar_cases(count), *maker.loop_cases(8 * count)]
    return [case for case in cases if asked_for(arguments.only, case.name)]


def accepted(cases: list[Case], folder: Path, most: int) -> list[Case]:
    """For the tests: cases that QEMU does not refuse, the first few of every instruction, and no random bytes in memory
    that no instruction touches: they would be most of the file."""
    elf, _ = build(cases, folder)
    answers, taken, chosen = on_qemu(elf, folder), Counter[str](), []
    for number, case in enumerate(cases):
        limit = 6 * most if "LE" in case.name else most  # loops come in many forms under one name
        if not answers[number * RECORD + FAULT] and taken[case.name] < limit:
            taken[case.name] += 1
            record = case.record if case.touches_memory else case.record[:MEMORY] + bytes(MEMORY_BYTES)
            chosen.append(replace(case, record=record))
    return chosen


def run(arguments: argparse.Namespace) -> Report:
    began, cases = time.time(), make_cases(arguments)
    tried, refused, wrong = Counter[str](), Counter[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.work or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.for_tests:
            cases = accepted(cases[:LIMIT], folder, KEPT)
        for start in range(0, len(cases), LIMIT):
            part = compare(cases[start : start + LIMIT], folder, arguments.for_tests)
            tried, refused, wrong = tried + part.tried, refused + part.refused, wrong + part.wrong
            print("\n".join(part.lines[:60]))
    del tried["nothing"]
    seconds, total = time.time() - began, tried.total() + refused.total()
    print(f"{total} cases of {len(tried)} instructions in {seconds:.0f} s, {wrong.total()} differ: {dict(wrong)}")
    return Report(page(tried, refused, wrong), failed=bool(wrong))


def page(tried: Counter[str], refused: Counter[str], wrong: Counter[str]) -> str:
    rows = [f"| {name} | {tried[name]} | {refused[name]} | {wrong[name]} |" for name in sorted(tried)]
    version = subprocess.run([MACHINE[0], "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    lines = [
        "# Instructions beyond a Cortex-M33, against QEMU's Cortex-M55",
        "",
        f"{version}. The same program on both: random words of every encoding that the board executes, random",
        "vectors, registers, flags, predicates (blocks included) and memory. Compared: vectors, registers, VPR, flags",
        "with both saturation flags, 256 bytes of memory. Refused: words that QEMU takes as undefined (for the",
        "architecture unpredictable).",
        "",
        f"{tried.total() + refused.total()} cases, {wrong.total()} differ.",
        "",
        "| instruction | cases | refused | differ |",
        "|---|---:|---:|---:|",
        *rows,
    ]
    return "\n".join(lines) + "\n"
