"""The STM32H747I-DISCO applications: camera, buffers, input (see `h747.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from atonc.delivery.deploy.deployment import Deployment, DeployStep, StepResult, put
from atonc.delivery.deploy.h747 import plan_patch
from atonc.delivery.deploy.steps.network import folder_of_the_other_tool
from atonc.machine.base.errors import InputError
from atonc.machine.hw.tolerant_json import read_json

_KILO = 1000  # as the zoo's scripts count these sizes


def _axiram(deployment: Deployment) -> int:
    path = deployment.root / f"mempools_{deployment.config.board}.json"
    document: Mapping[str, Any] = read_json(path)
    try:
        pools = document["memory"]["mempools"]
        return int(next(pool for pool in pools if pool["name"] == "AXIRAM")["size"]["value"]) * _KILO
    except (KeyError, TypeError, ValueError, StopIteration):
        raise InputError("does not say how much AXIRAM there is", where=str(path)) from None


def run(deployment: Deployment, dry_run: bool) -> StepResult:
    ratio = str(deployment.config.settings.require("preprocessing.resizing.aspect_ratio"))
    info = folder_of_the_other_tool(deployment) / "network_c_info.json"
    files = plan_patch(deployment.root, info, _axiram(deployment), ratio, deployment.model.image)
    return put(deployment, files, dry_run, backup=tuple(files))


STEP = DeployStep("patch", "place camera and activation buffers", run)
