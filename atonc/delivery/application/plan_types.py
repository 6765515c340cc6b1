"""What planning gives: every network compiled for its part of the memories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from atonc.compiler.compile.pipeline import Compiled
from atonc.compiler.ir import Graph
from atonc.compiler.place import BoardMemory
from atonc.compiler.plan.types import BufferKind
from atonc.delivery.application.memory import joined
from atonc.delivery.application.types import Application, AppNetwork, FlashSlot
from atonc.machine.base.frozen import dataclass
from atonc.machine.base.spans import Span


@dataclass(frozen=True)
class AppSource:
    """A network as it was read."""

    network: AppNetwork
    source: Graph
    graph: Graph  # canonical

    @property
    def name(self) -> str:
        return self.network.name


@dataclass(frozen=True)
class Kept:
    """An input or output in a place that the networks of `survives` leave alone."""

    network: str
    tensor: str
    span: Span
    survives: tuple[str, ...]


@dataclass(frozen=True)
class PlannedNetwork:
    network: AppNetwork
    compiled: Compiled
    alone: Compiled = field(repr=False)  # with all the RAM that the others leave
    slot: FlashSlot

    @property
    def name(self) -> str:
        return self.network.name

    def spans(self, *kinds: BufferKind) -> list[Span]:
        """RAM of its buffers; of some kinds, or of all but constants."""
        homes = self.compiled.program.placed.values()
        return joined(
            (home.address, home.address + max(home.reserved_bytes, home.size_bytes))
            for home in homes
            if not home.user_allocated
            and home.buffer.kind != BufferKind.CONSTANT
            and (not kinds or home.buffer.kind in kinds)
        )


@dataclass(frozen=True)
class SharedConstants:
    """A part of the flash that some networks read, every constant of it."""

    networks: tuple[str, ...]
    start: int
    end: int  # with what engines may read ahead
    addresses: Mapping[bytes, int] = field(repr=False)  # SHA-256 of a constant -> where it lies
    data: bytes = field(repr=False)

    @property
    def saved_bytes(self) -> int:
        return len(self.data) * (len(self.networks) - 1)


@dataclass(frozen=True)
class ApplicationPlan:
    application: Application
    memory: BoardMemory  # of the board, without what is reserved
    networks: tuple[PlannedNetwork, ...]
    kept: tuple[Kept, ...] = ()
    private: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)  # network -> RAM for weights that stay there
    shared: tuple[SharedConstants, ...] = ()

    @property
    def ram(self) -> list[Span]:
        """Everything that the networks take of RAM, at whatever time."""
        return joined([*(span for one in self.networks for span in one.spans()), *(one.span for one in self.kept)])
