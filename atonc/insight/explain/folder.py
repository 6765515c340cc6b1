"""The picture of a network in a folder, ours or the vendor's: read off its C file, programs and JSON files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from atonc.compiler.place.usage import memory_use
from atonc.compiler.plan.types import FILLED, BufferKind
from atonc.insight.explain import decide, rules, tensors, vendor, wiring
from atonc.insight.explain.decide import at_clocks
from atonc.insight.explain.info_folder import find_info, info_view
from atonc.insight.explain.limits import limit_of
from atonc.insight.explain.live import least_bytes, pool_views
from atonc.insight.explain.saved import Saved, SavedLayer, read_saved
from atonc.insight.explain.types import (
    CPU,
    HYBRID,
    NPU,
    BufferView,
    Decision,
    LayerFacts,
    LayerView,
    NetworkView,
    StepView,
    TensorView,
    shares,
)
from atonc.insight.explain.vendor import node_names
from atonc.insight.explain.wiring import own_view
from atonc.insight.runs.safety import network_context
from atonc.machine.base.build_folder import read_whole
from atonc.machine.base.errors import AtoncError, InputError, UnsupportedError, plain
from atonc.machine.cost.network import NetworkCost, StepCost, network_cost
from atonc.machine.cost.saved_machine import build_machine
from atonc.machine.emu.files.c_info import CInfo, fitting_c_info
from atonc.machine.emu.files.network_c import read_network
from atonc.machine.emu.files.types import CompiledNetwork
from atonc.machine.emu.network import EmulatedNetwork, NetworkStep, load, memory_of, plan_steps
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.cycles.work import epoch_macs
from atonc.machine.hw.machine import Machine, stm32n6
from atonc.machine.hw.safety.evidence import grade_program
from atonc.machine.hw.safety.evidence.board import NO_ANSWERS
from atonc.machine.hw.safety.evidence.summary import Summary, summarise

_CIPHERED = "the weights are encrypted, or are to be: programs, buffers and times are shown, which need none of them"
_LONG_COMMAND = 2000  # characters that are shown of it


Adjust = Callable[[Machine], Machine]


def _as_built(machine: Machine) -> Machine:
    return machine


def folder_view(directory: Path, name: str | None = None, adjust: Adjust = _as_built) -> NetworkView:
    """Nothing is executed: weights may be missing, where the program does not need them, and even the program.

    Clocks are those of the build; `adjust` changes them.
    """
    return read_whole(directory, lambda: _folder_view(directory, name, adjust))


def _folder_view(directory: Path, name: str | None, adjust: Adjust) -> NetworkView:
    described = find_info(directory)
    if described is not None:
        return info_view(described, adjust(stm32n6()))
    try:
        return view_of(load(directory, name), adjust)
    except (InputError, UnsupportedError) as missing:
        found = _without_weights(directory, name, missing)
        told = _CIPHERED if found.network.weights_encrypted else str(missing)
        view = view_of(found, adjust)
        return replace(view, notes=(told, *view.notes))


def _without_weights(directory: Path, name: str | None, missing: AtoncError) -> EmulatedNetwork:
    """The program alone, if it lies outside the memories; else what was wrong at first."""
    try:
        network = read_network(directory, name)
        memory = memory_of(network)
        return EmulatedNetwork(network, memory, tuple(plan_steps(network, memory)))
    except AtoncError:
        raise missing from None


def view_of(net: EmulatedNetwork, adjust: Adjust = _as_built) -> NetworkView:
    machine = adjust(build_machine(net.network))
    network, info, notes = net.network, *fitting_c_info(net.network)
    steps = [step for step in net.steps if not step.empty]
    saved = read_saved(network, {step.number: step.kind for step in steps})
    cost = network_cost(net, steps, machine, info)
    views = _views(steps, cost, info, saved, node_names(network, steps))
    buffers, banks = _buffers(network, steps, info, saved), vendor.banks(network)
    in_code = (saved.relocatable_bytes, saved.code_constants_bytes) if saved else (0, 0)
    memory = memory_use(buffers, banks, *in_code)
    pools = pool_views(banks, memory.by_pool)
    external = {pool.name for pool in pools if pool.external}
    if saved is not None:
        whole = {step.number: (step, view) for step, view in zip(steps, views, strict=True)}
        layers = tuple(_saved_layer(one, whole, machine, _programmed_by(steps)) for one in saved.layers)
    else:
        streams = _flow(info, buffers, steps)
        layers = tuple(_layers(steps, views, buffers, external, streams, network))
    layers = at_clocks(layers, machine, _programmed_by(steps))
    return NetworkView(
        name=network.name,
        model=saved.model if saved else plain(info.model if info and info.model else network.c_file.name),
        tool=_tool(network, info, saved),
        board=saved.board if saved else "",
        npu_mhz=cost.npu_mhz,
        cpu_mhz=cost.cpu_mhz,
        steps=views,
        layers=layers,
        buffers=_with_layers(buffers, steps, views),
        pools=pools,
        memory=memory,
        lower_bound_bytes=least_bytes(buffers, pools),
        notes=(*notes, *(saved.notes if saved else _guessed(cost)), *_unlisted(network, info)),
        reproduce={**_reproduce(network, info), **(saved.reproduce if saved else {})},
        options=saved.options if saved else None,
        silicon=_silicon(network, steps, cost),
        inputs=saved.inputs if saved else tuple(map(vendor.file_tensor, network.inputs)),
        outputs=saved.outputs if saved else tuple(map(vendor.file_tensor, network.outputs)),
        tensors=saved.tensors if saved else _tensors(network, info),
        verified=saved.verified if saved else None,
    )


def _buffers(
    network: CompiledNetwork, steps: Sequence[NetworkStep], info: CInfo | None, saved: Saved | None
) -> tuple[BufferView, ...]:
    """As they were saved, with all that shares memory; of folders of others what their files tell."""
    if saved is not None:
        return saved.buffers
    return vendor.listed_buffers(info, network, steps) if info else vendor.buffers(network, steps)


def _programmed_by(steps: Sequence[NetworkStep]) -> str:
    by_cpu = any(step.epoch is not None and not step.blob for step in steps)
    return hardware.CPU if by_cpu else hardware.CONTROLLER


def _flow(info: CInfo | None, buffers: Sequence[BufferView], steps: Sequence[NetworkStep]) -> vendor.BufferFlow:
    if info is None:
        return vendor.program_flow(steps, buffers)
    return vendor.info_flow(info, buffers, (step.number for step in steps))


def _tensors(network: CompiledNetwork, info: CInfo | None) -> dict[str, TensorView]:
    found = {b.name: vendor.info_tensor(b) for b in info.buffers if not b.is_param} if info else {}
    listed = (*network.inputs, *network.internals, *network.outputs)
    return found | {b.name: vendor.file_tensor(b) for b in listed if not b.is_param}


def _silicon(network: CompiledNetwork, steps: Sequence[NetworkStep], cost: NetworkCost) -> Summary:
    epochs = [step.epoch for step in steps if step.epoch is not None]
    context = network_context(network)
    answers = context.trust.board if context.trust else NO_ANSWERS
    cycles = {step.number: one.cycles for step, one in zip(steps, cost.steps, strict=True)}
    return summarise(grade_program(epochs, context), answers, cycles)


def _tool(network: CompiledNetwork, info: CInfo | None, saved: Saved | None) -> str:
    tools = dict(info.tools) if info else {}
    if saved is not None or "atonc" in tools:
        return f"atonc {tools.get('atonc', '')}".strip()
    front = tools.get("ST.EdgeAI.Core", "").split("-")[0]
    if front:
        return f"ST Edge AI Core {front}"
    return f"ST's compiler {network.atonn_version}" if network.atonn_version else "a compiler that does not name itself"


def _reproduce(network: CompiledNetwork, info: CInfo | None) -> dict[str, str]:
    """The commands that made the folder, as far as its files tell."""
    found = {"C file": plain(network.c_file.name)}
    found |= {"compiler": network.atonn_version} if network.atonn_version else {}
    for tool, version in (info.tools if info else {}).items():
        found[tool] = version
    for tool, arguments in (info.arguments if info else {}).items():
        found[f"{tool} called with"] = arguments.strip()[:_LONG_COMMAND]
    return found


def _guessed(cost: NetworkCost) -> tuple[str, ...]:
    return (f"no measured constant for {', '.join(cost.unknown)}",) if cost.unknown else ()


def _unlisted(network: CompiledNetwork, info: CInfo | None) -> tuple[str, ...]:
    if network.internals or info is not None:
        return ()
    return ("the C file names no internal buffers, so memory shows inputs and outputs only (--all-buffers-info)",)


# -------------------------------------------------------------------------------------------------------------- steps


def _views(
    steps: Sequence[NetworkStep],
    cost: NetworkCost,
    info: CInfo | None,
    saved: Saved | None,
    names: Mapping[int, Sequence[str]],
) -> tuple[StepView, ...]:
    owners = _owners(saved.layers) if saved else {}
    found = []
    for step, costs in zip(steps, cost.steps, strict=True):
        node = info.by_epoch.get(step.number) if info else None
        nodes = vendor.nodes_of(node, names.get(step.number, ()))
        if saved is not None and step.number in owners:
            view = _step(step, costs, 0, cost)
            title, layer = saved.titles.get(step.number, ""), owners[step.number]
        else:
            view = _step(step, costs, node.macc if node else 0, cost)
            title = ", ".join(nodes) or costs.origin
            layer = nodes[0] if nodes else f"epoch {step.number}"
        title = title or f"epoch {step.number}"
        found.append(replace(view, title=title, layer=layer, nodes=tuple(nodes) or (title,)))
    return tuple(found) if saved is not None else vendor.unique_layers(found)


def _owners(layers: Sequence[SavedLayer]) -> dict[int, str]:
    """Epochs by number with their layer; of those that share one, the first in it."""
    behind = {(one.name, part.epoch) for one in layers for part in one.parts if part.before}
    return {number: one.name for one in layers for number in one.epochs if (one.name, number) not in behind}


def _step(step: NetworkStep, cost: StepCost, macs: int, network: NetworkCost) -> StepView:
    """Without title, layer and nodes, which not the step knows."""
    return StepView(
        number=step.number,
        on=step.kind,
        title="",
        layer="",
        cycles=cost.cycles,
        milliseconds=cost.milliseconds,
        st_cycles=cost.st_cycles,
        bound_by=cost.bound_by,
        known=cost.known,
        macs=macs if step.epoch is None else epoch_macs(step.epoch),
        activity=cost.activity,
        energy_uj=network.energy_uj(cost),
        doubts={} if step.epoch is None else dict(cost.doubts),
        **wiring.figures(step.epoch),
    )


# ------------------------------------------------------------------------------------------------------------- layers


Steps = Mapping[int, tuple[NetworkStep, StepView]]  # by their numbers


def _own(one: SavedLayer, steps: Steps) -> list[StepView]:
    """Its steps in order: of epochs that it shares, what is its own."""
    parts = {part.epoch: part for part in one.parts}
    found = []
    for number in sorted(set(one.epochs)):
        (step, view), part = steps[number], parts.get(number)
        found.append(view if part is None or step.epoch is None else own_view(view, step.epoch, part))
    return found


def _saved_decisions(one: SavedLayer, own: Sequence[StepView]) -> tuple[Decision, ...]:
    """What bounds it stands first, and is counted again; its remedy stays where it is still the same bound."""
    first, *others = one.decisions or (None,)
    bound_by = shares(own)
    if first is None or first.rule not in rules.BOUNDS.values() or not bound_by or own[0].on in (CPU, HYBRID):
        return one.decisions
    bound = decide.bound(bound_by, sum(view.cycles for view in own))
    bound = replace(bound, remedy=first.remedy) if bound.rule is first.rule else bound
    return tuple(decide.merged([bound, *(d for d in others if d is not None)]))


def _saved_layer(one: SavedLayer, steps: Steps, machine: Machine, programmed_by: str) -> LayerView:
    """A layer of ours; bounds are counted again, as clocks may differ from those of the compilation."""
    own = _own(one, steps)
    behind = any(d.rule is rules.CHAINED for d in one.decisions)  # all of it, if it has no step
    facts = LayerFacts(
        name=one.name,
        kind=one.kind,
        nodes=one.nodes,
        inputs=one.inputs,
        outputs=one.outputs,
        shape=one.shape,
        on=NPU if behind and not own else "",
        macs=one.macs,
        limit=limit_of(one.work, machine, programmed_by) if one.work else None,
        decisions=_saved_decisions(one, own),
        label=one.label,
        attributes=one.attributes,
        weights=one.weights,
        operators=(tensors.operator(one.kind, one.nodes[-1], one.weights),),
        error=one.error,
    )
    return LayerView.of(facts, own)


def _layers(
    steps: Sequence[NetworkStep],
    views: Sequence[StepView],
    buffers: Sequence[BufferView],
    external: set[str],
    streams: vendor.BufferFlow,
    network: CompiledNetwork,
) -> Iterable[LayerView]:
    """Epochs of the same node that follow each other are one layer."""
    rows = list(zip(steps, views, strict=True))
    shapes = {b.name: vendor.file_shape(b) for b in (*network.internals, *network.outputs) if not b.is_param}
    params = vendor.params_by_node(map(vendor.file_tensor, network.params))
    for (name, _), members in groupby(rows, key=lambda row: (row[1].layer, row[1].on)):
        own = list(members)
        numbers = [view.number for _, view in own]
        read, written = streams.read(numbers), streams.written(numbers)
        shape = next((shapes[n] for n in reversed(written) if n in shapes), ())
        touched = [b for b in buffers if b.name in (*read, *written)]
        nodes = tuple(dict.fromkeys(n for _, view in own for n in view.nodes))
        node = vendor.node_of(name)
        kind = vendor.kind_of(node, own[0][0].calls)
        decisions = _decisions([step for step, _ in own], [view for _, view in own], touched, external)
        if not own[0][0].calls:
            decisions += vendor.form_decisions(kind, len(own))
        weights = vendor.weights_of(nodes, params)
        operators = vendor.operators_of(nodes, weights)
        facts = LayerFacts(
            name=name,
            kind=kind,
            nodes=(*(n for n in nodes if n != node), node),
            inputs=read,
            outputs=written,
            shape=shape,
            decisions=tuple(decisions),
            label=vendor.label_of(operators),
            weights=weights,
            operators=operators,
        )
        yield LayerView.of(facts, [view for _, view in own])


def _decisions(
    steps: Sequence[NetworkStep], views: Sequence[StepView], touched: Iterable[BufferView], external: set[str]
) -> list[Decision]:
    bound_by, found = shares(views), list[Decision]()
    calls = [call for step in steps for call in step.calls]
    if calls:
        found += vendor.cpu_decisions(calls)
    elif bound_by:
        found.append(decide.bound(bound_by, sum(view.cycles for view in views)))
    found += decide.of_epochs([step.epoch for step in steps if step.epoch is not None and not step.calls])
    outside = [b.name for b in touched if b.pool in external and b.kind != "constant"]
    if outside:
        found.append(decide.decision(rules.SPILL, f"{', '.join(outside[:3])} in external RAM"))
    return found


def _with_layers(
    buffers: Sequence[BufferView], steps: Sequence[NetworkStep], views: Sequence[StepView]
) -> tuple[BufferView, ...]:
    """Each buffer with the layer whose epoch writes it first; constants with the one that reads them."""
    writers = {view.number: view.layer for view in views}
    readers = vendor.readers(buffers, steps, writers)

    def layer(b: BufferView) -> str:
        if b.kind in FILLED:
            return readers.get((b.name, b.address), "")
        return "" if b.kind == BufferKind.INPUT else b.layer or writers.get(b.first, "")

    return tuple(replace(b, layer=layer(b)) for b in buffers)
