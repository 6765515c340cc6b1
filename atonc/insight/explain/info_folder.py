"""The picture of a network of which only c_info.json is there: what ST's compiler estimated, without its program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from atonc.compiler.place.pools import outside_chip
from atonc.compiler.place.usage import CountedPool, memory_use
from atonc.insight.explain import decide, rules, vendor
from atonc.insight.explain.decide import at_clocks
from atonc.insight.explain.live import least_bytes, pool_views
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
    StepView,
    TensorView,
    shares,
)
from atonc.machine.base.errors import InputError, plain
from atonc.machine.emu.files.c_info import CInfo, InfoNode, read_c_info
from atonc.machine.hw.machine import Machine

_ON = {"HW": NPU, "EC": NPU, "SW": CPU, "SW_HW": HYBRID}
NOTE = "only c_info.json is here: cycles are what ST's compiler estimated, not a prediction of the hardware model"


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
    buffers, banks = _buffers(info), _banks(info)
    memory = memory_use(buffers, banks)
    pools = pool_views(banks, memory.by_pool)
    names = {pool.id: pool.name for pool in info.pools}
    steps = vendor.unique_layers([_step(node, machine, names) for node in info.nodes if _runs(node)])
    external = {pool.name for pool in pools if pool.external}
    layers = tuple(_layers(steps, info, buffers, external))
    return NetworkView(
        name=path.name.removesuffix("c_info.json").strip("_") or "network",
        model=plain(info.model) or plain(path.name),
        tool=_tool(info.tools),
        board="",
        npu_mhz=machine.clocks.npu_mhz,
        cpu_mhz=machine.clocks.cpu_mhz,
        steps=steps,
        layers=at_clocks(layers, machine),
        buffers=_with_layers(buffers, layers),
        pools=pools,
        memory=memory,
        lower_bound_bytes=least_bytes(buffers, pools),
        notes=(NOTE,),
        reproduce={
            **info.tools,
            **{f"{tool} called with": text.strip()[:2000] for tool, text in info.arguments.items()},
        },
        basis=ESTIMATED,
        inputs=edge(info, info.inputs),
        outputs=edge(info, info.outputs),
        tensors={b.name: vendor.info_tensor(b) for b in info.buffers if not b.is_param},
    )


def _with_layers(buffers: Sequence[BufferView], layers: Sequence[LayerView]) -> tuple[BufferView, ...]:
    """Each buffer with the layer that writes it; weights with the one whose node they are named after."""
    writers = {name: layer.name for layer in reversed(layers) for name in layer.outputs}
    writers |= {weights.name: layer.name for layer in reversed(layers) for weights in layer.weights}
    return tuple(replace(b, layer=writers.get(b.name, "")) for b in buffers)


def edge(info: CInfo, numbers: Sequence[int]) -> tuple[TensorView, ...]:
    listed = {b.id: b for b in info.buffers}
    return tuple(vendor.info_tensor(listed[one]) for one in numbers if one in listed)


def _tool(tools: Mapping[str, str]) -> str:
    front = tools.get("ST.EdgeAI.Core", "").split("-")[0]
    return f"ST Edge AI Core {front}" if front else ", ".join(f"{n} {v}" for n, v in tools.items()) or "ST's compiler"


def _runs(node: InfoNode) -> bool:
    return node.epoch is not None and node.mapping in _ON and bool(node.max_cycles or node.accesses)


def _step(node: InfoNode, machine: Machine, pools: Mapping[int, str]) -> StepView:
    on, names = _ON[node.mapping], vendor.nodes_of(node, ())
    busiest = max(node.accesses, key=lambda a: a.read_cycles + a.write_cycles, default=None)
    memory = pools.get(busiest.pool, "bank") if busiest is not None and node.max_cycles > node.compute_cycles else ""
    return StepView(
        number=node.epoch or 0,
        on=on,
        title=", ".join(names) or node.name,
        layer=names[0] if names else node.name,
        cycles=node.max_cycles,
        milliseconds=machine.milliseconds(node.max_cycles),
        st_cycles=node.max_cycles,
        bound_by="cpu" if on != NPU else memory or ("convolvers" if _convolves(node) else "compute"),
        known=on == NPU,
        units={part.name: f"{part.kind} {part.unit}".strip() for part in node.parts},
        macs=node.ops // 2,
        bytes_moved=sum(a.reads + a.writes for a in node.accesses),
        nodes=tuple(names) or (node.name,),
    )


def _convolves(node: InfoNode) -> bool:
    return any(part.kind.startswith("Conv") for part in node.parts)


def _layers(
    steps: Sequence[StepView], info: CInfo, buffers: Sequence[BufferView], external: set[str]
) -> list[LayerView]:
    found, streams = list[LayerView](), vendor.info_flow(info, buffers, (step.number for step in steps))
    params = vendor.params_by_node(vendor.info_tensor(b) for b in info.buffers if b.is_param)
    listed = {b.name: b for b in info.buffers}
    outside = {b.name for b in buffers if b.pool in external}
    for (name, on), members in groupby(steps, key=lambda step: (step.layer, step.on)):
        own = list(members)
        numbers = [step.number for step in own]
        read, written = streams.read(numbers), streams.written(numbers)
        bound_by, cycles = shares(own), sum(step.cycles for step in own)
        nodes = tuple(dict.fromkeys(node for step in own for node in step.nodes))
        weights = vendor.weights_of(nodes, params)
        operators = vendor.operators_of(nodes, weights)
        kinds = [part.kind for number in numbers for part in info.by_epoch[number].parts]
        kind = vendor.kind_of(vendor.node_of(name))
        if on == NPU:
            decisions = [
                *([decide.bound(bound_by, cycles)] if bound_by else []),
                *vendor.form_decisions(kind, len(own)),
            ]
        else:
            decisions = _on_cpu(kinds)
        if slow := [one for one in (*read, *written) if one in outside]:
            decisions.append(decide.decision(rules.SPILL, f"{', '.join(slow[:3])} in external RAM"))
        facts = LayerFacts(
            name=name,
            kind=kind,
            nodes=(*(node for node in nodes if node != vendor.node_of(name)), vendor.node_of(name)),
            inputs=read,
            outputs=written,
            shape=next((listed[one].shape for one in reversed(written) if one in listed), ()),
            on=on,
            decisions=tuple(decisions),
            label=vendor.label_of(operators),
            weights=weights,
            operators=operators,
        )
        found.append(LayerView.of(facts, own))
    return found


def _on_cpu(kinds: Sequence[str]) -> list[Decision]:
    found: dict[str, Decision] = {}
    for kind in dict.fromkeys(kinds):
        rule = vendor.rule_of_kind(kind)
        found.setdefault(rule.id, decide.decision(rule, f"{kind} on the processor"))
    return list(found.values())


def _buffers(info: CInfo) -> tuple[BufferView, ...]:
    pools = {pool.id: pool for pool in info.pools}
    real = [pool for pool in info.pools if not pool.subpools and pool.address is not None]
    last = max(info.by_epoch, default=0)
    found = []
    for b in info.buffers:
        base = pools[b.pool].address if b.pool in pools else None
        if base is None or not b.size_bytes:
            continue
        address = base + b.offset
        home = next(
            (p.name for p in real if p.address is not None and p.address <= address < p.address + p.size_bytes), ""
        )
        first, end = (0, last) if b.is_param else (b.first_epoch, b.last_epoch)
        edge = "input" if b.id in info.inputs else "output" if b.id in info.outputs else "activation"
        kind = "constant" if b.is_param and edge == "activation" else edge
        found.append(BufferView(b.name, home, address, b.size_bytes, first, end, kind))
    return tuple(sorted(found, key=lambda b: (b.address, b.first, b.name)))


def _banks(info: CInfo) -> list[CountedPool]:
    return [
        CountedPool(pool.name, pool.address, pool.size_bytes, pool.writable, outside_chip(pool.address))
        for pool in info.pools
        if not pool.subpools and pool.address is not None and pool.size_bytes
    ]
