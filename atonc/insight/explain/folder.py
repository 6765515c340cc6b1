"""The picture of a network in a folder, ours or the vendor's: read off its C file, programs and JSON files.

Of some networks only c_info.json is there: what ST's compiler estimated, without its program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from atonc.compiler.emit.write import first_words
from atonc.compiler.place.pools import outside_chip
from atonc.compiler.place.usage import CountedPool, memory_use
from atonc.compiler.plan.types import FILLED, BufferKind
from atonc.insight.explain import decide, rules, tensors, vendor, wiring
from atonc.insight.explain.decide import at_clocks
from atonc.insight.explain.limits import limit_of
from atonc.insight.explain.live import least_bytes, pool_views
from atonc.insight.explain.saved import Saved, SavedLayer, read_saved
from atonc.insight.explain.types import (
    CPU,
    ESTIMATED,
    HYBRID,
    NPU,
    BufferView,
    Decision,
    LayerFacts,
    LayerView,
    NetworkView,
    StateMemoryView,
    StepView,
    TensorView,
    shares,
)
from atonc.insight.explain.wiring import own_view
from atonc.insight.runs.programs import network_context
from atonc.machine.base.build_folder import read_whole
from atonc.machine.base.errors import AtoncError, InputError, UnsupportedError, plain
from atonc.machine.cost.network import NetworkCost, build_machine, network_cost
from atonc.machine.emu.files.c_info import CInfo, InfoBuffer, InfoNode, fitting_c_info, read_c_info
from atonc.machine.emu.files.network_c import read_network
from atonc.machine.emu.files.types import CompiledNetwork, FunctionCall
from atonc.machine.emu.network import EmulatedNetwork, NetworkStep, load, memory_of, plan_steps
from atonc.machine.emu.states import StateView, named_states
from atonc.machine.hw.cycles import hardware
from atonc.machine.hw.cycles.work import epoch_macs
from atonc.machine.hw.machine import Machine, stm32n6
from atonc.machine.hw.safety.evidence import grade_program
from atonc.machine.hw.safety.evidence.board_file import NO_ANSWERS
from atonc.machine.hw.safety.evidence.summary import Summary, summarise

_CIPHERED = "the weights are encrypted, or are to be: programs, buffers and times are shown, which need none of them"
_UNLISTED = "the C file names no internal buffers, so memory shows inputs and outputs only (--all-buffers-info)"
NOTE = "only c_info.json is here: cycles are what ST's compiler estimated, not a prediction of the hardware model"
_LONG_COMMAND = 2000  # characters that are shown of it
_ON = {"HW": NPU, "EC": NPU, "SW": CPU, "SW_HW": HYBRID}

Adjust = Callable[[Machine], Machine]
Steps = Mapping[int, tuple[NetworkStep, StepView]]  # by their numbers


def folder_view(directory: Path, name: str | None = None, adjust: Adjust = lambda machine: machine) -> NetworkView:
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
        try:  # the program alone, if it lies outside the memories; else what was wrong at first
            network = read_network(directory, name)
            memory = memory_of(network)
            found = EmulatedNetwork(network, memory, tuple(plan_steps(network, memory)))
        except AtoncError:
            raise missing from None
        view = view_of(found, adjust)
        return replace(view, notes=(_CIPHERED if network.weights_encrypted else str(missing), *view.notes))


def view_of(net: EmulatedNetwork, adjust: Adjust = lambda machine: machine) -> NetworkView:
    machine = adjust(build_machine(net.network))
    network, info, notes = net.network, *fitting_c_info(net.network)
    steps = [step for step in net.steps if not step.empty]
    saved = read_saved(network, {step.number: step.kind for step in steps})
    cost = network_cost(net, steps, machine, info)
    views = _views(steps, cost, info, saved, vendor.node_names(network, steps))
    whole = {step.number: (step, view) for step, view in zip(steps, views, strict=True)}
    banks = vendor.banks(network)
    buffers = saved.buffers if saved else _buffers(network, steps, info, banks)
    in_code = (saved.relocatable_bytes, saved.code_constants_bytes) if saved else (0, 0)
    memory = memory_use(buffers, banks, *in_code)
    pools = pool_views(banks, memory.by_pool)
    by_cpu = any(step.epoch is not None and not step.blob for step in steps)
    programmed_by = hardware.CPU if by_cpu else hardware.CONTROLLER
    if saved is not None:
        layers = [_saved_layer(one, whole, machine, programmed_by) for one in saved.layers]
        told = saved.notes
    else:
        layers = list(_program_layers(whole, buffers, network, info, {pool.name for pool in pools if pool.external}))
        told = (f"no measured constant for {', '.join(cost.unknown)}",) if cost.unknown else ()
    unlisted = () if network.internals or info is not None else (_UNLISTED,)
    return NetworkView(
        name=network.name,
        model=saved.model if saved else plain(info.model if info and info.model else network.c_file.name),
        tool=tool_of(network, info, saved),
        board=saved.board if saved else "",
        npu_mhz=cost.npu_mhz,
        cpu_mhz=cost.cpu_mhz,
        steps=views,
        layers=at_clocks(layers, machine, programmed_by),
        buffers=_with_layers(buffers, steps, views),
        pools=pools,
        memory=memory,
        lower_bound_bytes=least_bytes(buffers, pools),
        notes=(*notes, *told, *unlisted),
        reproduce={**_reproduce(network, info), **(saved.reproduce if saved else {})},
        options=saved.options if saved else None,
        silicon=_silicon(network, steps, cost),
        inputs=saved.inputs if saved else tuple(map(vendor.file_tensor, network.inputs)),
        outputs=saved.outputs if saved else tuple(map(vendor.file_tensor, network.outputs)),
        tensors=saved.tensors if saved else _tensors(network, info),
        states=tuple(_state(one, banks) for one in named_states(network)),
        verified=saved.verified if saved else None,
        advice=tuple(saved.advice.items()) if saved and machine == build_machine(network) else (),
    )


def _state(one: StateView, banks: Sequence[CountedPool]) -> StateMemoryView:
    at, size = one.memory.address, len(one.memory.first)
    pool = next((bank.name for bank in banks if bank.base <= at < bank.base + bank.size_bytes), "")
    return StateMemoryView(one.name, at, size, pool, first_words(one.dtype, one.memory.first))


def _buffers(
    network: CompiledNetwork, steps: Sequence[NetworkStep], info: CInfo | None, banks: Sequence[CountedPool]
) -> tuple[BufferView, ...]:
    """What the files of others tell."""
    if info is None:
        return vendor.buffers(network, steps, banks)
    inputs, outputs = ({b.name for b in edge} for edge in (network.inputs, network.outputs))

    def kind(one: InfoBuffer) -> str:
        named = "input" if one.name in inputs else "output" if one.name in outputs else "activation"
        return "constant" if one.is_param else named

    last = steps[-1].number if steps else 0
    return vendor.listed_buffers(info, banks, kind, last, last)


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


def _core(tools: Mapping[str, str]) -> str:
    front = tools.get("ST.EdgeAI.Core", "").split("-")[0]
    return f"ST Edge AI Core {front}" if front else ""


def tool_of(network: CompiledNetwork, info: CInfo | None, saved: Saved | None = None) -> str:
    """Who compiled it, as far as its files tell."""
    tools = dict(info.tools) if info else {}
    if saved is not None or "atonc" in tools:
        return f"atonc {tools.get('atonc', '')}".strip()
    version = network.atonn_version
    return _core(tools) or (f"ST's compiler {version}" if version else "a compiler that does not name itself")


def _called(info: CInfo) -> dict[str, str]:
    """Tools with their versions, and what they were called with."""
    called = {f"{tool} called with": text.strip()[:_LONG_COMMAND] for tool, text in info.arguments.items()}
    return {**info.tools, **called}


def _reproduce(network: CompiledNetwork, info: CInfo | None) -> dict[str, str]:
    found = {"C file": plain(network.c_file.name)}
    found |= {"compiler": network.atonn_version} if network.atonn_version else {}
    return {**found, **(_called(info) if info else {})}


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
        macs = node.macc if node else 0
        title, layer = ", ".join(nodes) or costs.origin, nodes[0] if nodes else f"epoch {step.number}"
        if saved is not None and step.number in owners:
            macs, title, layer = 0, saved.titles.get(step.number, ""), owners[step.number]
        title = title or f"epoch {step.number}"
        found.append(
            StepView(
                number=step.number,
                on=step.kind,
                title=title,
                layer=layer,
                macs=macs if step.epoch is None else epoch_macs(step.epoch),
                nodes=tuple(nodes) or (title,),
                **wiring.counted(costs, cost, step.epoch),
            )
        )
    return tuple(found) if saved is not None else vendor.unique_layers(found)


def _owners(layers: Sequence[SavedLayer]) -> dict[int, str]:
    """Epochs by number with their layer; of those that share one, the first in it."""
    behind = {(one.facts.name, part.epoch) for one in layers for part in one.parts if part.before}
    names = ((one.facts.name, number) for one in layers for number in one.epochs)
    return {number: name for name, number in names if (name, number) not in behind}


# ------------------------------------------------------------------------------------------------------------- layers


def _saved_layer(one: SavedLayer, steps: Steps, machine: Machine, programmed_by: str) -> LayerView:
    """A layer of ours; bounds are counted again, as clocks may differ from those of the compilation."""
    parts, own = {part.epoch: part for part in one.parts}, list[StepView]()
    for number in sorted(set(one.epochs)):  # of epochs that it shares, what is its own
        (step, view), part = steps[number], parts.get(number)
        own.append(view if part is None or step.epoch is None else own_view(view, step.epoch, part))
    told = one.facts
    behind = any(d.rule is rules.CHAINED for d in told.decisions)  # all of it, if it has no step
    facts = replace(
        told,
        on=NPU if behind and not own else "",
        limit=limit_of(one.work, machine, programmed_by) if one.work else None,
        decisions=_saved_decisions(told.decisions, own),
        operators=(tensors.operator(told.kind, told.nodes[-1], told.weights),),
    )
    return LayerView.of(facts, own)


def _saved_decisions(told: tuple[Decision, ...], own: Sequence[StepView]) -> tuple[Decision, ...]:
    """What bounds it stands first, and is counted again; its remedy stays where it is still the same bound."""
    bound_by = shares(own)
    if not told or told[0].rule not in rules.BOUNDS.values() or not bound_by or own[0].on in (CPU, HYBRID):
        return told
    bound = decide.bound(bound_by, sum(view.cycles for view in own))
    bound = replace(bound, remedy=told[0].remedy) if bound.rule is told[0].rule else bound
    return tuple(decide.merged([bound, *told[1:]]))


Decided = Callable[[str, Sequence[StepView], Sequence[str]], Iterable[Decision]]  # kind, steps, buffers that it touches


def _st_layers(
    views: Sequence[StepView],
    streams: vendor.BufferFlow,
    shapes: Mapping[str, tuple[int, ...]],
    params: Iterable[TensorView],
    calls: Mapping[int, Sequence[FunctionCall]],
    decided: Decided,
) -> Iterator[LayerView]:
    """Epochs of the same node that follow each other are one layer."""
    by_node = vendor.params_by_node(params)
    for (name, on), members in groupby(views, key=lambda view: (view.layer, view.on)):
        own = list(members)
        numbers = [view.number for view in own]
        read, written = streams.read(numbers), streams.written(numbers)
        nodes, node = tuple(dict.fromkeys(n for view in own for n in view.nodes)), vendor.node_of(name)
        kind = vendor.kind_of(node, calls.get(numbers[0], ()))
        weights = vendor.weights_of(nodes, by_node)
        operators = vendor.operators_of(nodes, weights)
        facts = LayerFacts(
            name=name,
            kind=kind,
            nodes=(*(n for n in nodes if n != node), node),
            inputs=read,
            outputs=written,
            shape=next((shapes[n] for n in reversed(written) if n in shapes), ()),
            on=on,
            decisions=tuple(decided(kind, own, (*read, *written))),
            label=vendor.label_of(operators),
            weights=weights,
            operators=operators,
        )
        yield LayerView.of(facts, own)


def _bound(own: Sequence[StepView]) -> list[Decision]:
    bound_by = shares(own)
    return [decide.bound(bound_by, sum(view.cycles for view in own))] if bound_by else []


def _spilled(names: Sequence[str]) -> list[Decision]:
    return [decide.decision(rules.SPILL, f"{', '.join(names[:3])} in external RAM")] if names else []


def _program_layers(
    steps: Steps, buffers: Sequence[BufferView], network: CompiledNetwork, info: CInfo | None, external: set[str]
) -> Iterator[LayerView]:
    listed = [step for step, _ in steps.values()]
    streams = vendor.info_flow(info, buffers, steps) if info else vendor.program_flow(listed, buffers)
    shapes = {b.name: vendor.file_shape(b) for b in (*network.internals, *network.outputs) if not b.is_param}

    def decided(kind: str, own: Sequence[StepView], touched: Sequence[str]) -> Iterator[Decision]:
        run = [steps[view.number][0] for view in own]
        calls = [call for step in run for call in step.calls]
        yield from vendor.cpu_decisions(calls) if calls else _bound(own)
        yield from decide.of_epochs([step.epoch for step in run if step.epoch is not None and not step.calls])
        there = [b for b in buffers if b.name in touched]
        yield from _spilled([b.name for b in there if b.pool in external and b.kind != "constant"])
        yield from [] if run[0].calls else vendor.form_decisions(kind, len(own))

    calls = {number: step.calls for number, (step, _) in steps.items()}
    views, params = [view for _, view in steps.values()], map(vendor.file_tensor, network.params)
    return _st_layers(views, streams, shapes, params, calls, decided)


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


# ------------------------------------------------------------------------------------------------- c_info.json alone


def find_info(directory: Path) -> Path | None:
    """The file, if the folder holds it and no C file that would say more."""
    if not directory.is_dir() or any(directory.glob("*.c")):
        return None
    found = sorted(directory.glob("*c_info.json"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise InputError(f"several descriptions: {names}", where=str(directory), remedy="put one into a folder")
    return found[0] if found else None


def info_view(path: Path, machine: Machine) -> NetworkView:
    info = read_c_info(path)
    banks = [
        CountedPool(pool.name, pool.address, pool.size_bytes, pool.writable, outside_chip(pool.address))
        for pool in info.pools
        if not pool.subpools and pool.address is not None and pool.size_bytes
    ]

    def kind(one: InfoBuffer) -> str:
        edge = "input" if one.id in info.inputs else "output" if one.id in info.outputs else "activation"
        return "constant" if one.is_param and edge == "activation" else edge

    buffers = vendor.listed_buffers(info, banks, kind, max(info.by_epoch, default=0))
    memory = memory_use(buffers, banks)
    pools = pool_views(banks, memory.by_pool)
    names = {pool.id: pool.name for pool in info.pools}
    running = (n for n in info.nodes if n.epoch is not None and n.mapping in _ON and (n.max_cycles or n.accesses))
    steps = vendor.unique_layers([_info_step(node, machine, names) for node in running])
    outside = {b.name for b in buffers if b.pool in {pool.name for pool in pools if pool.external}}
    layers = list(_info_layers(steps, info, buffers, outside))
    # each buffer with the layer that writes it; weights with the one whose node they are named after
    writers = {name: layer.name for layer in reversed(layers) for name in layer.outputs}
    writers |= {weights.name: layer.name for layer in reversed(layers) for weights in layer.weights}
    listed = {b.id: b for b in info.buffers}
    inputs, outputs = (
        tuple(vendor.info_tensor(listed[one]) for one in edge if one in listed) for edge in (info.inputs, info.outputs)
    )
    return NetworkView(
        name=path.name.removesuffix("c_info.json").strip("_") or "network",
        model=plain(info.model) or plain(path.name),
        tool=_core(info.tools) or ", ".join(f"{n} {v}" for n, v in info.tools.items()) or "ST's compiler",
        board="",
        npu_mhz=machine.clocks.npu_mhz,
        cpu_mhz=machine.clocks.cpu_mhz,
        steps=steps,
        layers=at_clocks(layers, machine),
        buffers=tuple(replace(b, layer=writers.get(b.name, "")) for b in buffers),
        pools=pools,
        memory=memory,
        lower_bound_bytes=least_bytes(buffers, pools),
        notes=(NOTE,),
        reproduce=_called(info),
        basis=ESTIMATED,
        inputs=inputs,
        outputs=outputs,
        tensors={b.name: vendor.info_tensor(b) for b in info.buffers if not b.is_param},
    )


def _info_step(node: InfoNode, machine: Machine, pools: Mapping[int, str]) -> StepView:
    on, names = _ON[node.mapping], vendor.nodes_of(node, ())
    busiest = max(node.accesses, key=lambda a: a.read_cycles + a.write_cycles, default=None)
    memory = pools.get(busiest.pool, "bank") if busiest is not None and node.max_cycles > node.compute_cycles else ""
    units = "convolvers" if any(part.kind.startswith("Conv") for part in node.parts) else "compute"
    return StepView(
        number=node.epoch or 0,
        on=on,
        title=", ".join(names) or node.name,
        layer=names[0] if names else node.name,
        cycles=node.max_cycles,
        milliseconds=machine.milliseconds(node.max_cycles),
        st_cycles=node.max_cycles,
        bound_by="cpu" if on != NPU else memory or units,
        known=on == NPU,
        units={part.name: f"{part.kind} {part.unit}".strip() for part in node.parts},
        macs=node.ops // 2,
        bytes_moved=sum(a.reads + a.writes for a in node.accesses),
        nodes=tuple(names) or (node.name,),
    )


def _info_layers(
    steps: Sequence[StepView], info: CInfo, buffers: Sequence[BufferView], outside: set[str]
) -> Iterator[LayerView]:
    streams = vendor.info_flow(info, buffers, (step.number for step in steps))

    def decided(kind: str, own: Sequence[StepView], touched: Sequence[str]) -> Iterator[Decision]:
        if own[0].on == NPU:
            yield from (*_bound(own), *vendor.form_decisions(kind, len(own)))
        else:
            parts = dict.fromkeys(part.kind for view in own for part in info.by_epoch[view.number].parts)
            found: dict[str, Decision] = {}
            for part in parts:
                rule = vendor.rule_of_kind(part)
                found.setdefault(rule.id, decide.decision(rule, f"{part} on the CPU"))
            yield from found.values()
        yield from _spilled([name for name in touched if name in outside])

    params = (vendor.info_tensor(b) for b in info.buffers if b.is_param)
    return _st_layers(steps, streams, {b.name: b.shape for b in info.buffers}, params, {}, decided)
