"""The network's C files where the application looks for them."""

from __future__ import annotations

from pathlib import Path

from atonc.delivery.deploy.deployment import Deployment, DeployStep, StepResult, draft
from atonc.delivery.deploy.journal import Contents
from atonc.machine.base.disk import read_file
from atonc.machine.base.errors import InputError

_MOST_BYTES = 1 << 28
_H7_FILES = ("_config.h", ".h", ".c", "_data.h", "_data.c", "_data_params.h", "_data_params.c")


def run(deployment: Deployment, dry_run: bool) -> StepResult:
    if deployment.is_h7:
        return draft(deployment, _of_the_other_tool(deployment), dry_run)
    files = _generated(deployment)
    if not files and dry_run:
        return StepResult(note=f"would copy the network's C files to {deployment.layout.network}")
    return draft(deployment, files, dry_run)


def _generated(deployment: Deployment) -> Contents:
    layout = deployment.layout
    names = [Path(file).name for file in deployment.outputs("generate") if file.endswith((".c", ".h"))]
    return {f"{layout.network}/{n}": deployment.current(f"{layout.generated}/{n}") or b"" for n in names}


def folder_of_the_other_tool(deployment: Deployment) -> Path:
    if deployment.wishes.network is None:
        rule = "networks for the processor of the STM32H7 are compiled by ST's tool"
        remedy = "run stedgeai generate, and give its output folder with --network"
        raise InputError("no compiled network given", rule=rule, remedy=remedy)
    return deployment.wishes.network


def _of_the_other_tool(deployment: Deployment) -> Contents:
    folder, layout = folder_of_the_other_tool(deployment), deployment.layout
    found = [path for end in _H7_FILES if (path := folder / f"network{end}").is_file()]
    if not any(path.name == "network.c" for path in found):
        raise InputError("has no network.c", where=str(folder), remedy="give the output folder of stedgeai generate")
    places = {".h": "Inc", ".c": "Src"}
    return {f"{layout.network}/{places[path.suffix]}/{path.name}": read_file(path, _MOST_BYTES) for path in found}


STEP = DeployStep("network", "copy the network's files", run, drafts=True)
