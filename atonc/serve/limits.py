"""What a job and a visitor may take of the machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import ceil
from typing import Any

from atonc.errors import ToolError

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

KEPT_FREE_BYTES = 1 << 30  # of the disk: below it nothing new is taken


@dataclass(frozen=True)
class Limits:
    """Every job: `seconds` of processor time, so that a busy machine fails nobody, `memory_bytes` of address space,
    `file_bytes` for one file that it writes."""

    seconds: float = 600.0
    memory_bytes: int = 4 << 30
    file_bytes: int = 1 << 30
    upload_bytes: int = 256 << 20  # model and samples together
    samples: int = 16  # files
    waiting: int = 500  # jobs
    at_once: int = 0  # 0: one per core, at most four
    uploads_at_once: int = 8
    upload_seconds: float = 600.0

    @property
    def clock_seconds(self) -> float:
        """For a job that waits instead of working."""
        return 60 + 8 * self.seconds

    @property
    def processes(self) -> int:
        return self.at_once or max(1, min(4, os.cpu_count() or 1))


def require_limits() -> None:
    if resource is None:
        raise ToolError(
            "this system cannot limit a process",
            rule="jobs run files of strangers, in processes with limits of time and memory",
            remedy="run atonc serve on Linux or macOS, or in WSL",
        )


def confine(limits: dict[str, Any]) -> None:
    """Called by a job's process on itself, before it reads anything. Its children inherit it."""
    _limit(resource.RLIMIT_CPU, ceil(limits["seconds"]), 2)  # SIGXCPU ends it then, SIGKILL if it does not listen
    _limit(resource.RLIMIT_AS, int(limits["memory_bytes"]))
    _limit(resource.RLIMIT_FSIZE, int(limits["file_bytes"]))
    _limit(resource.RLIMIT_CORE, 0)
    os.nice(5)  # the page answers first


def _limit(what: int, value: int, grace: int = 0) -> None:
    _, most = resource.getrlimit(what)
    least = [number if most == resource.RLIM_INFINITY else min(number, most) for number in (value, value + grace)]
    resource.setrlimit(what, (least[0], least[1]))
