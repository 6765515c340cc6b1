"""Cycles of the CPU kernels, with vectors and without: instructions counted on QEMU's Cortex-M55, weighted.

No board has measured them: the weights below are those of a core that works on half a vector at a time, without waits
for memory and without two instructions at once. Needs Debian's qemu-system-arm and gcc-arm-none-eabi. The
constants of atonc/machine/emu/cpu/atonc_costs.py are rounded up from the page.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from atonc.compiler.emit.c.kernels import SOURCE, kernel_files
from atonc.machine.emu.board.board import read_firmware
from benchmarks.shared.declare import WORK, WRITE, Report

GROUP = "time"
ARGUMENTS = (WORK, WRITE)

HERE = Path(__file__).parent
FLAGS = ["-mcpu=cortex-m55", "-mfpu=fpv5-d16", "-mfloat-abi=hard", "-mthumb", "-std=gnu11", "-O2"]
MACHINE = ["qemu-system-arm", "-M", "mps3-an547", "-nographic", "-monitor", "none", "-serial", "none"]
MACHINE += ["-semihosting-config", "enable=on,target=native", "-singlestep", "-d", "exec,nochain"]
SCALAR, BRANCH, VECTOR, ELEMENT = 1, 2, 2, 1  # a gather: one for each element, and one
DIVIDE_32, DOUBLE, DIVIDE_64 = 15, 4, 30
FRAME = HERE.parent / "tests" / "kernels" / "qemu_frame.c"


def build(folder: Path, *defines: str) -> Path:
    for name, content in kernel_files().items():
        (folder / name).write_bytes(content)
    target = folder / "kernels.elf"
    sources = [str(HERE / "cpu_kernels" / "main.c"), str(folder / SOURCE), str(FRAME)]
    options = ["-ffunction-sections", "-nostartfiles", "--specs=nano.specs", "-Wl,--gc-sections"]
    options += ["-Wl,--no-warn-rwx-segments", f"-I{folder}", f"-T{FRAME.with_suffix('.ld')}"]
    command = ["arm-none-eabi-gcc", *FLAGS, *defines, *options, *sources]
    subprocess.run([*command, "-lm", "-o", str(target)], check=True)
    return target


def executed(folder: Path, firmware: Path) -> Iterator[int]:
    """Addresses of instructions in the order of execution."""
    log = folder / "trace.log"
    subprocess.run([*MACHINE, "-D", str(log), "-kernel", str(firmware)], check=True, timeout=600)
    place = re.compile(r"\[\w+/(\w+)/")
    with log.open() as lines:
        for line in lines:
            found = place.search(line)
            if found:
                yield int(found[1], 16)


def weight(first: int, second: int) -> int:
    """Weighs an instruction of two halfwords (or of one: then the second is the next one's)."""
    kind = first >> 8
    if first < 0xE800:
        return BRANCH if kind >> 4 == 0xD or kind == 0x47 or kind & 0xF5 == 0xB1 or kind >> 3 == 0x1C else SCALAR
    of_vectors = kind & 0xEF == 0xEF or (kind & 0xEC == 0xEC and second >> 9 & 7 == 7)
    if of_vectors:
        gathers = first & 0xEFE0 == 0xEC80 and not second & 0x1000
        return ELEMENT * (16 >> (second >> 7 & 3)) + 1 if gathers else VECTOR
    if kind & 0xFE == 0xEE and second >> 8 & 0xF in (0xA, 0xB) and not second & 0x10:  # floating point
        is_double = second >> 8 & 1
        if first & 0xFFB0 == 0xEE80:
            return DIVIDE_64 if is_double else DIVIDE_32
        return DOUBLE if is_double else SCALAR
    return BRANCH if kind >> 3 == 0x1E and second >> 15 else SCALAR


def counted(folder: Path, *defines: str) -> dict[str, tuple[int, int]]:
    """By kernel: instructions, cycles."""
    path = build(folder, *defines)
    firmware = read_firmware(path)
    image = next(segment.data for segment in firmware.segments if segment.address == 0)
    marks = {address & ~1: name for name, address in firmware.symbols.items() if name.startswith("mark_")}
    current = ""
    done: dict[str, tuple[int, int]] = {}
    total: Counter[int] = Counter()
    for at in executed(folder, path):
        if at in marks:
            if current:
                done[current] = _totals(total, image)
            current = marks[at].removeprefix("mark_")
            current, total = ("" if current == "end" else current), Counter()
        elif current:
            total[at] += 1
    return done


def _totals(total: Counter[int], image: bytes) -> tuple[int, int]:
    def half(at: int) -> int:
        return int.from_bytes(image[at : at + 2], "little")

    return sum(total.values()), sum(n * weight(half(at), half(at + 2)) for at, n in total.items())


def run(arguments: argparse.Namespace) -> Report:
    work = arguments.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    vectors, plain = counted(work), counted(work, "-DATONC_NO_VECTORS")
    lines = [
        "# Cycles of the CPU kernels\n",
        "GCC 12 -O2, QEMU's Cortex-M55 counts, weights as the script says. Emulated,",
        "not yet run on a board. Per unit: elements, or multiply-adds where two numbers are named.\n",
        "| kernel | units | instructions a unit | cycles a unit | without vectors |",
        "|---|---|---|---|---|",
    ]
    for name, (instructions, cycles) in vectors.items():
        units = int(re.findall(r"\d{2,}", name)[0])
        row = f"{instructions / units:.2f} | {cycles / units:.2f} | {plain[name][1] / units:.2f}"
        lines.append(f"| {name.replace('_', ' ')} | {units} | {row} |")
    return Report("\n".join(lines) + "\n")
