"""Groups of tasks that take the maximum or the mean of windows of a picture: a POOL and the ARITHs behind it.

Windows see one channel at a time, so they may follow whatever writes lines of some channels one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from atonc.hw.fields import UnitConfig
from atonc.hw.units.activ import THRESHOLD_RELU, ActivConfig
from atonc.hw.units.arith import ArithConfig
from atonc.hw.units.pool import PoolConfig
from atonc.hw.units.stream_engine import StrengConfig
from atonc.plan.streams import Area, Frames, engine
from atonc.plan.task import ENGINE, EngineUse, Task, TaskGroup, Wire
from atonc.schedule.averages import line_of, places
from atonc.schedule.pointwise import IDENTITY, in_turns, next_name

LOWEST = -128
UNCHANGED = ActivConfig(  # what is above the lowest code stays, the rest becomes the lowest: pools were seen behind it
    type=THRESHOLD_RELU, parameter=LOWEST, parameter2=LOWEST, feature_bytes=1, feature_out_bytes=1, feature_shift=16,
    out_bytes=1, rounded=1, saturated=1, round_mode=1, signed_operand=1,
)  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """Steps in bytes through a picture, channel last."""

    line: int
    pixel: int
    offset: int  # of the first element


@dataclass(frozen=True)
class Windows:
    """What all tasks of a group do together."""

    pool: PoolConfig  # of one of the tasks
    units: tuple[UnitConfig, ...]  # behind it
    source: str  # buffers
    target: str
    near: Picture
    far: Picture
    seen: tuple[int, int]  # lines and pixels that some window sees
    origin: tuple[str, ...] = ()

    @property
    def out(self) -> tuple[int, int]:
        return _after(self.pool, *self.seen)

    @property
    def channels(self) -> int:
        return self.near.pixel


@dataclass(frozen=True)
class Band:
    """Frames of some lines of a picture, each with `depth` channels."""

    first: int  # line
    lines: int
    channel: int  # of the first frame
    depth: int
    frames: int
    step: int  # channels from frame to frame


def _after(pool: PoolConfig, lines: int, pixels: int) -> tuple[int, int]:
    return (lines - pool.window_y) // pool.stride_y + 1, (pixels - pool.window_x) // pool.stride_x + 1


# ------------------------------------------------------------------------------------------------- of the consumer


def windows(group: TaskGroup) -> Windows | None:
    """None if the group does anything else than windows of one whole picture."""
    parts = [_part(task) for task in group.tasks]
    if not parts or None in parts:
        return None
    found = [one for one in parts if one is not None]
    if len({_alike(one) for one, _ in found}) != 1:
        return None
    first, _ = found[0]
    whole = replace(first, seen=(max(one.seen[0] for one, _ in found), max(one.seen[1] for one, _ in found)))
    lines, pixels = whole.out
    return whole if sum(written for _, written in found) == lines * pixels * whole.channels else None


def _alike(work: Windows) -> Windows:
    """Without the sizes of frames."""
    pool = replace(work.pool, batch=0, line_elements=0, height=0, out_width=0, out_height=0)
    return replace(work, seen=(0, 0), pool=replace(pool, crop_right=0, crop_bottom=0))


def _part(task: Task) -> tuple[Windows, int] | None:
    """The windows of one task, with all that they see from the first line on; and how many there are."""
    chain = list(line_of(task))
    if len(chain) < 3 or len(task.engines) != 2 or len(task.units) != len(chain) - 2:
        return None
    reader, writer = (task.engines.get(chain[k]) for k in (0, -1))
    pool, *rest = (task.units[name] for name in chain[1:-1])
    if reader is None or writer is None or not isinstance(pool, PoolConfig) or pool.is_global:
        return None
    if not all(isinstance(unit, ArithConfig) and not (unit.is_vector or unit.dual_input) for unit in rest):
        return None
    tall, wide = pool.height, pool.line_elements // pool.batch
    near = _grid(reader.config, tall, wide, pool.batch)
    far = _grid(writer.config, pool.out_height, pool.out_width, pool.batch)
    if near is None or far is None or _after(pool, tall, wide) != (pool.out_height, pool.out_width):
        return None
    line, place = divmod(near.offset, near.line)
    pixel, channel = divmod(place, near.pixel)
    if line % pool.stride_y or pixel % pool.stride_x:
        return None
    first = line // pool.stride_y * far.line + pixel // pool.stride_x * far.pixel + channel  # of the results
    ends = replace(near, offset=0), replace(far, offset=far.offset - first)
    seen = line + tall, pixel + wide
    work = Windows(pool, tuple(rest), reader.buffer, writer.buffer, *ends, seen, task.origin)
    return work, writer.config.elements


def _grid(config: StrengConfig, lines: int, pixels: int, depth: int) -> Picture | None:
    """The picture that an engine walks through, in frames of so many lines and pixels, each of the next channels."""
    if config.element_bytes != 1 or lines < 2 or pixels < 2 or config.elements % (lines * pixels * depth):
        return None
    found = places(config).reshape(-1, lines, pixels, depth)
    first = int(found[0, 0, 0, 0])
    picture = Picture(int(found[0, 1, 0, 0]) - first, int(found[0, 0, 1, 0]) - first, first)
    if picture.pixel < depth or picture.line < picture.pixel * pixels:
        return None
    frames, y, x, channel = np.ix_(*map(np.arange, found.shape))
    even = first + frames * depth + y * picture.line + x * picture.pixel + channel
    return picture if np.array_equal(found, even) else None


# ------------------------------------------------------------------------------------------------- of the producer


def band_of(config: StrengConfig, work: Windows) -> Band | None:
    """The lines that an engine writes, if it writes whole ones of some channels; None for another order."""
    pixels, depth = work.near.line // work.near.pixel, work.channels if config.raw else config.shape[2]
    if config.element_bytes != 1 or config.elements % (pixels * depth):
        return None
    found = places(config).reshape(-1, pixels, depth)
    starts = found[:, 0, 0]
    x, channel = np.ix_(np.arange(pixels), np.arange(depth))
    if not np.array_equal(found, starts[:, None, None] + x * work.near.pixel + channel):
        return None
    ends = np.flatnonzero(np.diff(starts) != work.near.line)
    lines = int(ends[0]) + 1 if ends.size else starts.size
    if starts.size % lines:
        return None
    return _even(starts.reshape(-1, lines), depth, work)


def _even(starts: NDArray[np.int64], depth: int, work: Windows) -> Band | None:
    frames, lines = starts.shape
    first, channel = divmod(int(starts[0, 0]), work.near.line)
    step = int(starts[1, 0] - starts[0, 0]) if frames > 1 else depth
    k, y = np.ix_(np.arange(frames), np.arange(lines))
    even = np.array_equal(starts, starts[0, 0] + k * step + y * work.near.line)
    last = channel + (frames - 1) * step + depth
    return Band(first, lines, channel, depth, frames, step) if even and step > 0 and last <= work.channels else None


def is_whole(band: Band, work: Windows) -> bool:
    """Whether its windows lie in these lines, and no line or pixel is left over."""
    pool, (lines, pixels) = work.pool, work.seen
    if work.near.line != pixels * work.near.pixel:
        return False
    apart = pool.window_y == pool.stride_y and not (band.first % pool.stride_y or band.lines % pool.stride_y)
    return (apart and band.first + band.lines <= lines) or (band.first, band.lines) == (0, lines)


def follow_windows(
    producer: Task, writer: str, work: Windows, band: Band, keep: bool, spacers: tuple[int, int], turns: bool
) -> Task:
    """The task of a producer with the windows behind it. `keep`: `writer` stays. `spacers`: ARITHs and ACTIVs in front
    of the POOL that change nothing. `turns`: the result is written in the frame loop."""
    units, engines = dict(producer.units), dict(producer.engines)
    wires = [wire for wire in producer.wires if wire.target != writer]
    last = next(wire.source for wire in producer.wires if wire.target == writer)
    between = (*[IDENTITY] * spacers[0], *[UNCHANGED] * spacers[1])
    for number, unit in enumerate((*between, _sized(work, band), *work.units)):
        if number == len(between) and keep:
            wires.append(Wire(last, writer, 0))
        name = next_name(unit.KIND, units)
        units[name] = unit
        wires.append(Wire(last, name, 0))
        last = name
    result = next_name(ENGINE, engines)
    if not keep:
        del engines[writer]
    config = _result(work, band)
    engines[result] = EngineUse(work.target, in_turns(config) if turns else config)
    wires.append(Wire(last, result, 0))
    origin = tuple(dict.fromkeys((*producer.origin, *work.origin)))
    return replace(producer, origin=origin, units=units, engines=engines, wires=tuple(wires))


def _sized(work: Windows, band: Band) -> PoolConfig:
    line = work.seen[1] * band.depth
    tall, wide = _after(work.pool, band.lines, work.seen[1])
    pool = replace(work.pool, batch=band.depth, line_elements=line, height=band.lines)
    return replace(pool, crop_right=line - 1, crop_bottom=band.lines - 1, out_width=wide, out_height=tall)


def _result(work: Windows, band: Band) -> StrengConfig:
    """As a convolution writes groups of channels."""
    tall, wide = _after(work.pool, band.lines, work.seen[1])
    offset = work.far.offset + band.first // work.pool.stride_y * work.far.line + band.channel
    area = Area(tall, wide, band.depth, work.far.line, work.far.pixel, offset)
    looped = band.frames > 1 and not area.contiguous
    return engine(area, Frames(band.frames, band.step), write=True, looped=looped)
