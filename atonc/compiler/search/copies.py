"""Weights that leave the flash: copied once at initialisation (`--resident`), or ahead of their layers by idle engines
(`--schedule-with prefetch`) or by the chip's DMA (`--prefetch dma`). All come when everything else has its address, and
move nothing of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from atonc.compiler.place import Layout
from atonc.compiler.place import check as place_check
from atonc.compiler.place.resident import (
    prefetched_name,
    reading_copies,
    resident_name,
    with_copies_of,
    with_prefetched,
)
from atonc.compiler.plan.contents import require_written
from atonc.compiler.plan.findings import Finding
from atonc.compiler.plan.task import ENGINE
from atonc.compiler.plan.types import BufferKind, CpuPlan, Ride, StepPlan
from atonc.compiler.schedule.check import require_sound
from atonc.compiler.schedule.check_copies import COUNTS, ONE_LIST
from atonc.compiler.schedule.check_copies import check as check_copies
from atonc.compiler.schedule.prefetch import with_copies, with_lists
from atonc.compiler.search.candidate import Built, Setting
from atonc.compiler.select.decisions import Fetched
from atonc.machine.base.errors import InputError
from atonc.machine.hw.limits import UNITS


def with_residents(built: Built, homes: Mapping[str, int], setting: Setting) -> Built:
    """`homes`: constant -> address of its copy, in RAM that is free from the first step to the last."""
    _require_constants(homes, built.layout, setting)
    plans = reading_copies(built.scheduled.plans, {name: resident_name(name) for name in homes})
    return _moved(built, plans, with_copies_of(built.layout, homes, setting.memory, plans), setting)


def with_fetched(built: Built, fetched: Sequence[Fetched], by_dma: bool, setting: Setting) -> Built:
    """Weights that idle engines or the DMA copy into RAM that is free for that long."""
    _require_constants((one.constant for one in fetched), built.layout, setting)
    before, copies = built.scheduled.plans, {one.constant: prefetched_name(one.constant) for one in fetched}
    rides: dict[int, list[Ride]] = {}
    for one in fetched:
        for copy in one.copies:
            ride = Ride(one.constant, copies[one.constant], copy.offset, copy.size_bytes)
            rides.setdefault(copy.step, []).append(ride)
    if by_dma:
        _require_given(list(_beyond(before, rides)), setting)
        plans = with_lists(before, rides)
    else:
        _require_given(list(_crowded(before, rides)), setting)
        plans = with_copies(before, rides)
    constants = {copy: built.layout.placed[name].buffer for name, copy in copies.items()}
    findings = list(check_copies(before, plans, constants))
    _require_given(findings, setting)
    require_sound(findings)
    lives = [(one.constant, one.address, one.first, one.last) for one in fetched]
    moved = _moved(built, plans, with_prefetched(built.layout, lives, setting.memory), setting)
    buffers = {name: home.buffer for name, home in moved.layout.placed.items()}
    edges = setting.graph.inputs, setting.graph.outputs
    require_written(plans, buffers, moved.mapped.context.aliases, *edges)
    return moved


def _moved(built: Built, plans: tuple[StepPlan, ...], layout: Layout, setting: Setting) -> Built:
    edges, aliases = (setting.graph.inputs, setting.graph.outputs), built.mapped.context.aliases
    findings = place_check.check(layout.placed, plans, setting.memory, aliases, *edges)
    _require_given(findings, setting)
    place_check.require_sound(findings)
    scheduled = replace(built.scheduled, plans=plans)
    return Built(built.mapped, scheduled, layout, setting.bound(plans, layout))


def _require_constants(names: Iterable[str], layout: Layout, setting: Setting) -> None:
    """Constants are named by their bytes: another model or another form of a layer has others."""
    for name in names:
        home = layout.placed.get(name)
        if home is None or home.buffer.kind != BufferKind.CONSTANT:
            raise InputError(
                f"the program has no constant {name[:80]!r} to copy into RAM",
                where=setting.options.decisions,
                rule="decisions about weights hold for the model and the options that they were made with",
                remedy="make them again from this model with these options, or leave out 'resident' and 'fetched'",
            )


def _crowded(plans: Sequence[StepPlan], rides: Mapping[int, Sequence[Ride]]) -> Iterator[Finding]:
    """Steps without an engine to read and one to write for every copy."""
    for step, plan in enumerate(plans):
        engines = 0 if isinstance(plan, CpuPlan) else len(plan.engines)
        if engines + 2 * len(rides.get(step, ())) > UNITS[ENGINE]:
            yield Finding(COUNTS, f"step {step}, {plan.title}", f"{len(rides[step])} copies beside {engines} engines")


def _beyond(plans: Sequence[StepPlan], rides: Mapping[int, Sequence[Ride]]) -> Iterator[Finding]:
    """Lists that begin behind the last step."""
    for step in rides:
        if step >= len(plans):
            yield Finding(ONE_LIST, f"step {step}", f"the program has {len(plans)} steps")


def _require_given(findings: Sequence[Finding], setting: Setting) -> None:
    """What a file decides may be wrong; what the search decides is ours."""
    if findings and setting.options.decisions:
        first = findings[0]
        raise InputError(
            f"copies of weights as these decisions have them are not possible: {first.where}, {first.seen}",
            where=setting.options.decisions,
            rule=first.rule,
            remedy="leave out 'resident' and 'fetched': with --resident places are found again",
        )
