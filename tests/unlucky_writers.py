"""Writers of one folder that are killed or run at the same time, and readers that must see one whole build.

Two builds of the same network that differ in every file are made once; writers then put them into a folder again and
again, so that kills fall into all moments of writing and hardly any into compiling. Each file of a build says which
build it is of.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from atonc.insight.explain.folder import folder_view
from atonc.insight.runs.runs import RunOptions, run
from atonc.machine.base import build_folder
from atonc.machine.base import build_folder as folder_change
from atonc.machine.base.disk import HIDDEN, read_file
from atonc.machine.base.errors import AtoncError
from tests.killed import kill_at

Build = Mapping[str, bytes]
Read = Callable[[Path], list[str]]
NAME = build_folder.network_build("network")
BEFORE, BEHIND, BETWEEN = "before its files were ready", "while they took their places", "between two builds"


def real_readings(folder: Path) -> list[str]:
    """What `atonc run` makes of the folder, and then what `atonc view` does: between them it may have changed."""
    return [_sees(lambda: _outputs(folder)), _sees(lambda: repr(folder_view(folder)))]


def _outputs(folder: Path) -> str:
    result = run(RunOptions(folder))
    return repr(sorted((name, value.tobytes()) for name, value in result.outputs.items()))


def raw_reading(folder: Path) -> list[str]:
    """The files of the folder as any reader finds them: many times faster than running the network."""

    def read() -> dict[str, bytes]:
        seen = [path for path in sorted(folder.glob("*")) if not path.name.startswith(HIDDEN)]  # a writer's, which goes
        return {path.name: read_file(path, 1 << 24) for path in seen if not path.is_dir()}

    return [_sees(lambda: repr(sorted(build_folder.read_whole(folder, read).items())))]


def write_for_ever(folder: Path, builds: list[Build], begins: int) -> None:
    os.write(begins, b"x")
    while True:
        for build in builds:
            build_folder.write_whole(folder, build, NAME)


def write_some(folder: Path, builds: list[Build], count: int) -> None:
    for number in range(count):
        build_folder.write_whole(folder, builds[number % len(builds)], NAME)


@contextmanager
def child(work: Callable[[], None]) -> Iterator[int]:
    """A process that does the work; killed at the end if it still runs."""
    process = os.fork()
    if process == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    try:
        yield process
    finally:
        try:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def kills(folder: Path, builds: list[Build], count: int, seed: int, read: Read) -> Counter[str]:
    """What a reader sees after each kill at a random moment: the fingerprint, or the error."""
    chooser, seen = random.Random(seed), Counter[str]()
    for number in range(count):
        begun, begins = os.pipe()
        order = builds[:: 1 if number % 2 else -1]  # what is there is seldom what is written next
        with child(lambda order=order, end=begins: write_for_ever(folder, order, end)):  # type: ignore[misc]
            os.read(begun, 1)  # a busy machine may take its time to start the process
            time.sleep(chooser.uniform(0.0, 0.1))
        os.close(begun)
        os.close(begins)
        seen[_moment(folder)] += 1
        seen.update(read(folder))
    return seen


def aimed_kills(folder: Path, builds: list[Build], read: Read) -> Counter[str]:
    """The same in front of every file system call, of each build over the other."""
    seen = Counter[str]()
    for old, new in (builds, builds[::-1]):
        died, number = True, 0
        while died:
            build_folder.write_whole(folder, old, NAME)
            died = kill_at(partial(build_folder.write_whole, folder, new, NAME), folder, number)
            number += 1
            seen[_moment(folder)] += 1
            seen.update(read(folder))
    return seen


def _moment(folder: Path) -> str:
    """Where the writer died, as its folder shows it."""
    if folder_change.open_changes(folder):
        return BEHIND
    return BEFORE if list(folder.glob(".atonc-*")) else BETWEEN


def pairs(folder: Path, builds: list[Build], count: int, each: int, read: Read) -> Counter[str]:
    """Two writers at the same time, and a reader that reads until both are done."""
    seen = Counter[str]()
    for _ in range(count):
        with (
            child(lambda: write_some(folder, builds, each)) as one,
            child(lambda: write_some(folder, builds[::-1], each)) as other,
        ):
            running = {one, other}
            while running:
                seen.update(read(folder))
                for process in list(running):
                    ended, status = os.waitpid(process, os.WNOHANG)
                    if ended:
                        running.discard(process)
                        seen["a writer failed"] += status != 0
        seen.update(read(folder))
    return +seen


def _sees(read: Callable[[], str]) -> str:
    """A short name of what was read, or the error."""
    try:
        return hashlib.sha256(read().encode()).hexdigest()
    except AtoncError as error:
        return f"error: {error}"
