"""Weights that leave the flash: copied once at initialisation (`--resident`), or ahead of their layers by idle engines
(`--schedule-with prefetch`). Both come when everything else has its address, and move nothing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from atonc.compiler.plan.types import StepPlan
from atonc.compiler.schedule.check import require_sound
from atonc.compiler.schedule.check_copies import check as check_copies
from atonc.compiler.schedule.prefetch import Ride, with_copies
from atonc.compiler.search.candidate import Built, Setting
from atonc.compiler.select.decisions import Fetched


def with_residents(built: Built, homes: Mapping[str, int], setting: Setting) -> Built:
    """`homes`: constant -> address of its copy, in RAM that is free from the first step to the last."""
    plans = reading_copies(built.scheduled.plans, {name: resident_name(name) for name in homes})
    return _moved(built, plans, with_copies_of(built.layout, homes, setting.memory, plans), setting)


def with_fetched(built: Built, fetched: Sequence[Fetched], setting: Setting) -> Built:
    """Weights that idle engines copy into RAM that is free for that long."""
    before, copies = built.scheduled.plans, {one.constant: prefetched_name(one.constant) for one in fetched}
    rides: dict[int, list[Ride]] = {}
    for one in fetched:
        for copy in one.copies:
            ride = Ride(one.constant, copies[one.constant], copy.offset, copy.size_bytes)
            rides.setdefault(copy.step, []).append(ride)
    plans = with_copies(before, rides)
    constants = {copy: built.layout.placed[name].buffer for name, copy in copies.items()}
    require_sound(list(check_copies(before, plans, constants)))
    lives = [(one.constant, one.address, one.first, one.last) for one in fetched]
    moved = _moved(built, plans, with_prefetched(built.layout, lives, setting.memory), setting)
    buffers = {name: home.buffer for name, home in moved.layout.placed.items()}
    edges = setting.graph.inputs, setting.graph.outputs
    require_written(plans, buffers, moved.mapped.context.aliases, *edges)
    return moved


def _moved(built: Built, plans: tuple[StepPlan, ...], layout: Layout, setting: Setting) -> Built:
    edges, aliases = (setting.graph.inputs, setting.graph.outputs), built.mapped.context.aliases
    place_check.require_sound(place_check.check(layout.placed, plans, setting.memory, aliases, *edges))
    scheduled = replace(built.scheduled, plans=plans)
    return Built(built.mapped, scheduled, layout, setting.bound(plans, layout))
