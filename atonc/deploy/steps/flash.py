"""Boot loader, weights and firmware on the board."""

from __future__ import annotations

import shlex
from pathlib import Path

from atonc.deploy import tools
from atonc.deploy.plan import Deployment, Result, Step
from atonc.deploy.steps.build import ELF
from atonc.deploy.steps.initialisers import HEX
from atonc.deploy.steps.sign import SIGNED

TOOL = "STM32_Programmer_CLI"
_FLASH = 0x7000_0000
_APPLICATION = 0x7010_0000  # where the boot loader looks for the firmware
_LOADERS = {
    "STM32N6570-DK": "MX66UW1G45G_STM32N6570-DK.stldr",
    "NUCLEO-N657X0-Q": "MX25UM51245G_STM32N6570-NUCLEO.stldr",
}


def run(deployment: Deployment, dry_run: bool) -> Result:
    tool = tools.find(TOOL)
    if tool is None and not dry_run:
        return Result(skipped=f"{TOOL} was not found: it comes with STM32CubeProgrammer")
    commands = _commands(deployment, tool or Path(TOOL), planned=dry_run)
    if dry_run:
        return Result(note="\n".join(["would run", *(shlex.join(command) for command in commands)]))
    if not commands:
        return Result(skipped="no signed firmware to flash" if not deployment.is_h7 else "no firmware was built")
    for command in commands:
        file = next(word for word in reversed(command) if word.endswith((".bin", ".hex", ".elf")))
        tools.run(command, deployment.root, f"flashing {file}")
    return Result(note=f"{len(commands)} files are on the board")


def _commands(deployment: Deployment, tool: Path, planned: bool) -> list[list[str]]:
    """Nothing is flashed without the firmware itself; `planned`: as if all files were there."""
    layout, root = deployment.layout, deployment.root
    serial = deployment.config.settings.get("deployment.hardware_setup.stlink_serial_number")
    probe = [str(tool), "-c", "port=SWD", *([f"sn={serial}"] if serial else [])]
    if deployment.is_h7:
        image = f"{layout.firmware}/{ELF}"
        return [[*probe, "-d", image, "-s"]] if planned or deployment.current(image) else []
    loader = layout.loader or _LOADERS.get(deployment.config.board, "")
    reach = ["mode=HOTPLUG", *(["-el", str(tool.parent / "ExternalLoader" / loader)] if loader else []), "-hardRst"]
    signed = f"{layout.firmware}/{SIGNED}"
    if not (planned or (root / signed).is_file()):
        return []
    weights = planned or any(
        file.endswith(".hex") for file in deployment.outputs("generate")
    )  # not those of an earlier model
    files = [layout.fsbl, f"{layout.network}/{HEX}" if weights else ""]
    found = [
        [*probe, *reach, "-w", file, *_address(file)] for file in files if file and (planned or (root / file).is_file())
    ]
    return [*found, [*probe, *reach, "-w", signed, f"{_APPLICATION:#x}"]]


def _address(file: str) -> list[str]:
    """Files without one of their own are boot loaders, which begin the flash."""
    return [f"{_FLASH:#x}"] if file.endswith(".bin") else []


STEP = Step("flash", "flash the board", run)
