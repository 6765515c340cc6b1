"""Child processes: a benchmark starts itself again, and what a process took."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atonc.machine.base.cache import OFF, VARIABLE
from benchmarks.shared.corpus import ROOT


def environment() -> dict[str, str]:
    """This checkout is found from any folder; BLAS has one thread; byte code is kept, as of an installed package;
    results of former runs are not looked for."""
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", VARIABLE: OFF}
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | own


def run_again(name: str, *words: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", name, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=ROOT, **settings)


@dataclass(frozen=True)
class Usage:
    """What one process took."""

    code: int
    seconds: float
    cpu_seconds: float
    megabytes: float
    said: str


def measure(command: Sequence[str], **more: str) -> Usage:
    """wait4 gives the figures of this one child. `more`: of its environment."""
    with tempfile.TemporaryFile() as said:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, env=environment() | more)
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode(errors="replace").strip()
    return Usage(child.returncode, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, text)
