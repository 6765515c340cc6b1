"""Does a front end in C give its Python twin's codes for an hour of sound, on QEMU's Cortex-M55 with its vectors?

The C file as `generate` writes it, compiled for the Cortex-M55 and run on QEMU's board mps3-an547: an emulator of other
people, not our virtual board, and no silicon. Needs Debian's qemu-system-arm and gcc-arm-none-eabi.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

from atonc.delivery.front_end.pipeline import presets
from atonc.delivery.front_end.twin import front_end
from benchmarks.front_ends import hours
from benchmarks.shared.corpus import asked_for
from benchmarks.shared.declare import ONLY, SECONDS, WRITE, Report
from tests.front_end.ways import OnQemu
from tests.kernels import qemu

GROUP = "truth"
ARGUMENTS = (SECONDS.but(type=int, default=3600, help="of sound for each preset (default 3600)"), ONLY, WRITE)
_NETWORK = ("int8", 0.1, -5)  # the input of a network


def vectors_of(code: Path) -> int:
    """Instructions of the vector unit in an object: without any, the run would say nothing of them."""
    text = subprocess.run(["arm-none-eabi-objdump", "-d", code], capture_output=True, text=True, check=True).stdout
    return len(re.findall(r"\tv[\w.]+\t.*\bq[0-7]\b", text))


def row(name: str, seconds: int) -> tuple[str, bool]:
    made = front_end(name).for_input(*_NETWORK)
    total = differ = 0
    with tempfile.TemporaryDirectory() as work:
        program = OnQemu(made, Path(work))
        vectors = vectors_of(program.code)
        for piece in hours(seconds, made.pipeline.rate):
            found, expected = program(piece), made(piece)
            assert found.shape == expected.shape
            total, differ = total + found.size, differ + int((found != expected).sum())
    kinds = f"{made.pipeline.features} | {vectors}"
    return f"| {name} | {kinds} | {differ} of {total:,} |", differ > 0 or not total


def run(arguments: argparse.Namespace) -> Report:
    if not qemu.is_there():
        return Report("# Front ends on QEMU\n\nNot measured: qemu-system-arm is not installed.\n", failed=True)
    rows = []
    for name in presets():
        if asked_for(arguments.only, name):
            rows.append(row(name, arguments.seconds))
            print(rows[-1][0], flush=True)
    lines = [
        "# Front ends on QEMU's Cortex-M55\n",
        f"Codes of the C file that differ from the Python twin's, int8, {arguments.seconds:,} s of made sound in "
        "pieces of at most 600 s, given to the C file in parts of any size; GCC -O2 for the Cortex-M55 with its "
        "vectors. QEMU's board mps3-an547 ran it: an emulator of other people than the virtual board, but not a "
        "board. Vectors: their instructions in the C file's object.\n",
        "| preset | features | vectors | different codes |",
        "|---|---|---|---|",
        *(text for text, _ in rows),
    ]
    return Report("\n".join(lines) + "\n", failed=any(bad for _, bad in rows))
