"""The STM32H747I-DISCO applications: camera, buffers, input (see `h747.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from atonc.delivery.deploy.deployment import Deployment, DeployStep, StepResult, draft
from atonc.delivery.deploy.h747 import plan_patch
from atonc.delivery.deploy.steps.network import folder_of_the_other_tool
from atonc.machine.base.errors import InputError
from atonc.machine.hw.machine import read_json

_KILO = 1000  # as the zoo's scripts count these sizes
_LEAST_AXIRAM = 415 * _KILO  # the smaller of the two published applications'


def _axiram(path: Path) -> int:
    if not path.is_file():
        return _LEAST_AXIRAM
    document: Mapping[str, Any] = read_json(path)
    try:
        pools = document["memory"]["mempools"]
        return int(next(pool for pool in pools if pool["name"] == "AXIRAM")["size"]["value"]) * _KILO
    except (KeyError, TypeError, ValueError, StopIteration):
        raise InputError("does not say how much AXIRAM there is", where=str(path)) from None


def run(deployment: Deployment, dry_run: bool) -> StepResult:
    ratio = str(deployment.config.settings.require("preprocessing.resizing.aspect_ratio"))
    info = folder_of_the_other_tool(deployment) / "network_c_info.json"
    pools = deployment.root / f"mempools_{deployment.config.board}.json"
    axiram = _axiram(pools)
    files = plan_patch(deployment.root, info, axiram, ratio, deployment.model.image)
    done = draft(deployment, files, dry_run, backup=tuple(files))
    note = "" if pools.is_file() else f"{pools.name} is not there: {axiram:,} bytes of AXIRAM taken"
    return replace(done, note=note)


STEP = DeployStep("patch", "place camera and activation buffers", run, drafts=True)
