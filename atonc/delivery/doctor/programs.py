"""Programs on the search path: where, which version, and whether it will do."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from atonc.delivery.doctor.types import DoctorItem, DoctorState, below
from atonc.machine.base.errors import plain
from atonc.machine.base.frozen import dataclass

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
