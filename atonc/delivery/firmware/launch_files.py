"""Launch files for VS Code: the firmware of a project on the virtual board, and on a real one.

They are written where a firmware project is written, and never over a file that is there already.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

FOLDER = ".vscode"
PORT = 3333
_TASK = "atonc: virtual board"
_READY = "gdb: target remote"  # what `atonc board run --gdb` prints when it listens


def launch_files(elf: str, flash: Sequence[str] = ()) -> dict[str, bytes]:
    """`elf` is relative to the project; `flash` are the words behind --flash."""
    image = f"${{workspaceFolder}}/{elf}"
    return {
        f"{FOLDER}/launch.json": _text({"version": "0.2.0", "configurations": [_virtual(image), _real(image)]}),
        f"{FOLDER}/tasks.json": _text({"version": "2.0.0", "tasks": [_task(image, flash)]}),
    }


def absent(files: Mapping[str, bytes], current: Callable[[str], bytes | None]) -> dict[str, bytes]:
    """Those that nobody has written yet. A configuration without its task would not start: if one file is the user's,
    so are both."""
    mine = all(current(file) in (None, data) for file, data in files.items())
    return dict(files) if mine else {}


def _virtual(image: str) -> dict[str, Any]:
    """For the extension ms-vscode.cpptools."""
    return {
        "name": "virtual board (atonc)",
        "type": "cppdbg",
        "request": "launch",
        "MIMode": "gdb",
        "miDebuggerPath": "gdb-multiarch",
        "miDebuggerServerAddress": f"localhost:{PORT}",
        "program": image,
        "cwd": "${workspaceFolder}",
        "stopAtConnect": True,
        "preLaunchTask": _TASK,
    }


def _real(image: str) -> dict[str, Any]:
    """For the extension marus25.cortex-debug, with ST's GDB server. The core of the STM32N6 is behind access port 1."""
    return {
        "name": "real board (ST-LINK)",
        "type": "cortex-debug",
        "request": "launch",
        "servertype": "stlink",
        "device": "STM32N657X0",
        "interface": "swd",
        "serverArgs": ["--apid", "1"],
        "executable": image,
        "cwd": "${workspaceFolder}",
        "runToEntryPoint": "main",
    }


def _task(image: str, flash: Sequence[str]) -> dict[str, Any]:
    words = [word for part in flash for word in ("--flash", f"${{workspaceFolder}}/{part}")]
    pattern = {"regexp": "^(never)$", "message": 1}  # nothing that it prints is a problem; VS Code wants one
    return {
        "label": _TASK,
        "type": "process",
        "command": "atonc",
        "args": ["board", "run", image, *words, "--gdb", f":{PORT}"],
        "isBackground": True,
        "problemMatcher": {
            "pattern": pattern,
            "background": {"activeOnStart": True, "beginsPattern": "^UART", "endsPattern": f"^{_READY}"},
        },
    }


def _text(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()
