"""Boot loader, weights and firmware on the board."""

from __future__ import annotations

import shlex
from pathlib import Path

from atonc.delivery.deploy import tools
from atonc.delivery.deploy.deployment import Deployment, DeployStep, StepResult
from atonc.delivery.deploy.steps.build import ELF
from atonc.delivery.deploy.steps.initialisers import HEX
from atonc.delivery.deploy.steps.sign import SIGNED
from atonc.machine.base.errors import InputError
from atonc.machine.base.words import count, is_are
from atonc.machine.hw.board import Board, find_board

TOOL = "STM32_Programmer_CLI"
_BOOT_LOADER, _APPLICATION = "FSBL image", "application image"  # areas of a board's flash map


def run(deployment: Deployment, dry_run: bool) -> StepResult:
    tool = tools.find(TOOL)
    if tool is None and not dry_run:
        return StepResult(skipped=f"{TOOL} was not found: it comes with STM32CubeProgrammer")
    commands = _commands(deployment, tool or Path(TOOL), planned=dry_run)
    if dry_run:
        return StepResult(note="\n".join(["would run", *(shlex.join(command) for command in commands)]))
    if not commands:
        return StepResult(skipped="no signed firmware to flash" if not deployment.is_h7 else "no firmware was built")
    for command in commands:
        file = next(word for word in reversed(command) if word.endswith((".bin", ".hex", ".elf")))
        tools.run(command, deployment.root, f"flashing {file}")
    return StepResult(note=f"{count(len(commands), 'file')} {is_are(len(commands))} on the board")


def _commands(deployment: Deployment, tool: Path, planned: bool) -> list[list[str]]:
    """Nothing is flashed without the firmware itself; `planned`: as if all files were there."""
    layout, root = deployment.layout, deployment.root
    serial = deployment.config.settings.get("deployment.hardware_setup.stlink_serial_number")
    probe = [str(tool), "-c", "port=SWD", *([f"sn={serial}"] if serial else [])]
    if deployment.is_h7:
        image = f"{layout.firmware}/{ELF}"
        return [[*probe, "-d", image, "-s"]] if planned or deployment.current(image) else []
    board = find_board(deployment.config.board)
    loader = layout.loader or board.flash_loader
    reach = ["mode=HOTPLUG", *(["-el", str(tool.parent / "ExternalLoader" / loader)] if loader else []), "-hardRst"]
    signed = f"{layout.firmware}/{SIGNED}"
    if not (planned or (root / signed).is_file()):
        return []
    weights = planned or any(
        file.endswith(".hex") for file in deployment.outputs("generate")
    )  # not those of an earlier model
    files = [layout.fsbl, f"{layout.network}/{HEX}" if weights else ""]
    found = [
        [*probe, *reach, "-w", file, *([_start(board, _BOOT_LOADER)] if file.endswith(".bin") else [])]  # else its own
        for file in files
        if file and (planned or (root / file).is_file())
    ]
    return [*found, [*probe, *reach, "-w", signed, _start(board, _APPLICATION)]]


def _start(board: Board, area: str) -> str:
    found = board.area(area)
    if found is None:
        raise InputError(f"there is no area {area!r}", where=board.file or board.name, remedy="say where it lies")
    return f"{found.base:#x}"


STEP = DeployStep("flash", "flash the board", run)
