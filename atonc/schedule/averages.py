"""Groups of tasks that average whole pictures, channel by channel: a POOL and the ARITHs behind it.

The mean of a channel does not depend on which other channels come with it, so it may follow whatever writes all pixels
of some channels in a frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atonc.hw.fields import UnitConfig
from atonc.hw.units.arith import ArithConfig
from atonc.hw.units.pool import GLOBAL_AVERAGE, PoolConfig
from atonc.hw.units.stream_engine import StrengConfig
from atonc.plan.streams import contiguous
from atonc.plan.task import ENGINE, EngineUse, Task, TaskGroup, Wire
from atonc.schedule.pointwise import IDENTITY, next_name


@dataclass(frozen=True)
class Averages:
    """What every task of the group does."""

    pool: PoolConfig  # of one of the tasks
    units: tuple[UnitConfig, ...]  # behind it
    source: str  # buffers
    target: str
    pixels: int
    channels: int
    origin: tuple[str, ...] = ()


def averages(group: TaskGroup, size_bytes: Mapping[str, int]) -> Averages | None:
    """`size_bytes`: of buffers. None if the group does anything else."""
    found: Averages | None = None
    written = 0
    for task in group.tasks:
        one = _work(task, size_bytes)
        if one is None or (found is not None and (one.source, one.target, one.units) != _places(found)):
            return None
        found = found or one
        written += sum(use.config.elements for use in task.writers())
    return found if found is not None and written == found.channels == size_bytes[found.target] else None


def _places(work: Averages) -> tuple[str, str, tuple[UnitConfig, ...]]:
    return work.source, work.target, work.units


def _work(task: Task, size_bytes: Mapping[str, int]) -> Averages | None:
    chain = list(line_of(task))
    if len(chain) < 3 or len(task.engines) != 2 or len(task.units) != len(chain) - 2:
        return None
    reader, writer = (task.engines.get(chain[k]) for k in (0, -1))
    first, *rest = (task.units[name] for name in chain[1:-1])
    if reader is None or writer is None or not isinstance(first, PoolConfig) or first.type != GLOBAL_AVERAGE:
        return None
    if not all(isinstance(unit, ArithConfig) and not (unit.is_vector or unit.dual_input) for unit in rest):
        return None
    pixels = first.line_elements * first.height // max(1, first.batch)
    channels = channels_of(reader.config, pixels, first.batch, size_bytes[reader.buffer])
    if channels is None or not np.array_equal(channels, places(writer.config)):
        return None
    count = size_bytes[reader.buffer] // pixels
    return Averages(first, tuple(rest), reader.buffer, writer.buffer, pixels, count, task.origin)


def line_of(task: Task) -> Iterator[str]:
    """Units and engines from the reader to the writer, if they are one line without gates."""
    after = {wire.source: wire for wire in task.wires}
    if len(after) != len(task.wires) or any(wire.drop or wire.keep or wire.stop_after for wire in task.wires):
        return
    name = next((n for n, use in task.engines.items() if not use.config.to_memory), "")
    while name:
        yield name
        name = after[name].target if name in after else ""


def places(config: StrengConfig) -> NDArray[np.int64]:
    """The bytes that an engine touches, in their order."""
    found = np.array([config.address])
    for count, step in (*config.frame_loops(), *zip(config.shape, config.steps, strict=True)):
        found = (found[:, None] + np.arange(count) * step).reshape(-1)
    return found


def channels_of(config: StrengConfig, pixels: int, batch: int, size_bytes: int) -> NDArray[np.int64] | None:
    """The channels that come in frames of all pixels of a tensor, `batch` of them at a time; None for other frames."""
    if config.element_bytes != 1 or not pixels * batch or config.elements % (pixels * batch) or size_bytes % pixels:
        return None
    found, step = places(config).reshape(-1, pixels, batch), size_bytes // pixels
    channels = found[:, 0]
    whole = np.array_equal(found, channels[:, None] + (np.arange(pixels) * step)[:, None])
    return channels.reshape(-1) if whole and channels.max() < step else None


def follow_average(
    producer: Task, writer: str, work: Averages, size_bytes: int, keep: bool, spacers: tuple[int, int]
) -> Iterator[Task]:
    """The task of a producer with the averages behind it, in frames that the unit may take. `keep`: `writer` stays.
    `spacers`: identities in front of the POOL and at the end."""
    config = producer.engines[writer].config
    batch = work.channels if config.raw else config.shape[2]
    channels = channels_of(config, work.pixels, batch, size_bytes)
    if channels is None or not np.array_equal(channels, channels[0] + np.arange(channels.size)):
        return
    for height, width in dict.fromkeys((_frame(work.pool), config.shape[:2])):
        if height * width != work.pixels:
            continue
        line = width * batch
        pool = replace(work.pool, batch=batch, line_elements=line, height=height)
        pool = replace(pool, crop_right=line - 1, crop_bottom=height - 1, out_width=width + 1, out_height=height + 1)
        behind = (*[IDENTITY] * spacers[0], pool, *work.units, *[IDENTITY] * spacers[1])
        yield _longer(producer, writer, behind, spacers[0], keep, work, channels)


def _frame(pool: PoolConfig) -> tuple[int, int]:
    return pool.height, pool.line_elements // pool.batch


def _longer(
    producer: Task,
    writer: str,
    behind: tuple[UnitConfig, ...],
    spacers: int,
    keep: bool,
    work: Averages,
    channels: NDArray[np.int64],
) -> Task:
    units, engines = dict(producer.units), dict(producer.engines)
    wires = [wire for wire in producer.wires if wire.target != writer]
    last = next(wire.source for wire in producer.wires if wire.target == writer)
    for number, unit in enumerate(behind):
        if number == spacers and keep:
            wires.append(Wire(last, writer, 0))
        name = next_name(unit.KIND, units)
        units[name] = unit
        wires.append(Wire(last, name, 0))
        last = name
    result = next_name(ENGINE, engines)
    if not keep:
        del engines[writer]
    engines[result] = EngineUse(work.target, contiguous(channels.size, write=True, offset=int(channels[0])))
    wires.append(Wire(last, result, 0))
    origin = tuple(dict.fromkeys((*producer.origin, *work.origin)))
    return replace(producer, origin=origin, units=units, engines=engines, wires=tuple(wires))
