"""What `atonc app build` is asked for besides the application file."""

from __future__ import annotations

from pathlib import Path

from atonc.compiler.request.options import CHECKS, GATES, OUTPUT, positive, whole
from atonc.machine.base.declare import Takes, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

_MOST_TRIALS = 10_000


@dataclass(frozen=True)
class AppOptions:
    stai: bool = option(False, "--stai", OUTPUT, "also the ST-AI interface of every network (stai_NAME.c)")
    keep_slots: Path | None = option(
        None,
        "--keep-slots",
        OUTPUT,
        "app.json of an earlier build: its slots of the flash stay where they are",
        metavar="FILE",
        parse=Path,
        takes=Takes(local=True),
    )
    trial: int = option(
        0,
        "--try",
        CHECKS,
        "also run the firmware on the virtual board: N inferences of every network, in random order",
        metavar="N",
        parse=whole,
    )
    max_load: float = option(
        0.0,
        "--max-load",
        GATES,
        "of the NPU: percent of the time in which networks run (default: any)",
        metavar="PERCENT",
        parse=positive,
    )

    def __post_init__(self) -> None:
        if not 0 <= self.trial <= _MOST_TRIALS:
            raise InputError(f"--try {self.trial}", rule=f"0 to {_MOST_TRIALS} inferences of every network")
