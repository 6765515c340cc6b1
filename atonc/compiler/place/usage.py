"""How much of every memory a network takes, and for what: the one count that all views show.

A byte counts once, however many buffers have it: aliases share it, and so do buffers that live one after the other. It
counts for the first use that it has in the order of `Use`: memory that prefetched weights borrow from activations is
counted with the activations. Bytes include the padding that alignment asks for (`reserved_bytes`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from atonc.compiler.plan.types import BufferKind
from atonc.machine.base.frozen import dataclass

FIRMWARE = "firmware"  # memory of no pool: arrays and variables of the generated C files, where the linker puts them


class Use(StrEnum):
    STATES = "states"  # what is kept from one inference to the next; first, as views of it count as it
    ACTIVATIONS = "activations"  # inputs, outputs, tensors between layers, scratch of epochs
    RESIDENT = "resident"  # weights that are copied to RAM once (--resident)
    WEIGHTS = "weights"
    PREFETCHED = "prefetched"  # weights that engines copy to RAM during the run, beside everything else
    CODE = "code"  # constants of CPU layers: `static const` arrays of the C file, in flash with the code
    RELOCATABLE = "relocatable"  # copies of programs, and lists of the DMA, whose addresses are set at run time


RAM_FOR = {  # in words, of what lies in RAM
    Use.ACTIVATIONS: "activations",
    Use.STATES: "states",
    Use.RESIDENT: "resident weights",
    Use.WEIGHTS: "weights in RAM",
    Use.PREFETCHED: "prefetched weights",
    Use.CODE: "constants of CPU layers",
    Use.RELOCATABLE: "relocatable data",
}
_USE_OF = {
    BufferKind.CONSTANT: Use.WEIGHTS,
    BufferKind.STATE: Use.STATES,
    BufferKind.RESIDENT: Use.RESIDENT,
    BufferKind.PREFETCHED: Use.PREFETCHED,
}


class Taken(Protocol):
    """A buffer at its address, of our layouts or of a folder."""

    @property
    def kind(self) -> str: ...
    @property
    def address(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def reserved_bytes(self) -> int: ...


@dataclass(frozen=True)
class CountedPool:
    """A memory pool, as far as it matters here."""

    name: str
    base: int
    size_bytes: int
    writable: bool
    external: bool

    @property
    def end(self) -> int:
        return self.base + self.size_bytes


@dataclass(frozen=True)
class UsageRow:
    """What one use takes of one pool."""

    pool: str
    use: Use
    size_bytes: int
    ram: bool
    external: bool = False


@dataclass(frozen=True)
class MemoryUse:
    rows: tuple[UsageRow, ...] = ()
    weights_bytes: int = 0  # contents of all constants, without padding: in memory images and in the C file

    @property
    def ram_bytes(self) -> int:
        """Everything that the network takes from RAM, on the chip and outside."""
        return sum(row.size_bytes for row in self.rows if row.ram)

    @property
    def activations_bytes(self) -> int:
        return self.of(Use.ACTIVATIONS)

    @property
    def spilled_bytes(self) -> int:
        """Bytes of activations outside the chip: RAM there that is used at some time, as activations are
        counted everywhere. So it is never more than all of them, and the rest is on the chip."""
        return self.outside.get(Use.ACTIVATIONS, 0)

    @property
    def outside(self) -> Mapping[Use, int]:
        """Bytes outside the chip that an inference reads and writes."""
        found = ((use, [row for row in self.rows if row.use == use]) for use in (Use.ACTIVATIONS, Use.STATES))
        sizes = {use: sum(row.size_bytes for row in rows if row.external) for use, rows in found}
        return {use: size for use, size in sizes.items() if size}

    @property
    def states_bytes(self) -> int:
        return self.of(Use.STATES)

    @property
    def resident_bytes(self) -> int:
        return self.of(Use.RESIDENT)

    @property
    def prefetched_bytes(self) -> int:
        return self.of(Use.PREFETCHED)

    @property
    def relocatable_bytes(self) -> int:
        return self.of(Use.RELOCATABLE)

    @property
    def code_constants_bytes(self) -> int:
        return self.of(Use.CODE)

    @property
    def flash_bytes(self) -> int:
        """Constants that lie in flash, in images and in the code; without the code itself and the programs."""
        return sum(row.size_bytes for row in self.rows if not row.ram)

    @property
    def ram_weights_bytes(self) -> int:
        """Constants for which there is no other memory: RAM that somebody fills before the first inference."""
        return sum(row.size_bytes for row in self.rows if row.use == Use.WEIGHTS and row.ram)

    def of(self, use: Use) -> int:
        return sum(row.size_bytes for row in self.rows if row.use == use)

    @property
    def by_pool(self) -> Mapping[str, int]:
        """Pools in use, with all that is in them."""
        found: dict[str, int] = {}
        for row in self.rows:
            found[row.pool] = found.get(row.pool, 0) + row.size_bytes
        return found

    @property
    def ram_by_use(self) -> Mapping[Use, int]:
        """The parts of `ram_bytes`."""
        parts = {use: sum(row.size_bytes for row in self.rows if row.ram and row.use == use) for use in Use}
        return {use: size for use, size in parts.items() if size}

    @property
    def ram_text(self) -> str:
        """All RAM and its parts, in words."""
        parts = ", ".join(f"{RAM_FOR[use]} {size:,}" for use, size in self.ram_by_use.items())
        return f"RAM {self.ram_bytes:,} bytes" + (f" ({parts})" if parts else "")

    def as_dict(self) -> dict[str, Any]:
        """Gives the figures for every JSON document that speaks of memory."""
        return {
            "ram_bytes": self.ram_bytes,
            "activations_bytes": self.activations_bytes,
            "states_bytes": self.states_bytes,
            "spilled_bytes": self.spilled_bytes,
            "resident_bytes": self.resident_bytes,
            "prefetched_bytes": self.prefetched_bytes,
            "relocatable_bytes": self.relocatable_bytes,
            "weights_bytes": self.weights_bytes,
            "code_constants_bytes": self.code_constants_bytes,
            "flash_bytes": self.flash_bytes,
            "uses": [{"pool": r.pool, "use": str(r.use), "size_bytes": r.size_bytes, "ram": r.ram} for r in self.rows],
        }


def memory_use(
    buffers: Iterable[Taken], banks: Sequence[CountedPool], relocatable_bytes: int = 0, code_constants_bytes: int = 0
) -> MemoryUse:
    """Buffers that lie in none of the banks are the application's, which brings their memory."""
    spans: dict[Use, set[tuple[int, int]]] = {use: set() for use in Use}
    contents = set()
    for one in buffers:
        use = _USE_OF.get(BufferKind(one.kind), Use.ACTIVATIONS)
        spans[use].add((one.address, one.address + max(one.reserved_bytes, one.size_bytes)))
        if use == Use.WEIGHTS:
            contents.add((one.address, one.address + one.size_bytes))
    rows = [row for bank in banks for row in _rows(bank, spans)]
    if relocatable_bytes:
        rows.append(UsageRow(FIRMWARE, Use.RELOCATABLE, relocatable_bytes, ram=True))
    if code_constants_bytes:
        rows.append(UsageRow(FIRMWARE, Use.CODE, code_constants_bytes, ram=False))
    stored = sum(covered(contents, bank.base, bank.end) for bank in banks)
    return MemoryUse(tuple(rows), stored + code_constants_bytes)


def _rows(bank: CountedPool, spans: Mapping[Use, Collection[tuple[int, int]]]) -> Iterator[UsageRow]:
    ranges: list[tuple[int, int]] = []
    before = 0
    for use in Use:
        ranges += (span for span in spans[use] if span[0] < bank.end and span[1] > bank.base)
        size = covered(ranges, bank.base, bank.end)
        if size > before:
            yield UsageRow(bank.name, use, size - before, bank.writable, bank.external)
        before = size


def covered(ranges: Iterable[tuple[int, int]], low: int, high: int) -> int:
    """Bytes of [low, high) that some range covers."""
    total, reached = 0, low
    for start, end in sorted(ranges):
        start, end = max(start, reached), min(end, high)
        if end > start:
            total, reached = total + end - start, end
    return total
