"""Groups of tasks that turn every byte of some buffers into the byte at the same place of another one.

In which order the bytes come does not matter to them, so they may follow whatever writes one of their operands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from atonc.hw.fields import UnitConfig
from atonc.hw.units.activ import ActivConfig
from atonc.hw.units.arith import AFFINE, ArithConfig
from atonc.hw.units.stream_engine import StrengConfig
from atonc.plan.streams import in_frames
from atonc.plan.task import ENGINE, EngineUse, Purpose, Task, TaskGroup, Wire

IDENTITY = ArithConfig(  # gives every code back: some chains were seen with one more ARITH than the work needs
    operation=AFFINE, combine_bc=1, a=1 << 14, shift_out=14, rounded=1, saturated=1, round_mode=1, out_bytes=1,
    bytes_x=1, out_bytes_x=1, bytes_y=1, out_bytes_y=1,
)  # fmt: skip


@dataclass(frozen=True)
class Pointwise:
    """What every task of the group does; `units` and `wires` under the names of the first one."""

    units: Mapping[str, UnitConfig]
    readers: Mapping[str, str]  # engine -> buffer
    writer: str  # engine
    target: str  # buffer
    wires: tuple[Wire, ...]
    origin: tuple[str, ...] = ()  # nodes whose result it is


def pointwise(group: TaskGroup, size_bytes: Mapping[str, int]) -> Pointwise | None:
    """`size_bytes`: of buffers. None if the group does anything else."""
    found: Pointwise | None = None
    cuts: list[tuple[int, int]] = []
    for task in group.tasks:
        cut, one = _cut(task), _work(task)
        if cut is None or one is None or (found is not None and one != found):
            return None
        found = one
        cuts.append(cut)
    return found if found is not None and _covers(cuts, size_bytes[found.target]) else None


def _cut(task: Task) -> tuple[int, int] | None:
    """First byte and count, if they are the same for all engines."""
    cuts = {(use.config.address, use.config.frame_elements) for use in task.engines.values()}
    plain = all(_is_plain(use.config) for use in task.engines.values())
    return cuts.pop() if plain and len(cuts) == 1 else None


def _is_plain(config: StrengConfig) -> bool:
    """One frame of bytes in a row, taken as they are."""
    signs = config.sign_extend or config.align_right or config.raw_out
    return bool(config.raw) and config.frames == 1 and config.element_bytes == 1 and not signs and not config.sync


def _work(task: Task) -> Pointwise | None:
    writers = [name for name, use in task.engines.items() if use.config.to_memory]
    gated = any(wire.drop or wire.keep or wire.stop_after for wire in task.wires)
    if len(writers) != 1 or gated or not all(_is_elementwise(unit) for unit in task.units.values()):
        return None
    readers = {name: use.buffer for name, use in task.engines.items() if name != writers[0]}
    origin = task.origin if task.purpose == Purpose.COMPUTE else ()
    return Pointwise(task.units, readers, writers[0], task.engines[writers[0]].buffer, task.wires, origin)


def _is_elementwise(unit: UnitConfig) -> bool:
    return isinstance(unit, ActivConfig) or (isinstance(unit, ArithConfig) and not unit.is_vector)


def _covers(cuts: list[tuple[int, int]], size_bytes: int) -> bool:
    """Whether they follow each other from the first byte to the last."""
    end = 0
    for start, count in sorted(cuts):
        if start != end:
            return False
        end += count
    return end == size_bytes


def follow(
    producer: Task, writer: str, work: Pointwise, streams: Mapping[str, str], keep: bool, spacers: int, turns: bool
) -> Task:
    """The task of a producer with the work behind it. `streams`: buffers whose bytes the producer has in the order of
    `writer`, each with the unit that sends them. `keep`: `writer` stays. `spacers`: identities in front of the work.
    `turns`: the result is written in the frame loop."""
    config = producer.engines[writer].config
    units, engines = dict(producer.units), dict(producer.engines)
    wires = [wire for wire in producer.wires if wire.target != writer]
    first = last = next(wire.source for wire in producer.wires if wire.target == writer)
    for _ in range(spacers):
        name = next_name(IDENTITY.KIND, units)
        units[name] = IDENTITY
        wires.append(Wire(last, name, 0))
        last = name
    if keep:
        wires.append(Wire(last, writer, 0))
    else:
        del engines[writer]
    names: dict[str, str] = {}
    for name, unit in work.units.items():
        names[name] = next_name(unit.KIND, units)
        units[names[name]] = unit
    for name, buffer in work.readers.items():
        if buffer in streams:
            names[name] = last if streams[buffer] == first else streams[buffer]
        else:
            names[name] = next_name(ENGINE, {*engines, *producer.engines})
            engines[names[name]] = EngineUse(buffer, as_reader(config))
    names[work.writer] = next_name(ENGINE, {*engines, *producer.engines})
    engines[names[work.writer]] = EngineUse(work.target, in_turns(config) if turns else config)
    wires += [replace(wire, source=names[wire.source], target=names[wire.target]) for wire in work.wires]
    origin = tuple(dict.fromkeys((*producer.origin, *work.origin)))
    return replace(producer, origin=origin, units=units, engines=engines, wires=tuple(wires))


def as_reader(config: StrengConfig) -> StrengConfig:
    """Reads what the writer writes, in the same order. Rasters are read in the frame loop."""
    return in_turns(replace(config, to_memory=0))


def in_turns(config: StrengConfig) -> StrengConfig:
    """The same walk as several frames in a loop."""
    if config.raw:
        return config
    found = in_frames(config)
    return replace(found, frame_repeat=found.frame_repeat or found.frames)


def mirrored(work: Pointwise) -> Pointwise | None:
    """The same sums with the operands of every sum exchanged; None where there is none."""
    sums = {name for name, unit in work.units.items() if isinstance(unit, ArithConfig) and is_sum(unit)}
    if not sums:
        return None
    units = {name: exchanged(unit) if name in sums else unit for name, unit in work.units.items()}
    wires = tuple(replace(wire, port=1 - wire.port) if wire.target in sums else wire for wire in work.wires)
    return replace(work, units=units, wires=wires)


def is_sum(unit: UnitConfig) -> bool:
    """Of two streams of bytes: what one port does, the other one can do as well."""
    if not isinstance(unit, ArithConfig) or unit.operation != AFFINE or not unit.dual_input or unit.is_vector:
        return False
    return unit.bytes_x == unit.bytes_y == 1 and not unit.combine_bc


def exchanged(unit: UnitConfig) -> UnitConfig:
    """The sum with its coefficients at the other ports."""
    assert isinstance(unit, ArithConfig)
    return replace(unit, a=unit.b, b=unit.a, shift_a=unit.shift_b, shift_b=unit.shift_a)


def next_name(kind: str, taken: Collection[str]) -> str:
    return next(name for k in range(26) if (name := f"{kind} {chr(ord('a') + k)}") not in taken)
