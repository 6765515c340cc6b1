"""A firmware on the virtual board, in a process of its own, its UART on a socket or a pseudo-terminal; and a line to it
that loses, doubles and changes bytes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from atonc.delivery.wire.links import ByteLink

_STOP_S = 30.0


@contextmanager
def served(elf: Path, serial: str = "socket:0", ready: str = "ATONC READY") -> Iterator[str]:
    """Gives the line that a client opens, when the firmware has said that it is ready."""
    command = [sys.executable, "-m", "atonc", "board", "run", str(elf), "--serial", serial, "--seconds", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            said = []
            for line in process.stdout:
                said.append(line.strip())
                if ready in line:
                    break
            else:
                raise AssertionError(said)
            place = said[0].removeprefix("UART at ")
            yield place if place.startswith("socket:") else f"serial:{place}:115200"
        finally:
            process.terminate()
            process.wait(_STOP_S)


class BadLink:
    """`faults`: (to the board, number of the byte) -> what it becomes."""

    def __init__(self, link: ByteLink, faults: Mapping[tuple[bool, int], Callable[[int], bytes]]) -> None:
        self._link, self._faults = link, dict(faults)
        self.description = link.description
        self._count = {True: 0, False: 0}

    @property
    def pending(self) -> int:
        return len(self._faults)

    def _pass(self, to_board: bool, data: bytes) -> bytes:
        out = b""
        for byte in data:
            change = self._faults.pop((to_board, self._count[to_board]), None)
            self._count[to_board] += 1
            out += bytes([byte]) if change is None else change(byte)
        return out

    def read(self, count: int, wait_s: float) -> bytes:
        limit = self.now() + wait_s
        while data := self._link.read(count, max(0.0, limit - self.now())):
            if passed := self._pass(False, data):
                return passed
        return b""

    def write(self, data: bytes) -> None:
        self._link.write(self._pass(True, data))

    def now(self) -> float:
        return self._link.now()

    def close(self) -> None:
        self._link.close()
