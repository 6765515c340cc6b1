"""From the canonical graph to a program with addresses: lower, schedule, place, bind.

Where there are several ways, such as with and without rows in turn, each is built to the end, and the one of fewest
cycles is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from atonc import progress, striping, weights
from atonc.cost.prefetch_advice import Advice
from atonc.cost.program import program_cost
from atonc.emit import runs
from atonc.emit.program import Program, bind
from atonc.hw.cycles.target import Target
from atonc.ir import Graph
from atonc.lower.conv.lanes import SAME_BITS
from atonc.lower.map_ops import Mapped
from atonc.lower.semantics.roundings import agree, roundings
from atonc.lower.stripes import Stripe
from atonc.options import Options
from atonc.place import Board, Layout, place
from atonc.place import check as place_check
from atonc.place.explain import NPU_RAM, PlacementError
from atonc.place.pools import npu_ram_bytes
from atonc.place.supplied import require_apart, supplied_edges
from atonc.plan.contents import require_written
from atonc.plan.task import TaskGroup
from atonc.plan.types import Planned, StepPlan
from atonc.schedule import FUSE, POOLS, TABLES, merging, schedule
from atonc.schedule import check as schedule_check
from atonc.schedule.assign import assign
from atonc.schedule.fuse import Fused, fuse
from atonc.schedule.pack_ops import Network
from atonc.schedule.shares import Share, shares
from atonc.schedule.types import Schedule, Work
from atonc.select.cycles import cycles_of, epoch_cycles
from atonc.select.form import Form
from atonc.select.policy import Room

Watch = Callable[[str, object], None]  # is told the name of every stage (options.STAGES) and what it hands on


def nobody(stage: str, result: object) -> None:
    """Watches nothing."""


@dataclass(frozen=True)
class Scheduled:
    """The program before it has addresses."""

    schedule: Schedule
    plans: tuple[StepPlan, ...]  # its steps with unit numbers
    meant: tuple[Work, ...] = ()  # what the schedule was made of: the works of the graph, some of them cut anew

    @property
    def owners(self) -> tuple[str, ...]:
        """The operator behind each step, or the first of several."""
        return self.schedule.owners

    @cached_property
    def shares(self) -> tuple[tuple[Share, ...], ...]:
        """What each operator has of every step."""
        return tuple(map(shares, self.schedule.steps, self.plans))


Found = tuple[Mapped, Scheduled, Layout]  # one way to do it all


@dataclass(frozen=True)
class Wishes:
    """What an earlier round taught: operators that shall not be chained to others, those whose rows shall not be
    computed in turn, those whose tasks get an epoch each, those whose epochs leave the engines of a copy."""

    apart: frozenset[str] = frozenset()
    whole: frozenset[str] = frozenset()
    alone: frozenset[str] = frozenset()
    roomy: frozenset[str] = frozenset()


NO_WISHES = Wishes()
Bound = tuple[Mapped, Scheduled, Layout, Program]
Lower = Callable[..., Mapped]  # `map_ops` of the graph, with its keywords still open


def taken_apart(
    wishes: Wishes, refused: Collection[str], mapped: Mapped, scheduled: Scheduled
) -> tuple[Wishes, set[str]]:
    """What to do otherwise for operators whose epochs were refused, and for whom that is something: first without
    chains and rows in turn, then in epochs of their own."""
    chained = scheduled.schedule.chained(refused)
    striped = {name for stripe in mapped.stripes for name in stripe.ops} & set(refused)
    crowded = scheduled.schedule.crowded(refused) - chained - striped
    more = replace(wishes, apart=wishes.apart | chained, whole=wishes.whole | striped, alone=wishes.alone | crowded)
    return more, chained | striped | crowded


@dataclass(frozen=True)
class Job:
    """What is to be compiled: the same for every way."""

    graph: Graph
    memory: Board
    target: Target
    options: Options
    watch: Watch

    def bound(self, scheduled: Scheduled, layout: Layout) -> Program:
        edges = self.graph.inputs, self.graph.outputs
        program = bind(list(scheduled.plans), layout.placed, *edges, layout.cached_pools, self.memory.pools)
        return runs.keep_tables(program) if _keeps_tables(self.options) else program

    def cycles(self, program: Program) -> int:
        return program_cost(program, self.graph, self.memory.pools, self.target).cycles

    def cycles_placed(self, scheduled: Scheduled, layout: Layout) -> int:
        return self.cycles(self.bound(scheduled, layout))


def arrange(lower: Lower, job: Job, wishes: Wishes) -> Bound:
    """The fastest way. Where weights that shall stay in RAM find no room, activations that need less of it are one."""
    found = _with_weights(lower, job, wishes)
    if job.options.prefer == "memory" or not weights.short_of_room(found[3], job.options, job.target):
        return found
    smaller = replace(job, options=replace(job.options, prefer="memory"), watch=nobody)
    return min(found, _with_weights(lower, smaller, wishes), key=lambda one: job.cycles(one[3]))


def _with_weights(lower: Lower, job: Job, wishes: Wishes) -> Bound:
    """Where another schedule lets more weights stay in RAM, and then where one lets more be fetched ahead, that one
    too; the best one is taken."""
    first, advice = _brought(_map_and_place(lower, job, wishes), job)
    found, asked = [first], Advice()
    while advice != Advice() and len(found) <= len(weights.wanted(job.options)):
        asked |= advice
        other = _map_and_place(partial(lower, cuts=asked.cuts), job, replace(wishes, roomy=asked.roomy))
        one, advice = _brought(other, job)
        found.append(one)
    return first if len(found) == 1 else min(found, key=lambda one: job.cycles(one[3]))


def _brought(built: Found, job: Job) -> tuple[Bound, Advice]:
    """The program with weights in RAM as the user wants, and what would bring more of them there."""
    mapped, scheduled, layout = built
    memory, options, target = job.memory, job.options, job.target
    program, advice = job.bound(scheduled, layout), Advice()
    for bring in weights.wanted(options):
        if bring is weights.fetch_ahead and advice == Advice():
            advice = weights.advice(program, scheduled.schedule.ops, memory, target)
        plans, layout = bring(program, layout, mapped.context, memory, options, target)
        scheduled = replace(scheduled, plans=plans)
        program = job.bound(scheduled, layout)
        if bring is weights.keep_resident:
            advice = weights.room_left(program, memory, options, target)
    return (mapped, scheduled, layout, program), advice


def _map_and_place(lower: Lower, job: Job, wishes: Wishes) -> Found:
    """Buffers in which engines start between aligned addresses need the NPU's own RAM. Where that is too small for all
    of them, smaller and smaller layers start their engines at aligned addresses only, which is slower."""
    shortage: PlacementError | None = None
    for room in Room(npu_ram_bytes(job.memory)).tighter():
        in_room = partial(lower, room=room, without=left_out(job.options), asked=job.options.schedule_with)
        mapped = in_room()
        job.watch("lower", mapped)
        try:
            found = mapped, *_schedule_and_place(mapped, job, wishes)
        except PlacementError as error:
            shortage = shortage or error
            if error.shortage.memory != NPU_RAM:
                break
            continue
        return _striped(in_room, found, job, wishes)
    assert shortage is not None
    raise shortage


def _striped(lower: Lower, plain: Found, job: Job, wishes: Wishes) -> Found:
    """The same with rows of several layers in turn, where that is better."""
    if striping.PASS in left_out(job.options) or job.options.numerics == "2.x":
        return plain
    unwatched = replace(job, watch=nobody)

    def striped(before: Found, stripes: Sequence[Stripe]) -> Found | None:
        mapped = lower(stripes=[*before[0].stripes, *stripes], known=before[0])
        if len(mapped.stripes) == len(before[0].stripes):
            return None
        try:
            return (mapped, *_schedule_and_place(mapped, unwatched, wishes))
        except PlacementError:
            return None

    def cycles(found: Found) -> int:
        return job.cycles_placed(*found[1:])

    found = striping.faster(plain, striped, cycles, job.graph, job.memory, wishes.whole)
    if job.options.prefer == "memory":
        found = striping.smaller(found, striped, cycles, job.graph, wishes.whole)
    if found is not plain:
        job.watch("lower", found[0])
        job.watch("schedule", found[1])
    return found


def _schedule_and_place(mapped: Mapped, job: Job, wishes: Wishes) -> tuple[Scheduled, Layout]:
    """Longer chains write in other places of their buffers. Where no memory has room for that, nothing is chained. What
    chains save is reckoned with all buffers on the chip; where some are outside, the finished programs are compared."""
    fused = chains(mapped, job, wishes.apart)
    place = partial(_placed, mapped, job=job, wishes=wishes)
    try:
        found = place(fused)
    except PlacementError:
        if not fused.merges:
            raise
        return place(Fused(mapped.works))
    if not fused.merges or not found[1].spilled_bytes:
        return found
    return min(found, place(Fused(mapped.works)), key=lambda one: job.cycles_placed(*one))


def _placed(mapped: Mapped, fused: Fused, job: Job, wishes: Wishes) -> tuple[Scheduled, Layout]:
    scheduled, context = schedule_tasks(mapped, fused, job.target, job.options, wishes), mapped.context
    job.watch("schedule", scheduled)
    progress.stage("placing buffers")
    require_written(scheduled.plans, context.buffers, context.aliases, job.graph.inputs, job.graph.outputs)
    return scheduled, _place(mapped, scheduled, job)


def chains(mapped: Mapped, job: Job, apart: Collection[str] = ()) -> Fused:
    """Operators behind others in one epoch; `apart`: those that stay alone."""
    options, cycles = job.options, partial(cycles_of, target=job.target)
    if FUSE in left_out(options):
        return Fused(mapped.works)
    context = mapped.context
    recuts = partial(_recuts, mapped.forms)
    pools = POOLS not in left_out(options)
    network = merging.Network(
        context.buffers, context.aliases, job.graph.outputs, cycles, job.target.trust, apart, recuts, pools
    )
    fused = fuse(mapped.works, network)
    for name, taller in fused.taller.items():
        context.share(taller, name)
    for recut in fused.recut.values():
        context.buffers.update(recut.buffers)
    return fused


def _recuts(forms: Mapping[str, Form], op: str) -> Iterator[merging.Recut]:
    """Other cuts of a convolution into lanes or bands that give the same bits, in front of and behind what else it
    does."""
    form = forms.get(op)
    if form is None or op not in form.semantics:
        return
    wanted = roundings(form.semantics[op])
    for other in form.outbid:
        at = _position(other.chosen_form.groups, form.groups)
        alike = wanted is not None and op in other.form.semantics and agree(other.form.semantics[op], wanted)
        if at is not None and (alike or other.label in SAME_BITS):
            behind = form.groups[at + len(other.chosen_form.groups) :]
            yield merging.Recut((*form.groups[:at], *other.form.groups, *behind), other.form.buffers)


def _position(part: Sequence[TaskGroup], groups: Sequence[TaskGroup]) -> int | None:
    """Where these very groups stand among others."""
    part_ids, ids = ([id(group) for group in some] for some in (part, groups))
    starts = range(len(ids) - len(part_ids) + 1)
    return next((k for k in starts if part_ids and ids[k : k + len(part_ids)] == part_ids), None)


def schedule_tasks(
    mapped: Mapped, fused: Fused, target: Target, options: Options, wishes: Wishes = NO_WISHES
) -> Scheduled:
    """Epochs with unit numbers, sound. Chains without evidence are left to the gate of `--silicon`, which sends their
    operators to the CPU."""
    context = mapped.context
    cycles = partial(epoch_cycles, buffers=context.buffers, target=target)
    network = Network(context.buffers, context.aliases, cycles, wishes.roomy, target.trust, wishes.alone)
    scheduled = schedule(fused.works, network, left_out(options))
    found = replace(scheduled, merges=fused.merges, apart=fused.apart)
    plans = assign(found, _keeps_tables(options))
    meant = fused.meant(mapped.works)
    findings = schedule_check.check(meant, found, plans, context.aliases)
    schedule_check.require_sound(findings, allow_unproven=True)
    return Scheduled(found, plans, meant)


def _keeps_tables(options: Options) -> bool:
    """Drivers load every table; in programs of the epoch controller one may stay."""
    return TABLES in options.schedule_with and options.epoch_controller


def left_out(options: Options) -> tuple[str, ...]:
    return options.schedule_without


def _place(mapped: Mapped, scheduled: Scheduled, job: Job) -> Layout:
    context, edges = mapped.context, (job.graph.inputs, job.graph.outputs)
    brought = supplied(job.graph, job.options)
    require_apart(brought, *edges, context.aliases)
    plans = list(scheduled.plans)
    planned = Planned(plans, context.buffers, context.aliases, *edges)
    layout = place(planned, job.memory, job.options.prefer, brought)
    place_check.require_sound(place_check.check(layout.placed, plans, job.memory, context.aliases, *edges))
    return layout


def supplied(graph: Graph, options: Options) -> tuple[str, ...]:
    """Inputs and outputs whose memory the application brings."""
    return supplied_edges(graph.inputs, graph.outputs, options.inputs_allocation, options.outputs_allocation)
