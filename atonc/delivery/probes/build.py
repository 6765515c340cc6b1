"""A probe as a program with addresses, and what the emulator makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

import numpy as np

from atonc.compiler.emit.c.network import CNetwork
from atonc.compiler.emit.program import bind
from atonc.compiler.emit.runs import keep_tables
from atonc.compiler.ir import Graph, Tensor
from atonc.compiler.place import BoardMemory, Placed, board
from atonc.compiler.verify.emulation import Emulation
from atonc.delivery.probes import places
from atonc.delivery.probes.types import INPUT, OUTPUT, Answer, Probe, ProbeEpochs
from atonc.machine.base.about import __version__
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.ec import ec_program
from atonc.machine.hw.ec.blob import Blob
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
        return tuple(home for home in self.constants if home.pool == places.FLASH)

    @property
    def needs_keys(self) -> bool:
        engines = [unit for epoch in self.network.program.epochs for unit in epoch.units.values()]
        return any(isinstance(unit, StrengConfig) and unit.ciphers for unit in engines)

    @property
    def uses_hyperram(self) -> bool:
        return any(home.pool == places.HYPERRAM for home in self.network.program.placed.values())

    @property
    def flash_used(self) -> int:
        """Bytes from the beginning of the pool to the end of its last constant there, 0 without any."""
        flash = next((pool for pool in self.network.pools if pool.name == places.FLASH), None)
        return max((home.end - flash.base for home in self.in_flash), default=0) if flash else 0


def build_all(probes: Iterable[Probe], target: BoardMemory) -> Iterator[BuiltProbe]:
    """Those that the board has the memories for; their constants in flash lie behind each other."""
    flash_used = 0
    for probe in probes:
        made = probe.build()
        if places.has_memories(target, made.buffers, made.homes):
            built = build_from(probe, made, target, flash_used)
            flash_used = max(flash_used, built.flash_used)
            yield built


def build(probe: Probe) -> BuiltProbe:
    return build_from(probe, probe.build(), board(DEFAULT_BOARD))


def build_from(probe: Probe, made: ProbeEpochs, target: BoardMemory, flash_used: int = 0) -> BuiltProbe:
    network = bound(c_name(probe), made, target, flash_used)
    answers = made.answers or (Answer(AS_EMULATED, _expected(network, made.stimulus)),)
    return BuiltProbe(probe, network, made.stimulus, answers, not made.answers, made.must_differ)


def bound(name: str, made: ProbeEpochs, target: BoardMemory | None = None, flash_used: int = 0) -> CNetwork:
    """The epochs with addresses, as a network of one input and one output."""
    target = target or board(DEFAULT_BOARD)
    placed = places.put(target, made.buffers, made.homes, len(made.plans) - 1, flash_used)
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
