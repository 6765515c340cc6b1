"""What a processor's kernels wait for memory: ST's kernels counted, and what boards measured of them beyond that.

The library is the archive of ST's CPU kernels that was built for a Cortex-M55 with GCC, such as
Middlewares/ST/AI/Lib/NetworkRuntime1010_CM55_GCC.a of AlexGraefe/STM32N6Example. Its loops are read as instructions and
weighted like those of our own kernels (`cpu_kernels`); what a measured element takes beyond that is fitted
to the bytes that it reads and writes. Two weightings bound the answer, the constants of stm32n6.toml lie between them.
Our kernels (results/cpu_kernels.md) stand beside ST's figures.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from atonc.machine.emu.cpu import cycles as measured
from atonc.machine.hw.elf import read_elf
from atonc.machine.hw.machine import stm32n6
from benchmarks.cpu_kernels import weight
from benchmarks.shared.declare import WRITE, Report, argument
from benchmarks.shared.pages import result

GROUP = "time"
ARGUMENTS = (argument("library", type=Path), WRITE)

COUNTED = result("cpu_kernels")
AS_OURS, LIGHTER = "as ours", "lighter"
LINE_BYTES = 32  # of the processor's cache


@dataclass(frozen=True)
class Loop:
    """Part of a function: from the first to the last instruction, how many elements a pass handles."""

    first: int
    last: int
    elements: float


@dataclass(frozen=True)
class Kernel:
    title: str
    function: str
    loops: tuple[Loop, ...]
    read_bytes: float  # an element
    written_bytes: float
    measured: float


DEQUANTISE = Kernel("dequantise", "lite_convert_is8of32", (Loop(0x20, 0x5C, 4),), 1, 4, measured.DEQUANTIZE)
QUANTISE = Kernel("quantise", "lite_convert_if32os8", (Loop(0x60, 0x112, 16),), 4, 1, measured.QUANTIZE)
ROW = 16  # elements of a softmax: a box of a detector
SOFTMAX = Kernel(
    f"softmax, rows of {ROW}",
    "_lite_kernel_nl_softmax_is8os8",
    # largest code, sum of the exponentials, results, and once a row what lies between them
    (Loop(0x4D0, 0x4F4, 8), Loop(0x51C, 0x572, 4), Loop(0x782, 0x7EE, 4), Loop(0x4A4, 0x4CE, ROW),
     Loop(0x4F8, 0x51A, ROW), Loop(0x576, 0x780, ROW), Loop(0x7F2, 0x802, ROW)),
    1, 1, measured.SOFTMAX,
)  # fmt: skip


def members(archive: bytes) -> Iterator[bytes]:
    """Files of an `ar` archive."""
    at = 8
    while at + 60 <= len(archive):
        size = int(archive[at + 48 : at + 58])
        yield archive[at + 60 : at + 60 + size]
        at += 60 + size + size % 2


def code_of(archive: bytes, function: str) -> bytes:
    for member in members(archive):
        if function.encode() in member and member[:4] == b"\x7fELF":
            elf = read_elf(member, function)
            section = elf.section(f".text.{function}")
            if section is not None:
                return elf.contents(section)
    raise SystemExit(f"the library has no {function}")


def instructions(code: bytes, loop: Loop) -> Iterator[tuple[int, int]]:
    at = loop.first
    while at <= loop.last:
        first, second = (int.from_bytes(code[at + k : at + k + 2], "little") for k in (0, 2))
        yield first, second
        at += 4 if first >= 0xE800 else 2


def cycles_of(first: int, second: int, weighting: str, last: bool) -> int:
    if first >> 8 & 0xFE == 0xEC and second >> 8 & 0xF == 0xB and first >> 4 & 0xA == 8:
        return (second & 0xFF) // 2  # several double words of the stack, one after the other
    if weighting == LIGHTER:
        predicate = (first == 0xFE71 and second == 0x0F4D) or (first >> 6 == 0xF000 >> 6 and second == 0xE801)
        leaves = first >> 12 == 0xD and not last
        if predicate or leaves:  # VPST, VCTP, and a branch that goes on
            return 1
    return weight(first, second)


def counted(archive: bytes, kernel: Kernel, weighting: str) -> tuple[float, float]:
    """Instructions and cycles of an element."""
    code = code_of(archive, kernel.function)
    number = cycles = 0.0
    for loop in kernel.loops:
        found = list(instructions(code, loop))
        number += len(found) / loop.elements
        last = len(found) - 1
        cycles += sum(cycles_of(*words, weighting, k == last) for k, words in enumerate(found)) / loop.elements
    return number, cycles


def fitted(archive: bytes, weighting: str) -> tuple[float, float]:
    """Cycles that a byte read and a byte written are waited for, neither below nothing."""
    kernels = (DEQUANTISE, QUANTISE)
    left = np.array([[kernel.read_bytes, kernel.written_bytes] for kernel in kernels])
    right = np.array([kernel.measured - counted(archive, kernel, weighting)[1] for kernel in kernels])
    read, written = np.linalg.solve(left, right)
    if written < 0:
        read, written = float(left[:, 0] @ right / (left[:, 0] @ left[:, 0])), 0.0
    return float(read), float(written)


# ------------------------------------------------------------------------------------------------------------ report

# bytes read and written by an element, what ST's kernel was measured at, and why ours differs
WHY = {
    "quantise 4096": (
        4, 1, measured.QUANTIZE,
        "fixed point cut by the conversion, 16 bytes packed by shifts; looks for results near a tie and computes those "
        "again exactly",
    ),
    "dequantise 4096": (
        1, 4, measured.DEQUANTIZE,
        "codes become half precision numbers by one addition of eight, product and sum are one; ST makes a predicate "
        "for every four elements",
    ),
    "softmax 8 4096 in 256": (
        1, 1, measured.SOFTMAX,
        "floats: one gather from a table and a product an element, one division a row; ST rounds 31-bit integers "
        "in steps, with a predicate for every four",
    ),
    "softmax 8 4096 in 16": (1, 1, measured.SOFTMAX, "the same, with a second gather: rows do not stay in registers"),
    "softmax 8 4096 in 2048": (1, 1, measured.SOFTMAX, "rows of two: a table of all pairs, most of it its making"),
    "lookup 1024": (1, 1, None, ""),
    "copy 1024": (1, 1, None, ""),
}  # fmt: skip


def ours() -> Iterator[tuple[str, float, float]]:
    """Name, instructions and cycles an element, from the page of counts."""
    for line in COUNTED.read_text().splitlines():
        found = re.match(r"\| (.+?) \| \d+ \| ([\d.]+) \| ([\d.]+) \|", line)
        if found and found[1] in WHY:
            yield found[1], float(found[2]), float(found[3])


PAGE = """# What kernels of the processor wait for memory

On ST's `{library}`; cycles of a Cortex-M55 at 800 MHz with its bus at
400 MHz, an element. Measured figures are of boards, from ST's own tables (`atonc/machine/emu/cpu/cycles.py`, +-10 %);
counts are instructions with weights. Nothing of ours has run on a board.

## ST's kernels: counted, and what is left of the measured time

Weights *as ours*: those of [cpu_kernels](cpu_kernels.md). *Lighter*: one cycle for VPST, VCTP and a branch that is not
taken. The truth of a core that hides some of these lies between them.

| kernel | bytes read | written | instructions | cycles, as ours | lighter | measured | left |
|---|---:|---:|---:|---:|---:|---:|---|
{vendor}

Two equations for two waits, from quantise and dequantise:

| weights | cycles a byte read | a line of 32 bytes | cycles a byte written |
|---|---:|---:|---:|
{fits}

Taken: `cpu_read_byte` and `cpu_write_byte` of `atonc/machine/hw/stm32n6.toml`. Every byte counts once: buffers that the
NPU wrote are dropped from the processor's cache before a CPU step, so each line is fetched, and what a window or a
second pass reads again is then in the cache. Stores go through a buffer and are hardly waited for. Softmax moves two
bytes an element, so its time is no matter of memory: what is left there are latencies that a count does not see
(predicates moved to registers and back, gathered loads), and our own kernel, with gathers and a division, may be low as
well.

## Our kernels with their waits

| kernel | instructions | cycles counted | bytes read | written | waits | total | ST, measured | where ours differs |
|---|---:|---:|---:|---:|---:|---:|---:|---|
{ours}
"""


def vendor_rows(archive: bytes) -> Iterator[str]:
    for kernel in (DEQUANTISE, QUANTISE, SOFTMAX):
        number, heavy = counted(archive, kernel, AS_OURS)
        light = counted(archive, kernel, LIGHTER)[1]
        yield (
            f"| {kernel.title} | {kernel.read_bytes:g} | {kernel.written_bytes:g} | {number:.2f} | {heavy:.2f} "
            f"| {light:.2f} | {kernel.measured:g} | {kernel.measured - heavy:.2f} to {kernel.measured - light:.2f} |"
        )


def fit_rows(archive: bytes) -> Iterator[str]:
    timing = stm32n6().timing
    found = {weighting: fitted(archive, weighting) for weighting in (AS_OURS, LIGHTER)}
    for name, (read, written) in {**found, "taken": (timing.cpu_read_byte, timing.cpu_write_byte)}.items():
        yield f"| {name} | {read:.3f} | {read * LINE_BYTES:.1f} | {written:.3f} |"


def our_rows() -> Iterator[str]:
    timing = stm32n6().timing
    for name, number, cycles in ours():
        taken, given, board, why = WHY[name]
        waits = taken * timing.cpu_read_byte + given * timing.cpu_write_byte
        yield (
            f"| {name} | {number:.2f} | {cycles:.2f} | {taken} | {given} | {waits:.2f} | {cycles + waits:.2f} "
            f"| {board if board is not None else '-'} | {why or '-'} |"
        )


def report(archive: bytes, library: str) -> str:
    rows = {"vendor": vendor_rows(archive), "fits": fit_rows(archive), "ours": our_rows()}
    return PAGE.format(library=library, **{name: "\n".join(lines) for name, lines in rows.items()})


def run(arguments: argparse.Namespace) -> Report:
    return Report(report(arguments.library.read_bytes(), arguments.library.name))
