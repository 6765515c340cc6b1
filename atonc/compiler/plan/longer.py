"""Longer tasks: the work of one behind the units of another, on what the other would write."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from atonc.compiler.plan.streams import Area, Frames, as_reader, engine, in_turns, with_idle_steps
from atonc.compiler.plan.task import ENGINE, EngineUse, Purpose, Task, Wire
from atonc.machine.base.frozen import dataclass, replace
from atonc.machine.hw.fields import UnitConfig, changed
from atonc.machine.hw.footprint import places
from atonc.machine.hw.units.activ import THRESHOLD_RELU, ActivConfig
from atonc.machine.hw.units.arith import AFFINE, ArithConfig
from atonc.machine.hw.units.pool import PoolConfig
from atonc.machine.hw.units.stream_engine import StrengConfig

LOWEST = -128
IDENTITY = ArithConfig(  # gives every code back: some chains were seen with one more ARITH than the work needs
    operation=AFFINE, combine_bc=1, a=1 << 14, shift_out=14, rounded=1, saturated=1, round_mode=1, out_bytes=1,
    bytes_x=1, out_bytes_x=1, bytes_y=1, out_bytes_y=1,
)  # fmt: skip
UNCHANGED = ActivConfig(  # what is above the lowest code stays, the rest becomes the lowest: pools were seen behind it
    type=THRESHOLD_RELU, parameter=LOWEST, parameter2=LOWEST, feature_bytes=1, feature_out_bytes=1, feature_shift=16,
    out_bytes=1, rounded=1, saturated=1, round_mode=1, signed_operand=1,
)  # fmt: skip
MOST_SPACERS = 2  # such units in a row, as seen


def follow(
    producer: Task,
    writer: str,
    between: Sequence[UnitConfig],
    work: Task,
    streams: Mapping[str, str],
    result: EngineUse,
    keep: bool,
) -> Task:
    """The producer with the work of another task behind it, and units that change nothing between them. `streams`:
    operands of the work that the producer has in the order of `writer`, each with the unit that sends them; others are
    read in that order. `keep`: `writer` stays."""
    first, before = sender(producer, writer), inserted(producer, writer, between)
    units, engines = dict(before.units), {name: use for name, use in before.engines.items() if keep or name != writer}
    names: dict[str, str] = {}
    for name, unit in work.units.items():
        names[name] = next_name(unit.KIND, units)
        units[names[name]] = unit
    for name, use in work.engines.items():
        if use.buffer in streams and not use.writes:
            names[name] = sender(before, writer) if streams[use.buffer] == first else streams[use.buffer]
            continue
        names[name] = next_name(ENGINE, {*engines, *producer.engines})
        order = producer.engines[writer].config
        engines[names[name]] = result if use.writes else EngineUse(use.buffer, as_reader(order))
    kept = (wire for wire in before.wires if keep or wire.target != writer)
    more = (wire._replace(source=names[wire.source], target=names[wire.target]) for wire in work.wires)
    origin = dict.fromkeys((*producer.origin, *(work.origin if work.purpose == Purpose.COMPUTE else ())))
    return replace(producer, origin=tuple(origin), units=units, engines=engines, wires=(*kept, *more))


def sender(task: Task, writer: str) -> str:
    """The unit whose results an engine writes."""
    return next(wire.source for wire in task.wires if wire.target == writer)


def alike(use: EngineUse, buffer: str, turns: bool) -> EngineUse:
    """The same walk through another buffer. `turns`: in the frame loop."""
    return EngineUse(buffer, in_turns(use.config) if turns else use.config)


@dataclass(frozen=True)
class RunsApart:
    """Where the bytes of a buffer go: runs of them, from `first` on, so far apart."""

    first: int
    run: int
    step: int

    def far(self, distance: int) -> int:
        return distance // self.run * self.step + distance % self.run

    def writer(self, config: StrengConfig) -> StrengConfig | None:
        """Writes in the same order to where the bytes go; None if no one engine does."""
        size, pixel = config.element_bytes, self.run
        if config.raw and config.address % pixel + config.frame_bytes > pixel:
            pixels, rest = divmod(config.frame_bytes, pixel)
            if rest or pixel % size:
                return None
            first, line = self.first + self.far(config.address), pixels * self.step
            area = Area(1, pixels, pixel // size, line, self.step, first, size)
            loops = [(count, self.far(step)) for count, step in config.frame_loops()]
            moved = with_idle_steps(engine(area, Frames(*(n for loop in reversed(loops) for n in loop)), write=True))
        else:
            line, apart = self.far(config.line_offset), self.far(config.pixel_offset)
            moved = changed(
                config,
                address=self.first + self.far(config.address),
                frame_offset=self.far(config.frame_offset),
                repeat_offset=self.far(config.repeat_offset),
                pixel_offset_low=apart & 0xFFFF,
                pixel_offset_high=apart >> 16,
                line_offset_low=line & 0xFFFF,
                line_offset_high=line >> 16,
            )
        wanted = places(config)
        same = np.array_equal(places(moved), self.first + wanted // pixel * self.step + wanted % pixel)
        return moved if same else None


def moved_writers(task: Task, writer: str, buffer: str, spread: RunsApart) -> Iterator[Task]:
    """Writes elsewhere, into another buffer: in the forms of engines that were seen."""
    config = spread.writer(task.engines[writer].config)
    for one in dict.fromkeys((config, in_turns(config))) if config else ():
        yield replace(task, engines={**task.engines, writer: EngineUse(buffer, one)})


def inserted(task: Task, writer: str, between: Sequence[UnitConfig]) -> Task:
    """With more units in front of a writer."""
    units, wires = dict(task.units), [wire for wire in task.wires if wire.target != writer]
    last = sender(task, writer)
    for unit in between:
        name = next_name(unit.KIND, units)
        units[name] = unit
        wires.append(Wire(last, name, 0))
        last = name
    return replace(task, units=units, wires=(*wires, Wire(last, writer, 0)))


def mirrored(task: Task) -> Task | None:
    """With the operands of every sum exchanged; None where there is none."""
    turned = {n: unit.turned for n, unit in task.units.items() if isinstance(unit, ArithConfig) and unit.turned}
    if not turned:
        return None
    wires = tuple(wire._replace(port=1 - wire.port) if wire.target in turned else wire for wire in task.wires)
    return replace(task, units={**task.units, **turned}, wires=wires)


def on_frames(task: Task, height: int, width: int, batch: int) -> Task:
    """With a POOL, which is the first unit of a task that pools, for frames of another size."""
    name, pool = next(iter(task.units.items()))
    assert isinstance(pool, PoolConfig)
    return replace(task, units={**task.units, name: pool.on_frames(height, width, batch)})


def next_name(kind: str, taken: Collection[str]) -> str:
    return next(name for k in range(26) if (name := f"{kind} {chr(ord('a') + k)}") not in taken)
