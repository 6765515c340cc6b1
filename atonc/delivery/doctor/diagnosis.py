"""`atonc doctor`: every step from a model to a measured board, with what it needs of this machine: Python packages,
programs on the search path, debug probes and serial ports, and whether this user may use them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from atonc.delivery.trials.gdb_servers import PROGRAMS, find_server
from atonc.machine.base.errors import AtoncError, ToolError, plain
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.board import Board, board_names, find_board


class DoctorState(StrEnum):
    FOUND = "found"
    OLD = "too old"
    NEW = "too new"
    BARRED = "no permission"
    BROKEN = "does not answer"
    MISSING = "missing"


@dataclass(frozen=True)
class DoctorItem:
    name: str
    state: DoctorState
    version: str = ""
    wanted: str = ""  # which versions will do
    where: str = ""
    remedy: str = ""  # how to get it, or to get it right

    @property
    def good(self) -> bool:
        return self.state == DoctorState.FOUND


@dataclass(frozen=True)
class DoctorGoal:
    """Something that the user may want to do; `one_of`: any good one of them is enough."""

    key: str
    title: str
    needs: tuple[DoctorItem, ...]
    one_of: tuple[DoctorItem, ...] = ()

    @property
    def lacks(self) -> tuple[DoctorItem, ...]:
        missing = tuple(item for item in self.needs if not item.good)
        return missing if not self.one_of or any(item.good for item in self.one_of) else (*missing, *self.one_of)

    @property
    def ready(self) -> bool:
        return not self.lacks


@dataclass(frozen=True)
class Diagnosis:
    steps: tuple[DoctorGoal, ...]
    boards: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "boards": list(self.boards),
            "steps": [
                {"key": s.key, "title": s.title, "ready": s.ready, "items": [asdict(i) for i in (*s.needs, *s.one_of)]}
                for s in self.steps
            ],
        }


def numbers(version: str) -> tuple[int, ...]:
    """`12.2.1` as numbers that compare; what follows the first part that is none is left out."""
    found: list[int] = []
    for part in version.split("."):
        digits = ""
        for character in part:
            if not character.isdigit():
                break
            digits += character
        if not digits or len(digits) > 9:
            break
        found.append(int(digits))
        if digits != part:
            break
    return tuple(found)


def below(version: str, limit: str) -> bool:
    """Whether a version comes before another; 2.21 and 2.21.0 are the same."""
    one, other = numbers(version), numbers(limit)
    width = max(len(one), len(other))
    return one + (0,) * (width - len(one)) < other + (0,) * (width - len(other))


LEAST_PYTHON = "3.11"
_REQUIREMENT = re.compile(r"^\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(?:;\s*(.*))?$")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
_LEAST = re.compile(r">=\s*([\w.]+)")
_BELOW = re.compile(r"<\s*([\w.]+)")


def python() -> DoctorItem:
    version = ".".join(map(str, sys.version_info[:3]))
    state = DoctorState.OLD if below(version, LEAST_PYTHON) else DoctorState.FOUND
    return DoctorItem("Python", state, version, f"{LEAST_PYTHON} or later", sys.executable)


def packages(extra: str = "") -> tuple[DoctorItem, ...]:
    """Those that always are needed, or those of one extra."""
    asked = requirements().get(extra, ())
    if not asked:
        remedy = "install atonc again with pip: the list of packages that it needs is not there"
        return (
            DoctorItem(f"metadata of atonc{f', extra {extra}' if extra else ''}", DoctorState.BROKEN, remedy=remedy),
        )
    return tuple(_look_for(name, limits, extra) for name, limits in asked)


@cache
def requirements() -> dict[str, tuple[tuple[str, str], ...]]:
    """Extra (empty: always) -> names and limits."""
    found: dict[str, list[tuple[str, str]]] = {}
    try:
        lines = metadata.requires("atonc") or []
    except metadata.PackageNotFoundError:
        lines = []
    for line in lines:
        if match := _REQUIREMENT.match(line):
            extra = _EXTRA.search(match[3] or "")
            found.setdefault(extra[1] if extra else "", []).append((match[1], match[2].strip()))
    return {extra: tuple(rows) for extra, rows in found.items()}


def _look_for(name: str, limits: str, extra: str) -> DoctorItem:
    remedy = f"pip install 'atonc[{extra}]'" if extra else f"pip install '{name}{limits}'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return DoctorItem(name, DoctorState.MISSING, wanted=limits, remedy=remedy)
    least, most = _LEAST.search(limits), _BELOW.search(limits)
    if least and below(version, least[1]):
        return DoctorItem(name, DoctorState.OLD, version, limits, remedy=f"pip install --upgrade '{name}{limits}'")
    if most and not below(version, most[1]):
        return DoctorItem(name, DoctorState.NEW, version, limits, remedy=f"pip install '{name}{limits}'")
    return DoctorItem(name, DoctorState.FOUND, version, limits)


STEPS = ("compile", "compare", "virtual-board", "try", "build", "sign", "flash", "measure", "debug", "st")


def examine(board: str, root: Path = Path("/"), ide: Path | None = None) -> Diagnosis:
    """`root`: where the system's files are; `ide`: an installation of STM32CubeIDE."""
    gcc, programmer = _tool(GCC, ide), _tool(PROGRAMMER, ide)
    described, st_link = _board(board), probe(root)
    cross = (gcc, newlib(gcc))
    flash = (programmer, _loader(programmer, board), st_link)
    steps = (
        DoctorGoal("compile", "compile a model", (python(), *packages(), *packages("models"), described)),
        DoctorGoal("compare", "compare with the models' own kernels", packages("reference")),
        DoctorGoal("virtual-board", "run firmware on the virtual board", (*packages("board"), *cross)),
        DoctorGoal("try", "test a new board (atonc board try)", cross, tuple(_servers(ide))),
        DoctorGoal("build", "build firmware", (*cross, _tool(OBJCOPY, ide)), (look_for(MAKE), look_for(CMAKE))),
        DoctorGoal("sign", "sign firmware", (_tool(SIGNER, ide),)),
        DoctorGoal("flash", "flash a board", flash),
        DoctorGoal("measure", "measure on a board", (*packages("serial"), port(root))),
        DoctorGoal("debug", "load images for a test", (*flash, _tool(GDB_SERVER, ide), _tool(GDB, ide))),
        DoctorGoal("st", "compare with ST's compiler", (look_for(STEDGEAI),)),
    )
    return Diagnosis(steps, board_names())


def _tool(program: InstalledProgram, ide: Path | None) -> DoctorItem:
    """Looks for a tool in the installation that the user names, else on the search path."""
    inside = sorted(ide.glob(f"plugins/*/tools/bin/{program.name}")) if ide is not None else []
    return look_for(program, inside[-1] if inside else None)


def _servers(ide: Path | None) -> Iterator[DoctorItem]:
    for program in PROGRAMS:
        try:
            path = find_server(program.name, ide).path
        except ToolError:
            yield DoctorItem(program.executables[0], DoctorState.MISSING, remedy=program.source)
        else:
            state = DoctorState.FOUND if program.knows_chip(path) else DoctorState.OLD
            yield DoctorItem(program.executables[0], state, where=str(path), remedy=program.source)


def _board(name: str) -> DoctorItem:
    try:
        found = find_board(name)
    except AtoncError as error:
        return DoctorItem(f"board {name[:60]}", DoctorState.BROKEN, remedy=error.one_line)
    return DoctorItem(f"board {found.name}", DoctorState.FOUND, found.title, where=found.file)


def _loader(programmer: DoctorItem, name: str) -> DoctorItem:
    """The programmer writes external flash with a small program for the board, which lies in a folder beside it."""
    try:
        board: Board | None = find_board(name)
    except AtoncError:
        board = None
    if board is None or not board.flash_loader:
        return DoctorItem("external loader", DoctorState.MISSING, remedy="name it in the board file: flash_loader")
    path = Path(programmer.where).resolve().parent / "ExternalLoader" / board.flash_loader if programmer.where else None
    if path is not None and path.is_file():
        return DoctorItem(board.flash_loader, DoctorState.FOUND, where=str(path))
    remedy = "it comes with STM32CubeProgrammer, in the folder ExternalLoader beside it"
    return DoctorItem(board.flash_loader, DoctorState.MISSING, remedy=remedy)


PROBE, PORT = "ST-LINK probe", "serial port of the board"
_ST = "0483"
_ST_LINKS = {"3744", "3748", "374a", "374b", "374d", "374e", "374f", "3752", "3753", "3754", "3755", "3757"}
_CONNECT = "connect the board with a data cable at its ST-LINK port; check the boot switches"
_UDEV = "install ST's udev rules (they come with STM32CubeProgrammer and STM32CubeIDE), then plug in again"
_GROUP = "add yourself to the group of the port (usually dialout: sudo usermod -aG dialout $USER) and log in again"
_MOST = 256


def probe(root: Path = Path("/")) -> DoctorItem:
    if not sys.platform.startswith("linux"):
        return DoctorItem(
            PROBE, DoctorState.FOUND, "not looked for on this system", remedy="STM32_Programmer_CLI -l lists probes"
        )
    found = list(_probes(root))
    if not found:
        return DoctorItem(PROBE, DoctorState.MISSING, remedy=_CONNECT)
    usable = [item for item in found if item.good]
    return usable[0] if usable else found[0]


def _probes(root: Path) -> Iterator[DoctorItem]:
    for device in _listed(root / "sys/bus/usb/devices"):
        if _read(device / "idVendor") != _ST or _read(device / "idProduct") not in _ST_LINKS:
            continue
        bus, number = _read(device / "busnum"), _read(device / "devnum")
        node = root / "dev/bus/usb" / bus.zfill(3) / number.zfill(3)
        name = plain(_read(device / "product") or "ST-LINK")
        if node.exists() and not os.access(node, os.R_OK | os.W_OK):
            yield DoctorItem(PROBE, DoctorState.BARRED, name, where=str(node), remedy=_UDEV)
        else:
            yield DoctorItem(PROBE, DoctorState.FOUND, name, where=str(node))


def port(root: Path = Path("/")) -> DoctorItem:
    if not sys.platform.startswith("linux"):
        return DoctorItem(PORT, DoctorState.FOUND, "not looked for on this system", remedy="name it: -d serial:PORT")
    named = [path for path in _listed(root / "dev/serial/by-id") if "STLINK" in path.name.upper().replace("-", "")]
    found = named or [path for path in _listed(root / "dev") if path.name.startswith("ttyACM")]
    if not found:
        return DoctorItem(PORT, DoctorState.MISSING, remedy=_CONNECT)
    barred = [path for path in found if not os.access(path, os.R_OK | os.W_OK)]
    if len(barred) == len(found):
        return DoctorItem(PORT, DoctorState.BARRED, where=plain(str(barred[0])), remedy=_GROUP)
    return DoctorItem(PORT, DoctorState.FOUND, where=plain(str(next(path for path in found if path not in barred))))


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())[:_MOST] if folder.is_dir() else []
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")[:200].strip() if path.is_file() else ""
    except OSError:
        return ""


_TIMEOUT_S = 20
_VERSION = re.compile(r"(\d{1,4}(?:\.\d{1,6}){1,3})")
_MOST_CHARACTERS = 20_000
_ARM_PACKAGES = "gcc-arm-none-eabi libnewlib-arm-none-eabi binutils-arm-none-eabi"
_PROGRAMMER = "STM32CubeProgrammer from st.com, its bin folder in PATH; STM32CubeIDE brings one too"


@dataclass(frozen=True)
class InstalledProgram:
    name: str
    least: str = ""
    why_least: str = ""
    remedy: str = ""
    argument: str = "--version"


GCC = InstalledProgram(
    "arm-none-eabi-gcc",
    "11.0",
    "code for the Cortex-M55 with its vector unit",
    f"Debian, Ubuntu: apt install {_ARM_PACKAGES}; elsewhere the Arm GNU toolchain, in PATH",
)
OBJCOPY = InstalledProgram("arm-none-eabi-objcopy", remedy=f"Debian, Ubuntu: apt install {_ARM_PACKAGES}")
MAKE = InstalledProgram("make", "3.81", "the Makefiles of ST's applications", "Debian, Ubuntu: apt install make")
CMAKE = InstalledProgram("cmake", "3.22", "presets", "Debian, Ubuntu: apt install cmake")
PROGRAMMER = InstalledProgram("STM32_Programmer_CLI", "2.18", "the first that knows the STM32N6", _PROGRAMMER)
SIGNER = InstalledProgram(
    "STM32_SigningTool_CLI", "2.18", "images of the STM32N6 (from 2.21 on with -align)", _PROGRAMMER
)
GDB_SERVER = InstalledProgram("ST-LINK_gdbserver", remedy="it comes with STM32CubeIDE: set STM32_CUBE_IDE_DIR")
GDB = InstalledProgram("arm-none-eabi-gdb", remedy="Debian, Ubuntu: apt install gdb-multiarch, linked to that name")
STEDGEAI = InstalledProgram(
    "stedgeai", "2.0", "the first for the STM32N6", "ST Edge AI Core from st.com; atonc works without"
)


def look_for(program: InstalledProgram, path: Path | None = None) -> DoctorItem:
    """`path`: where it is known to be, outside the search path."""
    found = str(path) if path is not None else shutil.which(program.name)
    wanted = f"{program.least} or later" if program.least else ""
    if found is None:
        return DoctorItem(program.name, DoctorState.MISSING, wanted=wanted, remedy=program.remedy)
    said = _said(found, program.argument)
    if said is None:
        remedy = f"try `{program.name} {program.argument}`; reinstall it: {program.remedy}"
        return DoctorItem(program.name, DoctorState.BROKEN, wanted=wanted, where=found, remedy=remedy)
    match = _VERSION.search(said)
    version = match[1] if match else ""
    if program.least and version and below(version, program.least):
        remedy = f"{program.least} is needed for {program.why_least}: {program.remedy}"
        return DoctorItem(program.name, DoctorState.OLD, version, wanted, found, remedy)
    return DoctorItem(program.name, DoctorState.FOUND, version or "version not told", wanted, found)


def newlib(gcc: DoctorItem) -> DoctorItem:
    """The C library that firmware is linked with: some packages bring the compiler alone."""
    remedy = "Debian, Ubuntu: apt install libnewlib-arm-none-eabi"
    if not gcc.where:
        return DoctorItem("newlib for Arm", DoctorState.MISSING, remedy=remedy)
    said = (_said(gcc.where, "-print-file-name=nano.specs") or "").strip()
    if said and Path(said).is_absolute() and Path(said).is_file():  # else the compiler repeats the bare name
        return DoctorItem("newlib for Arm", DoctorState.FOUND, where=plain(said))
    return DoctorItem("newlib for Arm", DoctorState.MISSING, remedy=remedy)


def _said(program: str, argument: str) -> str | None:
    """What it prints, if it ends well; tools of ST end badly after saying their version, so text counts too."""
    try:
        done = subprocess.run(
            [program, argument],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    text = (done.stdout + done.stderr)[:_MOST_CHARACTERS]
    return text if done.returncode == 0 or _VERSION.search(text) else None
