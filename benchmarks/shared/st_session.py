"""A firmware on the virtual board in one process, ST's client in another, a socket or a pseudo-terminal between them.

The folder of fetched files holds repositories as `owner+name/path`, and `runner/`: a virtual environment for ST's
client (`python -m venv runner; runner/bin/pip install 'numpy<2' 'protobuf<3.21' pyserial tqdm colorama`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.errors import InputError, ToolError

_BENCHMARKS = Path(__file__).resolve().parent
_VALIDATION = "SeongMin1000+N6_cusotm_validation/scripts"
RELOC_FIRMWARES = f"{_VALIDATION}/N6_reloc/test"
CLIENT = f"{_VALIDATION}/ai_runner"
_AT = re.compile(r"UART at (\S+)")
_READY = "READY to receive"
_POLL_S = 0.1


@dataclass(frozen=True)
class Answer:
    outputs: list[NDArray[np.generic]]
    seconds: float
    processor_s: float  # that the board's process took meanwhile
    durations_ms: list[float]
    said: str  # what the client printed


class Session:
    def __init__(self, fetched: Path, process: subprocess.Popen[bytes], log: Path, connection: str, boot_s: float):
        self._fetched, self._process, self._log = fetched, process, log
        self.connection, self.boot_s = connection, boot_s

    def run(self, inputs: Sequence[NDArray[np.generic]], minor: int | None = None, limit_s: float = 900) -> Answer:
        """ST's client runs these samples (first dimension) and brings the outputs back."""
        with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
            given, found = Path(temporary) / "inputs.npz", Path(temporary) / "outputs.npz"
            np.savez(given, **{f"x{k}": array for k, array in enumerate(inputs)})  # type: ignore[arg-type]
            words = [self._fetched / "runner/bin/python", _BENCHMARKS / "st_client.py", self._fetched / CLIENT]
            words += [self.connection, given, found]
            words += [] if minor is None else ["--minor", str(minor)]
            before = self._processor_s()
            done = subprocess.run(list(map(str, words)), cwd=temporary, capture_output=True, text=True, timeout=limit_s)
            if done.returncode or not found.is_file():
                last = " / ".join((done.stdout + done.stderr).strip().splitlines()[-2:])
                raise ToolError(f"ST's client failed: {last}; the board: {self.last_line()}")
            stored = np.load(found)
            outputs = [stored[f"y{k}"] for k in range(sum(key.startswith("y") for key in stored))]
            used, times = self._processor_s() - before, stored["durations_ms"].tolist()
            return Answer(outputs, float(stored["seconds"]), used, times, done.stdout)

    def _processor_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def printed(self, name: str) -> str:
        """The rest of the first line in which the firmware says this."""
        lines = (line for line in self._log.read_text(errors="replace").splitlines() if name in line)
        return next((line.partition(name)[2].strip(" :") for line in lines), "")

    def last_line(self) -> str:
        return next((line for line in reversed(self._log.read_text(errors="replace").splitlines()) if line.strip()), "")


@contextmanager
def session(
    fetched: Path, firmware: str, flash: Sequence[str] = (), serial: str = "socket:0", boot_limit_s: float = 300
) -> Iterator[Session]:
    """`firmware` lies below the fetched folder and is not changed; `flash` as in `atonc board run`."""
    with tempfile.TemporaryDirectory(prefix="atonc_") as temporary:
        log = Path(temporary) / "board.log"
        words = [sys.executable, "-m", "atonc", "board", "run", str(fetched / firmware), "--serial", serial]
        words += [word for part in flash for word in ("--flash", part)]
        began = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
        try:
            connection = _ready(process, log, began + boot_limit_s)
            yield Session(fetched, process, log, connection, time.monotonic() - began)
        finally:
            process.terminate()
            process.wait(60)


def _ready(process: subprocess.Popen[bytes], log: Path, limit: float) -> str:
    """How ST's client names the connection, once the firmware waits for it."""
    while process.poll() is None and time.monotonic() < limit:
        text = log.read_text(errors="replace")
        found = _AT.search(text)
        if found and _READY in text:
            place = found[1]
            return place if place.startswith("socket:") else f"serial:{place}:115200"
        time.sleep(_POLL_S)
    last = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-1:]
    raise InputError(f"the firmware did not get ready: {' '.join(last)}")
