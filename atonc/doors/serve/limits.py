"""What a job and a visitor may take of the machine."""

from __future__ import annotations

import os
from math import ceil
from typing import Any

from atonc.compiler.request.options import positive, size, whole
from atonc.machine.base.declare import option
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

LIMITS = "limits"
KEPT_FREE_BYTES = 1 << 30  # of the disk: below it nothing new is taken


@dataclass(frozen=True)
class JobLimits:
    """Every job: `seconds` of processor time, so that a busy machine fails nobody, `memory_bytes` of address space,
    `file_bytes` for one file that it writes."""

    seconds: float = option(
        600.0, "--time-limit", LIMITS, "of a job, in CPU time (default 600)", metavar="S", parse=positive
    )
    memory_bytes: int = option(4 << 30, "--memory-limit", LIMITS, "of a job (default 4G)", metavar="BYTES", parse=size)
    file_bytes: int = 1 << 30
    upload_bytes: int = option(
        256 << 20, "--max-upload", LIMITS, "model and samples together (default 256M)", metavar="BYTES", parse=size
    )
    samples: int = 16  # files
    waiting: int = 500  # jobs
    at_once: int = option(0, "--jobs", LIMITS, "at once (default: one per core, at most 4)", metavar="N", parse=whole)
    uploads_at_once: int = 8
    upload_seconds: float = 600.0
    upload_idle_seconds: float = 20.0  # in which an upload must bring
    upload_idle_bytes: int = 32 << 10

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "upload_bytes"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}", remedy="write bytes, or 512M, or 4G")

    @property
    def clock_seconds(self) -> float:
        """The limit for a job that waits instead of working."""
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
