"""Weights fetched ahead: steps with a copy beside their work, and epochs that read the copy instead of the flash.

Which, when and where to is chosen by cost (`search.generators.prefetch`), once it is known which RAM is free at which
time; this file makes the steps. A copy by engines is a chain of its own: one engine reads bytes, another writes them.
A copy by the chip's DMA is a line of a list, which the processor starts in front of a step and awaits in front of
another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from atonc.compiler.plan.interfaces import Interfaces
from atonc.compiler.plan.streams import contiguous
from atonc.compiler.plan.task import EngineUse
from atonc.compiler.plan.types import CpuPlan, DmaPlan, EpochPlan, Ride, StepPlan
from atonc.machine.hw.units.switch import Link


def with_copies(plans: Sequence[StepPlan], rides: Mapping[int, Sequence[Ride]]) -> tuple[StepPlan, ...]:
    """`rides`: index of the step -> what it copies beside its work. Every reader of these constants reads the copy."""
    copies = {ride.constant: ride.copy for listed in rides.values() for ride in listed}
    return tuple(
        plan if isinstance(plan, CpuPlan) else _riding(_reading(plan, copies), rides.get(step, ()))
        for step, plan in enumerate(plans)
    )


def with_lists(plans: Sequence[StepPlan], rides: Mapping[int, Sequence[Ride]]) -> tuple[StepPlan, ...]:
    """`rides`: index of the step -> the list that the DMA works through from there on. A list is awaited where somebody
    reads what it brings, or where the next one begins."""
    copies = {ride.constant: ride.copy for listed in rides.values() for ride in listed}
    first = {name: step for step, plan in reversed(list(enumerate(plans))) for name in plan.reads() & copies.keys()}
    begins = sorted(rides)
    waits = set()
    for begin, behind in zip(begins, (*begins[1:], len(plans)), strict=True):
        waits.add(min(behind, *(first.get(ride.constant, behind) for ride in rides[begin])))
    found: list[StepPlan] = []
    for step, plan in enumerate(plans):
        plan = plan if isinstance(plan, CpuPlan) else _reading(plan, copies)
        dma = DmaPlan(step in waits, tuple(rides.get(step, ()))) if step in waits or step in rides else None
        found.append(replace(plan, dma=dma))
    return tuple(found)


def _reading(plan: EpochPlan, copies: Mapping[str, str]) -> EpochPlan:
    if not plan.reads() & copies.keys():
        return plan
    uses = {unit: replace(use, buffer=copies.get(use.buffer, use.buffer)) for unit, use in plan.engines.items()}
    return replace(plan, engines=uses)


def _riding(plan: EpochPlan, rides: Sequence[Ride]) -> EpochPlan:
    engines, links = dict(plan.engines), list(plan.links)
    for ride in rides:
        free = Interfaces({name: use.config for name, use in engines.items()})
        source = EngineUse(ride.constant, contiguous(ride.size_bytes, offset=ride.offset))
        target = EngineUse(ride.copy, contiguous(ride.size_bytes, write=True, offset=ride.offset))
        reader, writer = free.give(source.config), free.give(target.config)
        engines |= {reader: source, writer: target}
        links.append(Link(reader, writer, 0))
    return replace(plan, engines=engines, links=tuple(links)) if rides else plan
