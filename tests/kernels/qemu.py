"""Programs for QEMU's board with a Cortex-M55 and its vectors; `qemu_frame.c` is one of their units."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from atonc.delivery.firmware import building

QEMU = "qemu-system-arm"
HERE = Path(__file__).parent
FRAME = HERE / "qemu_frame.c"
_MACHINE = ("-M", "mps3-an547", "-nographic", "-monitor", "none", "-serial", "none")


def is_there() -> bool:
    return shutil.which(QEMU) is not None


def linked(objects: Sequence[Path], folder: Path) -> Path:
    options = ["-nostartfiles", "--specs=nano.specs", "-Wl,--gc-sections", f"-T{HERE / 'qemu_frame.ld'}"]
    elf = folder / "program.elf"
    arguments = [*building.machine_options("cortex-m55"), *options, *map(str, objects), "-lm", "-o", str(elf)]
    building.find_toolchain().run(arguments, "link", str(elf))
    return elf


def run(elf: Path, timeout: float | None = 120) -> list[str]:
    """The lines that it prints; its files lie beside it."""
    command = [QEMU, *_MACHINE, "-semihosting-config", "enable=on,target=native", "-kernel", str(elf)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, cwd=elf.parent)
    return (done.stdout + done.stderr).splitlines()
