"""The memories that NPU and CPU share, as byte arrays at their bus addresses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from atonc.machine.base.errors import InputError
from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.four_bits import FourBits

Bytes = NDArray[np.uint8]

_ALIAS_MASK = 0x1000_0000  # on-chip memory answers at a secure (0x3...) and a non-secure (0x2...) address


def canonical(address: int) -> int:
    """The secure alias of an on-chip address; external memory has only one address."""
    return address | _ALIAS_MASK if address >> 28 == 0x2 else address


@dataclass(frozen=True)
class MemoryRegion:
    name: str
    base: int
    data: Bytes

    @property
    def end(self) -> int:
        return self.base + self.data.size


class AddressSpace:
    """A set of disjoint regions. Views are writable and shared: a write by one master is seen by all.

    `four_bits` is the one switch for what nobody has seen: how engines take two elements from a byte. Without it an
    epoch that does so is refused.
    """

    def __init__(self, four_bits: FourBits | None = None) -> None:
        self.regions: list[MemoryRegion] = []
        self.four_bits = four_bits
        self.seen: dict[str, MemoryRegion] = {}  # what a stream engine sees instead, where it may not read everything

    def add(self, name: str, base: int, size_bytes: int) -> MemoryRegion:
        """Maps zeroed memory; touching an existing region is an error."""
        base = canonical(base)
        for other in self.regions:
            if base < other.end and other.base < base + size_bytes:
                raise InputError(f"memory region {name} overlaps {other.name}", where=f"{base:#x}")
        region = MemoryRegion(name, base, np.zeros(size_bytes, np.uint8))
        self.regions.append(region)
        return region

    def region_at(self, address: int) -> MemoryRegion | None:
        address = canonical(address)
        return next((r for r in self.regions if r.base <= address < r.end), None)

    def region_for(self, engine: str, address: int) -> MemoryRegion | None:
        return self.seen.get(engine) or self.region_at(address)

    def view(self, address: int, size_bytes: int) -> Bytes:
        """A writable window; must lie inside one region."""
        region = self.region_at(address)
        if region is None or canonical(address) + size_bytes > region.end:
            raise InputError(
                f"{size_bytes} bytes at {address:#010x} are outside every memory of this network",
                rule="an access stays inside one memory pool",
                remedy="check that program, initialisers and pools belong to the same compilation",
            )
        start = canonical(address) - region.base
        return region.data[start : start + size_bytes]

    def read(self, address: int, size_bytes: int) -> Bytes:
        return self.view(address, size_bytes).copy()

    def write(self, address: int, data: Bytes) -> None:
        self.view(address, data.size)[:] = data
