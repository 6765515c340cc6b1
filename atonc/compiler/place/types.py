"""What placement hands on: every buffer at its address, and how good the layout is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from atonc.compiler.place.usage import MemoryUse
from atonc.compiler.plan.types import Buffer
from atonc.machine.base.frozen import brief, dataclass

# Buffers that the application supplies at run time stand here: no memory of the chip does, and no pool may.
USER_POOL, USER_BASE, USER_BYTES = "user", 0xA000_0000, 0x1000_0000


@dataclass(frozen=True)
class Placed:
    """A buffer with its address; `first` and `last` are the steps (from 0) between which its contents matter."""

    buffer: Buffer
    address: int
    pool: str  # of several pools in a row: their names joined by "_"
    first: int
    last: int
    user_allocated: bool = False  # by the application at run time: the address only stands for it
    copy_of: str = ""  # the constant whose bytes a resident buffer holds from the beginning
    reserved_bytes: int = 0  # from its address on, with padding; aliases reserve what they share

    @property
    def end(self) -> int:
        return self.address + self.buffer.size_bytes

    @property
    def size_bytes(self) -> int:
        return self.buffer.size_bytes

    @property
    def kind(self) -> str:
        return self.buffer.kind


@dataclass(frozen=True)
class Layout:
    """Where everything lies, and how much memory that takes."""

    placed: Mapping[str, Placed]
    lower_bound_bytes: int  # of the activations: largest sum of live bytes over the steps, no layout needs less
    memory: MemoryUse
    cached_pools: frozenset[str] = field(default_factory=frozenset)  # external: engines go through the NPU cache
    solver: str = "greedy"
    proven: bool = False  # no smaller peak exists
    __repr__ = brief

    @property
    def peak_bytes(self) -> int:
        """RAM that steps use at some time: activations, and constants for which there is no other memory."""
        return self.memory.activations_bytes + self.memory.ram_weights_bytes

    @property
    def spilled_bytes(self) -> int:
        return self.memory.spilled_bytes

    @property
    def ratio(self) -> float:
        return self.peak_bytes / self.lower_bound_bytes if self.lower_bound_bytes else 1.0
