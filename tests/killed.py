"""Kills at file system calls, and a reader that knows nothing of atonc.

Work runs in a process that forks. Python tells of every call that opens, makes, renames or removes something before it
is made: at a chosen one below the folder the process gets SIGKILL. What lies between two such calls changes no name,
so the calls of a folder are all moments that a reader can tell apart.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from atonc.machine.base.disk import HIDDEN

Work = Callable[[], object]
State = Mapping[str, bytes]
_CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.truncate")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
OLD, NEW, WITHOUT, MIX = "all old", "all new", "without what make needs", "a mix"


def calls_of(work: Work, folder: Path) -> tuple[int, int]:
    """The number of the first call below the folder that changes something, and of all; the work is done afterwards."""
    made, first = [0], list[int]()

    def call(changes: bool) -> None:
        if changes and not first:
            first.append(made[0])
        made[0] += 1

    def counted() -> str:
        _at_every_call(folder, call)
        work()
        return f"{first[0]} {made[0]}"

    number, total = _told(counted).split()
    return int(number), int(total)


def kill_at(work: Work, folder: Path, number: int) -> bool:
    """Does the work until one of its calls (from 0); whether it died there."""
    left = [number]

    def call(changes: bool) -> None:
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    def doomed() -> None:
        _at_every_call(folder, call)
        work()

    return os.WIFSIGNALED(_in_child(doomed))


def kill_often(work: Work, folder: Path, numbers: Sequence[int], restore: Work, look: Callable[[], str]) -> list[str]:
    """Does the work until its first change, and from there on once for every number, as a process of its own that dies
    at this call. Before each the folder is restored, after each somebody looks at it: what was seen."""
    made, dies_at, told = [0], list[int](), list[int]()
    at_work = [True]

    def call(changes: bool) -> None:
        if not at_work[0]:  # restored and looked at: no call of the work
            return
        if changes and not dies_at:
            at_work[0] = False
            dies_at.append(_each_in_turn())
            at_work[0] = True
        if dies_at and made[0] == dies_at[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        made[0] += 1

    def _each_in_turn() -> int:
        """In each of the processes that go on, where it dies."""
        seen = []
        for number in numbers:
            restore()
            process = os.fork()
            if process == 0:
                return number
            assert os.WIFSIGNALED(os.waitpid(process, 0)[1]), f"it came to its end before call {number}"
            seen.append(look())
        os.write(told[0], "\n".join(seen).encode())
        os._exit(0)

    def doomed() -> str:
        _at_every_call(folder, call)
        work()
        return ""

    return _told(doomed, told).split("\n")


def _told(work: Callable[[], str], end: list[int] | None = None) -> str:
    """What a process says that does the work; `end` gets the number of the file to say it through."""
    read, write = os.pipe()
    if end is not None:
        end.append(write)
    status = _in_child(lambda: os.write(write, work().encode()))
    os.close(write)
    with os.fdopen(read) as told:
        found = told.read()
    assert status == 0, "the work failed without a kill"
    return found


def _at_every_call(folder: Path, act: Callable[[bool], None]) -> None:
    """`act` hears whether the call changes something."""
    prefixes = (os.path.realpath(folder), os.path.abspath(folder))

    def heard(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" or event.startswith(("os.", "fcntl.")):
            paths = [os.fsdecode(one) for one in arguments if isinstance(one, (str, bytes, os.PathLike))]
            if any(path.startswith(prefixes) for path in paths):
                act(event in _CHANGES or (event == "open" and bool(int(str(arguments[2] or 0)) & _WRITES)))

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
