"""Tools of others: found, run, and what they say put into one sentence."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from atonc.delivery.deploy import keeper
from atonc.machine.base.errors import ToolError

_SHOWN_LINES = 12
_HOUR_S = 3600
_MACHINE = ("-mcpu=cortex-m55", "-mthumb", "-mfpu=fpv5-d16", "-mfloat-abi=hard", "-std=gnu11")  # of the applications


def find(name: str, *folders: Path) -> Path | None:
    """Finds a program in these folders, or in the search path."""
    for folder in folders:
        inside = shutil.which(name, path=str(folder))
        if inside:
            return Path(inside)
    found = shutil.which(name)
    return Path(found) if found else None


def run(command: Sequence[str], folder: Path, what: str, keep_open: tuple[int, ...] = ()) -> str:
    """Its output; `keep_open` are files that it and its children hold until they end, which they do with us."""
    try:
        done = _kept(command, folder, keep_open) if os.name == "posix" else _started(command, folder)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{what} failed: {error}", where=str(command[0])) from None
    if done.returncode:
        shown = f"{shlex.join(command)}\n{_errors(done.stdout + done.stderr)}"
        failed = ToolError(f"{what} failed", where=str(folder), remedy=f"{shlex.join(command)} shows everything")
        failed.details = tuple(shown.splitlines())
        raise failed
    return done.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", "SOURCE_DATE_EPOCH": "0"}  # the same sources give the same bytes


def _started(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(command), cwd=folder, capture_output=True, text=True, errors="replace", timeout=_HOUR_S, env=_environment()
    )


def _kept(command: Sequence[str], folder: Path, keep_open: tuple[int, ...]) -> subprocess.CompletedProcess[str]:
    """In a process group that ends when we do, whatever ends us (`keeper.py` waits for the end of the pipe)."""
    listens, held = os.pipe()
    with os.fdopen(held, "wb"):
        with os.fdopen(listens, "rb") as stdin:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, *command],
                cwd=folder,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=_environment(),
                pass_fds=keep_open,
                start_new_session=True,
            )
        try:
            out, err = process.communicate(timeout=_HOUR_S)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
    return subprocess.CompletedProcess(list(command), process.returncode, out, err)


def _errors(text: str) -> str:
    lines = text.splitlines()
    words = ("error", "undefined", "overflow", "Error", "No rule", "multiple definition")
    found = [line for line in lines if any(word in line for word in words)]
    return "\n".join((found or lines[-_SHOWN_LINES:])[:_SHOWN_LINES])


def accepts(gcc: Path, source: str, *options: str) -> bool:
    """Whether the compiler takes a source with these options."""
    with tempfile.TemporaryDirectory() as folder:
        unit = Path(folder, "try.c")
        unit.write_text(source)
        command = [str(gcc), *_MACHINE, *options, "-c", str(unit), "-o", f"{unit}.o"]
        try:
            return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return False
