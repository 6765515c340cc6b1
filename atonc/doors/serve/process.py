"""One process with limits: started in a group of its own, listened to, and ended with all its children."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from atonc.machine.base.about import package_folder
from atonc.machine.base.child import ONE_THREAD
from atonc.machine.base.frozen import dataclass

LINE_BYTES = 1 << 16  # of one message
BURIAL_SECONDS, POLL_SECONDS = 5.0, 0.05
LOG_BYTES = 4000  # of what a process said last, for who wants to know why it failed
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHASHSEED", "SYSTEMROOT", "VIRTUAL_ENV")
Message = dict[str, Any]


@dataclass(frozen=True)
class ProcessEnd:
    """How it ended: `signal` is 0 for a process that ended by itself."""

    exit_code: int
    signal: int = 0
    timed_out: bool = False
    log: str = ""


def worker_command(verb: str, *words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "atonc.doors.serve.worker", verb, *words]


async def run_limited(
    command: Sequence[str], folder: Path, seconds: float, tell: Callable[[Message], None] = lambda message: None
) -> ProcessEnd:
    """Runs it in `folder`; `tell` gets every JSON object that it prints. Cancelling this ends the process first."""
    scratch, log = folder / "scratch", folder / "log.txt"
    scratch.mkdir(exist_ok=True)
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=folder,
            env=_environment(scratch),
            stdin=asyncio.subprocess.PIPE,  # never written to: its end tells the process that the server is gone
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=LINE_BYTES,
            start_new_session=True,
        )
    timed_out = False
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            group.create_task(_orphans(process))
            group.create_task(_listen(process, tell))
    except TimeoutError:
        timed_out = True
    finally:
        _end_group(process.pid)
        await asyncio.shield(_bury(process))
    code = process.returncode or 0
    return ProcessEnd(max(code, 0), max(-code, 0), timed_out, _tail(log))


async def _listen(process: asyncio.subprocess.Process, tell: Callable[[Message], None]) -> None:
    assert process.stdout is not None
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:  # longer than any message of ours
            continue
        if not line:
            return
        with contextlib.suppress(ValueError, RecursionError):
            message = json.loads(line)
            if isinstance(message, dict):
                tell(message)


async def _orphans(process: asyncio.subprocess.Process) -> None:
    """Children that outlive the process end too; else they would hold its output open."""
    while process.returncode is None:  # `wait` would wait for the output
        await asyncio.sleep(POLL_SECONDS)
    _end_group(process.pid)


def _end_group(group: int) -> None:
    """The process, if it still runs, and whatever it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


async def _bury(process: asyncio.subprocess.Process) -> None:
    """Waits for its end and closes the pipes; a child that left the group may still hold one."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.communicate(), BURIAL_SECONDS)
    await process.wait()


def _environment(scratch: Path) -> dict[str, str]:
    """What a compilation needs; not the server's token, nor what else is nobody's business."""
    found = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return found | ONE_THREAD | {"TMPDIR": str(scratch), "PYTHONPATH": str(package_folder().parent)}


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
        return file.read().decode("utf-8", "replace")
