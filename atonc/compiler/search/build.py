"""Decisions become a program: lower, schedule, place, bind, each once. Nothing is compared here.

Forms of single operators, merges and places are what their stages make of the decisions, by rules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from atonc.compiler.lower.facts import Facts
from atonc.compiler.lower.map_ops import Mapped, map_ops
from atonc.compiler.lower.same_bits import same_bits
from atonc.compiler.place import Layout, place
from atonc.compiler.place import check as place_check
from atonc.compiler.place.explain import PlacementError
from atonc.compiler.place.pools import has_other_ram, npu_ram_bytes
from atonc.compiler.place.user_allocated import require_apart
from atonc.compiler.plan.contents import require_written
from atonc.compiler.plan.policy import MOST_CODES, NpuRamBudget
from atonc.compiler.plan.types import Planned
from atonc.compiler.schedule import FUSE, POOLS, merging, schedule
from atonc.compiler.schedule import check as schedule_check
from atonc.compiler.schedule.assign import assign
from atonc.compiler.schedule.fuse import Fused, fuse
from atonc.compiler.schedule.pack_ops import TaskNetwork
from atonc.compiler.search.candidate import Built, Candidate, Scheduled, Setting, Watch, no_watch
from atonc.compiler.search.copies import with_fetched, with_residents
from atonc.compiler.search.known import known_forms
from atonc.compiler.select.cycles import cycles_of, epoch_cycles
from atonc.compiler.select.decisions import FIRST, Decisions
from atonc.compiler.select.form import Form
from atonc.machine.base import progress


def build(
    setting: Setting, decisions: Decisions, before: Candidate | None = None, watch: Watch = no_watch
) -> Candidate:
    """`before`: a candidate of other decisions, of which everything is taken over that is the same."""
    mapped = _lowered(setting, decisions, before)
    watch("lower", mapped)
    if before and before.built and before.mapped is mapped and decisions.adds_weights_to(before.decisions):
        return _with_weights(before, decisions)
    plain = _scheduled_and_placed(Candidate(replace(decisions, resident=None, fetched=None), setting, mapped), watch)
    return _with_weights(plain, decisions) if plain.built else replace(plain, decisions=decisions)


def _lowered(setting: Setting, decisions: Decisions, before: Candidate | None) -> Mapped:
    if before is not None and before.decisions.lowering == decisions.lowering:
        return before.mapped
    options, affinity = setting.options, setting.affinity
    facts = Facts(
        setting.graph,
        setting.target,
        _room(setting, decisions),
        options.numerics,
        setting.calibrate,
        on_cpu=affinity.on_cpu | frozenset(decisions.on_cpu),
        user_allocated=frozenset(setting.user_allocated),
        without=setting.without,
        asked=frozenset(options.schedule_with),
        cuts=decisions.cuts,
        forms=decisions.forms,
        disproved=decisions.disproved,
        coarse=max(MOST_CODES, options.allow_coarse),
        near=decisions.near,
        ram_scarce=decisions.ram_scarce,
        alike=setting.alike,
    )
    known = before.mapped if before else None
    if known is None and decisions.lowering == replace(FIRST, thrifty=not decisions.spends).lowering:
        mapped = known_forms(facts, affinity, partial(map_ops, facts, decisions, affinity))
    else:
        mapped = map_ops(facts, decisions, affinity, known)
    return before.mapped if before and _alike(mapped, before.mapped) else mapped


def _alike(one: Mapped, other: Mapped) -> bool:
    """The same tasks, and the same forms that could take their place."""
    return one.works == other.works and _alternatives(one) == _alternatives(other)


def _alternatives(mapped: Mapped) -> dict[str, list[str]]:
    return {op: [str(other.variant) for other in form.alternatives] for op, form in mapped.forms.items()}


def _room(setting: Setting, decisions: Decisions) -> NpuRamBudget:
    """What the application brings may lie in any memory."""
    other_ram = has_other_ram(setting.memory) or bool(setting.user_allocated)
    spends = decisions.spends and not setting.fetches_weights
    return NpuRamBudget(npu_ram_bytes(setting.memory), decisions.huge_share, other_ram, spends)


def _scheduled_and_placed(candidate: Candidate, watch: Watch) -> Candidate:
    """Buffers that merges bring are the candidate's own: others may be made of the same tasks without them."""
    setting, decisions = candidate.setting, candidate.decisions
    mapped = replace(candidate.mapped, context=candidate.mapped.context.copy())
    may_fuse = decisions.fused and FUSE not in setting.without
    fused = chains(mapped, setting, decisions) if may_fuse else Fused(mapped.works)
    scheduled = schedule_tasks(mapped, fused, setting, decisions)
    watch("schedule", scheduled)
    progress.stage("placing buffers")
    context, edges = mapped.context, (setting.graph.inputs, setting.graph.outputs)
    if setting.proved:
        require_written(scheduled.plans, context.buffers, context.aliases, *edges)
    try:
        layout = _placed(mapped, scheduled, setting, decisions)
    except PlacementError as error:
        return replace(candidate, shortage=error, chained=bool(fused.merges))
    built = Built(mapped, scheduled, layout, setting.bound(scheduled.plans, layout))
    return replace(candidate, built=built, chained=bool(fused.merges))


def chains(mapped: Mapped, setting: Setting, decisions: Decisions) -> Fused:
    """Operators behind others in one epoch."""
    context = mapped.context
    network = merging.MergeNetwork(
        context.buffers,
        context.aliases,
        setting.graph.outputs,
        partial(cycles_of, target=setting.target),
        setting.target.trust,
        decisions.unfused,
        partial(_recuts, mapped.forms),
        pools=POOLS not in setting.without,
    )
    fused = fuse(mapped.works, network)
    for name, taller in fused.taller.items():
        context.share(taller, name)
    for recut in fused.recut.values():
        context.buffers.update(recut.buffers)
    return fused


def _recuts(forms: Mapping[str, Form], op: str) -> Iterator[merging.Recut]:
    """Other cuts of a convolution that give the same bits."""
    for _, other in same_bits(forms[op], op) if op in forms else ():
        yield merging.Recut(other.groups, other.buffers)


def schedule_tasks(mapped: Mapped, fused: Fused, setting: Setting, decisions: Decisions) -> Scheduled:
    """Epochs with unit numbers, sound. Chains without evidence are left to the gate of `--silicon`."""
    context, target = mapped.context, setting.target
    cycles = partial(epoch_cycles, buffers=context.buffers, target=target)
    network = TaskNetwork(context.buffers, context.aliases, cycles, decisions.reserved, target.trust, decisions.alone)
    scheduled = schedule(fused.works, network, setting.without)
    found = replace(scheduled, merges=fused.merges, apart=fused.apart)
    plans = assign(found, setting.keeps_tables)
    reference = fused.reference(mapped.works)
    if setting.proved:
        findings = schedule_check.check(reference, found, plans, context.aliases)
        schedule_check.require_sound(findings, allow_unproven=True)
    return Scheduled(found, plans, reference)


def _placed(mapped: Mapped, scheduled: Scheduled, setting: Setting, decisions: Decisions) -> Layout:
    context, edges = mapped.context, (setting.graph.inputs, setting.graph.outputs)
    brought = setting.user_allocated
    require_apart(brought, *edges, context.aliases)
    plans, prefer = list(scheduled.plans), "memory" if decisions.compact else "speed"
    planned, encrypted = Planned(plans, context.buffers, context.aliases, *edges), setting.options.encrypt_weights
    layout = place(planned, setting.memory, prefer, brought, encrypted)
    if setting.proved:
        place_check.require_sound(place_check.check(layout.placed, plans, setting.memory, context.aliases, *edges))
    return layout


def _with_weights(plain: Candidate, decisions: Decisions) -> Candidate:
    """The same with weights in RAM, where that was decided; `plain` may have some there already."""
    built, setting, known = plain.made, plain.setting, plain.decisions
    if decisions.resident and not known.resident:
        built = with_residents(built, decisions.resident, setting)
    if decisions.fetched and not known.fetched:
        built = with_fetched(built, decisions.fetched, decisions.by_dma, setting)
    return replace(plain, decisions=decisions, built=built)
