"""What the user may ask of `atonc sweep` beside its file: every option once."""

from __future__ import annotations

from atonc.compiler.request.options import whole
from atonc.machine.base.declare import check, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

WORK = "how the work is done"


@dataclass(frozen=True)
class SweepOptions:
    """Arguments of `atonc.sweep`; flags of the command line with their help; rows of the reference."""

    output: str = option("sweep_output", "-o --output", WORK, "sweep.json, .csv and .html go there", metavar="DIR")
    processes: int = option(
        0, "--processes", WORK, "processes of this machine; 0: one per core", metavar="N", parse=whole
    )
    scheduler: str = option(
        "", "--scheduler", WORK, "a Dask cluster instead: tcp://HOST:PORT, or local", metavar="ADDRESS"
    )
    cache: str = option("", "--cache", WORK, "where rows are kept (default: in the user's cache)", metavar="DIR")
    fresh: bool = option(False, "--fresh", WORK, "compute every row again")

    def __post_init__(self) -> None:
        check(self)
        if self.processes < 0:
            raise InputError(f"processes is {self.processes}", remedy="give 0 or more")
