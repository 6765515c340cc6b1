"""The image with the header that the boot loader looks for."""

from __future__ import annotations

import tempfile
from pathlib import Path

from atonc.delivery.deploy import tools
from atonc.delivery.deploy.deployment import Deployment, DeployStep, StepResult, inputs_digest, put
from atonc.delivery.deploy.journal import digest
from atonc.delivery.deploy.steps.build import BINARY
from atonc.machine.base.errors import ToolError

TOOL = "STM32_SigningTool_CLI"
SIGNED = "Project_signed.bin"
_OPTIONS = ("-nk", "-t", "ssbl", "-hv", "2.3")
_ALIGN = "-align"  # newer versions put the image elsewhere without it, older ones do not know it


def run(deployment: Deployment, dry_run: bool) -> StepResult:
    folder = deployment.layout.firmware
    image = deployment.current(f"{folder}/{BINARY}")
    tool = tools.find(TOOL)
    if tool is None:
        return StepResult(skipped=f"{TOOL} was not found: it comes with STM32CubeProgrammer")
    if dry_run or image is None:
        return (
            StepResult(note=f"would sign {folder}/{BINARY}") if dry_run else StepResult(skipped="no firmware was built")
        )
    inputs = inputs_digest(digest(image), tool)
    if deployment.is_done(STEP.name, inputs):
        return StepResult(skipped="signed before")
    return put(
        deployment, deployment.recorded(STEP.name, inputs, {f"{folder}/{SIGNED}": _signed(tool, image)}), dry_run
    )


def _signed(tool: Path, image: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as scratch:
        source, target = Path(scratch, BINARY), Path(scratch, SIGNED)
        source.write_bytes(image)
        command = [str(tool), "-s", "-bin", str(source), *_OPTIONS, *_alignment(tool), "-o", str(target)]
        tools.run(command, Path(scratch), "signing the firmware")
        if not target.is_file():
            raise ToolError("wrote nothing", where=str(tool))
        return target.read_bytes()


def _alignment(tool: Path) -> tuple[str, ...]:
    try:
        return (_ALIGN,) if _ALIGN in tools.run([str(tool), "--help"], tool.parent, "asking the signing tool") else ()
    except ToolError:
        return ()


STEP = DeployStep("sign", "sign the firmware", run)
