"""Independent pipelines, packed into as few epochs as their units allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps

from atonc.hw.footprint import share_word
from atonc.hw.limits import MOST_READERS, MOST_WRITERS, READ_ALIGNMENT, UNITS, WRITE_ALIGNMENT
from atonc.hw.units.stream_engine import FARTHEST_LINE, FARTHEST_PIXEL, LARGEST_RASTER, StrengConfig
from atonc.ir import Op
from atonc.lower.context import Context
from atonc.lower.registry import Recipe, Refusal
from atonc.plan.build import EpochBuilder
from atonc.plan.types import EngineUse, EpochPlan, StepPlan

_MOST = {**UNITS, "readers": MOST_READERS, "writers": MOST_WRITERS}


@dataclass(frozen=True)
class Pipeline:
    """`build` wires it into an epoch; `cost` counts its cycles, so that equals share an epoch."""

    build: Callable[[EpochBuilder], object]
    cost: int = 0


def pack(pipelines: Iterable[Pipeline], origin: tuple[str, ...], title: str) -> list[StepPlan]:
    """Epochs of pipelines that do not depend on each other, the longest first."""
    epochs: list[EpochBuilder] = []
    for pipeline in sorted(pipelines, key=lambda p: -p.cost):
        alone = EpochBuilder(origin, title)
        pipeline.build(alone)
        for use in alone.engines.values():
            require_seen(use.config)
        room = next((epoch for epoch in epochs if _fits(alone, epoch)), None)
        if room is None:
            epochs.append(alone)
        else:
            room.absorb(alone)
    return [epoch.done() for epoch in epochs]


def _fits(pipeline: EpochBuilder, epoch: EpochBuilder) -> bool:
    used = _units(pipeline) + _units(epoch)
    return all(count <= _MOST[kind] for kind, count in used.items()) and _apart(pipeline, epoch)


def _units(epoch: EpochBuilder) -> Counter[str]:
    writers = sum(use.config.to_memory for use in epoch.engines.values())
    engines = {"STRENG": len(epoch.engines), "writers": writers, "readers": len(epoch.engines) - writers}
    return Counter(config.KIND for config in epoch.units.values()) + Counter(engines)


def _apart(one: EpochBuilder, other: EpochBuilder) -> bool:
    """Whether no two writers meet in a word of the bus; buffers begin and end between words."""
    return not any(
        a.buffer == b.buffer and share_word(a.config, b.config)
        for a in _writers(one)
        for b in _writers(other)
    )


def _writers(epoch: EpochBuilder) -> list[EngineUse]:
    return [use for use in epoch.engines.values() if use.config.to_memory]


def require_seen(config: StrengConfig) -> StrengConfig:
    """Refuses a raster that counts or steps farther than those of public networks."""
    if not config.raster_seen:
        (lines, pixels, depth), (most_lines, most_pixels, most) = config.shape, LARGEST_RASTER
        raise Refusal(
            "raster",
            f"{lines} x {pixels} x {depth}, {config.line_offset} bytes a line and {config.pixel_offset} a pixel",
            f"{most_lines} x {most_pixels} x {most}, {FARTHEST_LINE} bytes and {FARTHEST_PIXEL[config.to_memory]}",
            "use a smaller picture",
        )
    return config


def placeable(recipe: Recipe) -> Recipe:
    """Refuses what no memory holds: buffers in which engines start at odd places must lie in the NPU's own RAM."""

    @wraps(recipe)
    def checked(op: Op, context: Context) -> list[StepPlan]:
        plans = recipe(op, context)
        for plan in plans:
            if isinstance(plan, EpochPlan):
                _check_starts(plan, context)
        return plans

    return checked


def computable(recipe: Recipe) -> Recipe:
    """Refuses values that are not signed codes with one scale: the units would compute something else."""

    @wraps(recipe)
    def checked(op: Op, context: Context) -> list[StepPlan]:
        for tensor in (context.tensor(op.inputs[0]), context.tensor(op.outputs[0])):
            if tensor.dtype != "int8" or tensor.quant is None or not tensor.quant.is_per_tensor:
                raise Refusal("codes", f"{tensor.name} of type {tensor.dtype}", "int8 with one scale", "quantise it")
        return recipe(op, context)

    return placeable(checked)


def _check_starts(plan: EpochPlan, context: Context) -> None:
    odd = {use.buffer for use in plan.engines.values() if _odd_start(use)}
    size = sum(context.buffers[name].size_bytes for name in odd)
    if size > context.room.step_bytes:
        raise Refusal(
            "odd places in large buffers",
            f"engines start between multiples of {WRITE_ALIGNMENT} in {size:,} bytes",
            f"{context.room.step_bytes:,} bytes of NPU RAM",
            f"use channel counts that are multiples of {WRITE_ALIGNMENT}",
        )


def _odd_start(use: EngineUse) -> bool:
    return use.config.address % (WRITE_ALIGNMENT if use.config.to_memory else READ_ALIGNMENT) > 0
