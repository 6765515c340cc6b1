"""Weights as files to flash: `.bin` as they lie in memory, `.hex` with their address."""

from __future__ import annotations

from pathlib import Path

from atonc.delivery.deploy.deployment import Deployment, DeployStep, StepResult, draft
from atonc.delivery.deploy.journal import Contents

HEX = "network_data.hex"
_RAW = ".raw"


def run(deployment: Deployment, dry_run: bool) -> StepResult:
    files = _converted(deployment)
    if not files and dry_run:
        return StepResult(note=f"would write {HEX} and network_data.*.bin to {deployment.layout.network}")
    return draft(deployment, files, dry_run)


def _converted(deployment: Deployment) -> Contents:
    """`network_atonbuf.xSPI2.raw` becomes `network_data.xSPI2.bin`, the name in the applications' scripts."""
    layout, found = deployment.layout, {}
    for file in deployment.outputs("generate"):
        name, data = Path(file).name, deployment.current(file) or b""
        if name.endswith(_RAW) and data:
            pool = name.removesuffix(_RAW).rpartition(".")[2]
            found[f"{layout.network}/network_data.{pool}.bin"] = data
        elif name.endswith(".hex") and data:
            found[f"{layout.network}/{HEX}"] = data
    return found


STEP = DeployStep("initialisers", "convert the weights", run, drafts=True)
