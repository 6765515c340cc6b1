"""Debug probes and serial ports, as Linux shows them: which are there, and whether this user may use them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from atonc.delivery.doctor.types import DoctorItem, DoctorState
from atonc.machine.base.errors import plain

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
