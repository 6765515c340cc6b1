"""What the planner hands on: buffers without addresses, epochs that use them, calls for the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum

from atonc.compiler.plan.coarse import CoarseCodes
from atonc.compiler.plan.task import EngineUse, Purpose
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.fields import UnitConfig
from atonc.machine.hw.units.switch import Link


class BufferKind(StrEnum):
    ACTIVATION = "activation"
    SCRATCH = "scratch"  # written and read inside one step
    CONSTANT = "constant"
    PREFETCHED = "prefetched"  # the copy of a constant in RAM, made while earlier steps run
    RESIDENT = "resident"  # the copy of a constant in RAM, made when the network is initialised
    INPUT = "input"
    OUTPUT = "output"
    STATE = "state"  # of one run for the next: its input and, in the same memory, its output


FILLED = (BufferKind.CONSTANT, BufferKind.RESIDENT)  # before the first step; nobody writes them later


@dataclass(frozen=True)
class Buffer:
    """A piece of memory that will be placed. Activations hold a tensor, channel last, without gaps."""

    name: str
    size_bytes: int
    kind: BufferKind
    tensor: str = ""
    offset: int = 0  # stored bytes are codes plus this: 128 turns codes from -128 into features from 0
    data: bytes = field(default=b"", repr=False)  # contents of a constant
    four_bits: bool = False  # two values to a byte: no engine reads it like that, a copy in RAM is unpacked
    half_bytes: int = 0  # so many values of 4 bits, which engines read as they lie here; 0: bytes
    coarse: CoarseCodes | None = None  # how codes of 16 bits are stored; None: as they are
    begins: int = 0  # at this byte of the buffer in whose memory it lies
    near: bool = False  # a constant that is read from a copy in RAM, as far as choices before placement can tell


def taller_buffer(buffer: Buffer, more_bytes: int) -> Buffer:
    """Makes an alias of the buffer, with some bytes behind it that nobody reads."""
    size = buffer.size_bytes + more_bytes
    return replace(buffer, name=f"{buffer.name} and {more_bytes} more", size_bytes=size, tensor="")


@dataclass(frozen=True)
class Ride:
    """Bytes of a constant that are copied beside other work."""

    constant: str
    copy: str
    offset: int
    size_bytes: int


@dataclass(frozen=True)
class DmaPlan:
    """What the processor does in front of a step: it awaits copies by the chip's DMA, then starts others."""

    waits: bool = False
    starts: tuple[Ride, ...] = ()


@dataclass(frozen=True)
class EpochPlan:
    """One epoch with its unit numbers: processing units with their configuration, engines, links."""

    origin: tuple[str, ...]  # source nodes
    title: str
    units: Mapping[str, UnitConfig]
    engines: Mapping[str, EngineUse]
    links: tuple[Link, ...]
    scratch: tuple[Buffer, ...] = ()
    purpose: Purpose = Purpose.COMPUTE
    dma: DmaPlan | None = None

    def reads(self) -> set[str]:
        return {use.buffer for use in self.engines.values() if not use.config.to_memory}

    def writes(self) -> set[str]:
        return {use.buffer for use in self.engines.values() if use.config.to_memory}


@dataclass(frozen=True)
class CpuPlan:
    """One operator that the CPU computes, by name of a graph operator."""

    origin: tuple[str, ...]
    title: str
    op: str
    inputs: tuple[str, ...]  # buffers
    outputs: tuple[str, ...]
    dma: DmaPlan | None = None

    def reads(self) -> set[str]:
        return set(self.inputs)

    def writes(self) -> set[str]:
        return set(self.outputs)


StepPlan = EpochPlan | CpuPlan


@dataclass(frozen=True)
class Planned:
    """Steps and the buffers that they use; inputs and outputs are touched by the application, too."""

    plans: Sequence[StepPlan]
    buffers: Mapping[str, Buffer]
    aliases: Mapping[str, str]
    inputs: Sequence[str]
    outputs: Sequence[str]
