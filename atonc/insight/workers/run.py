"""Units in, results out: what is known is not computed again, what is computed is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from atonc.insight.workers.processes import LOCAL, Given, compute, compute_on_cluster, cores
from atonc.insight.workers.unit import Answer, Cache, Function, WorkUnit, answer, as_error, code_version, name_of
from atonc.machine.base.errors import AtoncError, InputError, ToolError
from atonc.machine.base.frozen import dataclass

Progress = Callable[[int, int], None]  # units done, units in all
OnFailure = Callable[[WorkUnit, AtoncError], bytes]


class LostWorkerError(ToolError):
    """Every worker that began a unit died."""


@dataclass(frozen=True)
class FinishedUnit:
    """The result of the unit of this number; `known`: it was in the cache, or another unit has the same contents."""

    number: int
    unit: WorkUnit
    result: bytes
    known: bool


def run(
    units: Sequence[WorkUnit],
    function: Function | str,
    *,
    scheduler: str | None = None,
    processes: int | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
    on_failure: OnFailure | None = None,
) -> list[bytes]:
    """The result of every unit, in their order; see `stream`."""
    results: list[bytes] = [b""] * len(units)
    if progress is not None:
        progress(0, len(units))
    found = stream(units, function, scheduler=scheduler, processes=processes, cache=cache, on_failure=on_failure)
    for count, done in enumerate(found, 1):
        results[done.number] = done.result
        if progress is not None:
            progress(count, len(units))
    return results


def stream(
    units: Sequence[WorkUnit],
    function: Function | str,
    *,
    scheduler: str | None = None,
    processes: int | None = None,
    cache: Path | None = None,
    on_failure: OnFailure | None = None,
    fresh: bool = False,
) -> Iterator[FinishedUnit]:
    """Every unit once, in any order, as results come: for who adds up instead of keeping all.

    `function`: of a module, or `module:function`; from a unit to bytes. `scheduler`: address of a Dask cluster, or
    "local" for one of this machine; without it `processes` of our own, by default one per core, 0 for none: the work
    is done here. `on_failure` gives the result of a unit that failed, which is not kept; without it the error is
    raised. `fresh`: what is kept is replaced.
    """
    name, kept = name_of(function), None if cache is None else Cache(cache)
    todo: dict[str, list[int]] = {}  # key -> the units that have it
    digests = [unit.digests() for unit in units]
    for number, unit in enumerate(units):
        key = unit.key(name, digests[number])
        found = kept.get(key) if kept is not None and key not in todo and not fresh else None
        if found is None:
            todo.setdefault(key, []).append(number)
        else:
            yield FinishedUnit(number, unit, found, True)
    keys = {numbers[0]: key for key, numbers in todo.items()}
    messages: dict[int, dict[str, Any]] = {
        first: {"function": name, "unit": units[first].as_document(digests[first]), "version": code_version()}
        for first in keys
    }
    for first, given in _compute(messages, scheduler, processes):
        result, failed = _result(units[first], given, on_failure)
        if kept is not None and not failed:
            kept.put(keys[first], result)
        for number in todo[keys[first]]:
            yield FinishedUnit(number, units[number], result, number != first)


def _compute(messages: dict[int, dict[str, Any]], scheduler: str | None, processes: int | None) -> Iterator[Given]:
    if not messages:
        return iter(())
    count = cores() if processes is None else processes
    if scheduler:
        return compute_on_cluster(messages, scheduler, max(1, count))
    if count == 0:
        return ((number, answer(m["function"], m["unit"], m["version"])) for number, m in messages.items())
    return compute(messages, count)


def _result(unit: WorkUnit, given: Answer | str, on_failure: OnFailure | None) -> tuple[bytes, bool]:
    """The bytes, and whether they stand for a failure."""
    if isinstance(given, str):
        remedy = "look at the memory of the machine, or give fewer processes"
        error: AtoncError = LostWorkerError(f"the worker {given}", where=unit.title, remedy=remedy)
    elif given[0]:
        error = as_error(given[0]["error"])
    else:
        return given[1], False
    if on_failure is None:
        raise error
    return on_failure(unit, error), True


def require_scheduler(text: str) -> str:
    """An address as the command line takes it."""
    if text == LOCAL or text.startswith(("tcp://", "tls://")):
        return text
    raise InputError(f"{text[:60]!r} is not the address of a Dask scheduler", remedy="give tcp://HOST:PORT, or local")
