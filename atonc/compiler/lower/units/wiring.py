"""Chains of an operator that do not depend on each other: tasks that may run side by side, and the parts of long
tensors that they take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from math import lcm
from typing import NamedTuple

from atonc.compiler.ir import Op, Tensor
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Recipe, Refusal, recipe
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.flow import TaskFlow
from atonc.compiler.plan.policy import WORTH_CUTTING
from atonc.compiler.plan.task import EngineUse, Purpose, TaskGroup
from atonc.compiler.schedule.pack import packed
from atonc.compiler.select.rules import INT8_CODES, PLACE_ALIGNED, RASTER
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.limits import ALIGNED, READ_ALIGNMENT, WRITE_ALIGNMENT
from atonc.machine.hw.units.stream_engine import FARTHEST_LINE, FARTHEST_PIXEL, LARGEST_RASTER, StrengConfig


class End(NamedTuple):
    """An engine on a buffer; of a reader also the units that its stream passes before it meets others."""

    buffer: str
    engine: StrengConfig
    units: Sequence[UnitConfig] = ()


@dataclass(frozen=True)
class Wiring:
    """`build` wires it into a task; `cost` counts its cycles, so that equals share an epoch."""

    build: Callable[[TaskBuilder], object]
    cost: int = 0

    @staticmethod
    def chain(near: Sequence[End], units: Sequence[UnitConfig], far: End, cost: int) -> Wiring:
        """The first unit takes all streams, the others what comes out of the one before."""

        def build(b: TaskBuilder) -> None:
            streams = [b.read(end.buffer, end.engine) for end in near]
            streams = [passed(b, stream, end.units) for stream, end in zip(streams, near, strict=True)]
            for unit in units:
                streams = [b.unit(unit, *streams)]
            b.write(streams[0], far.buffer, far.engine)

        return Wiring(build, cost)


def origin_of(op: Op) -> tuple[str, ...]:
    """The nodes of the model that it stands for."""
    return op.origin or (op.name,)


def passed(builder: TaskBuilder, stream: str, units: Iterable[UnitConfig]) -> str:
    """A stream through unit after unit."""
    for unit in units:
        stream = builder.unit(unit, stream)
    return stream


def pack(
    wirings: Iterable[Wiring],
    origin: tuple[str, ...],
    title: str,
    purpose: Purpose = Purpose.COMPUTE,
    flow: TaskFlow | None = None,
) -> list[TaskGroup]:
    """One group of tasks, the longest first; none without chains. `flow`: what they do together."""
    tasks = []
    for wiring in sorted(wirings, key=lambda p: -p.cost):
        b = TaskBuilder(origin, title, purpose)
        wiring.build(b)
        for use in b.engines.values():
            require_seen(use.config)
        tasks.append(b.done(wiring.cost))
    return [TaskGroup(tuple(tasks), flow=flow)] if tasks else []


def require_seen(config: StrengConfig) -> StrengConfig:
    """Refuses a raster that counts or steps farther than those of public networks."""
    if not config.raster_seen:
        shape, most = (" x ".join(map(str, sizes)) for sizes in (config.shape, LARGEST_RASTER))
        seen = f"{shape}, {config.line_offset} bytes a line and {config.pixel_offset} a pixel"
        limit = f"{most}, {FARTHEST_LINE} bytes and {FARTHEST_PIXEL[config.to_memory]}"
        raise Refusal(RASTER, seen, limit, "use a smaller image")
    return config


def placed_recipe(*kinds: str) -> Callable[[Recipe], Recipe]:
    """Refuses what no memory holds: buffers in which engines start at odd places must lie in the NPU's own RAM."""

    def register(lower: Recipe) -> Recipe:
        @wraps(lower)
        def checked(op: Op, context: Context) -> list[TaskGroup]:
            groups = lower(op, context)
            for tasks in packed(groups, context.facts.target.trust):
                _require_place([use for task in tasks for use in task.engines.values()], context)
            return groups

        return recipe(*kinds)(checked)

    return register


def _require_place(uses: Sequence[EngineUse], context: Context) -> None:
    odd = {use.buffer for use in uses if use.config.address % (WRITE_ALIGNMENT if use.writes else READ_ALIGNMENT)}
    size, most = sum(context.buffers[name].size_bytes for name in odd), context.room.step_bytes
    if context.room.other_ram and size > most:
        seen = f"engines start between multiples of {WRITE_ALIGNMENT} in {size:,} bytes"
        remedy = f"use channel counts that are multiples of {WRITE_ALIGNMENT}"
        raise Refusal(PLACE_ALIGNED, seen, f"{most:,} bytes of NPU RAM", remedy)


def codes_recipe(*kinds: str) -> Callable[[Recipe], Recipe]:
    """Refuses values that are not signed codes with one scale, too: the units would compute something else."""

    def register(lower: Recipe) -> Recipe:
        @wraps(lower)
        def checked(op: Op, context: Context) -> list[TaskGroup]:
            require_codes(context.tensor(op.inputs[0]), context.tensor(op.outputs[0]))
            return lower(op, context)

        return placed_recipe(*kinds)(checked)

    return register


def require_codes(*tensors: Tensor) -> None:
    for tensor in tensors:
        if not is_one_scale(tensor):
            raise Refusal(INT8_CODES, f"{tensor.name} of type {tensor.dtype}", "int8 with one scale", "quantise it")


def is_one_scale(tensor: Tensor, dtype: str = "int8") -> bool:
    return tensor.dtype == dtype and tensor.quant is not None and tensor.quant.is_per_tensor


def parts(elements: int, ways: int, block: int = 1) -> list[tuple[int, int]]:
    """First element and count of at most `ways` parts; cuts lie between blocks and at aligned addresses."""
    step = lcm(block, ALIGNED)
    ways = min(ways, max(1, elements // WORTH_CUTTING))
    return in_pieces(elements, -(-elements // ways) if ways > 1 else elements, step if ways > 1 else 1)


def in_pieces(length: int, size: int, step: int = 1) -> list[tuple[int, int]]:
    """First place and length of pieces of a length: of `size`, rounded up to whole steps; the last may be shorter."""
    size = max(1, -(-size // step) * step)
    return [(start, min(size, length - start)) for start in range(0, length, size)]
