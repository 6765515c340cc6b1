"""`<name>_c_info.json`, schema 2.0: what viewers and scripts made for ST's file read.

Nodes are nested as tools from 3.0 on nest them (blobs hold epochs, epochs hold units), unless the files are for an
older one, and also carry the descriptions of older ones. Cycles, traffic and powers follow ST's estimate, so that both
files compare; nothing in it depends on the day.

Everything in the file is numbered from 1: pools and buffers first, then nodes, then the figures of every epoch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.emit.c import buffers_info, names
from atonc.compiler.emit.c.buffers_info import Info
from atonc.compiler.emit.c.cpu_calls import cpu_calls
from atonc.compiler.emit.c.network import Block, CNetwork
from atonc.compiler.emit.program import ProgramStep, UserBuffer
from atonc.compiler.ir import Graph, Op, Tensor
from atonc.compiler.ops.shapes import macs
from atonc.compiler.place.types import Placed
from atonc.compiler.plan.types import BufferKind, CpuPlan, EpochPlan
from atonc.machine.base.frozen import dataclass
from atonc.machine.cost.network import NetworkCost
from atonc.machine.hw import regs
from atonc.machine.hw.cycles import element_counts, st_estimate
from atonc.machine.hw.cycles.flow import StreamFlow
from atonc.machine.hw.cycles.work import epoch_macs, unit_macs
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.ec_program import with_words
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.limits import ALIGNED, BUS_BYTES
from atonc.machine.hw.memoise import memoise
from atonc.machine.hw.mpool import MemoryPool
from atonc.machine.hw.units import arith
from atonc.machine.hw.units import pool as pool_unit
from atonc.machine.hw.units.arith import ArithConfig
from atonc.machine.hw.units.convacc import ConvaccConfig
from atonc.machine.hw.units.pool import PoolConfig

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView

POOL_ALIGNMENT = 8
_NO_LIMIT = 0xFFFF_FFFF
_FORMATS = {
    "INT8": "S8", "UINT8": "U8", "INT16": "S16", "UINT16": "U16", "INT32": "S32", "UINT32": "U32", "FLOAT": "FLOAT",
}  # fmt: skip


@dataclass(frozen=True)
class InfoRegion:
    """Where buffers lie: one pool, several pools in a row, or memory of the application."""

    pools: tuple[MemoryPool, ...]
    user: UserBuffer | None = None

    @property
    def base(self) -> int:
        return self.user.address if self.user is not None else self.pools[0].base


class InfoMemory:
    """All pools and buffers of a program with their numbers."""

    def __init__(self, network: CNetwork) -> None:
        self.network = network

    @cached_property
    def regions(self) -> list[InfoRegion]:
        """Every pool, then the combinations that some buffer spans, then the application's buffers."""
        pools = [InfoRegion((pool,)) for pool in self.network.pools]
        seen = [self._region(self.network.home(name)) for name in self.infos]
        users = [InfoRegion((), user) for user in self.network.program.user_io]
        return list(dict.fromkeys((*pools, *(region for region in seen if region.user is None), *users)))

    def _region(self, home: Placed) -> InfoRegion:
        user = self.network.user_of(home.buffer.name)
        if user is not None:
            return InfoRegion((), user)
        end = max(home.end, home.address + 1)
        pools = [p for p in self.network.pools if p.base < end and home.address < p.base + p.size_bytes]
        return InfoRegion(tuple(sorted(pools, key=lambda pool: pool.base)))

    @cached_property
    def _numbers(self) -> dict[InfoRegion, int]:
        return {region: k for k, region in enumerate(self.regions, 1)}

    def region_of(self, buffer: str) -> int:
        return self._numbers[self._region(self.network.home(buffer))]

    def pool_number(self, name: str) -> int:
        return next(k for k, r in enumerate(self.regions, 1) if len(r.pools) == 1 and r.pools[0].name == name)

    @cached_property
    def infos(self) -> dict[str, Info]:
        """Buffer -> what the tables of network.c say; the same buffer is listed once."""
        net = self.network
        lists = (
            buffers_info.inputs(net), buffers_info.outputs(net), buffers_info.internals(net), buffers_info.params(net),
        )  # fmt: skip
        return {info.buffer: info for infos in reversed(lists) for info in infos}

    @cached_property
    def ids(self) -> dict[str, int]:
        """Buffer -> its number, in the order of pools and addresses."""
        homes, labels = self.network.program.placed, self.network.labels
        ordered = sorted(self.infos, key=lambda n: (self.region_of(n), homes[n].address, labels[n]))
        return {name: k for k, name in enumerate(ordered, 1)}


def pool_rows(memory: InfoMemory) -> list[dict[str, Any]]:
    by_region: dict[int, list[int]] = {}
    for name, number in memory.ids.items():
        by_region.setdefault(memory.region_of(name), []).append(number)
    return [
        _user_row(region.user, k, by_region.get(k, []))
        if region.user is not None
        else _pool_row(memory, region.pools, k, by_region.get(k, []))
        for k, region in enumerate(memory.regions, 1)
    ]


def _pool_row(memory: InfoMemory, pools: tuple[MemoryPool, ...], number: int, buffers: list[int]) -> dict[str, Any]:
    """Describes a pool; for several in a row, what holds for all of them: the worst of each property."""
    slowest = max(pools, key=lambda pool: pool.freq_ratio / pool.byte_width)
    several = len(pools) > 1
    inside = set(buffers)
    kept = [memory.network.home(name) for name, k in memory.ids.items() if k in inside]
    used = max(home.end for home in kept) - pools[0].base if several else memory.network.used_bytes(pools[0])
    return {
        "address": str(pools[0].base) if pools[0].absolute else "",
        "alignment": POOL_ALIGNMENT,
        "attributes": {
            "burst_max_length": _NO_LIMIT,
            "burst_penalty": 0,
            "byte_width": slowest.byte_width,
            **_encryption(memory.network, pools),
            "freq_ratio": slowest.freq_ratio,
            "latency": slowest.latency,
            "read_power": max(pool.read_power for pool in pools),
            "score": round(10 * slowest.byte_width / slowest.freq_ratio),  # ours: tenths of bytes per NPU cycle
            "throughput": slowest.throughput,
            "use_for_initrs": any(home.buffer.kind == BufferKind.CONSTANT for home in kept),
            "write_power": max(pool.write_power for pool in pools),
        },
        "buffers": buffers,
        "cacheable": "CACHEABLE_ON" if any(pool.cacheable for pool in pools) else "CACHEABLE_OFF",
        "fname": "" if several else f"atonbuf.{pools[0].symbol}.raw",
        "id": number,
        "name": "_".join(pool.name for pool in pools),
        "offset_start": 0,
        "persistent": True,
        "pipelined": "PIPELINED_ON",
        "rights": "ACC_WRITE" if all(pool.writable for pool in pools) else "ACC_READ",
        "size_bytes": sum(pool.size_bytes for pool in pools),
        "subpools": [memory.pool_number(pool.name) for pool in pools] if several else [],
        "used_size_bytes": used,
        "user_allocated": False,
    }


def _encryption(network: CNetwork, pools: tuple[MemoryPool, ...]) -> dict[str, Any]:
    """What part of the pool's image is to be encrypted; ST's files have it only where there is one."""
    region = network.program.encrypted
    if region is None or [pool.name for pool in pools] != [region.pool]:
        return {}
    return {"encryption": {"offset": region.offset, "size": region.size_bytes}}


def _user_row(user: UserBuffer, number: int, buffers: list[int]) -> dict[str, Any]:
    """Memory of the application: nothing is known but its size."""
    unknown: dict[str, Any] = {"burst_max_length": _NO_LIMIT, "burst_penalty": 0, "byte_width": 1, "freq_ratio": 1.0}
    unknown |= {"latency": "HIGH", "read_power": 0.0, "score": 0, "throughput": "LOW"}
    return {
        "address": "",
        "alignment": user.alignment,
        "attributes": {**unknown, "use_for_initrs": False, "write_power": 0.0},
        "buffers": buffers,
        "cacheable": "CACHEABLE_OFF",
        "fname": "",
        "id": number,
        "name": user.symbol,
        "offset_start": 0,
        "persistent": True,
        "pipelined": "PIPELINED_ON",
        "rights": "ACC_WRITE",
        "size_bytes": user.size_bytes,
        "subpools": [],
        "used_size_bytes": user.size_bytes,
        "user_allocated": True,
    }


def buffer_rows(memory: InfoMemory) -> list[dict[str, Any]]:
    return [_buffer_row(memory, memory.infos[name], number) for name, number in memory.ids.items()]


def _buffer_row(memory: InfoMemory, info: Info, number: int) -> dict[str, Any]:
    home, region = memory.network.home(info.buffer), memory.region_of(info.buffer)
    fixed = info.bits - (1 - info.unsigned) if info.is_fixed_point else 0
    row: dict[str, Any] = {
        "alignment": ALIGNED,
        "batch": info.channels,
        "channel_first": info.position == "First",
        "channel_last": info.position != "First",
        "epochs": {"end": home.last + 1, "start": 0 if info.param else home.first + 1},
        "flags": "",
        "format": f"STAI_FORMAT_{_FORMATS.get(info.type, 'NONE')}",
        "id": number,
    }
    if info.scales:
        axis = 1 if len(info.scales) > 1 else -1
        row["intq"] = {"axis": axis, "offsets": list(info.offsets), "scales": list(info.scales)}
    return row | {
        "is_param": info.param,
        "mpool_id": region,
        "name": info.label,
        "nbits": info.bits,
        "offset_start": home.address - memory.regions[region - 1].base,
        "qmn": {"m": fixed, "n": 0, "sign": int(not info.unsigned)},
        "shape": channels_second(info.shape),
        "shape_map": [],
        "size_bytes": info.size_bytes,
    }


def channels_second(shape: tuple[int, ...]) -> list[int]:
    """Batch, channels, height, width: the order of this file, however the bytes lie."""
    return [shape[0], shape[-1], *shape[1:-1]] if len(shape) > 2 else list(shape)


SCHEMA = "2.0"
_MAPS = {1: ["CH"], 2: ["BATCH", "CH"], 3: ["BATCH", "H", "CH"], 4: ["BATCH", "H", "W", "CH"]}
_BITS = {"bool": 8, "float16": 16, "float32": 32, "float64": 64}


def document(view: CompileView, network: CNetwork, files: Iterable[str] = ()) -> dict[str, Any]:
    """The whole file as plain data; `files` are those that are written with it."""
    memory = InfoMemory(network)
    ids = numbers(network, memory)
    found = figures(network, view.cost)
    return {
        "buffers": buffer_rows(memory),
        "ec_blobs_info": [_blob(network, block, ids) for block in network.blocks if is_blob(network, block)],
        "environment": _environment(view, network, files),
        "graphs": [_graph(view, network, memory, ids)],
        "json_schema_version": SCHEMA,
        "memory_accesses": access_rows(memory, ids, found),
        "memory_footprint": _footprint(view, network),
        "memory_pools": pool_rows(memory),
        "power_estimates": power_rows(ids, found),
    }


def _graph(view: CompileView, network: CNetwork, memory: InfoMemory, ids: NodeIds) -> dict[str, Any]:
    macs = step_macs(network, view.compiled.graph)
    source = view.compiled.source
    return {
        "edges": edge_rows(network, memory, ids),
        "id": 1,
        "inputs": [memory.ids[name] for name in network.program.inputs],
        "name": network.suffix,
        "nodes": node_rows(network, memory, ids, macs),
        "original_inputs": [_original(source, name) for name in source.inputs],
        "original_outputs": [_original(source, name) for name in source.outputs],
        "outputs": [memory.ids[name] for name in network.program.outputs],
    }


def _blob(network: CNetwork, block: Block, ids: NodeIds) -> dict[str, Any]:
    return {
        "blob_id": ids.blocks[block.first],
        "encrypted": False,
        "name": names.blob(network.name, block.first),
        "nodes_id": [ids.epochs[step.number] for step in block.steps],
    }


def _original(graph: Graph, name: str) -> dict[str, Any]:
    """An input or output as the model has it."""
    tensor = graph.tensors[name]
    axes = _MAPS.get(len(tensor.shape), [f"D{k}" for k in range(len(tensor.shape))])
    return {
        "c_shape_map": axes,
        "data_format": _data_format(tensor),
        "name": name,
        "shape": list(tensor.shape),
        "shape_map": axes,
    }


def _data_format(tensor: Tensor) -> dict[str, Any]:
    quant = tensor.quant
    kind = "FLOAT" if tensor.is_float else "UNSIGNED" if tensor.dtype.startswith(("u", "b")) else "SIGNED"
    digits = "".join(c for c in tensor.dtype if c.isdigit())
    return {
        "quantizer": "NONE" if quant is None else "UNIFORM",
        "scale": [] if quant is None else [float(scale) for scale in quant.scales],
        "size": _BITS.get(tensor.dtype, int(digits or 8)),
        "type": kind,
        "zero": [] if quant is None else [int(zero) for zero in quant.zero_points],
    }


def _environment(view: CompileView, network: CNetwork, files: Iterable[str]) -> dict[str, Any]:
    name, _, version = network.tool.partition(" ")
    source = view.compiled.source
    constants = [tensor.data for tensor in source.tensors.values() if tensor.data is not None]
    original = _model(PurePath(view.model).stem, source.source, [PurePath(view.model).name])
    original |= {"n_params": sum(c.size for c in constants), "size": sum(c.nbytes for c in constants)}
    return {
        "generated_model": _model(network.suffix, "", sorted(files)),
        "network_signature": _signature(network),
        "target": "stm32n6",
        "test_name": "",
        "tools": [
            {
                "arguments": f"generate --model {view.model} --name {view.name} --board {view.board.name}",
                "environment": [],
                "input_model": original,
                "name": name,
                "version": version,
            }
        ],
    }


def _model(name: str, kind: str, files: list[str]) -> dict[str, Any]:
    return {
        "generated_time": "",
        "model_files": [{"name": file, "signature": ""} for file in files],
        "n_params": 0,
        "name": name,
        "size": 0,
        "type": kind,
    }


def _signature(network: CNetwork) -> str:
    """Hashes the program and its constants, wherever they lie."""
    digest = hashlib.sha256(np.array(ec_program.words(network.program.epochs), "<u4").tobytes())
    for home in sorted(network.constants(), key=lambda home: (home.address, home.buffer.name)):
        digest.update(home.buffer.data)
    return f"0x{digest.hexdigest()[:16]}"


def _footprint(view: CompileView, network: CNetwork) -> dict[str, Any]:
    users, memory = network.program.user_io, network.memory
    user_allocated = [sum(u.size_bytes for u in users if u.direction == side) for side in ("input", "output")]
    return {
        "activations": memory.activations_bytes,
        "io": user_allocated,  # beside the activations: only what the application supplies
        "kernel_flash": network.blob_bytes,  # programs of the epoch controller
        "kernel_ram": 0,
        "series": "stm32n6npu",
        "toolchain": "",
        "toolchain_flash": 0,
        "toolchain_ram": 0,
        "weights": memory.weights_bytes,
    }


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
        return "MaxPool" if config.type in (pool_unit.MAX, pool_unit.GLOBAL_MAX) else "AveragePool"
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


# milliwatts at 1 GHz and 0.8 V, as ST's machine description of this chip says
UNIT_POWER_MW = {"STRENG": 5.331, "CONVACC": 30.132, "DECUN": 5.57, "ACTIV": 5.30, "ARITH": 5.877, "POOL": 9.09}


@dataclass(frozen=True)
class StepTraffic:
    """Bytes and cycles of one step in one pool."""

    reads: int = 0
    writes: int = 0
    read_cycles: int = 0
    write_cycles: int = 0


@dataclass(frozen=True)
class StepFigures:
    compute_cycles: int
    max_cycles: int
    operations: int
    unit_mw: float
    memory_mw: float
    accesses: Mapping[str, StepTraffic]  # by pool


_IDLE = StepFigures(0, 0, 0, 0.0, 0.0, {})


def figures(network: CNetwork, cost: NetworkCost) -> dict[int, StepFigures]:
    """Works out the figures by step number; 0 is where the constants stand."""
    found = {0: _IDLE}
    for step, price in zip(network.program.steps, cost.steps, strict=True):
        if step.epoch is not None:
            found[step.number] = epoch_figures(step.epoch, network.pools)
        else:
            found[step.number] = _cpu(network, step, price.cycles)
    return found


@memoise
def epoch_figures(epoch: Epoch, pools: tuple[MemoryPool, ...]) -> StepFigures:
    epoch = with_words(epoch)  # which other figures were worked out for as well
    timings, flow = [pool.timing for pool in pools], element_counts(epoch)
    estimate = st_estimate.epoch_cycles(epoch, timings, count_runs=True)
    amounts = st_estimate.pool_bytes(epoch, timings)
    accesses = {pool.name: _access(pool, *amounts[pool.name]) for pool in pools if pool.name in amounts}
    cycles = max(1, estimate.cycles)
    busy = _busy_cycles(epoch, flow)
    unit_mw = sum(UNIT_POWER_MW[epoch.units[name].KIND] * min(1.0, busy[name] / cycles) for name in epoch.units)
    operations = sum(_operations(epoch, name, flow) for name in epoch.units)
    memory_mw = _memory_power(pools, accesses, cycles)
    return StepFigures(estimate.compute, estimate.cycles, operations, unit_mw, memory_mw, accesses)


def _busy_cycles(epoch: Epoch, flow: StreamFlow) -> dict[str, float]:
    """How long each unit has something to do: engines move a bus word a cycle, the others an element."""
    busy = {}
    for name, config in epoch.units.items():
        unit = flow[name]
        moved = max([unit.output.total, *unit.taken.values()])
        busy[name] = moved * unit.output.word_bytes / BUS_BYTES if config.KIND == "STRENG" else float(moved)
    return busy


def _operations(epoch: Epoch, name: str, flow: StreamFlow) -> int:
    """Multiplications and additions of a convolution; of the other units one for each element."""
    config = epoch.units[name]
    if isinstance(config, ConvaccConfig):
        return 2 * unit_macs(config, flow[name].output.total)
    return 0 if config.KIND == "STRENG" else flow[name].output.total


def _access(pool: MemoryPool, reads: float, writes: float) -> StepTraffic:
    price = pool.freq_ratio / pool.byte_width
    return StepTraffic(round(reads), round(writes), round(reads * price), round(writes * price))


def _memory_power(pools: Sequence[MemoryPool], accesses: Mapping[str, StepTraffic], cycles: int) -> float:
    return sum(
        (accesses[p.name].read_cycles * p.read_power + accesses[p.name].write_cycles * p.write_power) / cycles
        for p in pools
        if p.name in accesses
    )


def _cpu(network: CNetwork, step: ProgramStep, cycles: int) -> StepFigures:
    """The CPU reads its inputs and writes its outputs once; its own power is not known."""
    amounts: dict[str, list[int]] = {}
    for wanted, slot in ((step.plan.reads(), 0), (step.plan.writes(), 1)):
        for name in wanted & network.program.placed.keys():
            home = network.home(name)
            pool = network.pool_at(home.address)
            if pool is not None:
                amounts.setdefault(pool.name, [0, 0])[slot] += home.buffer.size_bytes
    accesses = {pool.name: _access(pool, *amounts[pool.name]) for pool in network.pools if pool.name in amounts}
    return StepFigures(cycles, cycles, 0, 0.0, _memory_power(network.pools, accesses, max(1, cycles)), accesses)


def access_rows(memory: InfoMemory, ids: NodeIds, found: Mapping[int, StepFigures]) -> list[dict[str, Any]]:
    """Every epoch with every pool, also where nothing happens."""
    rows = []
    for number, step in found.items():
        for pool in memory.network.pools:
            access = step.accesses.get(pool.name, StepTraffic())
            rows.append(
                {
                    "mpool_id": memory.pool_number(pool.name),
                    "node_id": ids.epochs[number],
                    "read_cycles": access.read_cycles,
                    "reads": access.reads,
                    "write_cycles": access.write_cycles,
                    "writes": access.writes,
                }
            )
    return rows


def power_rows(ids: NodeIds, found: Mapping[int, StepFigures]) -> list[dict[str, Any]]:
    return [
        {
            "average_acc_power_mw": round(step.unit_mw),
            "average_memory_power_mw": round(step.memory_mw),
            "compute_cycles": step.compute_cycles,
            "max_cycles": step.max_cycles,
            "node_id": ids.epochs[number],
            "ops": step.operations,
        }
        for number, step in found.items()
    ]


def step_macs(network: CNetwork, graph: Graph) -> dict[int, int]:
    """Multiplications of the model by step: those of an operator are shared by its epochs as the units share them."""
    shares: dict[int, int] = {}
    served = _served(network.program.steps)
    for op in graph.ops:
        total = macs(op, graph.tensors)
        steps = _steps_of(op, served) if total else []
        if not steps:
            continue
        weights = [epoch_macs(with_words(step.epoch)) if step.epoch is not None else 0 for step in steps]
        weights = weights if any(weights) else [1] * len(steps)
        done = given = 0
        for step, weight in zip(steps, weights, strict=True):
            done += weight
            part = total * done // sum(weights) - given
            given += part
            shares[step.number] = shares.get(step.number, 0) + part
    return shares


def _served(steps: Iterable[ProgramStep]) -> dict[tuple[bool, str], list[ProgramStep]]:
    """Steps of the CPU by operator, the others by what they come from in the model."""
    found: dict[tuple[bool, str], list[ProgramStep]] = {}
    for step in steps:
        on_cpu = isinstance(step.plan, CpuPlan)
        for name in (step.plan.op,) if isinstance(step.plan, CpuPlan) else dict.fromkeys(step.plan.origin):
            found.setdefault((on_cpu, name), []).append(step)
    return found


def _steps_of(op: Op, served: Mapping[tuple[bool, str], list[ProgramStep]]) -> list[ProgramStep]:
    keys = [(True, op.name), *((False, name) for name in op.origin or (op.name,))]
    found = {step.number: step for key in keys for step in served.get(key, ())}
    return [found[number] for number in sorted(found)]
