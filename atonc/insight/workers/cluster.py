"""A Dask cluster: the scheduler gives the units to its workers, and again to others when one is lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from atonc.insight.workers.call import answer
from atonc.insight.workers.local import Given, Message
from atonc.machine.base.errors import ToolError

LOCAL = "local"
CONNECT_SECONDS = 10.0
_HOW = "start one with `dask scheduler`, and workers with `dask worker ADDRESS --nthreads 1 --nworkers auto`"


def compute(messages: Mapping[int, Message], scheduler: str, processes: int) -> Iterator[Given]:
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
