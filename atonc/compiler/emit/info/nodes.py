"""Epochs as a graph: blobs hold epochs, epochs hold one node for each unit that computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.cpu_calls import cpu_calls
from atonc.compiler.emit.c.network import Block, CNetwork
from atonc.compiler.emit.info.memory import InfoMemory
from atonc.compiler.emit.program import ProgramStep
from atonc.compiler.plan.types import CpuPlan, EpochPlan
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw import regs
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units import arith, pool
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.pool import PoolConfig

UNIT_NAMES = {
    "CONVACC": "CONV_ACC_V2", "ARITH": "ARITH_ACC_V2", "ACTIV": "ACTIV_ACC_V2", "POOL": "POOL_ACC_V2",
    "STRENG": "STREAM_ENG_V2",
}  # fmt: skip
_KINDS = {"CONVACC": "Conv", "ACTIV": "Relu", "STRENG": "Identity"}
_ARITH_KINDS = {arith.AFFINE: "Add", arith.MULTIPLY: "Mul", arith.MIN: "Min", arith.MAX: "Max", arith.CLIP: "Clip"}


@dataclass(frozen=True)
class EpochNode:
    """A node inside an epoch: a unit, or the operator that the CPU computes."""

    id: int
    unit: str  # "" on the CPU


_NESTS = (1, 1, 3)  # from this release of the runtime on, nodes of programs hold their epochs


@dataclass(frozen=True)
class NodeIds:
    """Ids of all nodes: constants, blocks, epochs and what they hold."""

    constants: Mapping[str, int]  # buffer -> node
    blocks: Mapping[int, int]  # first step of a blob -> node
    epochs: Mapping[int, int]  # step -> node; 0 holds the constants
    parts: Mapping[int, tuple[EpochNode, ...]]  # step -> nodes

    def block_of(self, block: Block) -> int:
        return self.blocks.get(block.first, self.epochs[block.first])


def numbers(network: CNetwork, memory: InfoMemory) -> NodeIds:
    """Every node gets the next number where it begins, from outside in."""
    next_id = iter(range(1, 1 << 30))
    epochs = {0: next(next_id)}
    constants = {name: next(next_id) for name, info in memory.infos.items() if info.param}
    blocks, parts = {}, {}
    for block in network.blocks:
        if is_blob(network, block):
            blocks[block.first] = next(next_id)
        for step in block.steps:
            epochs[step.number] = next(next_id)
            parts[step.number] = tuple(EpochNode(next(next_id), unit) for unit in working_units(step))
    return NodeIds(constants, blocks, epochs, parts)


def is_blob(network: CNetwork, block: Block) -> bool:
    """Whether a block has a node that holds its epochs: readers of older releases want all epochs side by side."""
    return network.epoch_controller and not block.on_cpu and network.release >= _NESTS


def working_units(step: ProgramStep) -> tuple[str, ...]:
    """Units that compute; of a copy the engines that write; on the CPU one without a name."""
    if step.epoch is None:
        return ("",)
    units = [name for name in step.epoch.units if not name.startswith("STRENG")]
    return tuple(sorted(units or step.epoch.writers(), key=lambda name: regs.UNIT_BY_NAME[name].id))


def node_rows(network: CNetwork, memory: InfoMemory, ids: NodeIds, macs: Mapping[int, int]) -> list[dict[str, Any]]:
    constants = [_node(k, memory.infos[name].label, "NODE_NO_X", "Param") for name, k in ids.constants.items()]
    rows = [_node(ids.epochs[0], "epoch_0", "NODE_NO_X", parts=constants)]
    for block in network.blocks:
        steps = [_step_node(network, memory, ids, step, macs) for step in block.steps]
        if block.on_cpu or not network.epoch_controller:
            rows += steps
            continue
        blob = names.blob(network.name, block.first)
        if not is_blob(network, block):
            rows += [step | {"mapping": "NODE_EC", "description": f"Epoch Controller {blob}"} for step in steps]
            continue
        row = _node(ids.blocks[block.first], blob, "NODE_EC", kind="Epoch Controller Blob", parts=steps)
        rows.append(row | {"description": f"Epoch Controller {blob}", "macc": sum(step["macc"] for step in steps)})
    return rows


def _node(
    number: int, name: str, mapping: str, kind: str = "", parts: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return {
        "attributes": {},
        "description": f"Node kind={kind}" if kind and not parts else "",
        "id": number,
        "inputs": [],
        "macc": 0,
        "mapping": mapping,
        "name": name,
        "original_nodes": [],
        "outputs": [],
        "scratchs": [],
        "subgraph_nodes": parts or [],
        "sw_functions": [],
        "type": kind,
    }


def _step_node(
    network: CNetwork, memory: InfoMemory, ids: NodeIds, step: ProgramStep, macs: Mapping[int, int]
) -> dict[str, Any]:
    on_cpu = step.epoch is None
    mapping = "NODE_SW" if on_cpu else "NODE_HW"
    parts = [_part(network, memory, step, part, mapping) for part in ids.parts[step.number]]
    row = _node(ids.epochs[step.number], f"epoch_{step.number}", mapping, parts=parts)
    return row | {
        "attributes": {"title": step.plan.title},
        "inputs": _buffers(memory, step.plan.reads()),
        "macc": macs.get(step.number, 0),
        "original_nodes": list(step.plan.origin),
        "outputs": _buffers(memory, step.plan.writes() - _scratch(step)),
        "scratchs": _buffers(memory, _scratch(step)),
    }


def _scratch(step: ProgramStep) -> set[str]:
    return {b.name for b in step.plan.scratch} if isinstance(step.plan, EpochPlan) else set()


def _buffers(memory: InfoMemory, wanted: set[str]) -> list[int]:
    return sorted(memory.ids[name] for name in wanted if name in memory.ids)


def _part(network: CNetwork, memory: InfoMemory, step: ProgramStep, part: EpochNode, mapping: str) -> dict[str, Any]:
    plan = step.plan
    if isinstance(plan, CpuPlan):
        op = next(op for op in network.graph.ops if op.name == plan.op)
        row = _node(part.id, plan.op, mapping, op.kind)
        row["sw_functions"] = [call.function for call in cpu_calls(op, network.graph, network.shifts)]
        return row | {"inputs": _buffers(memory, plan.reads()), "outputs": _buffers(memory, plan.writes())}
    assert step.epoch is not None  # a step is one or the other
    unit = regs.UNIT_BY_NAME[part.unit]
    row = _node(part.id, f"epoch_{step.number}_{part.unit}", mapping, unit_kind(step.epoch.units[part.unit]))
    row["attributes"] = {"HWUnit": f"{UNIT_NAMES[unit.kind]} {unit.index}"}
    row["inputs"] = _buffers(memory, {plan.engines[e].buffer for e in feeding(step.epoch, part.unit)})
    row["outputs"] = _buffers(memory, {plan.engines[e].buffer for e in fed(step.epoch, part.unit)})
    return row


def unit_kind(config: UnitConfig) -> str:
    if isinstance(config, ArithConfig):
        return _ARITH_KINDS.get(config.operation, "Add")
    if isinstance(config, PoolConfig):
        return "MaxPool" if config.type in (pool.MAX, pool.GLOBAL_MAX) else "AveragePool"
    return _KINDS.get(config.KIND, config.KIND)


def feeding(epoch: Epoch, unit: str) -> list[str]:
    """Reading engines that a unit takes from."""
    return [link.source for link in epoch.sources(unit).values() if link.source in epoch.readers()]


def fed(epoch: Epoch, unit: str) -> list[str]:
    """Writing engines that store what a unit makes; a writer stores what it is fed."""
    if unit in epoch.writers():
        return [unit]
    return [link.destination for link in epoch.destinations(unit) if link.destination in epoch.writers()]


# ---------------------------------------------------------------------------------------------------------- edges


def edge_rows(network: CNetwork, memory: InfoMemory, ids: NodeIds) -> list[dict[str, Any]]:
    edges = [*_flow_edges(network, ids), *_data_edges(network, memory, ids)]
    return [
        {
            "attributes": {},
            "buffer": buffer,
            "edge_kind": kind,
            "end": {"node_id": end, "port": port},
            "id": number,
            "name": name,
            "start": {"node_id": start, "port": 0},
        }
        for number, (name, kind, buffer, start, end, port) in enumerate(edges, 1)
    ]


Edge = tuple[str, str, int, int, int, int]


def _flow_edges(network: CNetwork, ids: NodeIds) -> Iterator[Edge]:
    """Which block follows which, and inside a block which epoch."""
    last_first, last = 0, ids.epochs[0]
    for block in network.blocks:
        node = ids.block_of(block)
        yield f"epoch_dep_{last_first}_{block.first}", "EDGE_FLOW", 0, last, node, 0
        for one, other in zip(block.steps, block.steps[1:], strict=False):
            start, end = ids.epochs[one.number], ids.epochs[other.number]
            yield f"epoch_dep_{one.number}_{other.number}", "EDGE_FLOW", 0, start, end, 0
        last_first, last = (block.first, node) if is_blob(network, block) else (block.last, ids.epochs[block.last])


def _data_edges(network: CNetwork, memory: InfoMemory, ids: NodeIds) -> Iterator[Edge]:
    """Buffers from who made them to who reads them, streams from unit to unit."""
    makers: dict[str, int] = dict(ids.constants)
    for step in network.program.steps:
        parts = {part.unit: part.id for part in ids.parts[step.number]}
        for buffer, part, port in sorted(_reads(step, parts)):
            if buffer in makers and buffer in memory.ids:
                name = memory.infos[buffer].label
                yield name, "EDGE_MEMORY", memory.ids[buffer], makers[buffer], part, port
        if step.epoch is not None:
            for link in step.epoch.links:
                if link.source in parts and link.destination in parts:
                    name = f"epoch_{step.number}_{link.source}_{link.destination}"
                    yield name, "EDGE_INTERNAL", 0, parts[link.source], parts[link.destination], link.port
        makers |= dict(_writes(step, parts))


def _reads(step: ProgramStep, parts: Mapping[str, int]) -> Iterator[tuple[str, int, int]]:
    """(buffer, node, port)."""
    plan = step.plan
    if isinstance(plan, CpuPlan):
        yield from ((buffer, parts[""], port) for port, buffer in enumerate(plan.inputs) if buffer)
        return
    assert step.epoch is not None
    for unit, node in parts.items():
        for port, link in step.epoch.sources(unit).items():
            if link.source in plan.engines:
                yield plan.engines[link.source].buffer, node, port


def _writes(step: ProgramStep, parts: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    plan = step.plan
    if isinstance(plan, CpuPlan):
        yield from ((buffer, parts[""]) for buffer in plan.outputs)
        return
    assert step.epoch is not None
    for unit, node in parts.items():
        yield from ((plan.engines[engine].buffer, node) for engine in fed(step.epoch, unit))
