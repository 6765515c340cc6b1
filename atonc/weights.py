"""Weights that leave the flash: copied once at initialisation (`--resident`), or ahead of their layers by idle engines
(`--schedule-with prefetch`). Both come when everything else has its address, and move nothing of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from atonc import progress
from atonc.cost import prefetch, resident
from atonc.cost.prefetch_advice import Advice, advise
from atonc.emit.program import Program
from atonc.hw.cycles.target import Target
from atonc.lower.context import Context
from atonc.options import ALL_FREE, Options, size
from atonc.place import Board, Layout
from atonc.place import check as place_check
from atonc.place.resident import (
    free_bytes,
    free_spans,
    on_chip_spans,
    prefetched_name,
    reading_copies,
    resident_name,
    with_prefetched,
    with_residents,
)
from atonc.plan.contents import require_written
from atonc.plan.types import StepPlan
from atonc.schedule import PREFETCH
from atonc.schedule.check import require_sound
from atonc.schedule.check_copies import check as check_copies
from atonc.schedule.prefetch import Ride, with_copies

Placed = tuple[tuple[StepPlan, ...], Layout]
Bring = Callable[[Program, Layout, Context, Board, Options, Target], Placed]


def wanted(options: Options) -> list[Bring]:
    """In this order: what stays leaves less room, but needs no engines."""
    ways = ((keep_resident, bool(options.resident)), (fetch_ahead, PREFETCH in options.schedule_with))
    return [way for way, asked in ways if asked]


def advice(program: Program, owners: Sequence[Sequence[str]], memory: Board, target: Target) -> Advice:
    """What should be scheduled otherwise, so that more weights can be fetched ahead."""
    return advise(program, owners, free_bytes(program.placed, memory, len(program.steps)), target)


def short_of_room(program: Program, options: Options, target: Target) -> bool:
    """Whether weights would be faster in RAM, and all that is free holds others."""
    return options.resident == ALL_FREE and any(resident.candidates(program, target))


def room_left(program: Program, memory: Board, options: Options, target: Target) -> Advice:
    """Of kernels that were too large for the RAM that is left, a part could stay there."""
    kept = sum(home.buffer.size_bytes for home in program.placed.values() if home.copy_of)
    free = free_spans(program.placed, memory)
    return Advice(resident.cuts(program, free, _budget(free, options, kept), target))


def _budget(free: Sequence[tuple[int, int]], options: Options, kept: int = 0) -> int:
    """Bytes for weights that stay in RAM, beside those that are there."""
    room = sum(end - start for start, end in free)
    return room if options.resident == ALL_FREE else max(0, min(room, size(options.resident) - kept))


def keep_resident(
    program: Program, layout: Layout, context: Context, memory: Board, options: Options, target: Target
) -> Placed:
    """The weights that are worth most, in RAM that is free from the first step to the last."""
    progress.stage("choosing weights for RAM")
    free = free_spans(layout.placed, memory)
    homes = resident.choose(program, free, _budget(free, options), target)
    layout = with_residents(layout, homes, memory, len(program.steps))
    plans = reading_copies(_plans(program), {name: resident_name(name) for name in homes})
    _require_placed(plans, layout, program, context, memory)
    return plans, layout


def fetch_ahead(
    program: Program, layout: Layout, context: Context, memory: Board, options: Options, target: Target
) -> Placed:
    """Weights that idle engines copy into RAM that is free for that long."""
    progress.stage("fetching weights ahead")
    fetched = prefetch.choose(program, on_chip_spans(memory), target)
    copies = {one.constant: prefetched_name(one.constant) for one in fetched}
    rides: dict[int, list[Ride]] = {}
    for one in fetched:
        for copy in one.copies:
            ride = Ride(one.constant, copies[one.constant], copy.offset, copy.size_bytes)
            rides.setdefault(copy.step, []).append(ride)
    plans = with_copies(_plans(program), rides)
    constants = {copy: layout.placed[name].buffer for name, copy in copies.items()}
    require_sound(list(check_copies(_plans(program), plans, constants)))
    layout = with_prefetched(layout, [(one.constant, one.address, one.first, one.last) for one in fetched], memory)
    buffers = {name: home.buffer for name, home in layout.placed.items()}
    require_written(plans, buffers, context.aliases, program.inputs, program.outputs)
    _require_placed(plans, layout, program, context, memory)
    return plans, layout


def _plans(program: Program) -> list[StepPlan]:
    return [step.plan for step in program.steps]


def _require_placed(
    plans: tuple[StepPlan, ...], layout: Layout, program: Program, context: Context, memory: Board
) -> None:
    edges = program.inputs, program.outputs
    place_check.require_sound(place_check.check(layout.placed, plans, memory, context.aliases, *edges))
