"""Copies that the chip's DMA makes beside the steps of a program.

On the chip a copy is made at some time between its start and its end. Here bytes arrive when they are awaited, and
until then the target holds none of them: whoever reads or writes it meanwhile, or changes the source, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from atonc.machine.base.errors import InputError
from atonc.machine.emu.bus import AddressSpace, Bytes, canonical
from atonc.machine.hw.dma import DmaCopy, DmaWork
from atonc.machine.hw.epoch import Epoch
from atonc.machine.hw.limits import PREFETCH_BYTES

_NOT_YET = 0xA5


class Dma:
    """The channel of one network."""

    def __init__(self, memory: AddressSpace) -> None:
        self._memory = memory
        self._running: list[tuple[DmaCopy, Bytes]] = []

    def before(self, work: DmaWork, where: str) -> None:
        """What the processor does in front of a step."""
        if work.waits:
            self._await(where)
        if work.starts and self._running:
            raise _race("a list of copies is started while another runs", where)
        for one in work.starts:
            self._running.append((one, self._memory.read(one.source, one.size_bytes)))
        for one in work.starts:
            self._memory.view(one.target, one.size_bytes)[:] = _NOT_YET

    def _await(self, where: str) -> None:
        for one, data in self._running:
            target = self._memory.view(one.target, one.size_bytes)
            if not np.all(target == _NOT_YET):
                raise _race(f"something wrote to {one.target:#010x} while the DMA copied weights there", where)
            if not np.array_equal(self._memory.view(one.source, one.size_bytes), data):
                raise _race(f"weights at {one.source:#010x} changed while the DMA copied them", where)
        for one, data in self._running:
            self._memory.write(one.target, data)
        self._running = []

    def check(self, epoch: Epoch) -> None:
        refuse_races(epoch, [one for one, _ in self._running])

    def end(self) -> None:
        """The run is over."""
        if self._running:
            raise _race("the program ends while the DMA copies weights", "the last epoch")

    def reset(self) -> None:
        """Another run begins, wherever the last one was left."""
        self._running = []


def refuse_races(epoch: Epoch, under_way: Sequence[DmaCopy]) -> None:
    """Engines touch no target of a copy that is under way, and write to no source."""
    for seen in _races(epoch, under_way) if under_way else ():
        raise _race(seen, f"epoch {epoch.number}")


def _races(epoch: Epoch, under_way: Sequence[DmaCopy]) -> Iterator[str]:
    for name, engine in epoch.engines().items():
        low, high = engine.span()
        low, high = canonical(low), canonical(high - 1) + 1
        if not engine.to_memory and engine.address_limit:  # units drop what the last word has from behind the buffer
            high = min(high, canonical(engine.address_limit) + 1 - PREFETCH_BYTES)
        for one in under_way:
            if one.meets(low, high, canonical(one.target)):
                what = "writes to" if engine.to_memory else "reads"
                yield f"{name} {what} {one.target:#010x} while the DMA copies weights there"
            if engine.to_memory and one.meets(low, high, canonical(one.source)):
                yield f"{name} writes to {one.source:#010x} while the DMA copies from there"


def _race(what: str, where: str) -> InputError:
    return InputError(
        what,
        where=where,
        rule="copies ahead are awaited before their target is read, and nothing else uses it meanwhile",
        remedy="report the model: the compiler must not produce this",
    )
