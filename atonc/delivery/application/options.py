"""What `atonc app build` and `atonc app update` are asked for besides the application file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from atonc.compiler.request.options import CHECKS, GATES, OUTPUT, positive, whole
from atonc.machine.base.declare import Takes, option
from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass

_MOST_TRIALS = 10_000


def _trial(what: str) -> Any:
    said = f"also run the firmware on the virtual board: N inferences of {what}, in random order"
    return option(0, "--try", CHECKS, said, metavar="N", parse=whole)


def _require_trials(count: int) -> None:
    if not 0 <= count <= _MOST_TRIALS:
        raise InputError(f"--try {count}", rule=f"0 to {_MOST_TRIALS} inferences of every network")


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
    trial: int = _trial("every network")
    max_load: float = option(
        0.0,
        "--max-load",
        GATES,
        "of the NPU: percent of the time in which networks run (default: any)",
        metavar="PERCENT",
        parse=positive,
    )

    def __post_init__(self) -> None:
        _require_trials(self.trial)


@dataclass(frozen=True)
class AppUpdateOptions:
    built: Path = option(
        Path("build"),
        "--built",
        OUTPUT,
        "folder that `atonc app build` wrote for the firmware that is out (default build)",
        metavar="DIR",
        parse=Path,
        takes=Takes(local=True),
    )
    trial: int = _trial("the new network and of those that the firmware has in itself")

    def __post_init__(self) -> None:
        _require_trials(self.trial)
