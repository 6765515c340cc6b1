"""Chains of an operator that do not depend on each other: tasks that may run side by side, and the parts of long
tensors that they take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from math import lcm

from atonc.compiler.ir import Op
from atonc.compiler.lower.context import Context
from atonc.compiler.lower.registry import Recipe, Refusal
from atonc.compiler.plan.build import TaskBuilder
from atonc.compiler.plan.flow import TaskFlow
from atonc.compiler.plan.policy import WORTH_CUTTING
from atonc.compiler.plan.task import EngineUse, Purpose, Task, TaskGroup
from atonc.compiler.schedule.pack import packed
from atonc.compiler.select.rules import INT8_CODES, PLACE_ALIGNED, RASTER
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.limits import ALIGNED, READ_ALIGNMENT, WRITE_ALIGNMENT
from atonc.machine.hw.units.stream_engine import FARTHEST_LINE, FARTHEST_PIXEL, LARGEST_RASTER, StrengConfig


@dataclass(frozen=True)
class Wiring:
    """`build` wires it into a task; `cost` counts its cycles, so that equals share an epoch."""

    build: Callable[[TaskBuilder], object]
    cost: int = 0


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
        (lines, pixels, depth), (most_lines, most_pixels, most) = config.shape, LARGEST_RASTER
        raise Refusal(
            RASTER,
            f"{lines} x {pixels} x {depth}, {config.line_offset} bytes a line and {config.pixel_offset} a pixel",
            f"{most_lines} x {most_pixels} x {most}, {FARTHEST_LINE} bytes and {FARTHEST_PIXEL[config.to_memory]}",
            "use a smaller picture",
        )
    return config


def placeable(recipe: Recipe) -> Recipe:
    """Refuses what no memory holds: buffers in which engines start at odd places must lie in the NPU's own RAM."""

    @wraps(recipe)
    def checked(op: Op, context: Context) -> list[TaskGroup]:
        groups = recipe(op, context)
        for tasks in packed(groups, context.facts.target.trust):
            _check_starts(tasks, context)
        return groups

    return checked


def computable(recipe: Recipe) -> Recipe:
    """Refuses values that are not signed codes with one scale: the units would compute something else."""

    @wraps(recipe)
    def checked(op: Op, context: Context) -> list[TaskGroup]:
        for tensor in (context.tensor(op.inputs[0]), context.tensor(op.outputs[0])):
            if tensor.dtype != "int8" or tensor.quant is None or not tensor.quant.is_per_tensor:
                raise Refusal(INT8_CODES, f"{tensor.name} of type {tensor.dtype}", "int8 with one scale", "quantise it")
        return recipe(op, context)

    return placeable(checked)


def _check_starts(tasks: Iterable[Task], context: Context) -> None:
    """Refuses tasks of an epoch that start at odd places of buffers too large for the NPU's RAM."""
    odd = {use.buffer for task in tasks for use in task.engines.values() if _odd_start(use)}
    size = sum(context.buffers[name].size_bytes for name in odd)
    if context.room.other_ram and size > context.room.step_bytes:
        raise Refusal(
            PLACE_ALIGNED,
            f"engines start between multiples of {WRITE_ALIGNMENT} in {size:,} bytes",
            f"{context.room.step_bytes:,} bytes of NPU RAM",
            f"use channel counts that are multiples of {WRITE_ALIGNMENT}",
        )


def _odd_start(use: EngineUse) -> bool:
    return use.config.address % (WRITE_ALIGNMENT if use.config.to_memory else READ_ALIGNMENT) > 0


def parts(elements: int, ways: int, block: int = 1) -> list[tuple[int, int]]:
    """First element and count of at most `ways` parts; cuts lie between blocks and at aligned addresses."""
    step = lcm(block, ALIGNED)
    ways = min(ways, max(1, elements // WORTH_CUTTING))
    size = -(-elements // ways // step) * step if ways > 1 else elements
    size = max(size, 1)
    return [(start, min(size, elements - start)) for start in range(0, elements, size)]
