"""A firmware on the virtual board, in a process of its own, its UART on a socket or a pseudo-terminal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STOP_S = 30.0


@contextmanager
def served(elf: Path, serial: str = "socket:0") -> Iterator[str]:
    """Gives the line that a client opens."""
    command = [sys.executable, "-m", "atonc.cli", "board", "run", str(elf), "--serial", serial, "--seconds", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            said = []
            for line in process.stdout:
                said.append(line.strip())
                if line.strip().endswith("ATONC READY"):
                    break
            else:
                raise AssertionError(said)
            place = said[0].removeprefix("UART at ")
            yield place if place.startswith("socket:") else f"serial:{place}:115200"
        finally:
            process.terminate()
            process.wait(_STOP_S)
