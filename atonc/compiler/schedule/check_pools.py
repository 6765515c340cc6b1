"""What tasks with a POOL mean that looks through windows: which bytes each result sees, by which arithmetic.

Read off the tasks alone, for `check_merges`: nothing of the passes is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.plan.task import Task
from atonc.compiler.schedule.check_means import is_identity, stream_of, units_between
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig


@dataclass(frozen=True, eq=False)
class Pooled:
    """Results of one task."""

    arithmetic: tuple[UnitConfig, ...]  # without the sizes of frames
    places: NDArray[np.int64]  # of the results in their buffer
    windows: NDArray[np.int64]  # a row for each: the bytes that it sees, line by line


def same_pools(reference: Sequence[Pooled], done: Sequence[Pooled]) -> bool:
    """Whether both make the same results, each once, of the same bytes, in one way."""
    ways = {one.arithmetic for one in (*reference, *done)}
    if len(ways) != 1 or not reference or not done:
        return False
    (one_places, one), (other_places, other) = _sorted(reference), _sorted(done)
    once = bool((np.diff(one_places) > 0).all())
    return once and np.array_equal(one_places, other_places) and np.array_equal(one, other)


def _sorted(parts: Sequence[Pooled]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    places = np.concatenate([one.places for one in parts])
    rows = np.argsort(places, kind="stable")
    return places[rows], np.concatenate([one.windows for one in parts])[rows]


def pooled(task: Task, first: str, result: str, frames: StrengConfig | None = None) -> Pooled | None:
    """What the units between two nodes make of what the first one sends: `frames` in memory, or what it reads."""
    units = units_between(task, first, result)
    while units and is_identity(units[0]):
        units = units[1:]
    if not units or not isinstance(pool := units[0], PoolConfig) or pool.is_global or not pool.batch:
        return None
    if any(not isinstance(unit, ArithConfig) or unit.is_vector or unit.dual_input for unit in units[1:]):
        return None
    config, writer = frames or task.engines[first].config, task.engines[result].config
    if config.element_bytes != 1 or writer.element_bytes != 1:
        return None
    seen, places = _seen(pool, stream_of(config)), stream_of(writer)
    if seen is None or seen.shape[0] != places.size:
        return None
    plain = replace(pool, batch=0, line_elements=0, height=0, out_width=0, out_height=0, crop_right=0, crop_bottom=0)
    return Pooled((plain, *(unit for unit in units[1:] if not is_identity(unit))), places, seen)


def _seen(pool: PoolConfig, stream: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """For each result of a unit, in its order: the elements of the stream in its window. None unless whole frames
    come, all of a frame is taken and its windows are what the unit counts."""
    width, left = divmod(pool.line_elements, pool.batch)
    crop = (pool.crop_left, pool.crop_top, pool.crop_right, pool.crop_bottom)
    if left or stream.size % pool.frame_elements or crop != (0, 0, pool.line_elements - 1, pool.height - 1):
        return None
    tall, wide = pool.out_height, pool.out_width
    if (tall - 1) * pool.stride_y + pool.window_y != pool.height:
        return None
    if (wide - 1) * pool.stride_x + pool.window_x != width:
        return None
    maps = stream.reshape(-1, pool.height, width, pool.batch)
    y, x = np.arange(tall) * pool.stride_y, np.arange(wide) * pool.stride_x
    corners = product(range(pool.window_y), range(pool.window_x))
    return np.stack([maps[:, (y + i)[:, None], x + j].reshape(-1) for i, j in corners], axis=1)
