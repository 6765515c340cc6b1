"""A relocatable image on a real board: ST's programmer flashes it, ST's validation firmware installs it.

Every step is a command that is shown before it runs; `--dry-run` shows them and runs nothing. ST's tools are found in
an installation of STM32CubeIDE or in the search path; what is missing is named together with where it comes from.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from atonc.delivery.trials.loading import LoadPlan
from atonc.machine.base.errors import InputError, ToolError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.board_file import find_board

BOARDS = ("stm32n6570-dk",)  # for which ST has such a firmware
GDB_PORT = 36789
_TIMEOUT_S = 300
_SETTLE_S = 1.0
_PLUGINS = {
    "STM32_Programmer_CLI": "cubeprogrammer",
    "ST-LINK_gdbserver": "stlink-gdb-server",
    "arm-none-eabi-gdb": "gnu-tools-for-stm32",
}
_SOURCES = {
    "STM32_Programmer_CLI": "it comes with STM32CubeProgrammer and STM32CubeIDE",
    "ST-LINK_gdbserver": "it comes with STM32CubeIDE",
    "arm-none-eabi-gdb": "it comes with STM32CubeIDE; Debian, Ubuntu: apt install gdb-multiarch, linked to that name",
}
# what the programmer says -> what that means
_HINTS = {
    "No debug probe detected": "no ST-LINK is connected: USB cable at the port STLINK-V3 (CN6), and its driver",
    "No ST-Link": "no ST-LINK is connected: USB cable at the port STLINK-V3 (CN6), and its driver",
    "Unable to get core ID": "the probe is there, the chip does not answer: power, boot switches in development mode",
    "No STM32 target found": "the probe is there, the chip does not answer: power, boot switches in development mode",
    "already in use": "another program holds the probe: close the IDE's debugger",
}

Say = Callable[[str], None]


@dataclass(frozen=True)
class Tools:
    programmer: Path
    gdb_server: Path
    gdb: Path

    @property
    def external_loaders(self) -> Path:
        return self.programmer.parent / "ExternalLoader"


@dataclass(frozen=True)
class ToolCommand:
    what: str
    command: tuple[str, ...]
    may_fail: bool = False  # a reset of a chip that sleeps
    stays: bool = False  # runs beside the next steps


def cube_ide(folder: Path | None) -> Path | None:
    """The installation that the user names, or the one in STM32_CUBE_IDE_DIR."""
    chosen = folder or (Path(os.environ["STM32_CUBE_IDE_DIR"]) if os.environ.get("STM32_CUBE_IDE_DIR") else None)
    if chosen is not None and not chosen.is_dir():
        raise InputError("no such folder", where=str(chosen), remedy="give the folder of STM32CubeIDE")
    return chosen


def find_tools(ide: Path | None) -> tuple[Tools, list[str]]:
    """The tools by name where they were found, by bare name otherwise; and a sentence for each that is missing."""
    found, missing = {}, []
    for name in _PLUGINS:
        path = _find(name, ide)
        if path is None:
            missing.append(f"{name} was not found ({_SOURCES[name]})")
        found[name] = path or Path(name)
    return Tools(found["STM32_Programmer_CLI"], found["ST-LINK_gdbserver"], found["arm-none-eabi-gdb"]), missing


def _find(name: str, ide: Path | None) -> Path | None:
    if ide is not None:
        pattern = f"plugins/com.st.stm32cube.ide.mcu.externaltools.{_PLUGINS[name]}*/tools/bin/{name}*"
        inside = sorted(path for path in ide.glob(pattern) if path.stem == name)
        if inside:
            return inside[-1]
    plain = shutil.which(name)
    return Path(plain) if plain else None


def validation_firmware(plan: LoadPlan, board: str, given: Path | None, pack: Path | None) -> tuple[Path, list[str]]:
    """ST's firmware that installs images; it is not part of this package."""
    if board not in BOARDS:
        raise InputError(f"board {board[:40]!r}", where="--board", rule=f"supported are: {', '.join(BOARDS)}")
    speed = "-usbc" if "usbc" in plan.words else "-5529600" if "max-speed" in plan.words else ""
    name = f"{board}-validation-reloc-{plan.install_mode}{speed}.elf"
    path = given or (pack / "scripts" / "N6_reloc" / "test" / name if pack is not None else Path(name))
    if path.is_file():
        return path, []
    source = "it is in scripts/N6_reloc/test of ST Edge AI Core: give --pack-dir or --firmware"
    return path, [f"the validation firmware {path} was not found ({source})"]


def steps(plan: LoadPlan, tools: Tools, firmware: Path, board: str) -> Iterator[ToolCommand]:
    programmer, loader = str(tools.programmer), str(tools.external_loaders / find_board(board).flash_loader)
    probe = ("-c", "port=SWD", "{mode}", "freq=2000", "ap=1")

    def connect(mode: str) -> tuple[str, ...]:
        return (programmer, "-q", *(word.format(mode=f"mode={mode}") for word in probe))

    reset = ToolCommand("reset the board", connect("powerdown"), may_fail=True)
    yield reset
    if "no-flash" not in plan.words:
        files = [(plan.file, plan.address)]
        files += [(plan.params_file, plan.params_address)] if plan.params_file is not None else []
        for k, (file, address) in enumerate(files):
            if k:
                yield reset
            what = f"flash {file.name} at {address:#x} ({file.stat().st_size:,} bytes)"
            download = ("--extload", loader, "--download", str(file), f"{address:#x}")
            yield ToolCommand(what, (*connect("hotplug"), *download))
    server = ("-d", "--frequency", "2000", "--apid", "1", "-v", "--port-number", str(GDB_PORT))
    home = ("-cp", str(tools.programmer.parent))
    yield ToolCommand("start the GDB server", (str(tools.gdb_server), *server, *home), stays=True)
    orders = (f"target remote :{GDB_PORT}", "monitor reset", "load", "set $pc = Reset_Handler", "detach", "quit")
    words = tuple(word for order in orders for word in ("-ex", order))
    yield ToolCommand(f"load and start {firmware.name}", (str(tools.gdb), "-batch", *words, str(firmware)))


def require(missing: list[str]) -> None:
    if missing:
        raise ToolError(
            "; ".join(missing),
            rule="a real board needs ST's programmer, its GDB server, a debugger and ST's validation firmware",
            remedy="install them or name their folder with --cube-ide-dir; --dry-run shows all steps without them",
        )


def run(all_steps: list[ToolCommand], say: Say, total: int) -> None:
    """One after the other, of `total` with what comes behind them; the first that fails ends it with what its tool said
    and what that may mean."""
    beside: list[subprocess.Popen[bytes]] = []
    try:
        for number, step in enumerate(all_steps, 1):
            say(f"[{number}/{total}] {step.what}")
            say(f"    {shlex.join(step.command)}")
            if step.stays:
                beside.append(subprocess.Popen(step.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            else:
                _run_one(step)
            time.sleep(_SETTLE_S)
    except OSError as error:
        raise ToolError(f"cannot be started: {error.strerror or error}", where=step.command[0]) from None
    finally:
        for process in beside:
            process.terminate()


def _run_one(step: ToolCommand) -> None:
    try:
        done = subprocess.run(step.command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise ToolError(f"no end after {_TIMEOUT_S} s: {step.what}", where=step.command[0]) from None
    said = f"{done.stdout}\n{done.stderr}"
    hint = next((meaning for text, meaning in _HINTS.items() if text.lower() in said.lower()), "")
    if hint or (done.returncode and not step.may_fail):
        last = [line.strip() for line in said.splitlines() if line.strip()][-3:]
        raise ToolError(f"{step.what} failed: {' / '.join(last)[:300]}", where=step.command[0], remedy=hint)
