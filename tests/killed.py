"""Kills at file system calls, and a reader that knows nothing of atonc. Used by tests and by benchmarks/kills.py.

Work runs in a process that forks. Python tells of every call that opens, makes, renames or removes something before it
is made: at a chosen one below the folder the process gets SIGKILL. What lies between two such calls changes no name,
so the calls of a folder are all moments that a reader can tell apart.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from atonc.machine.base.disk import HIDDEN

Work = Callable[[], object]
State = Mapping[str, bytes]
OLD, NEW, WITHOUT, MIX = "all old", "all new", "without what make needs", "a mix"


def calls_of(work: Work, folder: Path) -> int:
    """How many calls the work makes below the folder; it is done afterwards."""
    read, write = os.pipe()

    def counted() -> None:
        made = [0]
        _at_every_call(folder, lambda: made.__setitem__(0, made[0] + 1))
        try:
            work()
        finally:
            os.write(write, str(made[0]).encode())

    status = _in_child(counted)
    os.close(write)
    with os.fdopen(read) as told:
        number = int(told.read())
    assert status == 0, "the work failed without a kill"
    return number


def kill_at(work: Work, folder: Path, number: int) -> bool:
    """Does the work until one of its calls (from 0); whether it died there."""

    def doomed() -> None:
        left = [number]

        def call() -> None:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1

        _at_every_call(folder, call)
        work()

    return os.WIFSIGNALED(_in_child(doomed))


def _at_every_call(folder: Path, act: Callable[[], None]) -> None:
    below = os.path.realpath(folder)
    prefixes = (below, os.path.abspath(folder))

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" or event.startswith(("os.", "fcntl.")):
            paths = [os.fsdecode(one) for one in arguments if isinstance(one, (str, bytes, os.PathLike))]
            if any(path.startswith(prefixes) for path in paths):
                act()

    sys.addaudithook(heard)


def _in_child(work: Work) -> int:
    process = os.fork()
    if process == 0:
        code = 1
        try:
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    return os.waitpid(process, 0)[1]


def state_of(folder: Path) -> State:
    """What anybody sees: all files but hidden ones."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    named = {path.relative_to(folder): path for path in paths}
    return {
        place.as_posix(): path.read_bytes()
        for place, path in named.items()
        if not any(part.startswith(HIDDEN) for part in place.parts)
    }


def judged(found: State, old: State, new: State, needed: Collection[str]) -> str:
    """`needed`: what somebody's build of the firmware cannot do without. While one of these files is there, all files
    are of one build, and another of these is missing."""
    if found == new:
        return NEW
    if found == old:
        return OLD
    stops = not found.keys() & set(needed) or any(
        found.items() <= build.items() and build.keys() & set(needed) - found.keys() for build in (old, new)
    )
    return WITHOUT if stops else MIX
