"""A probe as a program with addresses, in the NPU's own RAM alone, and what the emulator makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from atonc import __version__
from atonc.emit.c.network import CNetwork
from atonc.emit.program import bind
from atonc.emit.runs import keep_tables
from atonc.emulation import Emulation
from atonc.ir import Graph, Tensor
from atonc.place import Board, board, place
from atonc.probes.types import INPUT, OUTPUT, Probe, ProbeEpochs

UNTOUCHED = 0xA5  # of the output before a run, as in the firmware


@dataclass(frozen=True)
class BuiltProbe:
    probe: Probe
    network: CNetwork
    stimulus: bytes = field(repr=False)
    expected: bytes = field(repr=False)


def build(probe: Probe) -> BuiltProbe:
    made = probe.build()
    network = bound(c_name(probe), made)
    return BuiltProbe(probe, network, made.stimulus, _expected(network, made.stimulus))


def bound(name: str, made: ProbeEpochs) -> CNetwork:
    """The epochs with addresses, as a network of one input and one output."""
    buffers = {buffer.name: buffer for buffer in made.buffers}
    memories = npu_ram()
    layout = place(list(made.plans), buffers, {}, (INPUT,), (OUTPUT,), memories)
    program = bind(list(made.plans), layout.placed, (INPUT,), (OUTPUT,), layout.cached_pools)
    program = keep_tables(program) if made.keep_tables else program
    sizes = {name: buffers[name].size_bytes for name in (INPUT, OUTPUT)}
    graph = Graph({name: Tensor(name, (size,), "int8") for name, size in sizes.items()}, (), (INPUT,), (OUTPUT,))
    return CNetwork(name, program, graph, memories.pools, tool=f"atonc {__version__}")


def c_name(probe: Probe) -> str:
    return f"probe_{probe.name.replace('-', '_')}"


def npu_ram() -> Board:
    """No external memory has to be programmed to run a probe."""
    whole = board("stm32n6570-dk")
    return Board(whole.name, tuple(pool for pool in whole.pools if whole.is_npu_ram(pool)), whole.machine)


def _expected(network: CNetwork, stimulus: bytes) -> bytes:
    emulation = Emulation(network.program, network.graph)
    emulation.store(OUTPUT, np.full(network.graph.tensors[OUTPUT].shape, UNTOUCHED, np.uint8).view(np.int8))
    return emulation.run({INPUT: np.frombuffer(stimulus, np.int8)})[OUTPUT].tobytes()
