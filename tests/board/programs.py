"""Small hand-written firmwares for the virtual board."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from atonc.delivery.firmware import building

pytest.importorskip("unicorn", reason="unicorn is not installed: pip install 'atonc[board]'")

needs_compiler = pytest.mark.skipif(
    shutil.which(building.GCC) is None, reason=f"no cross compiler: apt install {building.PACKAGES}"
)
PRELUDE = """
#include <stdint.h>
#include "board_io.h"
#define WORD(address) (*(volatile uint32_t *)(address))
void NPU0_IRQHandler(void);
static inline void moment(void) { for (volatile int k = 0; k < 1000; k++) { } } /* interrupts come between slices */
"""


IN_RAM = building.Placement(code=0x3410_0000, code_bytes=0x8_0000)  # as a debugger loads it


def build(folder: Path, text: str, placement: building.Placement | None = None) -> Path:
    """A firmware whose main() the text gives; in flash if nothing else is said."""
    harness = building.runtime_folder("harness")
    source = folder / "program.c"
    source.write_text(PRELUDE + text)
    program = building.CompileUnit((source,), (harness,))
    common = building.CompileUnit((harness / "startup.c", harness / "board_io.c"), (harness,), strict=True)
    toolchain = building.find_toolchain()
    objects = building.compile_units(toolchain, [program, common], folder)
    return building.link(toolchain, objects, folder / "program.elf", placement)


@contextmanager
def busy_host() -> Iterator[None]:
    """More processes that do nothing but count than the host has cores."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range((os.cpu_count() or 1) + 1)]
    try:
        yield
        assert all(process.poll() is None for process in busy)
    finally:
        for process in busy:
            process.kill()
            process.wait()
