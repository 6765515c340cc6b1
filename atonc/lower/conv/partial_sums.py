"""Kernels whose parts cannot all be in one chain: partial results of 16 bits in memory, summed by ARITH.

A partial result is stored in the order in which it leaves the units: [group of kernels][pixel][kernel].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from atonc.hw.limits import MAX_CHAIN
from atonc.lower.context import Context
from atonc.lower.conv.engines import output_engine, requantise
from atonc.lower.conv.kernel_parts import Part
from atonc.lower.conv.layer import Layer
from atonc.lower.conv.requantise import Requantisation, TwoSteps
from atonc.lower.conv.wide_windows import SUM
from atonc.plan.build import TaskBuilder
from atonc.plan.streams import Area, engine
from atonc.plan.task import Purpose, TaskGroup

T = TypeVar("T")

MOST_UNITS = 3  # ARITHs in a row, as seen


def chunks(
    parts: tuple[Part, ...], attempt: Callable[[tuple[Part, ...]], T | None]
) -> list[tuple[tuple[Part, ...], T]]:
    """Cuts the parts into chains for which `attempt` finds settings; an empty list when it finds none.

    A single unit without padding was never seen, so such a part gets a partner that adds nothing.
    """
    found: list[tuple[tuple[Part, ...], T]] = []
    rest = tuple(sorted(parts, key=lambda part: part.group))
    while rest:
        together = sum(1 for part in rest[:MAX_CHAIN] if part.group == rest[0].group)
        for count in range(together, 0, -1):
            for chain in (rest[:count], (*rest[:count], silent(rest[0]))[:MAX_CHAIN]):
                settings = attempt(chain)
                if settings is not None:
                    break
            if settings is not None:
                found.append((chain, settings))
                rest = rest[count:]
                break
        else:
            return []
    return found


def silent(part: Part) -> Part:
    return replace(part, weights=np.zeros_like(part.weights))


def flat(elements: int) -> Area:
    """16-bit numbers in a row."""
    return Area(1, 1, elements, 2 * elements, 2 * elements, 0, 2)


def add_up(
    layer: Layer,
    context: Context,
    partial: list[str],
    target: Area,
    rule: Requantisation | TwoSteps,
    first: int,
    count: int,
    kernels: int,
) -> list[TaskGroup]:
    """The sum of the partial results, requantised into output channels first..first+count."""
    pixels = target.height * target.width
    units = layer.code_units(rule.units(0, count, kernels, pixels))
    together = 2 if len(units) < MOST_UNITS else 1  # how many the last epoch takes
    plans: list[TaskGroup] = []
    while len(partial) > together:
        total = context.scratch(2 * pixels * count, "sum of parts")
        plans.append(_add(layer, partial[0], partial[1], total, pixels * count))
        partial = [total, *partial[2:]]
    b = TaskBuilder(layer.origin, f"conv {layer.op.name} from its parts")
    streams = [b.read(buffer, engine(flat(pixels * count))) for buffer in partial]
    codes = requantise(b, units, b.unit(SUM, *streams) if len(streams) > 1 else streams[0], {})
    b.write(codes, layer.target, output_engine(target, kernels, first, count // kernels))
    return [*plans, b.alone()]


def _add(layer: Layer, left: str, right: str, total: str, elements: int) -> TaskGroup:
    b = TaskBuilder(layer.origin, f"sum of parts of conv {layer.op.name}", Purpose.PART)
    both = [b.read(buffer, engine(flat(elements))) for buffer in (left, right)]
    b.write(b.unit(SUM, *both), total, engine(flat(elements), write=True))
    return b.alone()
