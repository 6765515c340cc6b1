"""What tasks with a POOL mean that averages whole pictures: which channels, over which pixels, by which arithmetic.

Read off the tasks alone, for `check_merges`: nothing of the passes is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from atonc.compiler.plan.task import Task
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units import activ, arith
from atonc.machine.hw.units.activ import ActivConfig
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.pool import GLOBAL_AVERAGE, PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig


@dataclass(frozen=True)
class CheckedMeans:
    arithmetic: tuple[UnitConfig, ...]  # without the sizes of frames
    pixels: int
    step: int  # bytes from pixel to pixel
    channels: tuple[int, ...]
    places: tuple[int, ...]  # of their means in the result


def whole_means(parts: Sequence[CheckedMeans]) -> tuple[object, ...] | None:
    """What all tasks of a group do together; None unless they do each channel of the tensor once, in one way."""
    ways = {(one.arithmetic, one.pixels, one.step) for one in parts}
    found = sorted(pair for one in parts for pair in zip(one.channels, one.places, strict=True))
    if len(ways) != 1:
        return None
    ((units, pixels, step),) = ways
    return (units, pixels, step, found) if [channel for channel, _ in found] == list(range(step)) else None


def means_of(task: Task, first: str, result: str, frames: StrengConfig | None = None) -> CheckedMeans | None:
    """What the units between two nodes make of what the first one sends: `frames` in memory, or what it reads."""
    units = units_between(task, first, result)
    while units and is_identity(units[0]):
        units = units[1:]
    if not units or not isinstance(pool := units[0], PoolConfig) or pool.type != GLOBAL_AVERAGE or not pool.batch:
        return None
    if any(not isinstance(unit, ArithConfig) or unit.is_vector or unit.dual_input for unit in units[1:]):
        return None
    width, left = divmod(pool.line_elements, pool.batch)
    all_of_it = (pool.crop_left, pool.crop_top, pool.crop_right, pool.crop_bottom)
    if left or all_of_it != (0, 0, pool.line_elements - 1, pool.height - 1):
        return None
    config = frames or task.engines[first].config
    found = _channels(config, width * pool.height, pool.batch)
    writer = task.engines[result].config
    if found is None or writer.element_bytes != 1:
        return None
    step, channels = found
    places = stream_of(writer)
    if places.size != channels.size:
        return None
    plain = replace(
        pool, batch=0, line_elements=0, height=0, out_width=0, out_height=0, crop_right=0, crop_bottom=0
    )
    rest = (unit for unit in units[1:] if not is_identity(unit))
    return CheckedMeans((plain, *rest), width * pool.height, step, tuple(channels.tolist()), tuple(places.tolist()))


def units_between(task: Task, first: str, result: str) -> list[UnitConfig]:
    """The units of one line from a node to another; none if there is no such line."""
    found: list[UnitConfig] = []
    node = result
    for _ in range(len(task.wires)):
        into = [wire for wire in task.wires if wire.target == node]
        if len(into) != 1 or into[0].drop or into[0].keep or into[0].stop_after:
            return []
        node = into[0].source
        if node == first:
            return found[::-1]
        if node not in task.units:
            return []
        found.append(task.units[node])
    return []


def _channels(config: StrengConfig, pixels: int, batch: int) -> tuple[int, NDArray[np.int64]] | None:
    """Bytes from pixel to pixel, and the channels of frames that hold all pixels of `batch` of them."""
    if config.element_bytes != 1 or not pixels or config.elements % (pixels * batch):
        return None
    found = stream_of(config).reshape(-1, pixels, batch)
    step = int(found[0, 1, 0] - found[0, 0, 0]) if pixels > 1 else found.size
    channels = found[:, :1]
    even = np.array_equal(found, channels + (np.arange(pixels) * step)[:, None])
    return (step, channels.reshape(-1)) if even else None


def stream_of(config: StrengConfig) -> NDArray[np.int64]:
    """Bytes in the order in which an engine touches them."""
    loops = (*config.frame_loops(), *zip(config.shape, config.steps, strict=True))
    grid = np.ix_(*(np.arange(count) * step for count, step in loops))
    total: NDArray[np.int64] = config.address + sum(grid[1:], start=grid[0])
    return total.reshape(-1)


def is_identity(unit: UnitConfig) -> bool:
    """Whether it gives every byte back."""
    codes = np.arange(-128, 128, dtype=np.int8)
    if isinstance(unit, ActivConfig):
        return bool(np.array_equal(activ.execute(unit, codes), codes))
    if not isinstance(unit, ArithConfig) or unit.is_vector or unit.dual_input:
        return False
    if (unit.bytes_x, unit.out_bytes) != (1, 1):
        return False
    return bool(np.array_equal(arith.execute(unit, codes, None), codes))
