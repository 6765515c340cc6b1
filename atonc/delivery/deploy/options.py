"""What the user may ask of `atonc deploy` beside its file: every option once."""

from __future__ import annotations

import os
from pathlib import Path

from atonc.machine.base.declare import PLAIN, Takes, option
from atonc.machine.base.frozen import dataclass

_STEPS = "generate, header, network, initialisers, patch, build, sign, flash"


@dataclass(frozen=True)
class DeployOptions:
    """Flags of the command line with their help, in their order."""

    model: Path | None = option(None, "--model", PLAIN, "instead of the model in the file", metavar="FILE", parse=Path)
    project: Path | None = option(
        None, "--project", PLAIN, "instead of c_project_path in the file", metavar="DIR", parse=Path
    )
    network: Path | None = option(
        None, "--network", PLAIN, "STM32H7: output folder of stedgeai generate", metavar="DIR", parse=Path
    )
    use_case: str = option("", "--use-case", PLAIN, "where the file does not show it")
    dialect: str = option("", "--dialect", PLAIN, "names in app_config.h", takes=Takes(choices=("zoo", "current")))
    until: str = option("", "--until", PLAIN, f"the last step: {_STEPS}", metavar="STEP")
    dry_run: bool = option(False, "--dry-run", PLAIN, "show every change as a patch, change nothing")
    verify: bool = option(True, "--no-verify", PLAIN, "compile without checking each layer")
    jobs: int = option(0, "-j --jobs", PLAIN, "compilers at the same time (default: one per core)", parse=int)

    @property
    def compilers(self) -> int:
        return self.jobs if self.jobs > 0 else os.cpu_count() or 1
