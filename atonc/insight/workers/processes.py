"""Who computes units: processes of this machine, one per core, to each of which a thread of ours hands units (it starts
another when one dies), or a Dask cluster, whose scheduler gives them to its workers, and again to others."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from atonc.insight.workers.unit import Answer, answer
from atonc.machine.base import child
from atonc.machine.base.about import package_folder
from atonc.machine.base.child import ONE_THREAD, Child, ChildDiedError
from atonc.machine.base.errors import InputError, ToolError

ATTEMPTS = 3  # of one unit whose worker died
_WORKER = "from atonc.insight.workers.processes import main; main()"
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


def main() -> None:
    answers = child.answers()
    todo: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(todo,), daemon=True).start()
    while True:
        asked = todo.get()
        child.send(answers, *answer(asked["function"], asked["unit"], asked["version"]))


def _listen(todo: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Ends the process with whoever started it, also in the middle of its work."""
    try:
        while True:
            todo.put(child.receive(sys.stdin.buffer)[0])
    except (EOFError, ValueError, OSError):
        os._exit(0)


LOCAL = "local"
CONNECT_SECONDS = 10.0
_HOW = "start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1 --nworkers auto`"


def compute_on_cluster(messages: Mapping[int, Message], scheduler: str, processes: int) -> Iterator[Given]:
    """Answers as they come. `scheduler`: its address, or "local" for a cluster of processes of this machine."""
    distributed = _distributed()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # lost workers are told in pages, and are our business
    with ExitStack() as stack:
        where = stack.enter_context(_local(distributed, processes)) if scheduler == LOCAL else scheduler
        try:
            client = stack.enter_context(distributed.Client(where, timeout=CONNECT_SECONDS, set_as_default=False))
        except (OSError, ValueError, TimeoutError) as error:
            raise ToolError(f"no Dask scheduler answers at {scheduler}: {str(error)[:200]}", remedy=_HOW) from None
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except TimeoutError:
            raise ToolError(f"the Dask scheduler at {scheduler} has no workers", remedy=_HOW) from None
        yield from _answers(distributed, client, messages)


def _local(distributed: Any, processes: int) -> Any:
    quiet = logging.CRITICAL
    return distributed.LocalCluster(processes, threads_per_worker=1, dashboard_address=":0", silence_logs=quiet)


def _answers(distributed: Any, client: Any, messages: Mapping[int, Message]) -> Iterator[Given]:
    numbers = {}
    for number, message in messages.items():
        words = (message["function"], message["unit"], message["version"])
        numbers[client.submit(answer, *words, pure=False, retries=0)] = number  # answers are never exceptions
    for future in distributed.as_completed(list(numbers), loop=client.loop):
        number = numbers.pop(future)
        try:
            words, result = future.result()
        except distributed.KilledWorker:  # lost as often as `distributed.scheduler.allowed-failures` permits
            yield number, "was lost again and again"
        except (OSError, distributed.CancelledError) as error:
            raise ToolError(f"the Dask scheduler is gone: {error}", remedy="run again: what is done is kept") from None
        else:
            yield number, (words, result)
        future.release()  # the cluster need not keep what is here


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ToolError("Dask is not installed", remedy="pip install 'atonc[cluster]'") from None
    return distributed
