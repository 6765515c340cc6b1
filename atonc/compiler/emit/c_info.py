"""`<name>_c_info.json`, schema 2.0: what viewers and scripts made for ST's file read.

Nodes are nested as tools from 3.0 on nest them (blobs hold epochs, epochs hold units), unless the files are for an
older one, and also carry the descriptions of older ones. Cycles, traffic and powers follow ST's estimate, so that both
files compare; nothing in it depends on the day.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from atonc.compiler.emit.c import names
from atonc.compiler.emit.c.network import Block, CNetwork
from atonc.compiler.emit.info import costs, nodes
from atonc.compiler.emit.info.memory import InfoMemory, buffer_rows, pool_rows
from atonc.compiler.ir import Graph, Tensor
from atonc.machine.hw.ec import ec_program

if TYPE_CHECKING:
    from atonc.compiler.compile.compile_view import CompileView

SCHEMA = "2.0"
_MAPS = {1: ["CH"], 2: ["BATCH", "CH"], 3: ["BATCH", "H", "CH"], 4: ["BATCH", "H", "W", "CH"]}
_BITS = {"bool": 8, "float16": 16, "float32": 32, "float64": 64}


def document(view: CompileView, network: CNetwork, files: Iterable[str] = ()) -> dict[str, Any]:
    """The whole file as plain data; `files` are those that are written with it."""
    memory = InfoMemory(network)
    ids = nodes.numbers(network, memory)
    found = costs.figures(network, view.cost)
    return {
        "buffers": buffer_rows(memory),
        "ec_blobs_info": [_blob(network, block, ids) for block in network.blocks if nodes.is_blob(network, block)],
        "environment": _environment(view, network, files),
        "graphs": [_graph(view, network, memory, ids)],
        "json_schema_version": SCHEMA,
        "memory_accesses": costs.access_rows(memory, ids, found),
        "memory_footprint": _footprint(view, network),
        "memory_pools": pool_rows(memory),
        "power_estimates": costs.power_rows(ids, found),
    }


def _graph(view: CompileView, network: CNetwork, memory: InfoMemory, ids: nodes.NodeIds) -> dict[str, Any]:
    macs = costs.step_macs(network, view.compiled.graph)
    source = view.compiled.source
    return {
        "edges": nodes.edge_rows(network, memory, ids),
        "id": 1,
        "inputs": [memory.ids[name] for name in network.program.inputs],
        "name": network.suffix,
        "nodes": nodes.node_rows(network, memory, ids, macs),
        "original_inputs": [_original(source, name) for name in source.inputs],
        "original_outputs": [_original(source, name) for name in source.outputs],
        "outputs": [memory.ids[name] for name in network.program.outputs],
    }


def _blob(network: CNetwork, block: Block, ids: nodes.NodeIds) -> dict[str, Any]:
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
    words = len(ec_program.words(network.program.epochs)) if network.epoch_controller else 0
    user_allocated = [sum(u.size_bytes for u in users if u.direction == side) for side in ("input", "output")]
    return {
        "activations": memory.activations_bytes,
        "io": user_allocated,  # beside the activations: only what the application supplies
        "kernel_flash": 4 * words,  # programs of the epoch controller
        "kernel_ram": 0,
        "series": "stm32n6npu",
        "toolchain": "",
        "toolchain_flash": 0,
        "toolchain_ram": 0,
        "weights": memory.weights_bytes,
    }
