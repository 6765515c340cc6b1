"""STM32_Programmer_CLI, ST-LINK_gdbserver and arm-none-eabi-gdb for scripts that load firmware onto a board: what they
would program goes to the virtual board.

    python st_board_tools.py STATE programmer|server|gdb WORDS...

`programmer` remembers what is downloaded where. `gdb` starts the firmware that it is told to load, with all of that in
memory, its UART on a pseudo-terminal (STATE/port). `install` writes the programs, and a module that lets ST's clients
find that port as if it were an ST-LINK.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_SECONDS = 900
_READY = ("READY to receive", "ATONC READY")  # ST's validation firmware, and ours
_RESTORED = re.compile(r"^\s*restoreMem\s+\S+\s+(\S+)", re.MULTILINE)
_NAMES = {"STM32_Programmer_CLI": "programmer", "ST-LINK_gdbserver": "server", "arm-none-eabi-gdb": "gdb"}
_LOADERS = ("MX66UW1G45G_STM32N6570-DK.stldr", "MX25UM51245G_STM32N6570-NUCLEO.stldr")
_PORTS = """
import os, serial.tools.list_ports as known
from types import SimpleNamespace
known.comports = lambda *_, **__: [
    SimpleNamespace(device=os.environ["ST_PORT"], description="STLink", hwid="USB VID:PID=0483:3754", vid=0x0483)
]
"""


def install(folder: Path) -> dict[str, str]:
    """The programs in `folder`; what the environment of scripts must say."""
    state = folder / "state"
    state.mkdir(parents=True)
    for name, kind in _NAMES.items():
        words = f'"{sys.executable}" "{Path(__file__).resolve()}" "{state}" {kind} "$@"'
        (folder / name).write_text(f"#!/bin/sh\nexec {words}\n")
        (folder / name).chmod(0o755)
    for name in ("gcc", "objcopy", "size", "as", "ld"):
        found = shutil.which(f"arm-none-eabi-{name}")
        if found:
            (folder / f"arm-none-eabi-{name}").symlink_to(found)
    (folder / "ExternalLoader").mkdir()
    for loader in _LOADERS:
        (folder / "ExternalLoader" / loader).touch()
    (folder / "python").mkdir()
    (folder / "python" / "sitecustomize.py").write_text(_PORTS)
    port = state / "port"
    root = str(Path(__file__).resolve().parents[2])
    return {"ATONC_LINE": f"serial:{port}:115200", "ST_PORT": str(port), "ATONC_ROOT": root}


def end(folder: Path) -> None:
    """Ends the board, if one runs."""
    file = folder / "state" / "pid"
    if file.is_file():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGTERM)
        file.unlink()


def _programmer(state: Path, words: list[str]) -> int:
    if "--download" not in words:
        return 0
    at = words.index("--download")
    file = Path(words[at + 1])
    address = words[at + 2] if file.suffix == ".bin" else ""
    parts = _parts(state)
    kept = state / f"part_{len(parts)}{file.suffix}"
    shutil.copyfile(file, kept)
    (state / "parts.json").write_text(json.dumps([*parts, [str(kept), address]]))
    return 0


def _parts(state: Path) -> list[list[str]]:
    file = state / "parts.json"
    return json.loads(file.read_text()) if file.is_file() else []


def _gdb(state: Path, words: list[str]) -> int:
    """Loads and lets run: the board with what was programmed."""
    end(state.parent)
    flash = [_flash(Path(file), address) for file, address in _parts(state)]
    for word in words:
        if word.startswith("--command="):
            text = Path(word.partition("=")[2]).read_text()
            flash += [_flash(Path(file), "") for file in _RESTORED.findall(text)]
    command = [sys.executable, "-m", "atonc", "board", "run", words[-1], "--serial", f"pty:{state / 'port'}"]
    command += [*(word for part in flash for word in ("--flash", part)), "--seconds", str(_SECONDS)]
    environment = os.environ | {"PYTHONPATH": os.environ["ATONC_ROOT"]}
    log = state / "board.log"
    with log.open("wb") as output:
        board = subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)
    (state / "pid").write_text(str(board.pid))
    while not any(word in log.read_text(errors="replace") for word in _READY):
        if board.poll() is not None:
            print(log.read_text(errors="replace"))
            return 1
        time.sleep(0.1)
    return 0


def _flash(file: Path, address: str) -> str:
    if file.suffix != ".hex":
        return f"{file}@{address}"
    binary = file.with_suffix(".image")
    subprocess.run(["arm-none-eabi-objcopy", "-I", "ihex", "-O", "binary", str(file), str(binary)], check=True)
    return f"{binary}@{_lowest(file):#x}"


def _lowest(file: Path) -> int:
    """The first address of an Intel HEX file, where objcopy begins the binary."""
    high, found = 0, []
    for line in file.read_text().split():
        record = bytes.fromhex(line[1:])
        if record[3] == 4:
            high = int.from_bytes(record[4:6], "big") << 16
        elif record[3] == 0:
            found.append(high + int.from_bytes(record[1:3], "big"))
    return min(found)


if __name__ == "__main__":
    if sys.argv[3:] in (["--version"], ["-version"]):
        print("1.0 of the virtual board")
        sys.exit(0)
    kind = {"programmer": _programmer, "gdb": _gdb, "server": lambda state, words: 0}[sys.argv[2]]
    sys.exit(kind(Path(sys.argv[1]), sys.argv[3:]))
