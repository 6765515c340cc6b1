"""Processes of this machine, one per core: a thread of ours hands units to each and starts another when it dies."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from atonc.insight.workers.call import Answer
from atonc.machine.base.about import package_folder
from atonc.machine.base.child import ONE_THREAD, Child, ChildDiedError
from atonc.machine.base.errors import InputError

ATTEMPTS = 3  # of one unit whose worker died
_WORKER = "from atonc.insight.workers.process import main; main()"
Message = dict[str, Any]
Given = tuple[int, Answer | str]  # the unit's number; its answer, or how its last worker ended


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def compute(messages: Mapping[int, Message], processes: int) -> Iterator[Given]:
    """Answers as they come. Leaving early ends the processes."""
    if processes < 1:
        raise InputError(f"{processes} processes cannot work", remedy="give one or more")
    with _Pool(min(processes, len(messages)), messages) as pool:
        for _ in messages:
            found = pool.done.get()
            if isinstance(found, BaseException):
                raise found
            yield found


class _Pool:
    def __init__(self, processes: int, messages: Mapping[int, Message]) -> None:
        self.done: queue.Queue[Given | BaseException] = queue.Queue()
        self._messages, self._todo = messages, queue.SimpleQueue[int]()
        for number in messages:
            self._todo.put(number)
        self._lock, self._ended, self._running = threading.Lock(), False, set[Child]()
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(processes)]

    def __enter__(self) -> _Pool:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._ended = True
            for process in self._running:
                process.kill()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        """Units until none is left, whatever becomes of the processes that compute them."""
        process: Child | None = None
        try:
            while (number := self._next()) is not None:
                ended: Answer | str = ""
                for _ in range(ATTEMPTS):
                    process = process or self._start()
                    ended = _ask(process, self._messages[number])
                    if not isinstance(ended, str) or self._ended:
                        break
                    self._bury(process)
                    process = None
                self.done.put((number, ended))
        except BaseException as error:  # what starts no process; the caller hears of it
            self.done.put(error)
        finally:
            if process is not None:
                self._bury(process)

    def _next(self) -> int | None:
        try:
            return None if self._ended else self._todo.get_nowait()
        except queue.Empty:
            return None

    def _start(self) -> Child:
        with self._lock:
            if self._ended:
                raise InterruptedError
            process = Child(_WORKER, _environment(), own_session=True)
            self._running.add(process)
            return process

    def _bury(self, process: Child) -> None:
        process.close()
        with self._lock:
            self._running.discard(process)


def _ask(process: Child, message: Message) -> Answer | str:
    """The answer, or how the process ended."""
    try:
        return process.ask(message)
    except ChildDiedError as death:
        return death.how


def _environment() -> dict[str, str]:
    """Modules are found where this process finds them."""
    places = dict.fromkeys([str(package_folder().parent), *map(os.path.abspath, sys.path)])
    return {**ONE_THREAD, "PYTHONPATH": os.pathsep.join(places)}
