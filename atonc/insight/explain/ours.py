"""The picture of a network that this compiler made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from atonc.compiler.compile import reproduce
from atonc.compiler.compile.compile_view import CompileView
from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.emit.encryption import ACC_CONFS, IN_PLAIN, UNSEEN
from atonc.compiler.emit.program import ProgramStep
from atonc.compiler.emit.runs import dma_notes
from atonc.compiler.emit.write import states
from atonc.compiler.frontends.coverage import CONVERSIONS, coverage
from atonc.compiler.ir import Op, layer_name
from atonc.compiler.ops.shapes import macs
from atonc.compiler.place.pools import is_external
from atonc.compiler.plan.types import FILLED as READ_ONLY
from atonc.compiler.plan.types import EpochPlan
from atonc.compiler.schedule.shares import Share
from atonc.compiler.select.rules import NOT_CODES
from atonc.insight.explain import decide, rules, tensors, wiring
from atonc.insight.explain.decide import at_clocks, has_no_epoch, of_schedule, of_stripes, prepared
from atonc.insight.explain.limits import layer_work, limit_of
from atonc.insight.explain.types import (
    CPU,
    NOTHING,
    NPU,
    BufferView,
    Decision,
    EpochShare,
    LayerError,
    LayerFacts,
    LayerView,
    NetworkView,
    PoolView,
    StateMemoryView,
    StepView,
    Verified,
    shares,
)
from atonc.insight.explain.wiring import own_view, restricted
from atonc.machine.cost.network import NetworkCost, StepCost
from atonc.machine.hw.safety.evidence.unit_features import DECIPHERS


class OwnStep(NamedTuple):
    """A step as one operator has it."""

    step: ProgramStep
    cost: StepCost
    part: EpochShare | None = None  # of the epoch, where others share it


def own_steps(compiled: Compiled, costs: tuple[StepCost, ...]) -> dict[str, list[OwnStep]]:
    """By operator. An epoch that several share appears with each, with the units and the part of the cycles that are
    its own: all parts together are the whole."""
    found: dict[str, list[OwnStep]] = {}
    for step, cost, owned in zip(compiled.program.steps, costs, compiled.scheduled.shares, strict=True):
        parts = [OwnStep(step, cost)] if len(owned) == 1 else _parts(step, cost, owned)
        for share, part in zip(owned, parts, strict=True):
            found.setdefault(share.op, []).append(part)
    return found


def _parts(step: ProgramStep, cost: StepCost, shares: tuple[Share, ...]) -> list[OwnStep]:
    total = sum(share.elements for share in shares)
    rows, before = [], 0
    for share in shares:
        part = EpochShare(step.number, before, share.elements, total, tuple(sorted(share.units)))
        before += share.elements
        cycles = part.cycles(cost.cycles)
        own = replace(cost, cycles=cycles, milliseconds=cost.milliseconds * cycles / max(1, cost.cycles))
        rows.append(OwnStep(_restricted(step, share, part), own, part))
    return rows


def _restricted(step: ProgramStep, share: Share, part: EpochShare) -> ProgramStep:
    """The step as if it had the tasks of one operator only."""
    epoch, plan, first = step.epoch, step.plan, share.tasks[0]
    assert epoch is not None and isinstance(plan, EpochPlan)
    named = replace(plan, origin=first.origin, title=first.title, purpose=first.purpose)
    return replace(step, epoch=restricted(epoch, part), plan=named)


def network_view(view: CompileView) -> NetworkView:
    compiled, used = view.compiled, view.memory.by_pool
    rows = list(zip(compiled.program.steps, view.cost.steps, compiled.scheduled.owners, strict=True))
    steps = {step.number: (step, _step(step, cost, owner, view.cost)) for step, cost, owner in rows}
    external = {pool.name for pool in view.board.pools if is_external(pool)}
    own = own_steps(compiled, view.cost.steps)
    source = {node: op for op in compiled.source.ops for node in op.origin or (op.name,)}
    listed = (_layer(op, view, own.get(op.name, []), steps, external, source) for op in compiled.graph.ops)
    layers = at_clocks(listed, compiled.target.machine, compiled.target.programmed_by)
    return NetworkView(
        name=view.name,
        model=view.model,
        tool="atonc",
        board=view.board.name,
        npu_mhz=view.cost.npu_mhz,
        cpu_mhz=view.cost.cpu_mhz,
        steps=tuple(step for _, step in steps.values()),
        layers=layers,
        buffers=_buffers(view),
        pools=tuple(
            PoolView(p.name, p.base, p.size_bytes, used.get(p.name, 0), is_external(p), p.writable)
            for p in view.board.pools
        ),
        memory=view.memory,
        lower_bound_bytes=compiled.layout.lower_bound_bytes,
        notes=tuple(dict.fromkeys((*compiled.source.notes, *compiled.graph.notes, *option_notes(view)))),
        reproduce=dict(view.reproduce),
        options=reproduce.asked(view.options),
        coverage=coverage(view.compiled.source, view.compiled.graph),
        silicon=compiled.silicon,
        inputs=tuple(tensors.tensor_view(compiled.graph.tensors[name]) for name in compiled.graph.inputs),
        outputs=tuple(tensors.tensor_view(compiled.graph.tensors[name]) for name in compiled.graph.outputs),
        states=tuple(
            StateMemoryView(*(row[key] for key in ("name", "address", "size_bytes", "pool", "first")))
            for row in states(compiled.program, compiled.graph)
        ),
        tensors={
            name: tensors.tensor_view(compiled.graph.tensors[name])
            for layer in layers
            for name in (*layer.inputs, *layer.outputs)
        },
        verified=_verified(view),
        search=compiled.search,
        decisions=compiled.decisions,
        advice=view.advice,
    )


def _verified(view: CompileView) -> Verified | None:
    report = view.compiled.report
    if report is None:
        return None
    rows = tuple((o.name, o.cosine, o.exact_percent, o.within1_percent, o.max_lsb) for o in report.outputs)
    said = report.worst_text, tuple(o.worst_text for o in report.outputs)
    return Verified(report.samples, report.layers, report.worst_layer, rows, report.tensors, report.sums, *said)


def _error(op: Op, view: CompileView) -> LayerError | None:
    report = view.compiled.report
    found = [check for name in op.outputs for check in (report.by_tensor.get(name, ()) if report else ())]
    if not found:
        return None
    worst = max(found, key=lambda check: (check.max_diff, check.differ_percent))
    return LayerError(worst.max_diff, worst.differ_percent, worst.limit)


def _step(step: ProgramStep, cost: StepCost, owner: str, network: NetworkCost) -> StepView:
    epoch = step.epoch
    return StepView(
        number=step.number,
        on=CPU if epoch is None else NPU,
        title=step.plan.title,
        layer=owner,
        parts={} if epoch is None else dict(cost.parts),
        **wiring.counted(cost, network, epoch),
    )


Steps = Mapping[int, tuple[ProgramStep, StepView]]  # by their numbers


def _own(row: OwnStep, steps: Steps) -> StepView:
    """A step of an operator: the whole one, or what is its own of one that several share."""
    shared, whole = steps[row.step.number]
    return whole if row.part is None or shared.epoch is None else own_view(whole, shared.epoch, row.part)


def _layer(
    op: Op, view: CompileView, rows: list[OwnStep], steps: Steps, external: set[str], source: Mapping[str, Op]
) -> LayerView:
    known = view.compiled.graph.tensors
    own = [_own(row, steps) for row in rows]
    behind = has_no_epoch(op.name, view.compiled.scheduled.schedule)
    on = (NPU if behind else NOTHING) if not rows else NPU if any(step.on == NPU for step in own) else CPU
    held, target = tensors.weights(op, known), view.compiled.target
    work = layer_work(op, known, [row.step for row in rows], view.compiled.program, target)
    facts = LayerFacts(
        name=layer_name(op),
        kind=op.kind,
        nodes=op.origin or (op.name,),
        inputs=tuple(n for n in op.inputs if n and not known[n].is_constant),
        outputs=op.outputs,
        shape=known[op.outputs[0]].shape,
        on=on,
        macs=macs(op, known),
        limit=limit_of(work, target.machine, target.programmed_by) if work else None,
        decisions=tuple(_decisions(op, view, rows, on, shares(own), sum(step.cycles for step in own), external)),
        label=tensors.label(op, known),
        attributes={**tensors.attributes(op), **tensors.fused(op, source)},
        weights=held,
        operators=(tensors.operator(op.kind, (op.origin or (op.name,))[-1], held),),
        error=_error(op, view),
    )
    return LayerView.of(facts, own)


def _decisions(
    op: Op,
    view: CompileView,
    rows: list[OwnStep],
    on: str,
    bound_by: Mapping[str, float],
    cycles: int,
    external: set[str],
) -> list[Decision]:
    compiled = view.compiled
    if on == NOTHING:
        return []
    outside = [n for n in (*op.inputs, *op.outputs) if n in compiled.layout.placed and not _on_chip(n, view, external)]
    spilled = [decide.decision(rules.SPILL, f"{', '.join(outside[:3])} in external RAM")] if outside else []
    if on == CPU:
        told = [one for one in compiled.choices.reasons if one.node == layer_name(op)]
        reasons = [Decision(one.rule, one.seen, one.limit, one.remedy) for one in told]
        return decide.merged([*reasons, *_in_float(op, view, reasons), *spilled])
    chained = [*of_schedule(op.name, compiled.scheduled.schedule), *of_stripes(op.name, compiled.choices)]
    if not rows:
        return decide.merged([*chained, *spilled])
    run = [row.step for row in rows]
    own = [(s.epoch, s.plan.purpose) for s in run if s.epoch is not None and isinstance(s.plan, EpochPlan)]
    shifted = [n for n in op.inputs if n in compiled.layout.placed and compiled.layout.placed[n].buffer.offset]
    shifted += op.inputs[:1] if prepared(op.name, compiled.scheduled.schedule) else ()
    found = [_bound(bound_by, cycles, view)] if bound_by else []
    epochs, purposes = [epoch for epoch, _ in own], [purpose for _, purpose in own]
    refused = compiled.choices.refused.get(op.name, ())
    contests = (decide.decision(rules.CHEAPEST, said) for said in compiled.choices.contests.get(op.name, ()))
    found += decide.of_operator(op, compiled.graph.tensors, epochs, purposes, shifted, refused)
    return decide.merged([*found, *contests, *chained, *spilled])


def _bound(bound_by: Mapping[str, float], cycles: int, view: CompileView) -> Decision:
    one = decide.bound(bound_by, cycles)
    if one.rule is rules.BOUNDS["bank"] and view.options.prefer == "memory":
        return replace(one, remedy="leave out --prefer memory: then buffers spread over the banks")
    return one


def _in_float(op: Op, view: CompileView, reasons: Sequence[Decision]) -> list[Decision]:
    """An operator that no unit does may be in float as well: then both rules keep it on the CPU."""
    touched = [view.compiled.graph.tensors[n] for n in (*op.inputs, *op.outputs) if n]
    real = [t.dtype for t in touched if not t.is_constant and t.is_float]
    known = any(one.rule == NOT_CODES for one in reasons)
    if op.kind in CONVERSIONS or known or not real:
        return []
    return [decide.decision(NOT_CODES, f"{op.kind}, {real[0]} values")]


def _on_chip(name: str, view: CompileView, external: set[str]) -> bool:
    home = view.compiled.layout.placed[name]
    return home.pool not in external or bool(home.buffer.data)


def _buffers(view: CompileView) -> tuple[BufferView, ...]:
    owners = list(zip(view.compiled.program.steps, view.compiled.scheduled.owners, strict=True))
    readers = {name: owner for step, owner in reversed(owners) for name in step.plan.reads()}
    producers = {name: owner for step, owner in reversed(owners) for name in step.plan.writes()}
    producers |= {name: op.name for op in view.compiled.graph.ops for name in op.outputs}
    homes = sorted(view.compiled.layout.placed.values(), key=lambda h: (h.address, h.buffer.name))
    return tuple(
        BufferView(
            name=h.buffer.name,
            pool=h.pool,
            address=h.address,
            size_bytes=h.buffer.size_bytes,
            first=h.first + 1,
            last=h.last + 1,
            kind=str(h.buffer.kind),
            layer=(readers if h.buffer.kind in READ_ONLY else producers).get(h.buffer.name, ""),
            reserved_bytes=h.reserved_bytes,
        )
        for h in homes
    )


def option_notes(view: CompileView) -> list[str]:
    """What has to be known of options that no board has proven."""
    return [*encryption_notes(view), *dma_notes(view.compiled.program, view.options.dma_channel)]


def encryption_notes(view: CompileView) -> list[str]:
    """Nothing without `--encrypt-weights`."""
    if view.compiled.written.encrypted is None:
        return []
    known = [] if not view.options.encrypt_acc_confs else [f"{ACC_CONFS} (--no-encrypt-acc-confs takes note of it)"]
    return [f"encrypted weights: {encryption_evidence(view)}; {UNSEEN}", *known]


def encryption_evidence(view: CompileView) -> str:
    """What stands behind it: nothing but the emulator, or a board that answered the probes as well."""
    probed = DECIPHERS in view.compiled.target.trust.board.confirmed
    return f"{IN_PLAIN}{', but your board reads back what it enciphers' if probed else ''}"
