"""A probe as a program with addresses, and what the emulator makes of it.

Buffers lie in the NPU's own RAM, each kind in a bank of its own, unless the probe is about another memory. Everything
begins where the memory begins, so that probes do not depend on each other; what must be in flash already lies behind
what earlier probes have there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

import numpy as np

from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.program import bind
from atonc.compiler.emit.runs import keep_tables
from atonc.compiler.ir import Graph, Tensor
from atonc.compiler.place import BoardMemory, Placed, board
from atonc.compiler.plan.types import Buffer, BufferKind
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.probes.bench import INPUT, OUTPUT, Answer, Probe, ProbeEpochs, Transfer
from atonc.machine.base.about import __version__
from atonc.machine.base.errors import InternalError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.blob import Blob
from atonc.machine.hw.limits import CPU_CACHE_LINE, PREFETCH_BYTES
from atonc.machine.hw.mpool import MemoryPool
from atonc.machine.hw.units.stream_engine import StrengConfig

UNTOUCHED = 0xA5  # of the output before a run, as in the firmware
AS_EMULATED = "emulated"
DEFAULT_BOARD = "stm32n6570-dk"


@dataclass(frozen=True)
class BuiltProbe:
    probe: Probe
    network: CNetwork
    stimulus: bytes = field(repr=False)
    answers: tuple[Answer, ...]  # the emulator's, or each that the silicon may show
    emulated: bool = True  # False: the emulator does not know this setting
    must_differ: bool = False
    transfer: Transfer | None = None

    @property
    def expected(self) -> bytes:
        return self.answers[0].data

    @property
    def words(self) -> list[int]:
        """Gives the words for the epoch controller."""
        return Blob(tuple(ec_program.words(self.network.program.epochs))).words()

    def home(self, buffer: str) -> Placed:
        return self.network.program.placed[buffer]

    @property
    def constants(self) -> tuple[Placed, ...]:
        return tuple(self.network.constants())

    @property
    def in_flash(self) -> tuple[Placed, ...]:
        return tuple(home for home in self.constants if home.pool == FLASH)

    @property
    def needs_keys(self) -> bool:
        engines = [unit for epoch in self.network.program.epochs for unit in epoch.units.values()]
        return any(isinstance(unit, StrengConfig) and unit.ciphers for unit in engines)

    @property
    def uses_hyperram(self) -> bool:
        return any(home.pool == HYPERRAM for home in self.network.program.placed.values())

    @property
    def flash_used(self) -> int:
        """Bytes from the beginning of the pool to the end of its last constant there, 0 without any."""
        flash = next((pool for pool in self.network.pools if pool.name == FLASH), None)
        return max((home.end - flash.base for home in self.in_flash), default=0) if flash else 0


def build_all(probes: Iterable[Probe], target: BoardMemory) -> Iterator[BuiltProbe]:
    """Those that the board has the memories for; their constants in flash lie behind each other."""
    flash_used = 0
    for probe in probes:
        made = probe.build()
        if {memory_of(buffer, made.homes) for buffer in made.buffers} <= {pool.name for pool in target.pools}:
            built = build_from(probe, made, target, flash_used)
            flash_used = max(flash_used, built.flash_used)
            yield built


def build(probe: Probe) -> BuiltProbe:
    return build_from(probe, probe.build(), board(DEFAULT_BOARD))


def build_from(probe: Probe, made: ProbeEpochs, target: BoardMemory, flash_used: int = 0) -> BuiltProbe:
    network = bound(c_name(probe), made, target, flash_used)
    answers = made.answers or (Answer(AS_EMULATED, _moved(made, _expected(network, made.stimulus))),)
    return BuiltProbe(probe, network, made.stimulus, answers, not made.answers, made.must_differ, made.transfer)


def _moved(made: ProbeEpochs, output: bytes) -> bytes:
    """The output with what the DMA brings."""
    if made.transfer is None:
        return output
    source = next(buffer.data for buffer in made.buffers if buffer.name == made.transfer.source)
    at, size = made.transfer.offset, made.transfer.size_bytes
    return output[:at] + source[:size] + output[at + size :]


def bound(name: str, made: ProbeEpochs, target: BoardMemory | None = None, flash_used: int = 0) -> CNetwork:
    """The epochs with addresses, as a network of one input and one output."""
    target = target or board(DEFAULT_BOARD)
    placed = put(target, made.buffers, made.homes, len(made.plans) - 1, flash_used)
    program = bind(list(made.plans), placed, (INPUT,), (OUTPUT,), target.cached)
    program = keep_tables(program) if made.keep_tables else program
    sizes = {buffer.name: buffer.size_bytes for buffer in made.buffers if buffer.name in (INPUT, OUTPUT)}
    graph = Graph({name: Tensor(name, (size,), "int8") for name, size in sizes.items()}, (), (INPUT,), (OUTPUT,))
    return CNetwork(name, program, graph, target.pools, tool=f"atonc {__version__}")


def c_name(probe: Probe) -> str:
    return f"probe_{probe.name.replace('-', '_')}"


def emulated(made: ProbeEpochs) -> bytes:
    """What the emulator makes of the epochs."""
    return _expected(bound("probe", made), made.stimulus)


def _expected(network: CNetwork, stimulus: bytes) -> bytes:
    emulation = Emulation(network.program, network.graph)
    emulation.store(OUTPUT, np.full(network.graph.tensors[OUTPUT].shape, UNTOUCHED, np.uint8).view(np.int8))
    return emulation.run({INPUT: np.frombuffer(stimulus, np.int8)})[OUTPUT].tobytes()


FLASH, HYPERRAM, CPU_RAM = "octoFlash", "hyperRAM", "cpuRAM2"
_USUAL = {
    BufferKind.INPUT: "npuRAM3",
    BufferKind.OUTPUT: "npuRAM4",
    BufferKind.CONSTANT: "npuRAM5",
    BufferKind.SCRATCH: "npuRAM6",
}


def memory_of(buffer: Buffer, homes: Mapping[str, str]) -> str:
    return homes.get(buffer.name, _USUAL[buffer.kind])


def put(
    board: BoardMemory, buffers: Iterable[Buffer], homes: Mapping[str, str], last: int, flash_used: int
) -> dict[str, Placed]:
    """One buffer after the other, each with room for what engines read ahead. `flash_used`: bytes of the flash that
    belong to other probes."""
    pools = {pool.name: pool for pool in board.pools}
    used = {FLASH: -(-flash_used // CPU_CACHE_LINE) * CPU_CACHE_LINE}
    placed = {}
    for buffer in buffers:
        pool = pools[memory_of(buffer, homes)]
        start = used.get(pool.name, 0)
        used[pool.name] = _end(pool, start, buffer)
        placed[buffer.name] = Placed(buffer, pool.base + start, pool.name, 0, last)
    return placed


def _end(pool: MemoryPool, start: int, buffer: Buffer) -> int:
    end = -(-(start + buffer.size_bytes + PREFETCH_BYTES) // CPU_CACHE_LINE) * CPU_CACHE_LINE
    if end > pool.size_bytes:
        raise InternalError(
            f"{buffer.name} does not fit: {end} bytes of {pool.size_bytes}",
            where=pool.name,
            rule="a probe fits the memories that it names",
            remedy="make the probe smaller",
        )
    return end
