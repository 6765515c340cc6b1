"""Write merging: a plain trace of single stores becomes bursts, as ST's assembler does it.

Inside a run of stores to one unit the order between different registers does not matter to the hardware, except where
a barrier says so; the order of stores to the same register is always kept, and no store is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import groupby, pairwise

from atonc.machine.base.frozen import dataclass
from atonc.machine.hw.ec.instructions import (
    MAX_BURST,
    BurstWrite,
    BurstWriteInc,
    Instruction,
    Write,
    burst_head,
    word_list,
    write_head,
)


@dataclass(frozen=True)
class Barrier:
    """Stores must not move across this point; no instruction of its own."""


def merge_writes(trace: Iterable[Instruction | Barrier]) -> list[Instruction]:
    """The program in which each run of stores to one unit is sorted by register and joined to bursts."""
    result: list[Instruction] = []
    for unit, items in groupby(trace, key=_run_of):
        if unit is None:
            result += [item for item in items if not isinstance(item, Barrier)]
        else:
            result += _merged_run([item for item in items if isinstance(item, Write)])
    return result


def stored_words(unit: int, stores: Mapping[int, int]) -> list[int]:
    """Stores to different registers of one unit as words: what encoding `merge_writes` of them gives, without an
    object for each."""
    registers = tuple(sorted(stores))
    values = [stores[register] for register in registers]
    words: list[int] = []
    for head, start, end in _bursts(unit, registers):
        words.append(head)
        words += values[start:end]
    return word_list(words)


@lru_cache(maxsize=1 << 12)
def _bursts(unit: int, registers: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """First word of each store or burst, and which of the registers it goes to: units are told the same ones often."""
    found: list[tuple[int, int, int]] = []
    start = 0
    for end, register in enumerate(registers, start=1):
        if end == len(registers) or registers[end] != register + 1:
            count, first = end - start, registers[start]
            head = burst_head(unit, first, count) if count > 1 else write_head(unit, first)
            found.append((head, start, end))
            start = end
    return tuple(found)


def _run_of(item: Instruction | Barrier) -> int | None:
    """The unit for a plain store; everything else ends a run."""
    return item.unit if isinstance(item, Write) else None


def _merged_run(run: list[Write]) -> Iterator[Instruction]:
    unit = run[0].unit
    stores: dict[int, list[int]] = {}
    for write in run:
        stores.setdefault(write.reg, []).append(write.value)
    for group in _neighbours([(reg, tuple(stores[reg])) for reg in sorted(stores)]):
        reg, values = group[0]
        if len(values) > 1:
            yield from _repeated(unit, reg, values)
        elif len(group) == 1:
            yield Write(unit, reg, values[0])
        else:
            yield BurstWriteInc(unit, reg, tuple(single for _, (single,) in group))


def _neighbours(stores: list[tuple[int, tuple[int, ...]]]) -> Iterator[list[tuple[int, tuple[int, ...]]]]:
    """Cut where registers are not adjacent, and around every register that is stored more than once."""
    start = 0
    for index, ((reg, values), (next_reg, next_values)) in enumerate(pairwise(stores), start=1):
        if next_reg != reg + 1 or len(values) > 1 or len(next_values) > 1:
            yield stores[start:index]
            start = index
    yield stores[start:]


def _repeated(unit: int, reg: int, values: tuple[int, ...]) -> Iterator[Instruction]:
    """One burst to one register; more stores than a burst can count need several."""
    for start in range(0, len(values), MAX_BURST):
        part = values[start : start + MAX_BURST]
        yield BurstWrite(unit, reg, part) if len(part) > 1 else Write(unit, reg, part[0])
